//! What a server looks after on its machine while it runs: room on its disks, and its clocks.

use std::time::Duration;

use orlop_core::time::Time;

use super::{Handle, Stop};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// The clock on the wall may run so far from the one that never jumps between two looks.
const STEP: Duration = Duration::from_secs(2);

/// How far the clock on the wall jumped between two looks, if it did; each is its monotonic time in milliseconds and the
/// wall's.
fn jump(before: (u64, Time), now: (u64, Time)) -> Option<f64> {
    let passed = i128::from(now.0) - i128::from(before.0);
    let walked = i128::from(now.1.millis()) - i128::from(before.1.millis());
    let apart = walked - passed;
    (apart.unsigned_abs() > STEP.as_millis()).then(|| apart as f64 / 1000.0)
}

/// Looks after the machine until asked to stop.
pub async fn look_after(handle: Handle, stop: Stop) {
    let read = || (handle.clock().monotonic(), handle.clock().wall());
    let mut before = read();
    loop {
        let looking = handle.clone();
        if tokio::task::spawn_blocking(move || looking.shared.disk_guard.look()).await.is_err() {
            tracing::error!(target: "orlop::scheduler", "the disk check panicked; restarting it");
        }
        let now = read();
        if let Some(seconds) = jump(before, now) {
            tracing::warn!(
                target: "orlop::scheduler",
                seconds,
                "the clock of this host jumped: no time-out depends on it, but certificates and the ages of tokens and records do"
            );
        }
        before = now;
        tokio::select! {
            () = stop.stopped() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_clock_is_distinguished_from_time_that_passes() {
        let at = Time::from_millis;
        assert_eq!(jump((0, at(0)), (5000, at(5900))), None);
        assert_eq!(jump((0, at(0)), (5000, at(3_605_000))), Some(3600.0));
        assert_eq!(jump((0, at(9_000_000)), (1000, at(0))), Some(-9001.0));
    }
}
