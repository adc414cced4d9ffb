//! A program that is killed after each entry of its journal, and started again: the end is the same, and no step whose end was
//! written down runs again.

use async_trait::async_trait;
use orlop_core::event::FlowEvent;
use orlop_core::ports::journal::{FlowRecord, FlowRecordSummary, FlowSummary, JournalEntry};
use tokio::sync::Notify;

use super::*;

/// A journal whose program is killed when it has written so many times.
struct Dying {
    journal: MemoryJournal,
    left: Mutex<u64>,
    dead: Notify,
}

impl Dying {
    fn new(journal: &MemoryJournal, writes: u64) -> Arc<Self> {
        Arc::new(Self { journal: journal.clone(), left: Mutex::new(writes), dead: Notify::new() })
    }

    /// Lets a write through, or none ever again.
    async fn write(&self) {
        let left = {
            let mut left = self.left.lock().unwrap();
            *left = left.saturating_sub(1);
            *left
        };
        if left == 0 {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl FlowJournal for Dying {
    async fn create(&self, flow: &FlowRecord) -> Result<(), Problem> {
        self.write().await;
        self.journal.create(flow).await
    }

    async fn load(&self, uid: &str) -> Result<StoredFlow, Problem> {
        self.journal.load(uid).await
    }

    async fn append(&self, uid: &str, after: u64, entries: &[JournalEntry]) -> Result<(), Problem> {
        self.write().await;
        self.journal.append(uid, after, entries).await
    }

    async fn snapshot(&self, uid: &str, through: u64, state: &[u8]) -> Result<(), Problem> {
        self.journal.snapshot(uid, through, state).await
    }

    async fn summarize(&self, uid: &str, summary: &FlowSummary) -> Result<(), Problem> {
        self.journal.summarize(uid, summary).await
    }

    async fn list(&self) -> Result<Vec<FlowRecordSummary>, Problem> {
        self.journal.list().await
    }

    async fn delete(&self, uid: &str) -> Result<(), Problem> {
        self.journal.delete(uid).await
    }
}

/// Keys of the steps and instances that ran.
type Ran = Arc<Mutex<Vec<String>>>;

/// Five functions: one that is tried again, one with a condition, one for each item of a list, one that gathers.
async fn five(durable: &Durable, ran: &Ran) -> Result<(String, FlowPhase), Error> {
    let note = |ran: &Ran| {
        let ran = Arc::clone(ran);
        move |step: &StepContext| ran.lock().unwrap().push(step.key())
    };
    let notes = [note(ran), note(ran), note(ran), note(ran), note(ran)];
    let [on_list, on_fetch, on_extra, on_square, on_sum] = notes;
    let flow = durable.flow("report");
    let parts = flow.step("list", (), move |step, ()| {
        on_list(&step);
        async { Ok(vec![1_u32, 2, 3]) }
    });
    let fetched = flow.step("fetch", &parts, move |step, parts| {
        on_fetch(&step);
        async move { if step.attempt() == 1 { Err("busy")? } else { Ok(parts.len()) } }
    });
    let fetched = fetched.retry(RetryPolicy::fixed(200, Duration::ZERO));
    let extra = flow.step("extra", &fetched, move |step, count| {
        on_extra(&step);
        async move { Ok(count) }
    });
    let extra = extra.when("steps.fetch.outputs.value == '4'");
    let squares = flow.each("square", &parts, move |step, part: u32| {
        on_square(&step);
        async move { Ok(part * part) }
    });
    let sum = flow.step("sum", (&fetched, &extra, &squares), move |step, (count, extra, squares)| {
        on_sum(&step);
        async move { Ok(format!("{count} {extra:?} {squares:?} {}", squares.iter().sum::<u32>())) }
    });
    let run = flow.start("1").await?;
    Ok((run.output(&sum).await?, run.end().await?.phase))
}

/// Keys of the steps and instances whose success is written down.
async fn succeeded(journal: &MemoryJournal) -> Vec<String> {
    let Ok(stored) = journal.load("report/1").await else { return Vec::new() };
    let key = |entry: &JournalEntry| match serde_json::from_str(&entry.event).unwrap() {
        FlowEvent::AttemptSucceeded { at, .. } => {
            let step = ["list", "fetch", "extra", "square", "sum"][at.step.0 as usize];
            let instance = at.item.map(|item| format!("-i{item}")).unwrap_or_default();
            Some(format!("report/1/{step}{instance}"))
        }
        _ => None,
    };
    stored.entries.iter().filter_map(key).collect()
}

/// Runs until it ends or is killed.
fn life(journal: &MemoryJournal, writes: Option<u64>) -> Option<(String, FlowPhase)> {
    let (dying, ran) = (Dying::new(journal, writes.unwrap_or(u64::MAX)), Ran::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let end = runtime.block_on(async {
        let before = succeeded(journal).await;
        let durable = Durable::with_journal(Arc::clone(&dying) as _);
        let end = tokio::select! {
            end = five(&durable, &ran) => Some(end.unwrap()),
            () = dying.dead.notified() => None,
        };
        let again: Vec<String> = ran.lock().unwrap().iter().filter(|key| before.contains(key)).cloned().collect();
        assert_eq!(again, [""; 0], "these had succeeded");
        end
    });
    // What runs is gone, as with its program.
    runtime.shutdown_background();
    end
}

#[test]
fn killed_after_any_entry_it_ends_the_same() {
    let journal = MemoryJournal::new();
    let whole = life(&journal, None).unwrap();
    assert_eq!(whole, ("3 None [1, 4, 9] 14".to_owned(), FlowPhase::Succeeded));
    let writes = journal.writes();
    assert!(writes > 8, "{writes} writes");
    for kill in 1..=writes {
        let journal = MemoryJournal::new();
        let end = life(&journal, Some(kill)).or_else(|| life(&journal, None));
        assert_eq!(end.unwrap(), whole, "killed at write {kill}");
    }
}

#[test]
fn killed_again_and_again_it_ends_the_same() {
    let journal = MemoryJournal::new();
    let lives = std::iter::repeat_with(|| life(&journal, Some(4))).take(100);
    let end = lives.enumerate().find_map(|(number, end)| Some((number, end?)));
    let (lives, end) = end.expect("each life gets on");
    assert!(lives > 2, "{lives}");
    assert_eq!(end, ("3 None [1, 4, 9] 14".to_owned(), FlowPhase::Succeeded));
}

#[test]
fn a_step_that_is_lost_too_often_fails() {
    for (limit, lives, phase) in [(1, 3, FlowPhase::Failed), (5, 3, FlowPhase::Running)] {
        let journal = MemoryJournal::new();
        let mut last = FlowPhase::Pending;
        for _ in 0..lives {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            last = runtime.block_on(async {
                let flow = Durable::with_journal(Arc::new(journal.clone())).flow("lost").crash_limit(limit);
                flow.step("long", (), |_, ()| std::future::pending::<Result<(), StepError>>());
                let run = flow.start("1").await.unwrap();
                let ended = tokio::time::timeout(Duration::from_millis(300), run.end()).await;
                ended.map_or_else(|_| run.status().phase, |ended| ended.unwrap().phase)
            });
            runtime.shutdown_background();
        }
        assert_eq!(last, phase, "limit {limit}");
    }
}

/// Whatever becomes of the program, no attempt begins before it is written down that it was started.
#[test]
fn no_attempt_runs_twice_under_its_number() {
    for kill in 1..=8 {
        let (journal, ran) = (MemoryJournal::new(), Ran::default());
        for writes in [kill, kill, u64::MAX] {
            let dying = Dying::new(&journal, writes);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let flow = Durable::with_journal(Arc::clone(&dying) as _).flow("numbers");
                let noted = Arc::clone(&ran);
                let step = flow.step("work", (), move |step, ()| {
                    noted.lock().unwrap().push(format!("{} {}", step.key(), step.attempt()));
                    async { Ok(()) }
                });
                let work = async {
                    if let Ok(run) = flow.start("1").await {
                        drop(run.output(&step).await);
                    }
                };
                tokio::select! {
                    () = work => {}
                    () = dying.dead.notified() => {}
                }
            });
            runtime.shutdown_background();
        }
        let ran = ran.lock().unwrap();
        let unique: std::collections::BTreeSet<&String> = ran.iter().collect();
        assert_eq!(unique.len(), ran.len(), "killed at write {kill}: {ran:?}");
    }
}
