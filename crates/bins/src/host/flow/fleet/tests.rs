//! The substrate over a fleet that does what a test says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use orlop_core::id::Epoch;
use orlop_core::machine::job::JobState;
use orlop_core::spec::job::JobSpec;
use orlop_core::time::Time;
use serde_json::json;

use super::*;

/// A fleet whose jobs end as a test tells.
#[derive(Default)]
struct Told {
    submitted: Mutex<Vec<AttemptKey>>,
    ends: Mutex<VecDeque<Result<JobEnd, PortError>>>,
    cancelled: Mutex<Vec<JobId>>,
    known: Vec<(AttemptKey, JobId)>,
    spread: bool,
}

fn id(number: u64) -> JobId {
    JobId::new(Epoch(1), number).unwrap()
}

#[async_trait]
impl StepFleet for Told {
    async fn submit(&self, key: &AttemptKey, _: JobSpec) -> Result<JobId, PortError> {
        let mut submitted = self.submitted.lock().unwrap();
        submitted.push(key.clone());
        Ok(id(submitted.len() as u64))
    }

    async fn ended(&self, _: JobId) -> Result<JobEnd, PortError> {
        let next = self.ends.lock().unwrap().pop_front();
        match next {
            Some(end) => end,
            None => std::future::pending().await,
        }
    }

    async fn cancel(&self, job: JobId) -> Result<(), PortError> {
        self.cancelled.lock().unwrap().push(job);
        Ok(())
    }

    fn is_spread(&self) -> bool {
        self.spread
    }

    async fn of_flow(&self, _: &str) -> Result<Vec<(AttemptKey, JobId)>, PortError> {
        Ok(self.known.clone())
    }
}

fn key(attempt: u32) -> AttemptKey {
    AttemptKey { flow: "u".into(), step: "s".into(), item: None, attempt }
}

fn attempt(number: u32) -> AttemptSpec {
    let container = json!({ "name": "main", "image": "x", "command": ["true"] });
    AttemptSpec {
        key: key(number),
        flow_name: "f".into(),
        namespace: "default".into(),
        job_name: "f-s".into(),
        template: Arc::new(json!({ "spec": { "template": { "spec": { "containers": [container] } } } })),
        inputs: Vec::new(),
        output_files: Vec::new(),
        output_artifacts: Vec::new(),
    }
}

fn on(fleet: Told) -> (Arc<Told>, FleetSubstrate) {
    let fleet = Arc::new(fleet);
    let facts = FlowFacts::new("default".parse().unwrap());
    (Arc::clone(&fleet), FleetSubstrate::new(fleet, facts))
}

fn end(state: JobState) -> JobEnd {
    let (reason, outputs) = (String::new(), BTreeMap::new());
    JobEnd { state, reason, exit_code: None, outputs, ended_at: Time::from_millis(1) }
}

#[tokio::test(start_paused = true)]
async fn trouble_in_between_does_not_lose_the_end() {
    let (fleet, substrate) = on(Told::default());
    let trouble = || Err(PortError::new(Class::Transient, "the server restarts"));
    fleet.ends.lock().unwrap().extend([trouble(), trouble(), Ok(end(JobState::Cancelled))]);
    let reference = substrate.start(attempt(1)).await.unwrap();
    assert_eq!((reference.kind.as_str(), reference.name), ("FleetJob", id(1).to_string()));
    let report = substrate.next().await;
    assert_eq!((report.key, report.end.result), (key(1), EndResult::Gone));
    assert_eq!(fleet.submitted.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_that_is_not_there_any_more_is_lost() {
    let (fleet, substrate) = on(Told { known: vec![(key(1), id(9))], ..Told::default() });
    fleet.ends.lock().unwrap().push_back(Err(PortError::new(Class::NotFound, "no such job")));
    substrate.adopt(attempt(1)).await.unwrap();
    assert_eq!(substrate.next().await.end.result, EndResult::Lost);
    assert_eq!(fleet.submitted.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn what_an_earlier_host_submitted_is_not_submitted_again() {
    let (fleet, substrate) = on(Told { known: vec![(key(1), id(9))], ..Told::default() });
    assert_eq!(substrate.start(attempt(1)).await.unwrap().uid, id(9).to_string());
    assert_eq!(substrate.start(attempt(2)).await.unwrap().uid, id(1).to_string());
    assert_eq!(*fleet.submitted.lock().unwrap(), [key(2)]);
    substrate.cancel(&key(1), None).await.unwrap();
    assert_eq!(*fleet.cancelled.lock().unwrap(), [id(9)]);
    let error = substrate.forget(&key(1)).await.unwrap_err();
    insta::assert_snapshot!(error, @"attempt u/s/1 has not ended; cancel it first");
}

#[tokio::test]
async fn s4_1_a_claim_is_refused_where_the_next_step_may_not_find_it() {
    let mut spec = attempt(1);
    let claim = json!([{ "name": "d", "persistentVolumeClaim": { "claimName": "data" } }]);
    let mut template = (*spec.template).clone();
    template["spec"]["template"]["spec"]["volumes"] = claim;
    spec.template = Arc::new(template);
    let (_, alone) = on(Told::default());
    assert!(alone.start(spec.clone()).await.is_ok());
    let (fleet, spread) = on(Told { spread: true, ..Told::default() });
    assert_eq!(spread.start(spec).await.unwrap_err().reason, Some("TemplateInvalid"));
    assert!(spread.start(attempt(1)).await.is_ok());
    assert_eq!(fleet.submitted.lock().unwrap().len(), 1);
}
