//! What people are told of a flow: the first events one by one, later ones once a reason and minute with their
//! number. Owns that count; telling is the store's.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::effect::FlowNotice;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::StepStatus;
use orlop_core::time::Time;

/// Most events of a flow that are told one by one.
const ONE_BY_ONE: u32 = 200;
/// How long others are counted before they are told.
const MINUTE: Duration = Duration::from_secs(60);

/// An event that is to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Telling {
    pub(super) notice: FlowNotice,
    /// What the event is named after: the same one is published once.
    pub(super) key: String,
    /// How often it happened.
    pub(super) count: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Notices {
    told: u32,
    waiting: Vec<Telling>,
    /// By reason: the last one, how many there were, since when.
    counted: BTreeMap<String, (FlowNotice, u32, Time)>,
}

impl Notices {
    /// Those of a flow that was begun by another process, which has told most of what its status shows.
    pub(super) fn after(steps: &[StepStatus]) -> Self {
        let told = |step: &StepStatus| {
            let over = u32::from(
                matches!(step.phase, StepPhase::Succeeded | StepPhase::Failed | StepPhase::Skipped)
                    && step.next_retry_time.is_none(),
            );
            // Each attempt was created; each but the last has failed and led to another one.
            step.attempt.saturating_add(step.retry_count.saturating_mul(2)).saturating_add(over)
        };
        Self { told: steps.iter().map(told).fold(0, u32::saturating_add), ..Self::default() }
    }

    pub(super) fn add(&mut self, notice: FlowNotice, key: String, now: Time) {
        self.told = self.told.saturating_add(1);
        if self.told <= ONE_BY_ONE {
            return self.waiting.push(Telling { notice, key, count: 1 });
        }
        let (last, count, _) = self.counted.entry(notice.reason.clone()).or_insert_with(|| (notice.clone(), 0, now));
        (*last, *count) = (notice, count.saturating_add(1));
    }

    /// What is to be told now; `over` when nothing more will come.
    pub(super) fn take(&mut self, now: Time, over: bool) -> Vec<Telling> {
        let mut due = std::mem::take(&mut self.waiting);
        self.counted.retain(|reason, (notice, count, since)| {
            let is_due = over || since.plus(MINUTE) <= now;
            if is_due {
                let key = format!("{reason}/{}", since.millis());
                due.push(Telling { notice: notice.clone(), key, count: *count });
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
    fn what_an_earlier_process_has_told_counts() {
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
        let told = notices.take(at(60), false);
        let short = |told: &[Telling]| told.iter().map(|t| (t.notice.message.clone(), t.count)).collect::<Vec<_>>();
        assert_eq!(short(&told), [("49".to_owned(), 50)]);
        assert_eq!(notices.next_due(), Some(at(90)));
        // The next minute has an event of its own name.
        notices.add(notice("StepCreated", "later"), "k".into(), at(61));
        let rest = notices.take(at(61), true);
        assert_eq!(short(&rest), [("later".to_owned(), 1), ("f".to_owned(), 1)]);
        assert_ne!(told[0].key, rest[0].key);
        assert!(notices.take(at(500), true).is_empty());
    }
}
