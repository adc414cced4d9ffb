//! Whether this server may write, and what a store that failed is called.

use std::time::Duration;

use orlop_core::error::{Code, Problem};
use orlop_core::id::Epoch;

use crate::host::scheduler::{Handle, Status};

/// The epoch in which a server may write.
pub(super) fn epoch_of(handle: &Handle) -> Result<Epoch, Problem> {
    match handle.status() {
        Status::Leading { epoch } => Ok(epoch),
        Status::Standby { leader } => {
            let detail = "this server is not the leader; send the request to the leader";
            let mut problem = Problem::coded(Code::NotLeader, detail).retry_after(Duration::from_secs(1));
            problem.details_mut().leader = leader;
            Err(problem)
        }
        Status::Restoring | Status::Stopped => {
            let detail = "the store is not available; try again shortly";
            Err(Problem::coded(Code::StoreUnavailable, detail).retry_after(Duration::from_millis(1000)))
        }
    }
}

/// The problem of a store that failed.
pub(super) fn store(error: &Problem) -> Problem {
    use orlop_core::error::Class;
    let code = match error.class {
        Class::Fatal => Code::Internal,
        _ => Code::StoreUnavailable,
    };
    Problem::coded(code, error.chain()).retry_after(Duration::from_secs(1))
}
