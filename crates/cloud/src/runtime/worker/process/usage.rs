//! What a process has used, as `/proc` tells. Owns reading it; never decides when.

use std::fs;

use crate::runtime::worker::InUse;
use orlop_core::task::Usage;

/// Milliseconds of a clock tick: the kernel tells 100 ticks a second to user space.
const TICK_MS: u64 = 10;
/// Where `utime` stands among the fields after the name.
const UTIME: usize = 11;

/// What a process and those of its children that it has waited for have used so far. Works on the dead until they are
/// reaped; then memory is no longer known.
pub(super) fn of(pid: i32) -> Usage {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    Usage {
        cpu_ms: cpu_ms(&stat),
        max_rss: field(&status, "VmHWM:").saturating_mul(1024),
        io_read: field(&io, "read_bytes:"),
        io_write: field(&io, "write_bytes:"),
    }
}

/// What a process, with the CPU time of those of its children that it has waited for, uses; nothing when it is gone.
pub(super) fn in_use(pid: i32) -> InUse {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    InUse { cpu_ms: cpu_ms(&stat), memory_bytes: field(&status, "VmRSS:").saturating_mul(1024) }
}

/// User, system, and those of reaped children.
fn cpu_ms(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let times = fields.split_ascii_whitespace().skip(UTIME).take(4);
    times.filter_map(|time| time.parse::<u64>().ok()).sum::<u64>().saturating_mul(TICK_MS)
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_from_the_fields_of_the_kernel() {
        let stat = "7 (a) b) Z 1 7 6 0 -1 4194560 1 0 0 0 10 20 3 4 20 0 1 0 4242 1 2 3";
        assert_eq!(cpu_ms(stat), 370);
        assert_eq!(field("Name: x\nVmHWM:\t  2048 kB\n", "VmHWM:"), 2048);
        assert_eq!(field("", "VmHWM:"), 0);
        let own = of(i32::try_from(std::process::id()).unwrap());
        assert!(own.max_rss > 1 << 20, "{own:?}");
        let now = in_use(i32::try_from(std::process::id()).unwrap());
        assert!(now.memory_bytes > 1 << 20 && now.memory_bytes <= own.max_rss.saturating_mul(2), "{now:?} {own:?}");
    }
}
