//! Suspension and hold: nothing new starts, and in mode Suspend the clocks of live attempts stand still.

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::machine::step::StepState;
use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::status::WaitsOn;

use super::Call;

impl Call<'_> {
    pub(super) fn set_suspend(&mut self, on: bool, mode: SuspendMode) {
        let flow = &mut self.state.flow;
        let was = (flow.suspended, flow.mode);
        flow.mode = mode;
        // The mode of a flow that is not suspended shows nowhere.
        if was == (on, mode) || (!on && !was.0) {
            return;
        }
        flow.suspended = on;
        self.changed = true;
        self.urgent = true;
        let frozen_before = was == (true, SuspendMode::Suspend);
        let frozen_now = on && mode == SuspendMode::Suspend;
        let live: Vec<Address> = self.state.index.live.iter().copied().collect();
        if frozen_now && !frozen_before {
            self.state.flow.suspensions = self.state.flow.suspensions.saturating_add(1);
            for at in live {
                self.freeze(at);
            }
        } else if frozen_before && !frozen_now {
            for at in live {
                self.thaw(at);
            }
        }
        self.pause_changed();
    }

    pub(super) fn hold(&mut self, on: bool) {
        if self.state.flow.held == on {
            return;
        }
        self.state.flow.held = on;
        self.changed = true;
        self.urgent = true;
        if on {
            self.notice_held();
        }
        self.pause_changed();
    }

    /// Starts or ends the pause; at its end the deadline moves by it.
    fn pause_changed(&mut self) {
        let paused = self.state.is_paused();
        let now = self.now;
        match (paused, self.state.flow.paused_at) {
            (true, None) => self.state.flow.paused_at = Some(now),
            (false, Some(_)) => self.end_pause(),
            _ => {}
        }
    }

    /// Counts the pause that ends now.
    pub(super) fn end_pause(&mut self) {
        let now = self.now;
        let flow = &mut self.state.flow;
        let Some(since) = flow.paused_at.take() else { return };
        if flow.started.is_none() {
            return;
        }
        let pause = now.since(since);
        flow.paused_millis = flow.paused_millis.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        flow.deadline = flow.deadline.map(|deadline| deadline.plus(pause));
    }

    /// Whether live attempts are suspended, not only left to finish.
    pub(super) fn freezes(&self) -> bool {
        self.state.flow.suspended && self.state.flow.mode == SuspendMode::Suspend
    }

    /// Stops the clock of an accepted attempt.
    pub(super) fn freeze(&mut self, at: Address) {
        let (now, epoch) = (self.now, self.state.flow.suspensions);
        let Some(node) = self.state.node_mut(at) else { return };
        if node.state != StepState::Active || node.frozen.is_some() {
            return;
        }
        let attempt = node.attempt();
        self.set_clock(at, |node| node.frozen = Some(now));
        self.changed = true;
        self.out.push(FlowEffect::SuspendAttempt { at, attempt, epoch });
    }

    /// Lets a suspended attempt go on; its timer moves by the pause.
    fn thaw(&mut self, at: Address) {
        let (now, epoch) = (self.now, self.state.flow.suspensions);
        let Some(node) = self.state.node_mut(at) else { return };
        if node.frozen.is_none() {
            return;
        }
        let attempt = node.attempt();
        self.out.push(FlowEffect::ResumeAttempt { at, attempt, epoch });
        self.set_clock(at, |node| {
            node.frozen = None;
            // The wait for a first pod begins anew.
            if let Some(waits) = node.waits.as_deref_mut().filter(|waits| waits.on == WaitsOn::FirstPod) {
                waits.since = now;
            }
        });
    }
}
