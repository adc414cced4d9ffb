//! What attempts and GPUs use, looked at from time to time beside the session, which only reads the last look.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use orlop_cloud::runtime::worker::InUse;
use orlop_core::spec::job::Runtime;
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use tokio::time::sleep;

use super::clock::now;
use super::gpu_use::GpuUse;
use super::gpus::Gpu;
use super::shared::Shared;
use crate::wire::status::AttemptUse;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(5);

/// The last look at an attempt.
#[derive(Clone, Copy, Debug)]
struct UsageSample {
    at: Instant,
    used: InUse,
    cpu_m: u64,
}

#[derive(Debug, Default)]
struct LatestUsage {
    attempts: BTreeMap<TaskRef, UsageSample>,
    gpu_percent: Vec<f64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gauges(Mutex<LatestUsage>);

impl Gauges {
    /// Looks from time to time, for as long as it is polled.
    pub(super) async fn keep_reading(self: Arc<Self>, shared: Arc<Shared>, gpus: Vec<Gpu>) {
        let mut gpu_use = GpuUse::new(gpus.into_iter().map(|gpu| gpu.device).collect());
        loop {
            sleep(EVERY).await;
            let found = attempts(&shared).await;
            let looked = tokio::task::spawn_blocking(move || {
                let percent = gpu_use.look();
                (gpu_use, percent)
            });
            let Ok((again, percent)) = looked.await else { return };
            gpu_use = again;
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let before = std::mem::take(&mut known.attempts);
            known.attempts = found.iter().map(|one| one.read(before.get(&one.id))).collect();
            known.gpu_percent = percent;
        }
    }

    /// What each of these attempts uses, as far as it is known.
    pub(super) fn attempts(&self, held: impl Iterator<Item = TaskRef>) -> Vec<AttemptUse> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.filter_map(|id| {
            let sample = known.attempts.get(&id)?;
            Some(AttemptUse::of(id, sample.cpu_m, sample.used.memory_bytes))
        })
        .collect()
    }

    /// How busy each GPU is.
    pub(super) fn gpu_percent(&self) -> Vec<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).gpu_percent.clone()
    }
}

/// What was found of an attempt.
struct UsageReading {
    id: TaskRef,
    used: InUse,
    /// When that was.
    at: Instant,
    /// When it started, and the time by the same clock.
    ran: (Option<Time>, Time),
}

impl UsageReading {
    /// The mean since the look before; of the first one since it started.
    fn read(&self, before: Option<&UsageSample>) -> (TaskRef, UsageSample) {
        let at = self.at;
        let (cpu_ms, passed) = match (before, self.ran) {
            (Some(before), _) => {
                (self.used.cpu_ms.saturating_sub(before.used.cpu_ms), at.saturating_duration_since(before.at))
            }
            (None, (Some(started), now)) => (self.used.cpu_ms, now.since(started)),
            (None, (None, _)) => (0, Duration::ZERO),
        };
        let millis = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let cpu_m = cpu_ms.saturating_mul(1000).checked_div(millis).unwrap_or(0);
        (self.id, UsageSample { at, used: self.used, cpu_m })
    }
}

/// Asks each runtime once for all that runs on it.
async fn attempts(shared: &Shared) -> Vec<UsageReading> {
    let mut running: BTreeMap<Runtime, BTreeMap<TaskRef, Option<Time>>> = BTreeMap::new();
    for held in shared.lock().held().into_iter().filter(|held| held.running) {
        running.entry(held.runtime).or_default().insert(held.id, held.started_at);
    }
    let mut found = Vec::new();
    for (kind, started) in running {
        let Some(runtime) = shared.runtime(kind) else { continue };
        let ids: Vec<TaskRef> = started.keys().copied().collect();
        match runtime.in_use(&ids).await {
            Ok(all) => found.extend(all.into_iter().map(|(id, used)| {
                let ran = (started.get(&id).copied().flatten(), now());
                UsageReading { id, used, at: Instant::now(), ran }
            })),
            Err(error) => tracing::debug!(runtime = %kind, %error, "the resource usage of attempts is unknown now"),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};

    use super::*;

    fn found(at: Instant, cpu_ms: u64, started: Option<u64>, now: u64) -> UsageReading {
        let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        let time = |millis: u64| Time::from_millis(i64::try_from(millis).unwrap());
        UsageReading { id, used: InUse { cpu_ms, memory_bytes: 7 }, at, ran: (started.map(time), time(now)) }
    }

    #[test]
    fn cpu_is_the_mean_since_the_look_before_or_since_the_start() {
        let at = Instant::now();
        let (_, first) = found(at, 500, Some(1_000), 2_000).read(None);
        assert_eq!((first.cpu_m, first.used.memory_bytes), (500, 7));
        let (_, second) = found(at + Duration::from_secs(5), 9_500, Some(1_000), 7_000).read(Some(&first));
        assert_eq!(second.cpu_m, 1_800, "nine seconds in five");
        let (_, restarted) = found(at + Duration::from_secs(10), 100, Some(1_000), 9_000).read(Some(&second));
        assert_eq!(restarted.cpu_m, 0, "what went back is no use of anything");
        assert_eq!(found(at, 9, None, 9).read(None).1.cpu_m, 0);
        assert_eq!(found(at, 9, Some(9), 9).read(Some(&first)).1.cpu_m, 0, "no time has passed");
    }

    #[tokio::test]
    async fn only_what_is_held_is_reported() {
        let gauges = Gauges::default();
        let (id, sample) = found(Instant::now(), 500, Some(1_000), 2_000).read(None);
        gauges.0.lock().unwrap().attempts.insert(id, sample);
        let reported = gauges.attempts([id, TaskRef { attempt: 2, ..id }].into_iter());
        assert_eq!(reported, [AttemptUse::of(id, 500, 7)]);
        assert!(gauges.attempts(std::iter::empty()).is_empty() && gauges.gpu_percent().is_empty());
    }
}
