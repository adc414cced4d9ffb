//! Reads what control files and journal say of an attempt, for an agent that starts later.

use std::io;

use orlop_core::error::Problem;

use super::control::{Control, SupervisorState};
use super::report::Report;
use crate::runtime::logs::now;
use crate::runtime::worker::RemainsState;
use crate::runtime::worker::event::Started;
use crate::segment::follow::SegmentFollower;
use crate::segment::{Kind, decode};

/// The state of an attempt under a supervisor; none where no supervisor keeps it and its end was not written.
///
/// # Errors
/// When the files cannot be read.
pub(in crate::runtime::worker) fn state(control: &Control) -> Result<Option<RemainsState>, Problem> {
    if !control.exists() {
        return Ok(None);
    }
    let kept = match control.supervisor() {
        Ok(SupervisorState::Kept(_)) => true,
        Ok(SupervisorState::Left) => false,
        // It is being taken on at this moment.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
        Err(error) => return Err(error.into()),
    };
    let (mut started, mut ended) = (None, false);
    let mut journal = match SegmentFollower::open(Kind::Attempt, control.journal()) {
        // As above: nothing of it has run.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !kept => return Ok(None),
        journal => journal?,
    };
    journal.read(|payload| {
        match decode(payload) {
            Some(Report::Started(found)) => started = Some(found),
            Some(Report::Ended(_)) => ended = true,
            Some(Report::Keeper(_) | Report::Log(_)) | None => {}
        }
        true
    })?;
    if ended {
        return Ok(Some(RemainsState::Ended));
    }
    let unknown = || Started { handle: "0".to_owned(), at: now() };
    Ok(kept.then(|| RemainsState::Alive { started: started.unwrap_or_else(unknown) }))
}
