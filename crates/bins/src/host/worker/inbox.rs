//! What comes from the server: frames applied as a whole, in the order of their fields. Never touches a connection.

use std::io;
use std::time::{Duration, Instant};

use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::spec::job::JobSpec;
use orlop_core::time::Time;

use super::core::{Act, Core};
use super::outbox::Outbox;
use crate::wire::frame::{Directive, ServerFrame, Welcome};

/// When a frame is applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// By a clock that never jumps.
    pub(super) clock: Instant,
    /// By the clock on the wall.
    pub(super) wall: Time,
}

/// What a frame asks of the session itself.
#[derive(Debug, Default)]
pub(super) struct SessionRequest {
    pub(super) directive: Option<Directive>,
    pub(super) pause: Duration,
    /// Whether the lease was renewed.
    pub(super) renewed: bool,
}

/// Applies a frame, the specifications in it read. What it makes necessary is in the spool's buffers afterwards, which are to be flushed before the frame
/// is acknowledged.
///
/// # Errors
/// When the spool cannot be written; the frame is then not acknowledged and comes again.
pub(super) fn apply(
    mut frame: ServerFrame,
    specs: &[(u64, JobSpec)],
    core: &mut Core,
    outbox: &mut Outbox,
    now: Now,
    acts: &mut Vec<Act>,
) -> io::Result<SessionRequest> {
    let mut asked =
        SessionRequest { pause: Duration::from_millis(u64::from(frame.retry_after_ms)), ..SessionRequest::default() };
    if frame.lease_ms > 0 {
        core.beat_answered(frame.lease_ms);
        core.renewed(now.clock, acts);
        asked.renewed = true;
    }
    outbox.acknowledged(frame.ack, core);
    outbox.credit(frame.log_credit);
    asked.directive = frame.directive.take();
    if frame.seq != 0 && frame.seq <= outbox.heard {
        return Ok(asked);
    }
    core.slots.received(&frame);
    for (spec_id, spec) in specs {
        core.specs.put(*spec_id, spec);
    }
    for (spec_id, _) in specs {
        core.unpark(*spec_id, now.clock, acts)?;
    }
    for assign in frame.assign {
        core.assign(assign, now.clock, acts)?;
    }
    for cancel in &frame.cancel {
        core.cancel(cancel, now.wall, acts)?;
    }
    for attempt in frame.revoke {
        core.revoke(attempt.into())?;
    }
    for judged in frame.verdicts {
        match judged.worth() {
            ReportVerdict::Unknown | ReportVerdict::Stale => core.unwanted(judged.attempt(), now.wall, acts)?,
            ReportVerdict::Duplicate | ReportVerdict::Accepted | ReportVerdict::Adopted => {}
        }
    }
    if frame.seq != 0 {
        outbox.heard = frame.seq;
    }
    Ok(asked)
}

/// Applies the first frame of a stream.
///
/// # Errors
/// When the spool cannot be written.
pub(super) fn welcome(
    welcome: Welcome,
    core: &mut Core,
    outbox: &mut Outbox,
    now: Now,
    acts: &mut Vec<Act>,
) -> io::Result<()> {
    outbox.resumed(welcome.last_worker_seq, core);
    core.ask_again();
    for attempt in welcome.kill.into_iter().chain(welcome.settled) {
        core.unwanted(attempt.into(), now.wall, acts)?;
    }
    Ok(())
}
