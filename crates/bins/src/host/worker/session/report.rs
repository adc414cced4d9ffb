//! What a session hears and says of itself: frames applied, directives obeyed, heartbeats.

use std::time::Instant;

use orlop_core::id::Epoch;
use orlop_core::machine::worker::WorkerState;
use tokio::sync::mpsc;

use super::super::clock::now;
use super::super::frames::{self, SessionRequest};
use super::super::link::LinkError;
use super::{Session, Wish, moment, spool_failed};
use crate::wire::bound::OnWire as _;
use crate::wire::frame::{DirectiveKind, ServerFrame, Spec, WorkerFrame, refs};
use crate::wire::status::{Allocated, OutboxStatus, WorkerStatus};

impl Session {
    pub(super) async fn beat(&mut self, out: &mpsc::Sender<WorkerFrame>) -> Result<(), LinkError> {
        let status = self.status();
        self.shared.lock().beat(Instant::now());
        let frame = WorkerFrame { ack: self.outbox.heard, status: Some(status), ..WorkerFrame::default() };
        self.put(out, frame).await
    }

    pub(super) fn worker_state(&self) -> WorkerState {
        if *self.wish.borrow() != Wish::Work {
            return WorkerState::Draining;
        }
        if self.shared.lock().is_idle() { WorkerState::Available } else { WorkerState::Running }
    }

    pub(super) fn status(&mut self) -> WorkerStatus {
        let state = self.worker_state();
        let (mut measured, mut health) = self.monitor.look(Instant::now(), now());
        measured.gpu_percent = self.gauges.gpu_percent();
        health.extend(self.answers.health(&self.offered));
        let core = self.shared.lock();
        let (sum, spool, held) = (core.sum(), core.spool.stats(), core.held());
        WorkerStatus {
            worker_id: self.state.worker.to_string(),
            state: state.number(),
            refs: refs(held.iter().map(|held| held.id)),
            allocated: Some(Allocated {
                cpu_m: sum.cpu_m,
                memory_bytes: sum.memory_bytes,
                gpus: sum.gpus,
                attempts: sum.attempts,
            }),
            measured: Some(measured),
            health,
            outbox: Some(OutboxStatus { bytes: spool.bytes, results: spool.results, dropped: spool.dropped }),
            time: now().millis(),
            in_use: self.gauges.attempts(held.iter().map(|held| held.id)),
        }
    }

    /// What the server learns, or gives, when the agent registers again: a runtime that was not offered works by now, or
    /// the certificate is old.
    pub(super) fn look_for_more(&self) -> Result<(), LinkError> {
        if self.link.wants_renewal() {
            return Err(LinkError::SessionOver("the certificate must be renewed".to_owned()));
        }
        match self.answers.working().difference(&self.offered).next() {
            None => Ok(()),
            Some(runtime) => Err(LinkError::SessionOver(format!("runtime {runtime} works now and must be offered"))),
        }
    }

    /// Refuses servers that are older than one that was seen.
    pub(super) fn see(&mut self, frame: &ServerFrame) -> Result<(), LinkError> {
        if self.state.see(Epoch(frame.epoch)).map_err(spool_failed)? {
            return Ok(());
        }
        Err(LinkError::Unreachable(format!("its epoch {} is below {}, which was seen", frame.epoch, self.state.epoch)))
    }

    pub(super) fn apply(&mut self, frame: ServerFrame) -> Result<SessionRequest, LinkError> {
        let mut acts = Vec::new();
        let read = |spec: &Spec| spec.read().map(|read| (spec.spec_id, read));
        // Those of a frame that came before are here.
        let repeated = frame.seq != 0 && frame.seq <= self.outbox.heard;
        let specs: Result<Vec<_>, _> = frame.specs.iter().filter(|_| !repeated).map(read).collect();
        let specs = specs.map_err(|error| LinkError::Refused(error.to_string()))?;
        let asked = {
            let mut core = self.shared.lock();
            let asked = frames::apply(frame, &specs, &mut core, &mut self.outbox, moment(), &mut acts);
            let asked = asked.map_err(spool_failed)?;
            core.spool.flush().map_err(spool_failed)?;
            asked
        };
        if asked.renewed {
            self.renew_runtimes();
        }
        self.shared.perform(acts);
        Ok(asked)
    }

    pub(super) fn renew_runtimes(&self) {
        let left = self.shared.lock().lease_left(Instant::now());
        self.shared.runtimes().values().for_each(|runtime| runtime.renew_lease(left));
    }

    pub(super) fn obey(&mut self, asked: SessionRequest) -> Result<(), LinkError> {
        let Some(directive) = asked.directive else { return Ok(()) };
        tracing::info!(kind = ?directive.kind(), reason = directive.reason, "the server directs");
        match directive.kind() {
            // Whom it sends nothing any more has nothing to do but wait; the server says when to end.
            DirectiveKind::Drain => Ok(()),
            DirectiveKind::Shutdown => {
                self.shut_down = true;
                Ok(())
            }
            // No message with this kind is taken.
            DirectiveKind::Unspecified => Ok(()),
            // Registering again learns what the server wants by now and tells what this machine offers by now.
            DirectiveKind::Reregister | DirectiveKind::Reconfigure => Err(LinkError::SessionOver(directive.reason)),
        }
    }
}
