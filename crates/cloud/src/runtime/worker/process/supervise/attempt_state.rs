//! Reads what control files and journal say of an attempt, for an agent that starts later.

use std::io;

use orlop_core::error::Problem;

use super::control::{Control, Report, SupervisorState};
use crate::runtime::logs::now;
use crate::runtime::worker::RemainsState;
use crate::runtime::worker::event::Started;
use crate::segment::follow::SegmentFollower;
use crate::segment::{Kind, decode};

/// The state of an attempt under a supervisor; none where no supervisor keeps it and its end was not written, or where nothing of
/// it can be read, as when another version of this program wrote it.
///
/// # Errors
/// When the files cannot be read.
pub(in crate::runtime::worker) fn state(control: &Control) -> Result<Option<RemainsState>, Problem> {
    if !control.exists() {
        return Ok(None);
    }
    match read(control) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let path = control.journal().display();
            tracing::warn!(%path, %error, "the journal of an attempt cannot be read; the attempt is ended and lost");
            Ok(None)
        }
        read => Ok(read?),
    }
}

fn read(control: &Control) -> io::Result<Option<RemainsState>> {
    let kept = match control.supervisor() {
        Ok(SupervisorState::Kept(_)) => true,
        Ok(SupervisorState::Left) => false,
        // It is being taken on at this moment.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
        Err(error) => return Err(error),
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
            Some(Report::Supervisor(_) | Report::Log(_)) | None => {}
        }
        true
    })?;
    if ended {
        return Ok(Some(RemainsState::Ended));
    }
    let unknown = || Started { handle: "0".to_owned(), at: now() };
    Ok(kept.then(|| RemainsState::Alive { started: started.unwrap_or_else(unknown) }))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use nix::fcntl::{Flock, FlockArg};
    use orlop_core::id::{Epoch, JobId};
    use orlop_core::task::TaskRef;

    use super::super::control::Spares;
    use super::*;

    #[test]
    fn a_journal_of_another_version_says_nothing_of_its_attempt_whether_somebody_keeps_it_or_not() {
        let work = tempfile::tempdir().unwrap();
        let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        let control = Control::of(work.path(), &id);
        assert!(state(&control).unwrap().is_none(), "there is no such attempt");
        drop(control.create(&mut Spares::of(work.path())).unwrap());
        fs::write(control.journal(), b"ORLSPL1\nwhat an earlier version wrote").unwrap();
        assert!(state(&control).unwrap().is_none());
        let file = File::open(control.journal()).unwrap();
        let _kept = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        assert!(state(&control).unwrap().is_none());
    }
}
