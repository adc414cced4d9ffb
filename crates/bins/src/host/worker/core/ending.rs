//! The ends of attempts, asked for and reported: by the server, by runtimes, by nobody.

use std::io;
use std::time::{Duration, Instant};

use orlop_cloud::outbox::Recovered;
use orlop_cloud::runtime::worker::{AttemptEnd, Cause};
use orlop_core::task::{CancelReason, TaskEnd, TaskRef};
use orlop_core::time::Time;

use super::{Act, Core, State};
use crate::wire::attempt::CancelJob;

impl Core {
    /// The server wants an attempt to end. One that is not started ends at once; one that is not here has ended, and its
    /// end is on its way.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(in crate::host::worker) fn cancel(
        &mut self,
        cancel: &CancelJob,
        at: Time,
        acts: &mut Vec<Act>,
    ) -> io::Result<()> {
        let id = cancel.attempt();
        let cause = match cancel.cancel_reason() {
            CancelReason::Preempted | CancelReason::Drain => Cause::Preempt,
            CancelReason::User | CancelReason::Timeout | CancelReason::Stale | CancelReason::Gang => Cause::Cancel,
        };
        self.end(id, cause, Duration::from_millis(cancel.grace_ms), at, acts)
    }

    /// Ends an attempt.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(in crate::host::worker) fn end(
        &mut self,
        id: TaskRef,
        cause: Cause,
        grace: Duration,
        at: Time,
        acts: &mut Vec<Act>,
    ) -> io::Result<()> {
        let Some(attempt) = self.attempts.get(&id) else { return Ok(()) };
        if let State::Running(_) = attempt.state {
            acts.push(Act::End(attempt.runtime, id, cause, grace));
            return Ok(());
        }
        let outcome = if cause == Cause::Preempt { TaskEnd::Preempted } else { TaskEnd::Cancelled };
        if self.drop_waiting(id)? {
            self.spool.ended(id, AttemptEnd::without_run(outcome, "", at))?;
        }
        Ok(())
    }

    /// The server takes an attempt back, if it has not started. One that is not here never will.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(in crate::host::worker) fn revoke(&mut self, id: TaskRef) -> io::Result<()> {
        for waiting in self.parked.values_mut() {
            waiting.retain(|assign| assign.attempt() != id);
        }
        self.parked.retain(|_, waiting| !waiting.is_empty());
        if self.drop_waiting(id)? || !self.attempts.contains_key(&id) {
            self.spool.revoked(id)?;
        }
        Ok(())
    }

    /// Removes an attempt that has not started; false when it has, or is not here.
    fn drop_waiting(&mut self, id: TaskRef) -> io::Result<bool> {
        let Some(attempt) = self.attempts.get(&id) else { return Ok(false) };
        if matches!(attempt.state, State::Running(_)) {
            return Ok(false);
        }
        let kind = attempt.kind;
        self.attempts.remove(&id);
        self.traced.forget(id);
        let held = self.held.len();
        self.held.retain(|other| *other != id);
        if let Some(kind) = kind
            && !self.slots.revoke(&kind, id)
            && self.held.len() < held
        {
            // It had a slot and waited for the lease only: nobody inherits it without one either.
            let next = self.pass_slot(Some(kind), id)?;
            self.held.extend(next);
        }
        self.give_devices_back(&id);
        Ok(true)
    }

    /// The server wants to hear no more of an attempt; if it runs it is killed.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(in crate::host::worker) fn unwanted(&mut self, id: TaskRef, at: Time, acts: &mut Vec<Act>) -> io::Result<()> {
        if !self.attempts.contains_key(&id) {
            self.spool.discard(&id);
            return Ok(());
        }
        self.end(id, Cause::Cancel, Duration::ZERO, at, acts)
    }

    /// An attempt ended: its devices are free, and its slot is inherited or vacant.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(in crate::host::worker) fn ended(
        &mut self,
        id: TaskRef,
        end: AttemptEnd,
        now: Instant,
        acts: &mut Vec<Act>,
    ) -> io::Result<()> {
        let attempt = self.attempts.remove(&id);
        self.traced.ended(id, &end);
        self.spool.ended(id, end)?;
        if let Some(next) = self.pass_slot(attempt.and_then(|attempt| attempt.kind), id)? {
            self.start(next, now, acts);
        }
        Ok(())
    }

    /// Of an attempt that was to go on nothing is there.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(in crate::host::worker) fn vanished(&mut self, recovered: &Recovered, at: Time) -> io::Result<()> {
        self.attempts.remove(&recovered.id);
        self.ledger.give_back(&recovered.id);
        if recovered.started.is_none() {
            return self.spool.revoked(recovered.id);
        }
        self.spool.ended(recovered.id, AttemptEnd::without_run(TaskEnd::Lost, "agent_restart", at))
    }
}
