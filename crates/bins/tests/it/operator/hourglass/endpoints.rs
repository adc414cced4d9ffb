//! Who stands behind a Service, looked at ten times a second as a client would: ready endpoints of its slices.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use super::super::cluster::{client, resource};

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    looks: AtomicUsize,
    gaps: AtomicUsize,
}

/// Looks until it is ended.
pub(super) struct Endpoints {
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoints {
    /// Begins once somebody serves.
    pub(super) fn watch(kubeconfig: &Path, namespace: &str, service: &str) -> Self {
        let seen = Arc::new(Seen::default());
        let reported = Arc::clone(&seen);
        let (kubeconfig, namespace) = (kubeconfig.to_owned(), namespace.to_owned());
        let label = format!("kubernetes.io/service-name={service}");
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = client(&kubeconfig).await;
                let kind = resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
                let slices: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &kind);
                let which = ListParams::default().labels(&label);
                while !reported.stop.load(Ordering::Relaxed) {
                    // What cannot be read now is no look.
                    if let Ok(list) = slices.list(&which).await {
                        let ready = list.items.iter().any(|slice| serves(&slice.data));
                        let began = reported.looks.load(Ordering::Relaxed) > 0;
                        if ready || began {
                            reported.looks.fetch_add(1, Ordering::Relaxed);
                            reported.gaps.fetch_add(usize::from(!ready), Ordering::Relaxed);
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        });
        let endpoints = Self { seen, thread: Some(thread) };
        super::super::cluster::until("an endpoint", || {
            (endpoints.seen.looks.load(Ordering::Relaxed) > 0).then_some(())
        });
        endpoints
    }

    /// How many looks there were, and how many found nobody.
    pub(super) fn end(self) -> (usize, usize) {
        (self.seen.looks.load(Ordering::Relaxed), self.seen.gaps.load(Ordering::Relaxed))
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.seen.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn serves(slice: &Value) -> bool {
    let all = slice["endpoints"].as_array();
    all.is_some_and(|all| all.iter().any(|endpoint| endpoint["conditions"]["ready"] == true))
}
