//! A substrate of one's own, here of plain functions; `orlop::durable::Functions` is one for real use. The host drives the same
//! engine as everywhere; only what an attempt is differs. Substrates prove themselves with
//! `orlop_core::testing::substrate_suite`.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use orlop::host::flow::{Clock, FlowHost, HostParts, Submission, SystemClock};
use orlop_core::attempt::{AttemptEnd, AttemptKey, AttemptSpec, EndResult};
use orlop_core::error::Problem;
use orlop_core::ports::substrate::{AttemptReport, FlowOwner, Substrate};
use orlop_core::spec::flow::ResourceTemplates;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::testing::MemoryJournal;
use orlop_dag::manifest::{Limits, Options, read};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What a step does: gives the value of its outputs, or says why it failed.
type Work = fn(&AttemptSpec) -> Result<String, String>;

/// Runs the function that has the name of the step.
struct Functions {
    work: BTreeMap<&'static str, Work>,
    /// Attempts that exist, with their ends; what makes a second start under one key an adoption.
    known: Mutex<BTreeMap<AttemptKey, AttemptEnd>>,
    ends: UnboundedSender<AttemptReport>,
    reports: tokio::sync::Mutex<UnboundedReceiver<AttemptReport>>,
}

impl Functions {
    fn new(work: BTreeMap<&'static str, Work>) -> Self {
        let (ends, reports) = unbounded_channel();
        Self { work, known: Mutex::default(), ends, reports: tokio::sync::Mutex::new(reports) }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<AttemptKey, AttemptEnd>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, key: &AttemptKey, end: AttemptEnd) {
        // The receiver lives as long as the sender: both are fields.
        drop(self.ends.send(AttemptReport { key: key.clone(), end }));
    }
}

#[async_trait]
impl Substrate for Functions {
    async fn ensure_resources(&self, _: &FlowOwner, _: &ResourceTemplates) -> Result<Vec<ObjectReference>, Problem> {
        Ok(Vec::new())
    }

    async fn start(&self, spec: AttemptSpec) -> Result<ObjectReference, Problem> {
        let reference =
            ObjectReference { kind: "Function".into(), name: spec.key.instance(), ..ObjectReference::default() };
        let ended = self.known().get(&spec.key).cloned();
        let ended = ended.unwrap_or_else(|| match self.work.get(&*spec.key.step).map(|work| work(&spec)) {
            Some(Ok(value)) => {
                let end = AttemptEnd::succeeded(SystemClock.now());
                spec.output_files.iter().fold(end, |end, file| end.file(&file.name, &value))
            }
            Some(Err(message)) => AttemptEnd::failed("NonZeroExit", message, SystemClock.now()),
            None => AttemptEnd::failed("NonZeroExit", "no such function", SystemClock.now()),
        });
        self.known().insert(spec.key.clone(), ended.clone());
        // Nothing waits between the report and the return, so nobody hears of the end first.
        self.report(&spec.key, ended);
        Ok(reference)
    }

    async fn adopt(&self, spec: AttemptSpec) -> Result<(), Problem> {
        let ended = self
            .known()
            .get(&spec.key)
            .cloned()
            .unwrap_or_else(|| AttemptEnd::without_job(EndResult::Lost, SystemClock.now()));
        self.report(&spec.key, ended);
        Ok(())
    }

    async fn cancel(&self, key: &AttemptKey, _grace: Option<Duration>) -> Result<(), Problem> {
        let ended = self
            .known()
            .get(key)
            .cloned()
            .unwrap_or_else(|| AttemptEnd::without_job(EndResult::Cancelled, SystemClock.now()));
        self.report(key, ended);
        Ok(())
    }

    async fn suspend(&self, _key: &AttemptKey) -> Result<(), Problem> {
        Ok(())
    }

    async fn resume(&self, _key: &AttemptKey) -> Result<(), Problem> {
        Ok(())
    }

    async fn forget(&self, key: &AttemptKey) -> Result<(), Problem> {
        self.known().remove(key);
        Ok(())
    }

    async fn list(&self, flow: &str) -> Result<Vec<AttemptKey>, Problem> {
        Ok(self.known().keys().filter(|key| &*key.flow == flow).cloned().collect())
    }

    async fn next(&self) -> AttemptReport {
        match self.reports.lock().await.recv().await {
            Some(report) => report,
            None => std::future::pending().await,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let reading = read("chain.yaml", include_str!("flows/chain.yaml"), &Options::new(Limits::elsewhere()))?;
    let flow = reading.manifests.first().context("the file holds a flow")?.flow.clone();
    let work: BTreeMap<&'static str, Work> = BTreeMap::from([
        ("fetch", (|_| Ok("2026".to_owned())) as Work),
        ("clean", |_| Ok(String::new())),
        ("load", |spec| {
            let year = &spec.template["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"];
            println!("load gets the year {}", year.as_str().unwrap_or_default());
            Ok(String::new())
        }),
    ]);
    let parts = HostParts::new(Arc::new(Functions::new(work)), Arc::new(MemoryJournal::new()));
    let submission = Submission::new(flow, "6d0d7a5e-0000-4000-8000-000000000001");
    let mut host = FlowHost::submit(parts, submission, Vec::new()).await?;
    host.run().await?;
    let status = host.status();
    for step in &status.steps {
        println!("{} {}", step.name, step.phase);
    }
    println!("{} {}", status.phase, status.progress.summary);
    Ok(())
}
