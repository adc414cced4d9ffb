//! A controller over real requests, and the double with its own scheduler and kubelets.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::time::Time;
use orlop_k8s::api::{Client, Kind};
use orlop_k8s::hourglass::controller::Reconciler;
use orlop_k8s::hourglass::{Config, Controller};
use orlop_k8s::shell::{Clock, Key};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

pub(super) const GROUP: &str = "hourglass.eigenlayer.io";

struct ServerClock(ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

pub(super) struct TestEnv<R: Reconciler> {
    pub(super) server: ApiServer,
    controller: Controller<Client, R>,
    key: Key,
}

impl<R: Reconciler> TestEnv<R> {
    pub(super) fn new(server: ApiServer, name: &str, spec: Value) -> Self {
        server.record_all_managers();
        for (_, definition) in orlop_k8s::crd::all() {
            server.install(&definition).expect("the server takes the definition");
        }
        let api_version = format!("{GROUP}/v1alpha1");
        let object =
            json!({"apiVersion": api_version, "kind": R::KIND.name(), "metadata": {"name": name}, "spec": spec});
        server.create(GROUP, R::KIND.plural(), "default", &object).expect("the server takes the object");
        let clock = Arc::new(ServerClock(server.clone()));
        let config = Arc::new(Config::default());
        let controller = Controller::new(Client::new(server.client()), clock, config, Duration::from_secs(300));
        Self { server, controller, key: Key { namespace: "default".into(), name: name.into() } }
    }

    /// Something of the cluster is there.
    pub(super) fn add(&self, kind: Kind, object: &Value) {
        let _ = self.controller.object_applied(kind, object);
    }

    /// So many seconds, with passes and the cluster's own steps in between.
    pub(super) async fn wait(&self, seconds: u64) {
        for _ in 0..=seconds {
            loop {
                let before = self.server.revision();
                let _ = self.controller.reconcile(&self.key).await;
                self.server.jobs().settle();
                if self.server.revision() == before {
                    break;
                }
            }
            self.server.clock().advance(Duration::from_secs(1));
        }
    }

    pub(super) fn object(&self) -> Value {
        let resource = format!("{}.{GROUP}", R::KIND.plural());
        self.server.look(&resource, "default", &self.key.name).unwrap_or_default()
    }

    pub(super) async fn patch(&self, patch: Value) {
        let path = format!("/apis/{GROUP}/v1alpha1/namespaces/default/{}/{}", R::KIND.plural(), self.key.name);
        let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(patch.to_string().into_bytes()).expect("a request");
        self.server.client_named("user").request::<Value>(request).await.expect("the server takes the change");
    }

    pub(super) async fn delete(&self) {
        let path = format!("/apis/{GROUP}/v1alpha1/namespaces/default/{}/{}", R::KIND.plural(), self.key.name);
        let request = http::Request::delete(path).body(Vec::new()).expect("a request");
        self.server.client_named("user").request::<Value>(request).await.expect("the server takes the deletion");
    }
}
