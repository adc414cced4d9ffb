//! How fast the double is through the real client, on one thread. The figure is printed; a build without optimisation has to
//! reach a small part of what an optimised one does.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use orlop_k8s::testing::ApiServer;
use serde_json::json;

use super::{config_map, config_maps};

const OBJECTS: usize = 500;
const ROUNDS: usize = 4;

/// How long this thread has worked: the only one here, so that other processes do not count.
fn worked() -> Duration {
    let reported =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts the time of threads");
    Duration::from_nanos(reported.split_whitespace().next().and_then(|first| first.parse().ok()).expect("nanoseconds"))
}

#[tokio::test]
async fn thousands_of_requests_take_a_second() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let begun = worked();
    for index in 0..OBJECTS {
        maps.create(&PostParams::default(), &config_map(&format!("m{index}"), "1")).await.expect("created");
    }
    let created = worked().saturating_sub(begun);
    let begun = worked();
    for round in 0..ROUNDS {
        for index in 0..OBJECTS {
            let patch = Patch::Merge(json!({"data": {"key": round.to_string()}}));
            maps.patch(&format!("m{index}"), &PatchParams::default(), &patch).await.expect("patched");
        }
    }
    let patched = worked().saturating_sub(begun);
    let begun = worked();
    for _ in 0..ROUNDS {
        for index in 0..OBJECTS {
            maps.get(&format!("m{index}")).await.expect("there");
        }
    }
    let read = worked().saturating_sub(begun);
    let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64().max(1e-9);
    let (creates, patches, gets) =
        (rate(OBJECTS, created), rate(OBJECTS * ROUNDS, patched), rate(OBJECTS * ROUNDS, read));
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{profile}: {creates:.0} creates, {patches:.0} patches, {gets:.0} gets a second");
    assert!(
        creates.min(patches).min(gets) > 200.0,
        "{creates:.0} creates, {patches:.0} patches, {gets:.0} gets a second"
    );
}
