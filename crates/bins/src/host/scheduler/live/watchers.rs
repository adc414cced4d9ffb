//! Who waits for the next change of a job.

use std::collections::BTreeMap;

use orlop_core::id::JobId;
use orlop_scheduler::effect::JobPart;
use tokio::sync::oneshot;

type Waiter = oneshot::Sender<()>;

/// Anyone who waits for a change of any element of an array, or of the whole: no element has this index.
pub(in super::super) const ANY: u32 = u32::MAX;

/// Those who wait, by job and element; of jobs that are no arrays the element is 0.
#[derive(Debug, Default)]
pub(in super::super) struct Watchers(BTreeMap<(JobId, u32), Vec<Waiter>>);

impl Watchers {
    /// Lets somebody wait.
    pub(in super::super) fn add(&mut self, job: JobId, index: u32, waiter: Waiter) {
        let waiters = self.0.entry((job, index)).or_default();
        // Who waits for something else as well may have gone.
        waiters.retain(|known| !known.is_closed());
        waiters.push(waiter);
    }

    /// Something of a job changed: who waited for that.
    pub(in super::super) fn changed(&mut self, job: JobId, part: JobPart) -> Vec<Waiter> {
        let (first, last) = match part {
            JobPart::Whole => (0, u32::MAX),
            JobPart::Elements(first, last) => (first, last),
        };
        if self.0.is_empty() || first > last {
            return Vec::new();
        }
        let mut keys: Vec<_> = self.0.range((job, first)..=(job, last)).map(|(key, _)| *key).collect();
        keys.extend((last < ANY).then_some((job, ANY)));
        keys.iter().filter_map(|key| self.0.remove(key)).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_wakes_who_waits_for_that_part_and_no_others() {
        let (one, two) = (JobId::from_u64(1), JobId::from_u64(2));
        let mut watchers = Watchers::default();
        let add = |watchers: &mut Watchers, job, index| {
            let (waiter, waits) = oneshot::channel();
            watchers.add(job, index, waiter);
            waits
        };
        let _kept = [add(&mut watchers, one, 0), add(&mut watchers, one, 7), add(&mut watchers, two, 7)];
        assert_eq!(watchers.changed(one, JobPart::Elements(1, 6)).len(), 0);
        let _any = [add(&mut watchers, one, ANY), add(&mut watchers, two, ANY)];
        assert_eq!(watchers.changed(one, JobPart::Elements(1, 6)).len(), 1, "who waits for any");
        assert_eq!(watchers.changed(one, JobPart::Elements(5, 9)).len(), 1);
        assert_eq!(watchers.changed(one, JobPart::Whole).len(), 1);
        assert_eq!(watchers.changed(one, JobPart::Whole).len(), 0, "once each");
        assert_eq!(watchers.changed(two, JobPart::Whole).len(), 2);
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let mut watchers = Watchers::default();
        for _ in 0..100 {
            let (waiter, _) = oneshot::channel();
            watchers.add(JobId::from_u64(1), 0, waiter);
        }
        assert_eq!(watchers.changed(JobId::from_u64(1), JobPart::Whole).len(), 1);
    }
}
