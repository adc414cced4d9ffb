//! A client to a real API server that dies at a write as planned, and a clock that stands still unless it is set. Shared by the
//! crash tests of all controllers.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use orlop_core::time::Time;
use orlop_k8s::api::{Api, ApiError, Client, Kind, Request};
use orlop_k8s::shell::Clock;
use serde_json::Value;

/// A clock that is set by hand.
pub(crate) struct Watch(Mutex<Time>);

impl Watch {
    /// What time it is now.
    pub(crate) fn at_present() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_millis();
        Self(Mutex::new(Time::from_millis(i64::try_from(now).expect("it is not that late"))))
    }

    pub(crate) fn set(&self, time: Time) {
        *self.0.lock().expect("nobody panics with it") = time;
    }
}

impl Clock for Watch {
    fn now(&self) -> Time {
        *self.0.lock().expect("nobody panics with it")
    }
}

/// What goes wrong at a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    DieBefore,
    DieAfter,
    LoseAnswer,
}

#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) at: Option<(usize, What)>,
    pub(crate) writes: usize,
    pub(crate) dead: bool,
    pub(crate) created: Vec<String>,
    /// All writes that were sent.
    pub(crate) sent: Vec<String>,
}

/// A client that fails as planned.
#[derive(Clone)]
pub(crate) struct Failing {
    pub(crate) client: Client,
    plan: Arc<Mutex<Plan>>,
}

impl Failing {
    pub(crate) fn new(kube: &kube::Client, plan: Plan) -> Self {
        Self { client: Client::new(kube.clone()), plan: Arc::new(Mutex::new(plan)) }
    }

    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("nobody panics with it")
    }

    /// What happens to a write that is about to be sent.
    fn fate(&self) -> Result<Option<What>, ApiError> {
        let mut plan = self.plan();
        let what = plan.at.filter(|(at, _)| *at == plan.writes).map(|(_, what)| what);
        plan.writes += 1;
        if what == Some(What::DieBefore) {
            plan.dead = true;
            return Err(ApiError::no_answer("died before"));
        }
        Ok(what)
    }
}

#[async_trait]
impl Api for Failing {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        if self.plan().dead {
            return Err(ApiError::no_answer("dead"));
        }
        if !request.verb.writes() {
            return self.client.send(request).await;
        }
        let what = self.fate()?;
        let answer = self.client.send(request).await;
        let mut plan = self.plan();
        plan.sent.push(format!("{} {} {}", request.verb.name(), request.kind.plural(), request.name));
        if request.verb.name() == "create" && request.kind != Kind::Event && answer.is_ok() {
            plan.created.push(format!("{} {}", request.kind.plural(), request.name));
        }
        match what {
            Some(What::DieAfter) => {
                plan.dead = true;
                Err(ApiError::no_answer("died after"))
            }
            Some(What::LoseAnswer) => Err(ApiError::no_answer("lost")),
            _ => answer,
        }
    }
}
