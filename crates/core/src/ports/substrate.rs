//! Running attempts. Owns the contract between the host of a flow and a substrate: the host decides, the substrate starts attempts,
//! observes them and ends them.

use std::time::Duration;

use async_trait::async_trait;

use crate::attempt::{AttemptEnd, AttemptKey, AttemptSpec};
use crate::error::Problem;
use crate::spec::flow::ResourceTemplates;
use crate::spec::meta::ObjectReference;
use crate::spec::status::WaitsOn;
use crate::time::Time;

/// A place where attempts run: local processes, Docker, a fleet, Kubernetes.
///
/// Every call is idempotent under its key. A host may crash at any moment and call again with the same key: the
/// substrate then adopts what exists. `orlop_core::testing::substrate_suite` (feature `testing`) checks one of your own.
///
/// A substrate whose attempts end at once, and that forgets none of them:
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
/// use std::time::Duration;
///
/// use async_trait::async_trait;
/// use orlop_core::ports::substrate::FlowOwner;
/// use orlop_core::prelude::*;
/// use orlop_core::spec::flow::ResourceTemplates;
/// use orlop_core::spec::meta::ObjectReference;
///
/// #[derive(Default)]
/// struct AtOnce {
///     ended: Mutex<BTreeMap<AttemptKey, AttemptEnd>>,
///     reports: Mutex<Vec<AttemptReport>>,
/// }
///
/// impl AtOnce {
///     fn report(&self, key: &AttemptKey, otherwise: EndResult) {
///         let ended = self.ended.lock().unwrap().get(key).cloned();
///         let end = ended.unwrap_or_else(|| AttemptEnd::without_job(otherwise, Time::EPOCH));
///         self.reports.lock().unwrap().push(AttemptReport { key: key.clone(), end });
///     }
/// }
///
/// #[async_trait]
/// impl Substrate for AtOnce {
///     async fn ensure_resources(&self, _: &FlowOwner, _: &ResourceTemplates) -> Result<Vec<ObjectReference>, Problem> {
///         Ok(Vec::new())
///     }
///     async fn start(&self, spec: AttemptSpec) -> Result<ObjectReference, Problem> {
///         let end = AttemptEnd::succeeded(Time::EPOCH);
///         self.ended.lock().unwrap().entry(spec.key.clone()).or_insert(end);
///         self.report(&spec.key, EndResult::Lost);
///         Ok(ObjectReference { kind: "Process".into(), name: spec.job_name, ..Default::default() })
///     }
///     async fn adopt(&self, spec: AttemptSpec) -> Result<(), Problem> {
///         Ok(self.report(&spec.key, EndResult::Lost))
///     }
///     async fn cancel(&self, key: &AttemptKey, _: Option<Duration>) -> Result<(), Problem> {
///         Ok(self.report(key, EndResult::Cancelled))
///     }
///     async fn suspend(&self, _: &AttemptKey) -> Result<(), Problem> {
///         Ok(())
///     }
///     async fn resume(&self, _: &AttemptKey) -> Result<(), Problem> {
///         Ok(())
///     }
///     async fn forget(&self, key: &AttemptKey) -> Result<(), Problem> {
///         self.ended.lock().unwrap().remove(key);
///         Ok(())
///     }
///     async fn list(&self, flow: &str) -> Result<Vec<AttemptKey>, Problem> {
///         Ok(self.ended.lock().unwrap().keys().filter(|key| &*key.flow == flow).cloned().collect())
///     }
///     async fn next(&self) -> AttemptReport {
///         // One for real use is woken by the next report.
///         let report = self.reports.lock().unwrap().pop();
///         match report {
///             Some(report) => report,
///             None => std::future::pending().await,
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait Substrate: Send + Sync {
    /// Whether it runs steps without a template: functions of this program, by the name of the step. A flow with such a step
    /// is refused where it does not.
    fn runs_functions(&self) -> bool {
        false
    }

    /// Creates the resource templates of a flow, or verifies that they are this flow's, and names them.
    ///
    /// # Errors
    /// Exists when an object of that name belongs to another flow; Invalid, Denied or Transient as usual.
    async fn ensure_resources(
        &self,
        owner: &FlowOwner,
        templates: &ResourceTemplates,
    ) -> Result<Vec<ObjectReference>, Problem>;

    /// Creates exactly one execution under the key, or adopts the one that exists, running or ended; its end is
    /// reported by [`Substrate::next`] either way.
    ///
    /// # Errors
    /// Transient and Capacity: not created, ask again. Invalid, Denied and Exists: can never be created as it is;
    /// [`Problem::reason`] names the step reason.
    async fn start(&self, spec: AttemptSpec) -> Result<ObjectReference, Problem>;

    /// Tells the substrate that the host has stored the start of an execution. A substrate that loses executions in a crash, such as
    /// one for functions of this program, begins them only now, so that no attempt runs twice under its number.
    fn accepted(&self, _key: &AttemptKey) {}

    /// Watches an execution started by an earlier host without creating one; its end is reported by
    /// [`Substrate::next`], as Lost when there is no trace of it. The spec tells what to collect at its end.
    ///
    /// # Errors
    /// Transient when it cannot be seen now.
    async fn adopt(&self, spec: AttemptSpec) -> Result<(), Problem>;

    /// Ends an execution with all its children. Its end is reported by [`Substrate::next`]: Cancelled, or what it came
    /// to first; Cancelled also when there is none.
    ///
    /// # Errors
    /// Transient when it cannot be reached now.
    async fn cancel(&self, key: &AttemptKey, grace: Option<Duration>) -> Result<(), Problem>;

    /// Frees what is kept for an execution that does not end, once a person has confirmed that nothing of it runs any more.
    /// What runs after all is left alone. Unknown keys are fine.
    ///
    /// # Errors
    /// Transient when it cannot be reached now.
    async fn release(&self, _key: &AttemptKey) -> Result<(), Problem> {
        Ok(())
    }

    /// Suspends an execution, so that its time limit stands still. One that has ended is left alone.
    ///
    /// # Errors
    /// Transient when it cannot be reached now; Invalid when this substrate cannot suspend.
    async fn suspend(&self, key: &AttemptKey) -> Result<(), Problem>;

    /// Lets a suspended execution go on. One that has ended is left alone.
    ///
    /// # Errors
    /// As of [`Substrate::suspend`].
    async fn resume(&self, key: &AttemptKey) -> Result<(), Problem>;

    /// Deletes what is left of an ended execution, its logs excepted. Unknown keys are fine.
    ///
    /// # Errors
    /// Transient when it cannot be reached now.
    async fn forget(&self, key: &AttemptKey) -> Result<(), Problem>;

    /// Every execution of a flow that still exists, running or ended and not forgotten.
    ///
    /// # Errors
    /// Transient when it cannot be seen now.
    async fn list(&self, flow: &str) -> Result<Vec<AttemptKey>, Problem>;

    /// The next report; waits until there is one. Dropping the future loses nothing. An end may be reported again after
    /// an adoption, never before [`Substrate::start`] or [`Substrate::adopt`] returned.
    async fn next(&self) -> AttemptReport;

    /// The next change of what keeps an accepted attempt from running; waits until there is one. Dropping the future
    /// loses nothing. Like an end, nothing is said of an attempt before [`Substrate::start`] or [`Substrate::adopt`]
    /// returned. A substrate whose attempts run as soon as they are accepted has nothing to say.
    async fn next_delay(&self) -> AttemptDelay {
        std::future::pending().await
    }
}

/// The flow for which a substrate creates objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOwner {
    /// Unique id.
    pub uid: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
}

/// A change of whether an accepted attempt can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptDelay {
    /// Which execution.
    pub key: AttemptKey,
    /// Why it does not run; none: it runs.
    pub cause: Option<DelayCause>,
    /// Since when.
    pub since: Time,
}

/// Why an accepted attempt does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayCause {
    /// What it waits for: its timeout stands still while it waits for others.
    pub on: WaitsOn,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What a substrate reports of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptReport {
    /// Which execution.
    pub key: AttemptKey,
    /// How it ended.
    pub end: AttemptEnd,
}
