//! The records of a flow's steps, fetched from where its status keeps them. Owns the requests for that; how records are stored
//! is said in `status`.

use std::collections::BTreeMap;

use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;

use crate::api::{Api, ApiError, Kind, Request};
use crate::status::{Names, ReadError, Records, piece_bytes};

/// Why the records of a status are not to be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// A piece could not be fetched.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// They cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl FetchError {
    /// Whether a piece was not there, or not what it was: the status is an old one, and the new one lists others.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Read(ReadError::RecordChunk(_)))
    }
}

/// The status of a flow with all its records in it.
///
/// # Errors
/// When a piece is not to be had, or the records cannot be read.
pub(crate) async fn whole<A: Api>(api: &A, flow: &JobFlow, status: &FlowStatus) -> Result<FlowStatus, FetchError> {
    let metadata = &flow.metadata;
    let (name, namespace) = (metadata.name.as_str(), metadata.namespace.as_deref().unwrap_or_default());
    let mut pieces = BTreeMap::new();
    for piece in Records::needs(status) {
        let object = match api.send(&Request::get(Kind::ConfigMap, namespace, piece)).await {
            Err(error) if error.code == Some(404) => return Err(ReadError::RecordChunk(piece.clone()).into()),
            object => object?,
        };
        pieces.extend(piece_bytes(piece, &object).map(|bytes| (piece.clone(), bytes)));
    }
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let names = Names { spec: &flow.spec, flow: name, namespace, uid };
    Ok(Records::read(names, status, &pieces)?.whole(status))
}
