//! What the compared programs share: the folder they are given, what a step does that can be seen from outside, and the end of a
//! program in the middle of a step. Owns nothing of the job.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The input of the job.
pub const INPUT: &str = "3 1 4 1 5";

/// Where a program keeps its files: its first argument.
pub fn folder() -> PathBuf {
    std::env::args().nth(1).expect("usage: PROGRAM DIR").into()
}

/// What a step does: writes its name to the file `effects`, and takes a tenth of a second. With `DIE_IN=<step>` the program is killed
/// once in it: at the end of that time, with `DIE_AT=start` before it.
pub async fn work(step: &str) {
    let effects = OpenOptions::new().create(true).append(true).open(folder().join("effects"));
    writeln!(effects.expect("the file of effects opens"), "{step}").expect("the effect is written");
    let dies = std::env::var("DIE_IN").is_ok_and(|name| name == step);
    let early = std::env::var("DIE_AT").is_ok_and(|moment| moment == "start");
    if dies && early {
        die();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    if dies {
        die();
    }
}

/// Kills the program, but for the second time.
fn die() {
    if File::create_new(folder().join("died")).is_ok() {
        // The shell is a child of this process.
        Command::new("sh").args(["-c", "kill -KILL $PPID"]).status().expect("a shell starts");
        loop {
            std::thread::park();
        }
    }
}
