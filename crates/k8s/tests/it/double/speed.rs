//! How fast the double is through the real client, on one thread. The figure is printed; a build without optimisation has to
//! reach a small part of what an optimised one does.

use std::time::Instant;

use kube::api::{Patch, PatchParams, PostParams};
use orlop_k8s::testing::ApiServer;
use serde_json::json;

use super::{config_map, config_maps};

const OBJECTS: usize = 500;
const ROUNDS: usize = 4;

#[tokio::test]
async fn thousands_of_requests_take_a_second() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let begun = Instant::now();
    for index in 0..OBJECTS {
        maps.create(&PostParams::default(), &config_map(&format!("m{index}"), "1")).await.expect("created");
    }
    let created = begun.elapsed();
    let begun = Instant::now();
    for round in 0..ROUNDS {
        for index in 0..OBJECTS {
            let patch = Patch::Merge(json!({"data": {"key": round.to_string()}}));
            maps.patch(&format!("m{index}"), &PatchParams::default(), &patch).await.expect("patched");
        }
    }
    let patched = begun.elapsed();
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        for index in 0..OBJECTS {
            maps.get(&format!("m{index}")).await.expect("there");
        }
    }
    let read = begun.elapsed();
    let rate = |count: usize, time: std::time::Duration| count as f64 / time.as_secs_f64().max(1e-9);
    let (creates, patches, gets) =
        (rate(OBJECTS, created), rate(OBJECTS * ROUNDS, patched), rate(OBJECTS * ROUNDS, read));
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{profile}: {creates:.0} creates, {patches:.0} patches, {gets:.0} gets a second");
    assert!(
        creates.min(patches).min(gets) > 200.0,
        "{creates:.0} creates, {patches:.0} patches, {gets:.0} gets a second"
    );
}
