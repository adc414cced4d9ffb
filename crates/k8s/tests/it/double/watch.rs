//! Following changes.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use kube::api::{DynamicObject, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher;
use orlop_k8s::testing::ApiServer;
use serde_json::json;

use super::{config_map, config_maps};

fn short(event: &WatchEvent<DynamicObject>) -> String {
    let of =
        |word: &str, object: &DynamicObject| format!("{word} {}", object.metadata.name.as_deref().unwrap_or_default());
    match event {
        WatchEvent::Added(object) => of("added", object),
        WatchEvent::Modified(object) => of("modified", object),
        WatchEvent::Deleted(object) => of("deleted", object),
        WatchEvent::Bookmark(bookmark) => format!("bookmark {}", bookmark.metadata.annotations.len()),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

#[tokio::test]
async fn changes_are_reported_in_order_and_labels_bring_into_sight() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let params = WatchParams::default().labels("seen=yes").timeout(10);
    let stream = maps.watch(&params, &server.revision().to_string()).await.expect("a stream");
    let mut map = config_map("a", "1");
    maps.create(&PostParams::default(), &map).await.expect("created");
    map.metadata.labels = Some([("seen".to_owned(), "yes".to_owned())].into());
    maps.replace("a", &PostParams::default(), &map).await.expect("replaced");
    map.data["data"] = json!({"key": "2"});
    maps.replace("a", &PostParams::default(), &map).await.expect("replaced");
    map.metadata.labels = None;
    maps.replace("a", &PostParams::default(), &map).await.expect("replaced");
    maps.delete("a", &kube::api::DeleteParams::default()).await.expect("deleted");
    server.clock().advance(Duration::from_secs(10));
    let reported: Vec<String> = stream.map_ok(|event| short(&event)).try_collect().await.expect("events");
    assert_eq!(reported, ["added a", "modified a", "deleted a", "bookmark 0"]);
}

#[tokio::test]
async fn a_forgotten_version_is_gone() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let old = server.revision();
    maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    server.compact();
    let stream = maps.watch(&WatchParams::default(), &old.to_string()).await.expect("a stream");
    let reported: Vec<String> = stream.map_ok(|event| short(&event)).try_collect().await.expect("events");
    assert_eq!(reported, ["error 410"]);
}

#[tokio::test]
async fn streams_can_be_held_cut_and_reported_twice() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let streams = server.streams("configmaps");
    let mut events = maps.watch(&WatchParams::default(), "0").await.expect("a stream").boxed();
    streams.hold();
    maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    let nothing = tokio::time::timeout(Duration::from_millis(20), events.next()).await;
    assert!(nothing.is_err(), "it is held back");
    streams.duplicate();
    streams.release();
    for _ in 0..2 {
        assert_eq!(short(&events.next().await.expect("an event").expect("no error")), "added a");
    }
    streams.cut();
    assert!(events.next().await.is_none(), "the stream ended");
}

#[tokio::test]
async fn the_watcher_of_the_client_library_lives_through_gone_and_cut_streams() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let server = ApiServer::new();
        let maps = config_maps(server.client());
        maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
        let mut events = watcher(maps.clone(), config).boxed();
        until(&mut events, "a").await;
        server.streams("configmaps").cut();
        maps.create(&PostParams::default(), &config_map("b", "1")).await.expect("created");
        until(&mut events, "b").await;
        server.streams("configmaps").cut();
        maps.create(&PostParams::default(), &config_map("c", "1")).await.expect("created");
        server.compact();
        until(&mut events, "c").await;
    }
}

/// Waits until an object has been seen; errors on the way are the watcher's to mend.
async fn until(events: &mut BoxStream<'_, Result<watcher::Event<DynamicObject>, watcher::Error>>, name: &str) {
    loop {
        match events.next().await.expect("it never ends") {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object))
                if object.metadata.name.as_deref() == Some(name) =>
            {
                return;
            }
            Ok(_) | Err(_) => {}
        }
    }
}
