//! What containers use and have used, as their engine tells. Owns that translation, and asking for many at once.

use std::time::Duration;

use bollard::models::ContainerStatsResponse;
use futures::StreamExt as _;
use orlop_core::error::Problem;
use orlop_core::task::{TaskRef, Usage};
use tokio::time::timeout;

use super::hub::Hub;
use super::request;
use crate::runtime::worker::InUse;

/// How long an engine may take for a signal or a measurement.
pub(super) const BRIEF: Duration = Duration::from_secs(10);

/// Questions to the engine at once.
const TOGETHER: usize = 8;

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

/// What the containers of these attempts use; those that do not run, and those of which the engine does not tell in time,
/// are left out.
pub(super) async fn look(hub: &Hub, ids: &[TaskRef]) -> Result<Vec<(TaskRef, InUse)>, Problem> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let engine = hub.engine().await?;
    let asked = ids.iter().copied().map(|id| {
        let (engine, name) = (engine.clone(), request::name(&hub.options, &id));
        async move { (id, timeout(BRIEF, engine.stats(&name)).await) }
    });
    let answers: Vec<_> = futures::stream::iter(asked).buffer_unordered(TOGETHER).collect().await;
    Ok(answers.into_iter().filter_map(|(id, stats)| Some((id, in_use(&stats.ok()?.ok()??)))).collect())
}

/// CPU time so far, and memory without what the kernel would give back at once.
fn in_use(stats: &ContainerStatsResponse) -> InUse {
    let memory = stats.memory_stats.as_ref();
    let held = memory.and_then(|memory| memory.usage).unwrap_or(0);
    // Version 2 of control groups has the first name, version 1 the second.
    let cached = memory.and_then(|memory| {
        let counters = memory.stats.as_ref()?;
        counters.get("inactive_file").or_else(|| counters.get("total_inactive_file")).copied()
    });
    InUse { cpu_ms: of(stats).cpu_ms, memory_bytes: held.saturating_sub(cached.unwrap_or(0)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stats_with(cached: &[&str]) -> serde_json::Value {
        let counters: serde_json::Map<String, serde_json::Value> =
            cached.iter().map(|name| ((*name).to_owned(), json!(40))).collect();
        json!({
            "cpu_stats": {"cpu_usage": {"total_usage": 3_000_000_u64}},
            "memory_stats": {"usage": 100, "stats": counters}
        })
    }

    #[test]
    fn usage_is_read_with_and_without_a_highest_amount() {
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
        assert_eq!(in_use(&serde_json::from_value(stats_with(&[])).unwrap()), InUse { cpu_ms: 3, memory_bytes: 100 });
        for name in ["inactive_file", "total_inactive_file"] {
            let found = in_use(&serde_json::from_value(stats_with(&[name])).unwrap());
            assert_eq!(found, InUse { cpu_ms: 3, memory_bytes: 60 }, "{name}");
        }
        let bare = json!({"memory_stats": {"usage": 5}});
        assert_eq!(of(&serde_json::from_value(bare).unwrap()), Usage { max_rss: 5, ..Usage::default() });
    }
}
