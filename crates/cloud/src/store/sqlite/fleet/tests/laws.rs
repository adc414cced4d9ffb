//! Random turns through the double and the SQLite store: the same answers, the same refusals, the same loads.

use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{
    AttemptChange, AttemptEnd, AttemptFilter, ElementChange, ElementFilter, Entry, EntryFilter, JobChange, JobFilter,
    JobKind, JobRow, Kind, NewJob, NewSpec, RangeChange, Record, TaskStatus,
};
use orlop_core::task::TaskRef;
use orlop_core::testing::MemoryFleet;
use orlop_core::time::Time;
use proptest::prelude::*;

use super::values::{holder, new_attempt};
use super::*;

const JOBS: u64 = 6;
/// So many of them are arrays.
const ARRAYS: u64 = 3;

fn specs() -> [NewSpec; 2] {
    [NewSpec::new("{}"), NewSpec::new("[]")]
}

fn time() -> impl Strategy<Value = Time> {
    (0_i64..100).prop_map(Time::from_millis)
}

fn unit() -> impl Strategy<Value = TaskStatus> {
    let times = (proptest::option::of(time()), proptest::option::of(time()), proptest::option::of(time()), time());
    let numbers = (0_u32..3, 0_u32..3, any::<bool>(), any::<bool>());
    (proptest::sample::select(JobState::ALL), numbers, times, proptest::option::of(-2..2)).prop_map(
        |(state, (attempt, retries, answered, lost), (queued_at, started_at, due_at, finished), exit_code)| {
            TaskStatus {
                attempt,
                retries,
                answered,
                lost,
                queued_at,
                started_at,
                due_at,
                exit_code,
                worker: (attempt > 1).then(|| "w".parse().unwrap()),
                reason: answered.then(|| "because".into()),
                finished_at: state.is_terminal().then_some(finished),
                ..TaskStatus::new(state)
            }
        },
    )
}

fn attempt_id() -> impl Strategy<Value = TaskRef> {
    (0..JOBS, 0_u32..3, 0_u32..2, 1_u32..3, 1_u64..3).prop_map(|(job, index, member, attempt, epoch)| TaskRef {
        job: JobId::from_u64(job),
        index,
        member,
        attempt,
        epoch: Epoch(epoch),
    })
}

fn record() -> impl Strategy<Value = Record> {
    let job = (0..JOBS).prop_map(JobId::from_u64);
    let array = (0..ARRAYS).prop_map(JobId::from_u64);
    let new = (job.clone(), 0_usize..2, unit()).prop_map(|(id, spec, unit)| {
        let mut job = NewJob::new(id, "t".parse().unwrap(), specs()[spec].hash, Time::from_millis(1));
        if id.as_u64() < ARRAYS {
            (job.kind, job.indices, job.count) = (JobKind::Array, vec![(0, 4), (8, 9)], 7);
        }
        Record::JobNew(Box::new(JobRow { job, unit, revision: 0 }))
    });
    let change = (job, any::<u32>(), unit())
        .prop_map(|(id, revision, unit)| Record::Job(Box::new(JobChange { id, revision: u64::from(revision), unit })));
    let range = (array.clone(), 0_u32..10, 0_u32..5, any::<bool>()).prop_map(|(job, first, more, failed)| {
        let state = if failed { JobState::Failed } else { JobState::Cancelled };
        Record::Ranges(RangeChange { job, first, last: first + more, state, reason: None, at: Time::from_millis(2) })
    });
    let element = (array, 0_u32..5, unit())
        .prop_map(|(job, index, unit)| Record::Element(Box::new(ElementChange { job, index, unit })));
    let issue = attempt_id().prop_map(new_attempt);
    let end = (any::<bool>(), proptest::option::of(0..3)).prop_map(|(accepted_final, exit_code)| AttemptEnd {
        accepted_final,
        exit_code,
        ..AttemptEnd::default()
    });
    let states = proptest::sample::select(AttemptState::ALL);
    let attempt = (attempt_id(), states, proptest::option::of(time()), proptest::option::of(end)).prop_map(
        |(id, state, started_at, end)| {
            let change = AttemptChange { started_at, end, ..AttemptChange::new(id, state) };
            Record::Attempt(Box::new(change))
        },
    );
    let document = (0..3_u8, proptest::option::of(time()), any::<bool>()).prop_map(|(key, ended_at, gone)| {
        let key = format!("k{key}");
        if gone {
            return Record::Delete(Kind::Worker, key);
        }
        Record::Put(Box::new(Entry { kind: Kind::Worker, key, tenant: None, ended_at, body: "{}".into() }))
    });
    prop_oneof![3 => new, 4 => change, 1 => range, 3 => element, 4 => issue, 4 => attempt, 1 => document]
}

/// Whether a commit may take back a final result or revive a final job: no server does, and stores need not agree.
fn revives(records: &[Record], jobs: &mut [bool; 6], finals: &mut std::collections::BTreeMap<TaskRef, ()>) -> bool {
    records.iter().any(|record| match record {
        Record::Job(change) => {
            let job = &mut jobs[usize::try_from(change.id.as_u64()).unwrap()];
            let was = std::mem::replace(job, change.unit.state.is_terminal());
            was && !*job
        }
        Record::JobNew(row) => {
            jobs[usize::try_from(row.job.id.as_u64()).unwrap()] |= row.unit.state.is_terminal();
            false
        }
        Record::Attempt(change) => match &change.end {
            Some(end) if end.accepted_final => {
                finals.insert(change.id, ());
                false
            }
            Some(_) => finals.contains_key(&change.id),
            None => false,
        },
        _ => false,
    })
}

/// Everything that can be read.
async fn everything<S: FleetStore + ?Sized>(store: &S) -> String {
    let mut all = format!("{:?}", store.restore(&Page::first(100)).await.unwrap());
    let jobs = store.jobs(&JobFilter::default(), &Page::first(100)).await.unwrap();
    for row in &jobs.items {
        let id = row.job.id;
        let attempts = store.attempts(id, &AttemptFilter::default(), &Page::first(100)).await.unwrap();
        let elements = store.elements(id, &ElementFilter::default(), &Page::first(100)).await.unwrap();
        let queued = ElementFilter { states: vec![JobState::Queued, JobState::Failed], ..ElementFilter::default() };
        let queued = store.elements(id, &queued, &Page::after(1, 2)).await.unwrap();
        let counts = store.element_counts(&[id].into()).await.unwrap();
        all.push_str(&format!("\n{attempts:?}\n{elements:?}\n{queued:?}\n{counts:?}"));
    }
    let documents = store.entries(Kind::Worker, &EntryFilter::default(), &Page::first(9)).await.unwrap();
    format!("{all}\n{jobs:?}\n{documents:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").map_or(60, |cases| cases.parse().unwrap_or(60)), ..ProptestConfig::default() })]

    #[test]
    fn the_store_equals_the_double(
        commits in proptest::collection::vec(proptest::collection::vec(record(), 1..8), 1..25),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let store = SqliteFleet::open(folder.path().join("fleet.db"), Durability::Normal).await.unwrap();
            let double = MemoryFleet::new();
            let epoch = store.acquire(&holder()).await.unwrap();
            prop_assert_eq!(double.acquire(&holder()).await.unwrap(), epoch);
            let stored: Vec<Record> = specs().into_iter().map(|spec| Record::Spec(Box::new(spec))).collect();
            store.commit(epoch, vec![WriteBatch::new(stored.clone())]).await.unwrap();
            double.commit(epoch, vec![WriteBatch::new(stored)]).await.unwrap();
            let (mut ended, mut finals) = ([false; 6], Default::default());
            for records in commits {
                let (mut ended_now, mut finals_now) = (ended, std::clone::Clone::clone(&finals));
                if revives(&records, &mut ended_now, &mut finals_now) {
                    continue;
                }
                let turns = vec![WriteBatch::new(records)];
                // Of several reasons to refuse a commit the two may name different ones.
                let one = store.commit(epoch, turns.clone()).await;
                let two = double.commit(epoch, turns).await;
                prop_assert_eq!(one.is_ok(), two.is_ok(), "{:?} {:?}", one, two);
                if one.is_ok() {
                    (ended, finals) = (ended_now, finals_now);
                }
            }
            prop_assert_eq!(everything(&store).await, everything(&double).await);
            store.close().await;
            Ok(())
        })?;
    }
}
