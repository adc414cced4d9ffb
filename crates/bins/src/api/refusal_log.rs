//! RefusalLog of those whom nobody knows, or who ask too often: who knocks a thousand times is one line of the audit trail a
//! minute, with how often it was. The number of callers is bounded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use orlop_core::ports::fleet_store::AuditEntry;

/// Between two lines about one caller, in milliseconds.
const EVERY: u64 = 60_000;
/// Callers that are distinguished.
const CALLERS: usize = 4096;
/// Between two looks for callers whose time is over, in milliseconds.
const SWEEP: u64 = 1000;
/// Those beyond.
const REST: &str = "others";

/// What is known of refusals.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<CallerTable>);

#[derive(Debug, Default)]
struct CallerTable {
    callers: HashMap<String, CallerRefusals>,
    sweep_at: u64,
}

#[derive(Debug)]
struct CallerRefusals {
    /// Until when it is not reported again.
    until: u64,
    /// How many came since it was reported, and the last of them.
    more: Option<(u64, AuditEntry)>,
}

/// The last of several, with how many they were.
fn summed(count: u64, mut last: AuditEntry) -> AuditEntry {
    if count > 1 {
        last.target = format!("{} and {} before it", last.target, count - 1);
    }
    last
}

impl RefusalLog {
    /// Takes a refusal in at `now` monotonic milliseconds; gives what is to be written down.
    pub(super) fn take(&self, now: u64, mut entry: AuditEntry) -> Vec<AuditEntry> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = table.swept(now);
        if table.callers.len() >= CALLERS && !table.callers.contains_key(&entry.actor) {
            REST.clone_into(&mut entry.actor);
        }
        match table.callers.get_mut(&entry.actor) {
            Some(caller) if now < caller.until => {
                let count = caller.more.take().map_or(0, |(count, _)| count);
                caller.more = Some((count + 1, entry));
            }
            _ => {
                let caller = CallerRefusals { until: now.saturating_add(EVERY), more: None };
                table.callers.insert(entry.actor.clone(), caller);
                lines.push(entry);
            }
        }
        lines
    }

    /// What has come since those whose time is over were reported.
    pub(super) fn over(&self, now: u64) -> Vec<AuditEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).swept(now)
    }
}

impl CallerTable {
    fn swept(&mut self, now: u64) -> Vec<AuditEntry> {
        if now < self.sweep_at {
            return Vec::new();
        }
        self.sweep_at = now.saturating_add(SWEEP);
        let mut lines = Vec::new();
        self.callers.retain(|_, caller| {
            if now < caller.until {
                return true;
            }
            lines.extend(caller.more.take().map(|(count, last)| summed(count, last)));
            false
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::time::Time;

    use super::*;

    fn refusal(actor: &str, target: &str) -> AuditEntry {
        AuditEntry {
            number: 0,
            time: Time::EPOCH,
            actor: actor.to_owned(),
            tenant: None,
            action: "jobs.list".into(),
            target: target.to_owned(),
            outcome: "unauthenticated".into(),
            request_id: None,
        }
    }

    #[test]
    fn who_is_refused_again_and_again_is_one_line_a_minute_with_its_number() {
        let refusals = RefusalLog::default();
        assert_eq!(refusals.take(0, refusal("1.2.3.4", "/jobs")), [refusal("1.2.3.4", "/jobs")]);
        for _ in 0..999 {
            assert_eq!(refusals.take(10, refusal("1.2.3.4", "/jobs")), []);
        }
        assert_eq!(refusals.take(10, refusal("1.2.3.4", "/workers")), []);
        assert_eq!(refusals.take(20, refusal("5.6.7.8", "/jobs")).len(), 1, "another is told at once");
        assert_eq!(refusals.over(59_999), []);
        assert_eq!(refusals.over(61_000), [refusal("1.2.3.4", "/workers and 999 before it")]);
        assert_eq!(refusals.take(61_001, refusal("1.2.3.4", "/jobs")), [refusal("1.2.3.4", "/jobs")]);
    }

    #[test]
    fn the_number_of_callers_distinguished_is_bounded() {
        let refusals = RefusalLog::default();
        let reported: usize = (0..10_000).map(|n| refusals.take(0, refusal(&n.to_string(), "/jobs")).len()).sum();
        assert_eq!(reported, CALLERS + 1);
        assert_eq!(
            refusals.over(70_000),
            [AuditEntry { actor: REST.to_owned(), ..refusal("", "/jobs and 5902 before it") }]
        );
    }
}
