//! The substrate over a fleet that does what a test says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use orlop_core::attempt::{ArtifactCollection, ArtifactDelivery, ArtifactSource};
use orlop_core::id::{Epoch, WorkerId};
use orlop_core::machine::job::JobState;
use orlop_core::spec::job::JobSpec;
use orlop_core::spec::status::WaitsOn;
use orlop_core::time::Time;
use serde_json::json;

use super::*;

/// A fleet whose jobs end as a test tells.
#[derive(Default)]
struct ScriptedFleet {
    submitted: Mutex<Vec<AttemptKey>>,
    ends: Mutex<VecDeque<Result<JobEnd, Problem>>>,
    cancelled: Mutex<Vec<JobId>>,
    known: Vec<FlowJob>,
    asked: Mutex<Vec<JobSpec>>,
    places: Mutex<BTreeMap<JobId, JobPlace>>,
    named: Mutex<Vec<WorkerId>>,
    moved: tokio::sync::Notify,
}

fn id(number: u64) -> JobId {
    JobId::new(Epoch(1), number).unwrap()
}

#[async_trait]
impl StepFleet for ScriptedFleet {
    async fn submit(&self, key: &AttemptKey, spec: JobSpec) -> Result<JobId, Problem> {
        self.asked.lock().unwrap().push(spec);
        let mut submitted = self.submitted.lock().unwrap();
        submitted.push(key.clone());
        Ok(id(submitted.len() as u64))
    }

    async fn ended(&self, _: JobId) -> Result<JobEnd, Problem> {
        let next = self.ends.lock().unwrap().pop_front();
        match next {
            Some(end) => end,
            None => std::future::pending().await,
        }
    }

    async fn cancel(&self, job: JobId) -> Result<(), Problem> {
        self.cancelled.lock().unwrap().push(job);
        Ok(())
    }

    async fn place_of(&self, job: JobId) -> Result<JobPlace, Problem> {
        Ok(self.places.lock().unwrap().get(&job).cloned().unwrap_or(JobPlace::Nowhere))
    }

    async fn next_place(&self, job: JobId, before: Option<&JobPlace>) -> Result<JobPlace, Problem> {
        loop {
            let moved = self.moved.notified();
            let place = self.place_of(job).await?;
            if before != Some(&place) {
                return Ok(place);
            }
            moved.await;
        }
    }

    async fn name_worker(&self, worker: &WorkerId) -> Result<(), Problem> {
        self.named.lock().unwrap().push(worker.clone());
        Ok(())
    }

    async fn of_flow(&self, _: &str) -> Result<Vec<FlowJob>, Problem> {
        Ok(self.known.clone())
    }
}

fn key(attempt: u32) -> AttemptKey {
    AttemptKey { flow: "u".into(), step: "s".into(), item: None, attempt }
}

fn attempt(number: u32) -> AttemptSpec {
    let container = json!({ "name": "main", "image": "x", "command": ["true"] });
    AttemptSpec {
        function: None,
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

fn on(fleet: ScriptedFleet) -> (Arc<ScriptedFleet>, FleetSubstrate) {
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
    let (fleet, substrate) = on(ScriptedFleet::default());
    let trouble = || Err(Problem::new(Class::Transient, "the server restarts"));
    fleet.ends.lock().unwrap().extend([trouble(), trouble(), Ok(end(JobState::Cancelled))]);
    let reference = substrate.start(attempt(1)).await.unwrap();
    assert_eq!((reference.kind.as_str(), reference.name), ("FleetJob", id(1).to_string()));
    let report = substrate.next().await;
    assert_eq!((report.key, report.end.result), (key(1), EndResult::Gone));
    assert_eq!(fleet.submitted.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_that_is_not_there_any_more_is_lost() {
    let (fleet, substrate) = on(ScriptedFleet {
        known: vec![FlowJob { key: key(1), job: id(9), claims: Vec::new() }],
        ..ScriptedFleet::default()
    });
    fleet.ends.lock().unwrap().push_back(Err(Problem::new(Class::NotFound, "no such job")));
    substrate.adopt(attempt(1)).await.unwrap();
    assert_eq!(substrate.next().await.end.result, EndResult::Lost);
    assert_eq!(fleet.submitted.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn what_an_earlier_host_submitted_is_not_submitted_again() {
    let (fleet, substrate) = on(ScriptedFleet {
        known: vec![FlowJob { key: key(1), job: id(9), claims: Vec::new() }],
        ..ScriptedFleet::default()
    });
    assert_eq!(substrate.start(attempt(1)).await.unwrap().uid, id(9).to_string());
    assert_eq!(substrate.start(attempt(2)).await.unwrap().uid, id(1).to_string());
    assert_eq!(*fleet.submitted.lock().unwrap(), [key(2)]);
    substrate.cancel(&key(1), None).await.unwrap();
    assert_eq!(*fleet.cancelled.lock().unwrap(), [id(9)]);
    let error = substrate.forget(&key(1)).await.unwrap_err();
    insta::assert_snapshot!(error, @"attempt u/s/1 has not ended; cancel it first");
}

fn with_claim(number: u32, step: &str, claims: &[&str]) -> AttemptSpec {
    let mut spec = attempt(number);
    spec.key.step = step.into();
    let volumes: Vec<_> =
        claims.iter().map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } })).collect();
    let mut template = (*spec.template).clone();
    template["spec"]["template"]["spec"]["volumes"] = json!(volumes);
    spec.template = Arc::new(template);
    spec
}

#[tokio::test]
async fn steps_with_a_claim_run_where_the_first_of_them_ran() {
    let (fleet, substrate) = on(ScriptedFleet::default());
    substrate.start(with_claim(1, "one", &["data"])).await.unwrap();
    assert!(fleet.asked.lock().unwrap()[0].requires.labels.is_empty(), "the first one goes anywhere");
    let waits = substrate.start(with_claim(1, "two", &["data"])).await.unwrap_err();
    insta::assert_snapshot!(waits, @"claim data will be where job j0000100000001 runs, which waits for a worker");
    assert!(waits.class.is_retryable() && waits.reason == Some("Queued") && waits.retry_after.is_some());
    fleet.places.lock().unwrap().insert(id(1), JobPlace::On("w1".parse().unwrap()));
    substrate.start(with_claim(1, "two", &["data"])).await.unwrap();
    let asked = fleet.asked.lock().unwrap()[1].clone();
    let need = &asked.requires.labels[0];
    assert_eq!((need.key.as_str(), need.values.iter().next().map(String::as_str)), (WORKER, Some("w1")));
    assert_eq!((claims_of(&asked.labels), fleet.named.lock().unwrap().len()), (vec!["data".to_owned()], 1));
    // Another claim is elsewhere; both at once are nowhere.
    substrate.start(with_claim(1, "three", &["other"])).await.unwrap();
    fleet.places.lock().unwrap().insert(id(3), JobPlace::On("w2".parse().unwrap()));
    let apart = substrate.start(with_claim(1, "four", &["data", "other"])).await.unwrap_err();
    insta::assert_snapshot!(apart, @"its claims data, other are on different workers, w1 and w2; hand files on as artifacts");
}

#[tokio::test]
async fn the_next_host_finds_the_same_worker() {
    let known = |number: u64, job: u64| FlowJob {
        key: AttemptKey { attempt: u32::try_from(number).unwrap(), ..key(1) },
        job: id(job),
        claims: vec!["data".to_owned()],
    };
    let (fleet, substrate) = on(ScriptedFleet { known: vec![known(2, 9), known(1, 8)], ..ScriptedFleet::default() });
    // The first was cancelled before it had a worker.
    fleet.places.lock().unwrap().extend([(id(8), JobPlace::Never), (id(9), JobPlace::On("w1".parse().unwrap()))]);
    substrate.start(with_claim(1, "two", &["data"])).await.unwrap();
    assert_eq!(fleet.asked.lock().unwrap()[0].requires.labels.len(), 1);
}

#[tokio::test]
async fn artifacts_come_and_go_by_way_of_the_server() {
    let (fleet, substrate) = on(ScriptedFleet::default());
    let mut spec = attempt(1);
    let sha256 = "ab".repeat(32);
    let location = orlop_core::spec::status::ArtifactLocation {
        kind: "cas".to_owned(),
        reference: format!("sha256/{sha256}.tar"),
        size_bytes: 5,
        sha256: sha256.clone(),
    };
    let delivery = |name: &str, location| ArtifactDelivery {
        name: name.to_owned(),
        path: format!("/{name}"),
        unpack: true,
        source: ArtifactSource::Stored { location, archive: None },
    };
    let old = orlop_core::spec::status::ArtifactLocation { sha256: String::new(), ..location.clone() };
    spec.inputs = vec![delivery("a", location), delivery("b", old)];
    spec.output_artifacts = vec![ArtifactCollection {
        name: "out".to_owned(),
        path: "/out".to_owned(),
        optional: false,
        archive: None,
        s3: None,
    }];
    substrate.start(spec).await.unwrap();
    let asked = fleet.asked.lock().unwrap()[0].clone();
    assert_eq!(asked.artifacts_in.len(), 1, "each content once");
    assert_eq!(asked.artifacts_in[0].sha256.as_ref(), Some(&sha256));
    assert_eq!(asked.artifacts_in[0].path, format!("{GIVEN}/cas/sha256/ab/{}", &sha256[2..]));
    assert_eq!(asked.artifacts_out[0].path, format!("{LEFT}/cas/sha256/*/*"));
    substrate.start(attempt(2)).await.unwrap();
    assert!(fleet.asked.lock().unwrap()[1].artifacts_out.is_empty());
}

#[tokio::test(start_paused = true)]
async fn jobs_are_reported_as_queued_until_they_have_a_worker_and_again_when_they_lose_it() {
    let (fleet, substrate) = on(ScriptedFleet::default());
    let go = |place| {
        fleet.places.lock().unwrap().insert(id(1), place);
        fleet.moved.notify_waiters();
    };
    let before = SystemClock.now();
    substrate.start(attempt(1)).await.unwrap();
    for worker in ["w1", "w2"] {
        let AttemptDelay { key: of, cause: Some(cause), since } = substrate.next_delay().await else { panic!() };
        assert_eq!((of, cause.on, cause.reason.as_str()), (key(1), WaitsOn::Suspended, "Queued"));
        assert!(since >= before && cause.message.contains("`orlop job get j0000100000001 --explain`"), "{cause:?}");
        go(JobPlace::On(worker.parse().unwrap()));
        assert_eq!(substrate.next_delay().await.cause, None);
        go(JobPlace::Nowhere);
    }
    // A job that gets a worker at once is not reported, unless an earlier host may have reported that it waits.
    let known = || ScriptedFleet {
        known: vec![FlowJob { key: key(1), job: id(1), claims: Vec::new() }],
        ..ScriptedFleet::default()
    };
    for adopted in [false, true] {
        let (fleet, substrate) = on(known());
        fleet.places.lock().unwrap().insert(id(1), JobPlace::On("w1".parse().unwrap()));
        match adopted {
            false => drop(substrate.start(attempt(1)).await.unwrap()),
            true => substrate.adopt(attempt(1)).await.unwrap(),
        }
        let delay = tokio::time::timeout(Duration::from_secs(9), substrate.next_delay()).await;
        assert_eq!(delay.is_ok_and(|delay| delay.cause.is_none()), adopted);
    }
}
