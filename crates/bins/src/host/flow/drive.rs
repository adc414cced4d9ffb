//! The loop of a host: wait, gather what is there, write it down, tell the engine, carry out what it asks for. Decides
//! nothing.

use orlop_core::error::Problem;
use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_dag::engine::{apply, next_deadline, view};

use super::admission::Admission;
use super::carry::patiently;
use super::wait::Wake;
use super::work::Done;
use super::{FlowHost, Left, TIDY};

impl FlowHost {
    /// Drives the flow until it has ended, or there is another reason to return.
    ///
    /// # Errors
    /// When the journal can no longer be written, or the admission fails. What was stored stays, what runs goes on, and another host can take
    /// over.
    pub async fn run(&mut self) -> Result<Left, Problem> {
        let beginning = std::mem::take(&mut self.beginning);
        self.carry_out(beginning);
        loop {
            self.commit().await?;
            self.ask_gate();
            self.begin_starts();
            if !self.pending.is_empty() {
                continue;
            }
            self.publish().await;
            if self.state.phase().is_terminal() {
                self.tidy().await?;
                return self.leave(Left::Ended).await;
            }
            if self.parts.leave_when_paused && self.waits_for_people() {
                self.tidy().await?;
                return self.leave(Left::Paused).await;
            }
            if self.wait().await? == Wake::Detach {
                self.commit().await?;
                return self.leave(Left::Detached).await;
            }
        }
    }

    /// Writes down what has happened, in one transaction, tells the engine and carries out its effects.
    async fn commit(&mut self) -> Result<(), Problem> {
        while !(self.pending.is_empty() && self.orders.is_empty()) {
            let now = self.parts.clock.now();
            // Orders come before all else.
            let (mut events, answers): (Vec<FlowEvent>, Vec<_>) = self.orders.drain(..).unzip();
            events.append(&mut self.pending);
            if let Err(error) = self.ledger.append(now, &events).await {
                for answer in answers {
                    // The caller may have gone.
                    drop(answer.send(Err(error.clone())));
                }
                return Err(error);
            }
            let mut effects = Vec::new();
            for event in &events {
                apply(&self.plan, &mut self.state, event, now, &mut effects);
                match event {
                    FlowEvent::GoneConfirmed { at, attempt, .. } => self.release((*at, *attempt)),
                    FlowEvent::AttemptAccepted { at, attempt, .. } => self.accepted((*at, *attempt)),
                    _ => {}
                }
            }
            self.carry_out(effects);
            for answer in answers {
                drop(answer.send(Ok(true)));
            }
            self.ledger.snapshot(&self.plan, &self.state, false).await;
        }
        self.forget_ended();
        Ok(())
    }

    /// Asks the gate, once, as soon as the flow is not suspended.
    fn ask_gate(&mut self) {
        let may_ask = !matches!(self.state.phase(), FlowPhase::Suspended) && !self.state.phase().is_terminal();
        if self.admitted || !may_ask {
            return;
        }
        self.admitted = true;
        match self.admission.take() {
            None => self.pending.push(FlowEvent::Admit),
            Some(gate) => self.ask(gate),
        }
    }

    /// Has the gate speak, as soon as it has something to say.
    pub(super) fn ask(&self, mut gate: Box<dyn Admission>) {
        self.work.push(async move {
            let mut tries = 0;
            loop {
                match gate.next().await {
                    Err(error) if error.class.is_retryable() => {
                        tries = patiently("asking the concurrency limiter", &error, tries).await;
                    }
                    verdict => return Done::Gate(gate, verdict),
                }
            }
        });
    }

    /// Whether the engine waits for the clock and its time has come.
    pub(super) fn tick_if_due(&mut self) {
        let now = self.parts.clock.now();
        if self.pending.is_empty() && next_deadline(&self.state).is_some_and(|due| due <= now) {
            self.pending.push(FlowEvent::Tick);
        }
    }

    /// Whether nothing runs and nothing is going to without a decision of a person.
    fn waits_for_people(&self) -> bool {
        if self.state.phase() != FlowPhase::Paused || self.state.live().next().is_some() {
            return false;
        }
        let records = view(&self.plan, &self.state, 0..usize::MAX).status.steps;
        !records.iter().any(|step| step.next_retry_time.is_some())
    }

    async fn publish(&mut self) {
        let due = self.pace.take(self.plan.len());
        // Written before it is shown: anyone who has seen a flow end finds it ended in lists.
        if due.summary {
            self.ledger.summarize(&self.plan, &self.state).await;
        }
        if due.status {
            self.desk.show(&self.plan, &self.state);
        }
    }

    /// Waits, for a while, until what is left of attempts is deleted.
    async fn tidy(&mut self) -> Result<(), Problem> {
        let until = tokio::time::Instant::now() + TIDY;
        self.work.leaving.send_replace(true);
        while self.work.tidying > 0 {
            use futures::StreamExt as _;
            match tokio::time::timeout_at(until, self.work.under_way.next()).await {
                Ok(Some(done)) => self.settle(done)?,
                Ok(None) | Err(_) => break,
            }
        }
        if self.state.phase().is_terminal() {
            // Events after the end change nothing, so they are not written.
            self.pending.clear();
        }
        self.commit().await
    }

    async fn leave(&mut self, why: Left) -> Result<Left, Problem> {
        self.ledger.snapshot(&self.plan, &self.state, true).await;
        self.ledger.summarize(&self.plan, &self.state).await;
        self.desk.show(&self.plan, &self.state);
        Ok(why)
    }
}
