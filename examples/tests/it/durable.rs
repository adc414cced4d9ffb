//! The programs of durable functions, killed at moments of their life and started again.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the program writes in its last life, after it was killed each time it had run so long.
fn output_after_kills(program: &str, file: &Path, after: &[Duration]) -> Vec<String> {
    for after in after {
        let mut child = Command::new(program).arg(file).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(*after);
        // It may have ended.
        drop(child.kill());
        drop(child.wait());
    }
    let ended = Command::new(program).arg(file).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn killed_at_any_moment_the_end_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let report = env!("CARGO_BIN_EXE_durable_report");
    for number in orlop_core::sample!(60, 5) {
        let file = folder.path().join(format!("{number}.db"));
        let after = [Duration::from_millis(number as u64 * 10), Duration::from_millis(60)];
        let lines = output_after_kills(report, &file, &after);
        let end = "3 pages, 14 words, warning None";
        assert_eq!(lines.last().map(String::as_str), Some(end), "killed after {after:?}");
        assert_eq!(output_after_kills(report, &file, &[]), [end], "once more: no step runs again");
    }
}

#[test]
fn three_steps_give_their_value() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.db");
    for _ in 0..2 {
        assert_eq!(output_after_kills(env!("CARGO_BIN_EXE_durable"), &file, &[]), ["17 by order/17/charge 3"]);
    }
}

#[test]
fn a_second_program_fails_with_the_owner_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.db");
    let mut first =
        Command::new(env!("CARGO_BIN_EXE_durable_report")).arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    // Its first step runs: it has the file.
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let second = Command::new(env!("CARGO_BIN_EXE_durable")).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    drop(first.kill());
    drop(first.wait());
    assert!(!second.status.success() && said.contains("is hosted by process"), "{said}");
}
