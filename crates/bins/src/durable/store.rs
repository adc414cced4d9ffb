//! Flows of functions with their journal: started, gone on with, left, deleted. Owns which of them have a host here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::error::{Class, Problem};
use orlop_core::exact;
use orlop_core::name::sha256_hex;
use orlop_core::ports::journal::{FlowJournal, StoredFlow};
use orlop_core::ports::substrate::Substrate;
use orlop_core::spec::flow::{FlowSpec, JobFlow};
use orlop_core::spec::status::FlowStatus;
use serde::Serialize;
use tokio::sync::watch;

use super::draft::Shared;
use super::error::Error;
use super::functions::Functions;
use super::running::{HostEnd, Running};
use super::value::INPUT;
use crate::host::flow::{FlowHost, HostParts, Keep, Submission, options};

/// A journal of durable flows of functions. [The module](crate::durable) has an example. Clones share the journal.
#[derive(Clone)]
pub struct Durable(Arc<Inner>);

struct Inner {
    journal: Arc<dyn FlowJournal>,
    running: Mutex<BTreeMap<String, Running>>,
    /// Held while a flow is started or deleted, by a hash of its id, so that of two starts of one id the second finds the first.
    starting: [tokio::sync::Mutex<()>; 64],
    /// Held by those who start, and alone by those who close.
    open: tokio::sync::RwLock<()>,
}

impl Inner {
    fn starting(&self, uid: &str) -> &tokio::sync::Mutex<()> {
        let hash = uid.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(byte)));
        &self.starting[hash % self.starting.len()]
    }
}

impl std::fmt::Debug for Durable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Durable").finish_non_exhaustive()
    }
}

impl Durable {
    /// Opens the journal in a SQLite file, or creates it; its folder must exist. Only one program at a time can have it open.
    ///
    /// # Errors
    /// Conflict while another program has it open; Denied without rights to the file; Capacity when the disk is full; Fatal when
    /// the file is damaged or of another program.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Ok(Self::with_journal(Arc::new(SqliteJournal::open(path, Access::Host).await?)))
    }

    /// Uses any journal, such as one in memory for tests or one of your own.
    #[must_use]
    pub fn with_journal(journal: Arc<dyn FlowJournal>) -> Self {
        let starting = std::array::from_fn(|_| tokio::sync::Mutex::default());
        Self(Arc::new(Inner { journal, running: Mutex::default(), starting, open: tokio::sync::RwLock::default() }))
    }

    /// A flow without steps yet. The name must differ from those of other flows in the journal and has lower case letters, digits and
    /// `-`.
    #[must_use]
    pub fn flow(&self, name: &str) -> Flow {
        Flow { durable: self.clone(), name: Arc::from(name), draft: Shared::default() }
    }

    /// Ids of the flows with a name that have not ended, which a program [starts](Flow::start) again after a restart; their input is
    /// stored.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn unfinished(&self, flow: &str) -> Result<Vec<String>, Error> {
        let flows = self.0.journal.list().await?;
        let open = flows.iter().filter(|record| !record.summary.phase.is_terminal());
        let ids = open.filter_map(|record| Some(record.uid.strip_prefix(flow)?.strip_prefix('/')?.to_owned()));
        Ok(ids.collect())
    }

    /// Deletes a stored flow that does not run here, whether or not it has ended; its id can be used again then. Does nothing where there
    /// is none.
    ///
    /// # Errors
    /// Conflict while the flow runs here; when the journal cannot be written.
    pub async fn delete(&self, flow: &str, id: &str) -> Result<(), Error> {
        let uid = format!("{flow}/{id}");
        let _starting = self.0.starting(&uid).lock().await;
        let running = self.lock().get(&uid).cloned();
        if let Some(run) = running {
            if !run.status().phase.is_terminal() {
                let message = format!("flow `{uid}` runs; stop it first, and wait for its end");
                return Err(Problem::new(Class::Conflict, message).into());
            }
            // It is about to leave.
            run.end().await?;
        }
        Ok(self.0.journal.delete(&uid).await?)
    }

    /// Stops running all flows, without ending them, and waits until none runs here. Functions that run are dropped; they run again when
    /// their flow is started again. The journal stays open as long as a [`Durable`] or [`Flow`] of it exists.
    pub async fn close(&self) {
        let _alone = self.0.open.write().await;
        let running: Vec<Running> = self.lock().values().cloned().collect();
        for run in &running {
            run.handle.detach().await;
            // Holders of the `Running` receive the result.
            drop(run.end().await);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Running>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives a flow until it ends.
    fn drive(&self, uid: &str, mut host: FlowHost, functions: Arc<Functions>) -> Running {
        let (ended, end) = watch::channel::<HostEnd>(None);
        let handle = host.handle();
        let run = Running { id: Arc::from(uid), status: handle.status(), handle, end };
        self.lock().insert(uid.to_owned(), run.clone());
        let driving = Driving { durable: self.clone(), uid: uid.to_owned(), ended, left: None };
        tokio::spawn(async move {
            let left = host.run().await.map(|_| host.status());
            if let Err(error) = &left {
                tracing::error!(flow = driving.uid, error = %error.chain(), "the flow cannot go on");
            }
            drop(host);
            functions.stop().await;
            driving.leave(left);
        });
        run
    }
}

/// A flow that has a host here. However its host ends, its holders receive that.
struct Driving {
    durable: Durable,
    uid: String,
    ended: watch::Sender<HostEnd>,
    left: HostEnd,
}

impl Driving {
    fn leave(mut self, left: Result<FlowStatus, Problem>) {
        self.left = Some(left);
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.durable.lock().remove(&self.uid);
        let lost = || Err(Problem::new(Class::Transient, "the host of the flow was stopped; start the flow again"));
        self.ended.send_replace(Some(self.left.take().unwrap_or_else(lost)));
    }
}

/// A flow of functions, which can be started any number of times, each under an id of its own.
#[derive(Clone)]
pub struct Flow {
    pub(super) durable: Durable,
    pub(super) name: Arc<str>,
    pub(super) draft: Shared,
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Flow {
    /// Starts the flow under an id, or goes on with the one of that id, also after the program was killed. A flow that goes on has the
    /// retries and limits that it was first started with.
    ///
    /// # Errors
    /// Invalid when the flow breaks a rule, such as two steps of one name; Conflict when the id was started with other steps;
    /// when the journal cannot be used.
    pub async fn start(&self, id: &str) -> Result<Running, Error> {
        self.begin(id, None).await
    }

    /// The same with the [input](Flow::input) of the flow.
    ///
    /// # Errors
    /// As of [`Flow::start`]; Conflict when the id was started with another input.
    pub async fn start_with<T: Serialize + ?Sized>(&self, id: &str, input: &T) -> Result<Running, Error> {
        self.begin(id, Some(serde_json::to_string(input).map_err(Error::Input)?)).await
    }

    async fn begin(&self, id: &str, input: Option<String>) -> Result<Running, Error> {
        let Inner { journal, open, .. } = &*self.durable.0;
        let (spec, functions, foreign) = {
            let draft = self.draft.lock();
            (draft.spec(), Arc::new(draft.functions()), draft.foreign().map(str::to_owned))
        };
        if let Some(step) = foreign {
            let message = format!("step `{step}` of flow `{}` takes or awaits what another flow gives", self.name);
            return Err(Problem::new(Class::Invalid, message).into());
        }
        let uid = format!("{}/{id}", self.name);
        let (_open, _starting) = (open.read().await, self.durable.0.starting(&uid).lock().await);
        let parts = HostParts::new(Arc::clone(&functions) as Arc<dyn Substrate>, Arc::clone(journal));
        // Nobody looks at ends of attempts once they are in the journal, and few at notices.
        let parts = HostParts { keep: Keep::Nothing, notices: 16, ..parts };
        let host = match journal.load(&uid).await {
            Ok(stored) => {
                same(&uid, &stored, &spec, input.as_deref())?;
                if let Some(run) = self.durable.lock().get(&uid) {
                    return Ok(run.clone());
                }
                FlowHost::resume(parts, &uid).await?
            }
            Err(error) if error.class == Class::NotFound => {
                let mut submission = Submission::new(JobFlow::new(object_name(&self.name, &uid), spec), uid.as_str());
                submission.parameters.extend(input.map(|input| (INPUT.to_owned(), input)));
                FlowHost::submit(parts, submission, Vec::new()).await?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(self.durable.drive(&uid, host, functions))
    }
}

/// Whether a flow that is there is the one that is started.
fn same(uid: &str, stored: &StoredFlow, spec: &FlowSpec, input: Option<&str>) -> Result<(), Error> {
    let conflict = |message: String| Err(Problem::new(Class::Conflict, message).into());
    if graph(&stored.record.flow.spec) != graph(spec) {
        return conflict(format!(
            "flow `{uid}` was started with other steps, inputs or conditions; finish it with the program that started it, or delete \
             it and start it anew"
        ));
    }
    let read = |text: &str| exact::from_str::<serde_json::Value>(text).ok();
    let given = options(&stored.record)?.meta.parameters.get(INPUT).and_then(|text| read(text));
    match input {
        Some(input) if given != read(input) => {
            conflict(format!("flow `{uid}` was started with another input; use another id"))
        }
        _ => Ok(()),
    }
}

/// What of a flow its functions rely on: without limits, retries and messages.
fn graph(spec: &FlowSpec) -> FlowSpec {
    let mut spec = FlowSpec { execution_policy: None, ..spec.clone() };
    for step in spec.steps.iter_mut().chain(&mut spec.finally) {
        (step.retry_policy, step.timeout_seconds, step.timeout_millis) = (None, None, None);
        (step.message, step.parallelism) = (None, None);
    }
    spec
}

/// The name of the object: unique, and a name whatever the id is.
fn object_name(flow: &str, uid: &str) -> String {
    format!("{flow}-{}", sha256_hex(uid.as_bytes(), 32))
}
