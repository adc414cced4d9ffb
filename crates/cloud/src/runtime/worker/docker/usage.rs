//! What a container has used, as its engine tells. Owns that translation; never asks.

use bollard::models::ContainerStatsResponse;

use crate::runtime::worker::event::Usage;

/// Nanoseconds in a millisecond.
const MILLI: u64 = 1_000_000;

/// Usage so far.
pub(super) fn of(stats: &ContainerStatsResponse) -> Usage {
    let cpu = stats.cpu_stats.as_ref().and_then(|cpu| cpu.cpu_usage.as_ref()?.total_usage).unwrap_or(0);
    let memory = stats.memory_stats.as_ref();
    let memory = memory.and_then(|memory| memory.max_usage.or(memory.usage)).unwrap_or(0);
    let entries = stats.blkio_stats.iter().flat_map(|io| io.io_service_bytes_recursive.iter().flatten());
    let io = |op: &str| {
        let of_op =
            entries.clone().filter(|entry| entry.op.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(op)));
        of_op.filter_map(|entry| entry.value).sum()
    };
    Usage { cpu_ms: cpu / MILLI, max_rss: memory, io_read: io("read"), io_write: io("write") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s6_usage_is_read_with_and_without_a_highest_amount() {
        let stats = json!({
            "cpu_stats": {"cpu_usage": {"total_usage": 1_500_000_000_u64}},
            "memory_stats": {"usage": 5, "max_usage": 9},
            "blkio_stats": {"io_service_bytes_recursive": [
                {"major": 8, "minor": 0, "op": "Read", "value": 3}, {"major": 8, "minor": 1, "op": "read", "value": 4},
                {"major": 8, "minor": 0, "op": "Write", "value": 5}, {"major": 8, "minor": 0, "op": "Sync", "value": 9}
            ]}
        });
        let found = of(&serde_json::from_value(stats).unwrap());
        assert_eq!(found, Usage { cpu_ms: 1500, max_rss: 9, io_read: 7, io_write: 5 });
        let bare = json!({"memory_stats": {"usage": 5}});
        assert_eq!(of(&serde_json::from_value(bare).unwrap()), Usage { max_rss: 5, ..Usage::default() });
    }
}
