//! The store of a server that is killed at any moment: a commit is there whole or not at all, and what was acknowledged is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use orlop_core::ports::fleet_store::{
    AttemptFilter, AuditEntry, AuditFilter, FleetReads as _, JobFilter, Record, SortOrder,
};

use super::values::{attempt, ended, holder, new_attempt, new_job, spec};
use super::*;

const FILE: &str = "ORLOP_TEST_FLEET_STORE";
/// Jobs of one commit.
const JOBS: u64 = 40;

/// Not a test of its own: the server that is killed. Says which commits were acknowledged.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteFleet::open(PathBuf::from(path), Durability::Full).await.unwrap();
        let epoch = store.acquire(&holder()).await.unwrap();
        let newest = JobFilter { order: SortOrder::Descending, ..JobFilter::default() };
        let last = store.jobs(&newest, &Page::first(1)).await.unwrap().items.first().map(|row| row.job.id.as_u64());
        let first = last.map_or(0, |last| last / JOBS + 1);
        println!("\nopen");
        for number in first.. {
            store.commit(epoch, turns(number)).await.unwrap();
            // Past the capture of the test harness, in one write a line.
            std::io::stdout().write_all(format!("{number}\n").as_bytes()).unwrap();
        }
    });
}

/// A commit that touches many tables: several jobs, each with an ended attempt, and a line of the audit trail.
fn turns(number: u64) -> Vec<WriteBatch> {
    let mut records = vec![Record::Spec(Box::new(spec()))];
    for job in number * JOBS..(number + 1) * JOBS {
        records.extend([new_job(job), new_attempt(attempt(job, 1)), ended(attempt(job, 1), true)]);
    }
    let target = number.to_string();
    let line = AuditEntry {
        number: 0,
        time: orlop_core::time::Time::EPOCH,
        actor: "a".to_owned(),
        tenant: None,
        action: "jobs.submit".into(),
        target,
        outcome: "ok".into(),
        request_id: None,
    };
    records.push(Record::Audit(Box::new(line)));
    vec![WriteBatch::new(records)]
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::sqlite::fleet::tests::crash::writer", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills a server after it has acknowledged so many commits. Gives the last one it acknowledged.
fn kill_after(path: &Path, commits: usize) -> Option<u64> {
    let mut child = spawn(path);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    let mut seen = 0;
    while seen < commits {
        if let Ok(number) = lines.next().unwrap().unwrap().parse() {
            last = Some(number);
            seen += 1;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it said before it died still counts; the last line may be cut off.
    lines.map_while(Result::ok).filter_map(|line| line.parse().ok()).last().or(last)
}

#[tokio::test]
async fn a_killed_server_leaves_whole_commits_and_every_acknowledged_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    for round in orlop_core::sample!(20, 5) {
        let acknowledged = kill_after(&path, 1 + round * 3 % 17).unwrap();
        let store = SqliteFleet::open(&path, Durability::Full).await.unwrap();
        let lines = store.audit(&AuditFilter::default(), &Page::first(10_000)).await.unwrap().items;
        let commits: Vec<u64> = lines.iter().map(|line| line.target.parse().unwrap()).collect();
        assert_eq!(commits, (0..commits.len() as u64).collect::<Vec<_>>(), "round {round}");
        assert!(commits.len() as u64 > acknowledged, "round {round}: {acknowledged} is lost");
        let jobs = store.jobs(&JobFilter::default(), &Page::first(10_000)).await.unwrap();
        let total = commits.len() as u64 * JOBS;
        assert_eq!(jobs.items.len() as u64, total.min(10_000), "round {round}");
        for job in jobs.items.iter().rev().take(3 * usize::try_from(JOBS).unwrap()) {
            let attempts = store.attempts(job.job.id, &AttemptFilter::default(), &Page::first(9)).await.unwrap();
            assert_eq!(attempts.items.len(), 1, "round {round}: {}", job.job.id);
        }
        store.close().await;
    }
}
