//! The configuration of a scheduler: policies, limits and time limits, with their defaults. Owns the values only.

use serde::{Deserialize, Serialize};

/// Which worker a job gets among those that fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The worker that is left with least, without using up one resource and leaving another: the least sum of the norm of the free
    /// amounts after placing and the difference between the greatest and the least of them.
    #[default]
    BestFit,
    /// The worker with the least sum of free amounts after placing.
    MostAllocated,
    /// The first worker with room, in the order of the scheduler's table.
    FirstFit,
    /// The emptiest worker: the one whose scarcest resource has most left after placing.
    Spread,
    /// As best fit, but of a tenant's first jobs the one whose demand matches best what the worker with new room has free (greatest dot
    /// product).
    DotProduct,
    /// The worker with the best weighted score: 40 % use of CPU and memory (best at 60 to 85 %), 30 % free slots, 20 % health, 10 %
    /// preferences of the job.
    Balanced,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 6] =
        [Self::BestFit, Self::MostAllocated, Self::FirstFit, Self::Spread, Self::DotProduct, Self::Balanced];

    /// Whether a run fills the chosen worker before it chooses the next.
    pub(crate) const fn fills(self) -> bool {
        !matches!(self, Self::Spread | Self::Balanced)
    }
}

/// Everything that can be configured. Durations are in milliseconds.
///
/// ```
/// use orlop_scheduler::prelude::*;
///
/// let mut config = Config::default();
/// config.policy = Policy::Spread;
/// config.reserve_after = 5000;
/// assert_eq!(config.check(), Ok(()));
/// config.run_max = 0;
/// assert_eq!(config.check().unwrap_err().to_string(), "configuration: `run_max` must be 1 to 1024");
/// # let _ = Scheduler::new(Config::default(), 7)?;
/// # Ok::<(), EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Config {
    /// How workers are chosen, unless by a [rule of the user's own](crate::engine::PlacementPolicy).
    #[serde(deserialize_with = "orlop_core::named::in_any_case")]
    pub policy: Policy,
    /// The most jobs of a class that are placed by one ranking of the workers, 1 to 1024.
    pub run_max: u32,
    /// Guaranteed shares of placements of the priority bands High, Normal and Low, each 0 to 1, together at most 1.
    pub band_share: [f64; 3],
    /// How long a worker may take to accept an attempt.
    pub accept_timeout: u64,
    /// Time without a heartbeat after which a worker is unhealthy.
    pub heartbeat_timeout: u64,
    /// Time without a heartbeat after which the attempts of a worker count as lost.
    pub reassign_after: u64,
    /// How long workers let attempts run while the server does not answer their heartbeats.
    pub lease: u64,
    /// Time without a heartbeat after which a worker has failed.
    pub fail_after: u64,
    /// How long a declared worker may take to register.
    pub create_timeout: u64,
    /// How long a registered worker may take to open its stream.
    pub register_timeout: u64,
    /// How often a job is tried again after it was lost with its worker.
    pub max_infra: u32,
    /// How many losses within 10 minutes end an unhealthy worker.
    pub max_failures: u32,
    /// How many failed starts of different tasks within 60 s without a success make a worker unhealthy.
    pub start_failures: u32,
    /// How long a worker with failures gets no jobs the first time; each further time is twice as long.
    pub probation_min: u64,
    /// The longest time for which a worker with failures gets no jobs.
    pub probation_max: u64,
    /// How long the first job of a queue that fits no worker waits before a worker is reserved for it.
    pub reserve_after: u64,
    /// The most reservations at once.
    pub max_reservations: u32,
    /// Whether the first job of a queue that fits no worker may end preemptible attempts of jobs whose priority number is greater by at
    /// least 4.
    pub preemption: bool,
    /// The most jobs, elements and gangs that are preempted in any minute; a gang counts as one.
    pub preempt_per_minute: u32,
    /// The most attempts of one tenant and class that are sent to a worker ahead, to start there when others end; 0: none.
    pub prefill_max: u32,
    /// How many finished jobs are remembered, so that late messages about them get the right answer.
    pub finished_kept: u32,
    /// How many workers that left are remembered.
    pub workers_kept: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            run_max: 32,
            band_share: [1.0 / 3.0; 3],
            accept_timeout: 10_000,
            heartbeat_timeout: 15_000,
            reassign_after: 30_000,
            lease: 20_000,
            fail_after: 300_000,
            create_timeout: 600_000,
            register_timeout: 30_000,
            max_infra: 5,
            max_failures: 5,
            start_failures: 10,
            probation_min: 30_000,
            probation_max: 600_000,
            reserve_after: 10_000,
            max_reservations: 16,
            preemption: false,
            preempt_per_minute: 60,
            prefill_max: 1024,
            finished_kept: 65_536,
            workers_kept: 1024,
        }
    }
}

/// A value of the configuration that is out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("configuration: `{key}` must be {allowed}")]
pub struct ConfigError {
    /// The key.
    pub key: &'static str,
    /// What it may be.
    pub allowed: &'static str,
}

/// How long a worker may take to end an attempt whose lease is over, in milliseconds.
const KILL: u64 = 5000;

impl Config {
    /// The defaults without time limits on workers and their answers, for a program that runs the jobs itself and knows when a
    /// worker is gone: workers need no heartbeats, and attempts need not be accepted. A job with [`Overlap::Forbid`]
    /// whose worker has left waits until the scheduler is told how its attempt ended.
    ///
    /// [`Overlap::Forbid`]: orlop_core::spec::job::Overlap::Forbid
    #[must_use]
    pub fn without_timeouts() -> Self {
        Self {
            accept_timeout: u64::MAX,
            heartbeat_timeout: u64::MAX,
            reassign_after: u64::MAX,
            fail_after: u64::MAX,
            create_timeout: u64::MAX,
            register_timeout: u64::MAX,
            ..Self::default()
        }
    }

    /// Checks all bounds.
    ///
    /// # Errors
    /// The first key that is out of its bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        let shares = self.band_share.iter().all(|share| (0.0..=1.0).contains(share));
        let rules = [
            (shares && self.band_share.iter().sum::<f64>() <= 1.0 + 1e-9, "band_share", "0 to 1 each and together"),
            ((1..=1024).contains(&self.run_max), "run_max", "1 to 1024"),
            (self.prefill_max <= 65_536, "prefill_max", "at most 65536"),
            (self.heartbeat_timeout > 0, "heartbeat_timeout", "above 0"),
            (self.reassign_after >= self.heartbeat_timeout, "reassign_after", "at least heartbeat_timeout"),
            (
                self.reassign_after.saturating_mul(10) >= self.lease.saturating_add(KILL).saturating_mul(11),
                "reassign_after",
                "at least 1.1 times lease and 5 s together",
            ),
            (self.fail_after >= self.reassign_after, "fail_after", "at least reassign_after"),
            (
                self.probation_min > 0 && self.probation_max >= self.probation_min,
                "probation_max",
                "at least probation_min, above 0",
            ),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, key, allowed)) => Err(ConfigError { key, allowed }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_contract_and_hold_their_own_rules() {
        let config = Config::default();
        assert_eq!(config.check(), Ok(()));
        assert_eq!((config.run_max, config.accept_timeout, config.fail_after), (32, 10_000, 300_000));
        let wrong = Config { band_share: [0.5, 0.5, 0.5], ..config.clone() };
        insta::assert_snapshot!(wrong.check().unwrap_err(), @"configuration: `band_share` must be 0 to 1 each and together");
        let wrong = Config { band_share: [f64::NAN, 0.0, 0.0], ..config.clone() };
        assert_eq!(wrong.check().unwrap_err().key, "band_share");
        let wrong = Config { reassign_after: 27_499, ..config.clone() };
        insta::assert_snapshot!(wrong.check().unwrap_err(), @"configuration: `reassign_after` must be at least 1.1 times lease and 5 s together");
        assert_eq!(Config { reassign_after: 27_500, ..config.clone() }.check(), Ok(()));
        assert_eq!(config.prefill_max, 1024);
        assert_eq!(Config { prefill_max: 65_537, ..config.clone() }.check().unwrap_err().key, "prefill_max");
        assert_eq!(Config { fail_after: 1, ..config }.check().unwrap_err().key, "fail_after");
    }

    type Change = fn(&mut Config);

    #[test]
    fn each_bound_of_the_configuration_holds_and_its_key_is_named() {
        let with = |change: Change| {
            let mut config = Config::default();
            change(&mut config);
            config.check().map_err(|error| error.key)
        };
        let good: [Change; 8] = [
            |config| config.band_share = [1.0, 0.0, 0.0],
            |config| config.run_max = 1,
            |config| config.run_max = 1024,
            |config| config.prefill_max = 65_536,
            |config| config.heartbeat_timeout = 1,
            |config| config.heartbeat_timeout = config.reassign_after,
            |config| config.fail_after = config.reassign_after,
            |config| (config.probation_min, config.probation_max) = (1, 1),
        ];
        for change in good {
            assert_eq!(with(change), Ok(()));
        }
        let wrong: [(Change, &str); 11] = [
            (|config| config.band_share = [1.1, 0.0, 0.0], "band_share"),
            (|config| config.band_share = [-0.1, 0.0, 0.0], "band_share"),
            (|config| config.band_share = [0.6, 0.6, 0.0], "band_share"),
            (|config| config.run_max = 0, "run_max"),
            (|config| config.run_max = 1025, "run_max"),
            (|config| config.prefill_max = 65_537, "prefill_max"),
            (|config| config.heartbeat_timeout = 0, "heartbeat_timeout"),
            (|config| config.heartbeat_timeout = config.reassign_after + 1, "reassign_after"),
            (|config| config.fail_after = config.reassign_after - 1, "fail_after"),
            (|config| config.probation_min = 0, "probation_max"),
            (|config| config.probation_max = config.probation_min - 1, "probation_max"),
        ];
        for (number, (change, key)) in wrong.into_iter().enumerate() {
            assert_eq!(with(change), Err(key), "the one of place {number}");
        }
    }
}
