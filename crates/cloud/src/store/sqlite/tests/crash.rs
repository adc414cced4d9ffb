//! The journal of a host that is killed at any moment: what was acknowledged is there once, and nothing else is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use super::*;

const FILE: &str = "ORLOP_TEST_JOURNAL";
const FLOWS: usize = 4;

/// Not a test of its own: the host that is killed. Writes to several flows at once and says what was acknowledged.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = host(PathBuf::from(path)).await;
        println!("\nopen");
        join_all((0..FLOWS).map(|flow| write_for_ever(&journal, flow))).await;
    });
}

async fn write_for_ever(journal: &SqliteJournal, flow: usize) {
    let uid = format!("f{flow}");
    if journal.load(&uid).await.is_err() {
        journal.create(&record(&uid)).await.unwrap();
    }
    let mut last = journal.load(&uid).await.unwrap().last;
    loop {
        let batch: Vec<JournalEntry> = (1..=last % 3 + 1).map(|step| entry(format!("{uid}-{}", last + step))).collect();
        journal.append(&uid, last, &batch).await.unwrap();
        last += batch.len() as u64;
        // Past the capture of the test harness, in one write a line.
        std::io::stdout().write_all(format!("{flow} {last}\n").as_bytes()).unwrap();
        if last % 40 < 3 {
            journal.snapshot(&uid, last - 1, format!("through {}", last - 1).as_bytes()).await.unwrap();
        }
    }
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::sqlite::tests::crash::writer", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills a host after it has acknowledged this many appends. Gives the highest acknowledged number of each flow.
fn kill_after(path: &Path, appends: usize) -> [u64; FLOWS] {
    let mut child = spawn(path);
    let mut acknowledged = [0; FLOWS];
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut note = |line: String| {
        let Some((flow, last)) = line.split_once(' ') else { return false };
        let (Ok(flow), Ok(last)) = (flow.parse::<usize>(), last.parse()) else { return false };
        acknowledged[flow] = last;
        true
    };
    let mut seen = 0;
    while seen < appends {
        seen += usize::from(note(lines.next().unwrap().unwrap()));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it said before it died still counts; the last line may be cut off.
    for line in lines.map_while(Result::ok) {
        note(line);
    }
    acknowledged
}

#[tokio::test]
async fn a_killed_host_loses_no_acknowledged_entry_and_doubles_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    let mut before = [0; FLOWS];
    for round in orlop_core::sample!(50, 12) {
        // From the first append to well past the first snapshots.
        let acknowledged = kill_after(&path, 1 + round * 7 % 60);
        let journal = host(&path).await;
        for flow in 0..FLOWS {
            let uid = format!("f{flow}");
            let Ok(stored) = journal.load(&uid).await else {
                assert_eq!(acknowledged[flow], 0, "flow {uid} is lost");
                continue;
            };
            assert!(stored.last >= acknowledged[flow].max(before[flow]), "{uid}: {} < {acknowledged:?}", stored.last);
            let covered = stored.snapshot.as_ref().map_or(0, |(through, _)| *through);
            if let Some((through, state)) = &stored.snapshot {
                assert_eq!(state, format!("through {through}").as_bytes());
            }
            let texts: Vec<String> = stored.entries.into_iter().map(|entry| entry.event).collect();
            let wanted: Vec<String> = (covered + 1..=stored.last).map(|number| format!("{uid}-{number}")).collect();
            assert_eq!(texts, wanted, "round {round}");
            before[flow] = stored.last;
        }
        journal.close().await;
    }
    assert!(before.iter().all(|last| *last > 50), "{before:?}");
}
