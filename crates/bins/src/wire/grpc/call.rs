//! What all callers share: the bearer token, the deadline, and reading answers. Owns no connection.

use tonic::metadata::AsciiMetadataValue;
use tonic::{Request, Status};

use super::super::bound::WireError;
use super::super::problem::{Code, Problem};
use super::{DEADLINE, Refusal, refusal};

/// A bearer token as it stands in a header, if there is one. `Debug` never shows it.
#[derive(Clone, Debug)]
pub(super) struct Bearer(Option<AsciiMetadataValue>);

impl Bearer {
    pub(super) fn new(token: Option<&str>) -> Result<Self, Refusal> {
        let header = token.map(|token| format!("Bearer {token}").parse::<AsciiMetadataValue>()).transpose();
        let mut header =
            header.map_err(|_| refusal(Code::Unauthenticated, "the token holds characters no header can carry"))?;
        header.iter_mut().for_each(|header| header.set_sensitive(true));
        Ok(Self(header))
    }

    /// A call without an end of its own.
    pub(super) fn stream<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    /// A call that is to be answered soon.
    pub(super) fn unary<T>(&self, message: T) -> Request<T> {
        let mut request = self.stream(message);
        request.set_timeout(DEADLINE);
        request
    }
}

pub(super) fn plain(status: Status) -> Refusal {
    Box::new(status.into())
}

pub(super) fn read<A, B: TryFrom<A, Error = WireError>>(message: A) -> Result<B, Refusal> {
    B::try_from(message).map_err(|error| Box::new(Problem::from(error)))
}
