//! Waiting for something to happen: reports, answers, orders, time. Nothing is polled.

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use orlop_core::error::Problem;
use orlop_core::ports::substrate::{AttemptDelay, AttemptReport};
use orlop_dag::engine::next_deadline;
use tokio::time::Instant;

use super::handle::Request;
use super::work::Done;
use super::{FlowHost, command};

/// The most events that are gathered before they are written.
const GATHERED: usize = 512;
/// The longest sleep: the clock of the machine may be set, and timers go by another.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// Why a host woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// Something has happened, or time has passed.
    News,
    /// It was asked to leave.
    Detach,
}

enum Woken {
    Request(Option<Request>),
    Done(Done),
    Report(Box<AttemptReport>),
    Delay(AttemptDelay),
    Time,
}

impl FlowHost {
    /// Waits until something happens and takes in everything that is there.
    pub(super) async fn wait(&mut self) -> Result<Wake, Problem> {
        let until = self.wake_at();
        let substrate = std::sync::Arc::clone(&self.parts.substrate);
        let woken = tokio::select! {
            biased;
            request = self.desk.requests.recv() => Woken::Request(request),
            Some(done) = self.work.under_way.next() => Woken::Done(done),
            report = substrate.next() => Woken::Report(Box::new(report)),
            delay = substrate.next_delay() => Woken::Delay(delay),
            () = tokio::time::sleep_until(until) => Woken::Time,
        };
        let mut next = Some(woken);
        while let Some(woken) = next {
            match woken {
                Woken::Request(Some(Request::Detach)) => return Ok(Wake::Detach),
                Woken::Request(Some(Request::Order(order, answer))) => self.take_order(&order, answer),
                Woken::Request(None) | Woken::Time => {}
                Woken::Done(done) => self.settle(done)?,
                Woken::Report(report) => self.report(*report),
                Woken::Delay(delay) => self.delayed(delay),
            }
            // An order is checked against what all before it have changed, so it is in force before the next one is taken.
            let room = self.orders.is_empty() && self.pending.len() < GATHERED;
            next = if room { self.at_hand() } else { None };
        }
        self.tick_if_due();
        Ok(Wake::News)
    }

    /// Something that already exists.
    fn at_hand(&mut self) -> Option<Woken> {
        if let Ok(request) = self.desk.requests.try_recv() {
            return Some(Woken::Request(Some(request)));
        }
        if let Some(Some(done)) = self.work.under_way.next().now_or_never() {
            return Some(Woken::Done(done));
        }
        if let Some(report) = self.parts.substrate.next().now_or_never() {
            return Some(Woken::Report(Box::new(report)));
        }
        self.parts.substrate.next_delay().now_or_never().map(Woken::Delay)
    }

    /// When to wake if nothing happens: a timer of the engine is due, or watchers are to be shown something.
    fn wake_at(&self) -> Instant {
        let longest = Instant::now() + LONGEST_SLEEP;
        let timer = next_deadline(&self.state).map(|due| Instant::now() + due.since(self.parts.clock.now()));
        timer.into_iter().chain(self.pace.next(self.plan.len())).fold(longest, Instant::min)
    }

    fn take_order(&mut self, order: &command::FlowCommand, answer: super::Answer) {
        match command::event(&self.plan, &self.state, order, self.parts.clock.now()) {
            Ok(Some(event)) => self.orders.push((event, answer)),
            // The caller may have gone.
            Ok(None) => drop(answer.send(Ok(true))),
            Err(error) => drop(answer.send(Err(error))),
        }
    }
}
