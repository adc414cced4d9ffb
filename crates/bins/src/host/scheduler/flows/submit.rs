//! New flows: definitions read and checked as the client sends them, names, and the begin of a flow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use orlop_core::error::{Class, Code, FieldError, Problem};
use orlop_core::event::FlowEvent;
use orlop_core::id::{TenantName, dns1123_subdomain};
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::job::StepBackend;
use orlop_dag::manifest::substrate::{Runtime, Target};
use orlop_dag::manifest::{Limits, Report, Severity, TextLimits};
use serde_json::Value;

use super::drive::run;
use super::facts::Driver;
use super::parts::parts;
use super::pipeline::definition_text;
use super::{Flows, Inner};
use crate::host::flow::{Definition, FlowHost, NoConfigMaps, Submission, definitions, flow_name, record};

/// A flow that is submitted.
pub struct NewFlow {
    /// Its object.
    pub flow: JobFlow,
    /// Whose it is.
    pub tenant: TenantName,
    /// Values of its parameters.
    pub parameters: BTreeMap<String, String>,
    /// What is kept beside it.
    pub driver: Driver,
    /// What it is given before all else.
    pub first: Vec<FlowEvent>,
    /// Unique id, a random UUID of version 4.
    pub uid: String,
}

/// A flow that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Unique id.
    pub uid: String,
    /// Name.
    pub name: String,
}

impl NewFlow {
    /// A flow of a definition.
    ///
    /// # Errors
    /// InvalidSpec when its name can be none.
    pub fn of(
        definition: &Definition,
        tenant: TenantName,
        name: Option<&str>,
        mut driver: Driver,
    ) -> Result<Self, Problem> {
        let uid = uuid::Uuid::new_v4().to_string();
        let manifest = &definition.manifest;
        let mut flow = manifest.flow.clone();
        flow.metadata.name = flow_name(manifest, name, &uid);
        dns1123_subdomain(&flow.metadata.name).map_err(|error| Problem::field("name", error.to_string()))?;
        for step in flow.spec.steps.iter().chain(&flow.spec.finally) {
            let shown = manifest.step_name(&step.name);
            if shown != step.name {
                driver.names.insert(step.name.clone(), shown.to_owned());
            }
        }
        let annotations = &mut flow.metadata.annotations;
        annotations.insert("workflow.kube-zen.io/initiated-by".to_owned(), driver.by.clone());
        annotations.insert("workflow.kube-zen.io/initiator-type".to_owned(), "User".to_owned());
        if let Some(id) = &driver.correlation_id {
            annotations.entry("workflow.kube-zen.io/correlation-id".to_owned()).or_insert_with(|| id.clone());
        }
        Ok(Self { flow, tenant, parameters: BTreeMap::new(), driver, first: Vec::new(), uid })
    }
}

impl Flows {
    /// The one flow of a definition, or of several the one of a name, checked for the fleet. A few are read at once, beside what
    /// the server does meanwhile.
    ///
    /// # Errors
    /// InvalidSpec with everything that is wrong.
    pub(crate) async fn definition(
        &self,
        definition: &Value,
        backend: StepBackend,
        name: Option<&str>,
    ) -> Result<Definition, Problem> {
        let (text, name) = (definition_text(definition), name.map(str::to_owned));
        let turn = Arc::clone(&self.inner.readers).acquire_owned().await;
        let reading = tokio::task::spawn_blocking(move || {
            // Held until it is read, also where no one waits for it any more.
            let _turn = turn;
            read_definition(&text, backend, name.as_deref())
        });
        reading.await.unwrap_or_else(|error| Err(Problem::coded(Code::Internal, error.to_string())))
    }
}

/// What flows of a fleet may be.
pub(super) fn limits(backend: StepBackend) -> Limits {
    let runtime = match backend {
        StepBackend::Docker => Runtime::ByImage,
        StepBackend::Process => Runtime::Process,
    };
    Limits::at(Target::fleet(runtime)).images_optional()
}

/// The one flow of a text, or of several the one of a name, checked for the fleet.
///
/// # Errors
/// InvalidSpec with everything that is wrong.
pub fn read_definition(text: &str, backend: StepBackend, name: Option<&str>) -> Result<Definition, Problem> {
    let read = definitions("definition", text, limits(backend), TextLimits::default());
    let (mut found, _) = read.map_err(|report| refused(&report))?;
    let count = found.len();
    if count > 1 {
        found.retain(|flow| name == Some(flow.manifest.flow.metadata.name.as_str()));
    }
    let one = found.pop().filter(|_| found.is_empty());
    one.ok_or_else(|| Problem::field("", format!("the definition holds {count} flows; give one, or name it")))
}

fn refused(report: &Report) -> Problem {
    let errors = report.violations.iter().filter(|violation| violation.severity == Severity::Error);
    let errors = errors.map(|violation| {
        let help = violation.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        FieldError { path: violation.path.to_string(), message: format!("{}{help}", violation.message) }
    });
    Problem::invalid(errors.take(100).collect())
}

/// An error of the journal, as callers see it: what may pass is worth another try.
pub(super) fn unavailable(error: Problem) -> Problem {
    match error.class {
        Class::Transient | Class::Capacity | Class::Denied => {
            Problem { code: Code::StoreUnavailable, ..error }.retry_after(Duration::from_secs(1))
        }
        _ => error,
    }
}

impl Flows {
    /// Takes a flow: writes it down, and begins it.
    ///
    /// # Errors
    /// InvalidSpec with what is wrong with its parameters; Conflict when a flow that has not ended has its name; NotLeader
    /// and StoreUnavailable when nothing can be written here.
    pub async fn submit(&self, new: NewFlow) -> Result<Accepted, Problem> {
        self.inner.submit(new).await
    }
}

impl Inner {
    async fn submit(self: &Arc<Self>, new: NewFlow) -> Result<Accepted, Problem> {
        self.may_act().await?;
        let NewFlow { mut flow, tenant, parameters, driver, first, uid } = new;
        flow.metadata.namespace = Some(tenant.to_string());
        let driver = serde_json::to_value(driver).map_err(|error| Problem::coded(Code::Internal, error.to_string()))?;
        let submission = Submission { parameters, driver, ..Submission::new(flow, uid.clone()) };
        // The same record that the host writes, for what its substrate must know.
        let now = self.handle.clock().wall();
        let began = Instant::now();
        let outline = record(submission.clone(), Vec::new(), &NoConfigMaps, now).await.map_err(unavailable)?;
        self.handle.options().metrics.flows.plan_duration.observe(began.elapsed().as_secs_f64());
        let parts = parts(self, &outline).map_err(unavailable)?;
        let accepted = Accepted { uid, name: outline.flow.metadata.name.clone() };
        let driven = FlowHost::submit(parts, submission, first).await.map_err(unavailable)?;
        run(self, driven, outline);
        Ok(accepted)
    }
}
