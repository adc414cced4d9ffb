//! One flow as it changes. Owns the stream of its objects, which lists again and backs off by itself; reads none of them.

use futures::stream::{Stream, StreamExt as _};
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use orlop_core::error::chain;
use serde_json::Value;

use crate::object::JobFlowObject;
use crate::shell::watch::code;

/// What a watch of a flow tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is there, as it is now.
    Seen(Box<Value>),
    /// It is not there, or not any more.
    Gone,
    /// The server refused or did not answer; the watch tries again.
    Away {
        /// HTTP status, where there was an answer.
        code: Option<u16>,
        /// A sentence.
        message: String,
    },
}

/// Every change of a flow from now on, beginning with what it is now.
pub fn changes(client: kube::Client, namespace: &str, name: &str) -> impl Stream<Item = Change> + Send + use<> {
    let api: Api<JobFlowObject> = Api::namespaced(client, namespace);
    let events = watcher(api, watcher::Config::default().fields(&format!("metadata.name={name}"))).default_backoff();
    // Whether the list that is being told has shown it.
    let mut listed = false;
    events.filter_map(move |event| {
        let change = match event {
            Ok(watcher::Event::Init) => {
                listed = false;
                None
            }
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                listed = true;
                Some(Change::Seen(Box::new(object.to_value())))
            }
            Ok(watcher::Event::InitDone) => (!listed).then_some(Change::Gone),
            Ok(watcher::Event::Delete(_)) => Some(Change::Gone),
            Err(error) => Some(Change::Away { code: code(&error), message: chain(&error) }),
        };
        std::future::ready(change)
    })
}
