//! The bound that is compared with: the same processes, started and waited for by a loop and nothing else.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Runs a program so many times, `slots` at once. Gives runs a second.
pub(crate) fn loop_rate(count: u32, slots: usize, program: &str, argument: Option<&str>) -> f64 {
    let left = AtomicU32::new(count);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..slots {
            scope.spawn(|| {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    let mut command = Command::new(program);
                    command.args(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                    assert!(command.status().expect("it starts").success());
                }
            });
        }
    });
    f64::from(count) / began.elapsed().as_secs_f64()
}
