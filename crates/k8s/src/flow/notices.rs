//! What people are told of a flow: the first events one by one, later ones once a reason and minute with their
//! number. Owns that count; telling is the store's.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::effect::FlowNotice;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::StepStatus;
use orlop_core::time::Time;

use crate::render::PendingEvent;

/// Most events of a flow that are told one by one.
const ONE_BY_ONE: u32 = 200;
/// How long others are counted before they are told.
const MINUTE: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Notices {
    published: u32,
    waiting: Vec<PendingEvent>,
    /// By reason: the last one, how many there were, since when.
    counted: BTreeMap<String, (FlowNotice, u32, Time)>,
}

impl Notices {
    /// Those of a flow that was begun by another process, which has told most of what its status shows.
    pub(super) fn after(steps: &[StepStatus]) -> Self {
        let published = |step: &StepStatus| {
            let over = u32::from(
                matches!(step.phase, StepPhase::Succeeded | StepPhase::Failed | StepPhase::Skipped)
                    && step.next_retry_time.is_none(),
            );
            // Each attempt was created; each but the last has failed and led to another one.
            step.attempt.saturating_add(step.retry_count.saturating_mul(2)).saturating_add(over)
        };
        Self { published: steps.iter().map(published).fold(0, u32::saturating_add), ..Self::default() }
    }

    pub(super) fn add(&mut self, notice: FlowNotice, key: String, now: Time) {
        self.published = self.published.saturating_add(1);
        if self.published <= ONE_BY_ONE {
            return self.waiting.push(PendingEvent { notice, key, count: 1 });
        }
        let (last, count, _) = self.counted.entry(notice.reason.clone()).or_insert_with(|| (notice.clone(), 0, now));
        (*last, *count) = (notice, count.saturating_add(1));
    }

    /// What is to be told now; `over` when nothing more will come.
    pub(super) fn take(&mut self, now: Time, over: bool) -> Vec<PendingEvent> {
        let mut due = std::mem::take(&mut self.waiting);
        self.counted.retain(|reason, (notice, count, since)| {
            let is_due = over || since.plus(MINUTE) <= now;
            if is_due {
                let key = format!("{reason}/{}", since.millis());
                due.push(PendingEvent { notice: notice.clone(), key, count: *count });
            }
            !is_due
        });
        due
    }

    /// When the next of those that are counted is told.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.counted.values().map(|(_, _, since)| since.plus(MINUTE)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(reason: &str, message: &str) -> FlowNotice {
        FlowNotice { warning: false, reason: reason.into(), message: message.into(), at: None, attempt: 0 }
    }

    #[test]
    fn what_an_earlier_process_has_reported_counts() {
        let now: Time = "2026-11-22T10:00:00Z".parse().unwrap();
        let step = |attempt, retry_count| StepStatus {
            phase: StepPhase::Succeeded,
            attempt,
            retry_count,
            ..StepStatus::default()
        };
        // Created, failed, retried, created again, succeeded; and 97 that were created and succeeded.
        let mut steps = vec![step(2, 1)];
        steps.extend((0..97).map(|_| step(1, 0)));
        let mut notices = Notices::after(&steps);
        notices.add(notice("StepCreated", "the last one"), "k".into(), now);
        assert_eq!((notices.take(now, false).len(), notices.next_due()), (1, None));
        notices.add(notice("StepCreated", "one more"), "l".into(), now);
        assert_eq!((notices.take(now, false).len(), notices.next_due().is_some()), (0, true));
    }

    #[test]
    fn after_two_hundred_events_there_is_one_a_reason_and_minute_with_a_count() {
        let now: Time = "2026-11-22T10:00:00Z".parse().unwrap();
        let at = |seconds: u64| now.plus(Duration::from_secs(seconds));
        let mut notices = Notices::default();
        for n in 0..200 {
            notices.add(notice("StepCreated", "m"), format!("{n}"), now);
        }
        assert_eq!((notices.take(now, false).len(), notices.next_due()), (200, None));
        for n in 0..50 {
            notices.add(notice("StepCreated", &n.to_string()), "k".into(), at(n));
        }
        notices.add(notice("StepFailed", "f"), "k".into(), at(30));
        assert_eq!((notices.take(at(59), false), notices.next_due()), (Vec::new(), Some(at(60))));
        let published = notices.take(at(60), false);
        let short = |published: &[PendingEvent]| {
            published.iter().map(|t| (t.notice.message.clone(), t.count)).collect::<Vec<_>>()
        };
        assert_eq!(short(&published), [("49".to_owned(), 50)]);
        assert_eq!(notices.next_due(), Some(at(90)));
        // The next minute has an event of its own name.
        notices.add(notice("StepCreated", "later"), "k".into(), at(61));
        let rest = notices.take(at(61), true);
        assert_eq!(short(&rest), [("later".to_owned(), 1), ("f".to_owned(), 1)]);
        assert_ne!(published[0].key, rest[0].key);
        assert!(notices.take(at(500), true).is_empty());
    }
}
