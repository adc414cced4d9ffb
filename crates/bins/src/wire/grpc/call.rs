//! What all callers share: the bearer token, the deadline, and reading answers.

use orlop_core::error::{Code, Problem};
use orlop_core::id::SessionId;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Request, Status};

use super::super::bound::{Check, WireError, checked};
use super::super::problem::{of_status, status};
use super::DEADLINE;

/// Header of the session that speaks for an agent without a certificate.
pub(super) const SESSION: &str = "orlop-session";

/// Who calls, as it stands in headers: a bearer token or the session of an agent, if there is one. `Debug` never shows them.
#[derive(Clone, Debug)]
pub(super) struct Bearer {
    token: Option<AsciiMetadataValue>,
    session: Option<AsciiMetadataValue>,
}

impl Bearer {
    pub(super) fn new(token: Option<&str>) -> Result<Self, Problem> {
        let header = token.map(|token| format!("Bearer {token}").parse::<AsciiMetadataValue>()).transpose();
        let mut header = header.map_err(|_| {
            Problem::coded(Code::Unauthenticated, "token contains characters that are not allowed in a header")
        })?;
        header.iter_mut().for_each(|header| header.set_sensitive(true));
        Ok(Self { token: header, session: None })
    }

    /// The same for an agent in a session.
    pub(super) fn of_session(self, session: SessionId) -> Self {
        let mut header: Option<AsciiMetadataValue> = session.to_string().parse().ok();
        header.iter_mut().for_each(|header| header.set_sensitive(true));
        Self { session: header, ..self }
    }

    /// A call without an end.
    pub(super) fn stream<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (name, value) in [("authorization", &self.token), (SESSION, &self.session)] {
            if let Some(value) = value {
                request.metadata_mut().insert(name, value.clone());
            }
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

/// The answer to a message that breaks a bound.
pub(super) fn bad(error: WireError) -> Status {
    status(error.into())
}

/// What a server says; what a connection says that broke is that nobody answers.
pub(super) fn plain(status: Status) -> Problem {
    let broken = matches!(status.code(), tonic::Code::Unknown | tonic::Code::Internal | tonic::Code::Cancelled);
    if broken && status.details().is_empty() {
        return Problem::coded(Code::StoreUnavailable, status.message());
    }
    of_status(&status)
}

pub(super) fn read<A, B: TryFrom<A, Error = WireError>>(message: A) -> Result<B, Problem> {
    B::try_from(message).map_err(Problem::from)
}

/// An answer that is used as it is.
pub(super) fn verified<M: Check>(message: M) -> Result<M, Problem> {
    checked(message).map_err(Problem::from)
}
