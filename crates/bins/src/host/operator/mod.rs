//! The operator: controllers of Kubernetes objects in one process, of which one of several leads. Owns the process as a
//! whole; what happens in it is in its parts:
//!
//! | part | owns |
//! |---|---|
//! | `controller`, `flows`, `hourglass` | what a controller is to the operator; those of flows, performers and executors |
//! | `health` | whether it works, and why not |
//! | `observe` | what controllers tell, as metrics and health |
//! | `asked` | what is asked of the API server, measured |
//! | `serve` | probes and metrics over HTTP |
//! | `artifacts` | small artifacts that pods hand in, over HTTP |
//! | `webhook` | what the API server asks before it stores an object, over HTTPS |
//! | `program` | flags, log, credentials, signals |
//!
//! Nothing here decides about an object, and nothing is written that the term of the leader does not cover.

mod artifacts;
mod controller;
mod flows;
mod health;
mod hourglass;
mod measured_client;
mod observe;
#[cfg(feature = "cli")]
pub mod program;
mod serve;
mod server_time;
mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use orlop_core::error::{Class, Problem};
use orlop_core::rate::Rate;
use orlop_k8s::api::Client;
use orlop_k8s::executor::Executors;
use orlop_k8s::performer::Performers;
use orlop_k8s::shell::Clock;
use orlop_k8s::shell::lease::{self, Ended, Fenced, Term, lead};
use orlop_k8s::shell::limits::{self, Limited};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use self::controller::Which;
pub use self::health::OperatorHealth;
use self::hourglass::Hourglass;
use self::observe::Monitors;
use self::server_time::ServerTime;
pub use self::webhook::{Admitting, Files, WebhookPlan};
use crate::telemetry::metrics::{OperatorMetrics, Telling};

/// What an operator does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Its controllers.
    pub controllers: Vec<Which>,
    /// The namespaces it works in; all of them where none is given.
    pub namespaces: Vec<String>,
    /// The leases it must hold to work; without them it works at once.
    pub election: Option<lease::Options>,
    /// Passes of a controller at once.
    pub passes: usize,
    /// How often all that exists is listed again.
    pub resync: Duration,
    /// Requests it may make.
    pub rate: Rate,
    /// How flows are driven.
    pub flows: orlop_k8s::flow::Options,
    /// How the API server is answered about objects; it is not, where there is none.
    pub webhook: Option<WebhookPlan>,
    /// What else metrics of flows count.
    pub telling: Telling,
    /// What performers and executors are rendered with.
    pub hourglass: Arc<orlop_k8s::hourglass::Config>,
}

impl Default for Plan {
    /// Everything, everywhere, without an election.
    fn default() -> Self {
        Self {
            controllers: Which::ALL.to_vec(),
            namespaces: Vec::new(),
            election: None,
            passes: 8,
            resync: Duration::from_secs(300),
            rate: limits::DEFAULT,
            flows: orlop_k8s::flow::Options::default(),
            webhook: None,
            telling: Telling::default(),
            hourglass: Arc::default(),
        }
    }
}

/// Until when an operator works. Clones are the same moment.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A moment that comes when `true` is sent, or the sender is dropped.
    #[must_use]
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (tell, reported) = watch::channel(false);
        (tell, Self(reported))
    }

    /// Waits for it.
    pub async fn come(&self) {
        let mut reported = self.0.clone();
        // A sender that is gone cannot say more.
        drop(reported.wait_for(|come| *come).await);
    }
}

/// An operator, ready to work.
pub struct Operator {
    plan: Plan,
    client: kube::Client,
    clock: ServerTime,
    metrics: Arc<OperatorMetrics>,
    health: OperatorHealth,
    term: Term,
    /// What stands of its objects.
    monitors: Arc<Monitors>,
    /// The pace that its controllers share.
    pace: Limited<()>,
}

impl Operator {
    /// An operator over a client, with its rights.
    #[must_use]
    pub fn new(plan: Plan, client: kube::Client, clock: Arc<dyn Clock>) -> Self {
        let metrics = Arc::new(OperatorMetrics::telling(plan.telling));
        let term = Term::default();
        let health = OperatorHealth::new(&plan.controllers, term.clone(), plan.election.is_some());
        if plan.webhook.as_ref().is_some_and(|webhook| webhook.files.is_some()) {
            health.webhook(Err("it has no certificate yet".to_owned()));
        }
        let monitors = Arc::new(Monitors::new(&metrics, &health));
        let (pace, clock) = (Limited::new((), plan.rate), ServerTime::new(clock));
        Self { plan, client, clock, metrics, health, term, monitors, pace }
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Arc<OperatorMetrics> {
        &self.metrics
    }

    /// Whether it works.
    #[must_use]
    pub fn health(&self) -> &OperatorHealth {
        &self.health
    }

    /// Serves probes and metrics, and probes alone, on these listeners for as long as the process lives. Gives where.
    ///
    /// # Errors
    /// A listener that has no address.
    pub fn serve(&self, all: Option<TcpListener>, probes: Option<TcpListener>) -> std::io::Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for (listener, metrics) in [(all, true), (probes, false)] {
            let Some(listener) = listener else { continue };
            addresses.push(listener.local_addr()?);
            let router = serve::router(&self.metrics, &self.health, metrics.then(|| Arc::clone(&self.monitors)));
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        Ok(addresses)
    }

    /// Stands for election and works until `stop` comes; then passes under way are finished and the leases given back.
    ///
    /// # Errors
    /// It led and does not any more: the process must end.
    pub async fn run(&self, stop: &Stop) -> Result<(), Problem> {
        let works = async {
            let controllers: Vec<_> = self.plan.controllers.iter().map(|which| self.controller(*which)).collect();
            tracing::info!(controllers = %names(&self.plan.controllers), "leads");
            join_all(controllers.iter().map(|controller| controller.run(stop))).await;
        };
        let options = self
            .plan
            .election
            .clone()
            .unwrap_or_else(|| lease::Options { leases: Vec::new(), ..lease::Options::operator("", "", false) });
        // Leases are asked for without a pace: a renewal must not wait behind work.
        let client = self.asks(None);
        let api = measured_client::Elections::new(Client::new(client.clone()), options.namespace.clone());
        let leading = lead(&api, self.clock.own(), options, &self.term, stop.come(), works);
        let ended = tokio::select! {
            ended = leading => ended,
            () = self.health.keep_asking(&client) => Ended::Stopped,
        };
        match ended {
            Ended::Done(()) | Ended::Stopped => Ok(()),
            Ended::Lost(why) => {
                let message = format!(
                    "this process no longer leads: {why}; it exits so that its replacement can run for election"
                );
                Err(Problem::new(Class::Conflict, message))
            }
        }
    }

    /// A client whose requests are counted, as those of a controller where one is named.
    fn asks(&self, which: Option<Which>) -> kube::Client {
        measured_client::measured(
            self.client.clone(),
            which,
            Arc::clone(&self.metrics),
            self.health.clone(),
            self.clock.clone(),
        )
    }

    /// What a controller asks through: paced with the others, and only while this process leads.
    fn controller_api(&self, client: &kube::Client) -> Fenced<Limited<Client>> {
        Fenced::new(self.pace.over(Client::new(client.clone())), self.term.clone())
    }

    /// What a controller does beside its passes through: at its own pace, so that it holds nothing up.
    fn background_api(&self, client: &kube::Client) -> Fenced<Limited<Client>> {
        Fenced::new(Limited::new(Client::new(client.clone()), BACKGROUND), self.term.clone())
    }

    fn controller(&self, which: Which) -> Box<dyn controller::Controls> {
        match which {
            Which::JobFlow => Box::new(flows::Flows::new(self)),
            Which::Performer => Box::new(Hourglass::<Performers>::new(self, which, &self.monitors.performers)),
            Which::Executor => Box::new(Hourglass::<Executors>::new(self, which, &self.monitors.executors)),
        }
    }
}

/// The pace of what is done beside passes: events, and what keeps pods from running.
const BACKGROUND: Rate = Rate { per_second: 10, burst: 100 };

/// Names of controllers, for people.
fn names(controllers: &[Which]) -> String {
    controllers.iter().map(|which| which.name()).collect::<Vec<_>>().join(", ")
}
