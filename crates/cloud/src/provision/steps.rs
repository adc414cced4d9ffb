//! The ten steps of a deployment as people see them. Owns names, usual times and limits, and
//! which state of the saga belongs to which step.

use std::time::Duration;

use orlop_core::machine::saga::SagaState;

use super::order::Pace;

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its number.
    pub number: usize,
    /// Its name.
    pub name: &'static str,
    /// How long it usually takes, if it is waited for.
    pub usual: Option<Duration>,
}

const fn step(number: usize, name: &'static str, usual_seconds: u64) -> Step {
    let usual = if usual_seconds == 0 { None } else { Some(Duration::from_secs(usual_seconds)) };
    Step { number, name, usual }
}

/// All steps, by their numbers.
pub const STEPS: [Step; 10] = [
    step(0, "Initialize", 0),
    step(1, "Analyze", 0),
    step(2, "Hardware and image", 0),
    step(3, "Key", 0),
    step(4, "Network", 0),
    step(5, "Lease", 120),
    step(6, "Server", 900),
    step(7, "Floating IP", 4),
    step(8, "Verify", 30),
    step(9, "Save", 0),
];

/// The step that a state belongs to; nothing where a deployment is being removed or nothing is done.
#[must_use]
pub const fn step_of(state: SagaState) -> Option<usize> {
    use SagaState as S;
    match state {
        S::KeyIntent => Some(3),
        S::KeyReady => Some(4),
        S::LeaseIntent | S::LeaseSettle | S::LeaseWait | S::CapacityWait | S::NextOffering => Some(5),
        S::ServerIntent | S::ServerSettle | S::ServerWait => Some(6),
        S::FipIntent | S::FipSettle => Some(7),
        S::Verifying => Some(8),
        S::Ready | S::Degraded => Some(9),
        S::Planned
        | S::RollingBack
        | S::Failed
        | S::Destroyed
        | S::Expired
        | S::Leftover
        | S::Unreachable
        | S::Mismatch
        | S::Kept => None,
    }
}

/// How long a step may take, where it is waited for.
#[must_use]
pub fn limit(number: usize, pace: &Pace) -> Option<Duration> {
    match number {
        5 => Some(pace.capacity.unwrap_or_default().max(pace.lease_timeout)),
        6 => Some(pace.server_timeout),
        7 => Some(Duration::from_secs(60)),
        8 => Some(Duration::from_secs(600)),
        _ => None,
    }
}

/// What is waited for, in words.
#[must_use]
pub const fn doing(state: SagaState) -> &'static str {
    use SagaState as S;
    match state {
        S::KeyIntent => "looking at the key",
        S::KeyReady => "checking network, quota, image and flavor",
        S::LeaseIntent => "asking for a lease",
        S::LeaseSettle => "checking whether the lease was made",
        S::LeaseWait => "ACTIVE",
        S::ServerIntent => "asking for a server",
        S::ServerSettle => "checking whether the server was made",
        S::ServerWait => "ACTIVE",
        S::FipIntent => "asking for a floating IP",
        S::FipSettle => "checking whether the floating IP was made",
        S::Verifying => "SSH",
        S::NextOffering => "undoing this attempt",
        S::CapacityWait => "a free host",
        S::RollingBack => "removing what was made",
        S::Planned
        | S::Ready
        | S::Degraded
        | S::Failed
        | S::Destroyed
        | S::Expired
        | S::Leftover
        | S::Unreachable
        | S::Mismatch
        | S::Kept => "",
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::machine::Named as _;

    use super::*;

    #[test]
    fn the_ten_steps_are_numbered_and_every_wait_has_its_limit() {
        for (at, step) in STEPS.iter().enumerate() {
            assert_eq!(step.number, at);
        }
        for state in SagaState::ALL.iter().copied() {
            if let Some(number) = step_of(state) {
                assert!((3..=9).contains(&number), "{state}");
            }
            let waits = matches!(state, SagaState::LeaseWait | SagaState::ServerWait | SagaState::Verifying);
            let bounded = step_of(state).and_then(|number| limit(number, &Pace::default()));
            assert!(!waits || bounded.is_some(), "{state}");
        }
    }
}
