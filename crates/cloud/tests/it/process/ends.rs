//! What is special to the ends of processes: commands that cannot be run, restarts beyond a deadline, and their environment.

use std::time::Duration;

use super::{PodFixture, reason};

#[tokio::test]
async fn commands_that_cannot_be_run_say_why() {
    let mut fixture = PodFixture::new("");
    fixture.plan.main.command = vec!["/etc/passwd".to_owned()];
    let exit = fixture.run().await;
    insta::assert_snapshot!(exit.containers[0].message, @"command `/etc/passwd` cannot be run: Permission denied (os error 13)");
    assert_eq!(exit.containers[0].exit_code, 126);
    let mut fixture = PodFixture::new("");
    fixture.plan.main.working_dir = Some("/etc/passwd".to_owned());
    let exit = fixture.run().await;
    assert_eq!((reason(&exit), exit.containers[0].exit_code), ("NonZeroExit", 128));
}

#[tokio::test]
async fn the_deadline_ends_restarts_too() {
    let mut fixture = PodFixture::new("exit 1");
    fixture.plan.restart_on_failure = true;
    fixture.plan.restart_limit = u32::MAX;
    fixture.plan.active_deadline = Some(Duration::from_millis(300));
    assert_eq!(reason(&fixture.run().await), "DeadlineExceeded");
}

#[tokio::test]
async fn the_environment_is_the_plan_s() {
    let fixture = PodFixture::new("env | cut -d= -f1 | sort | tr '\\n' ' '").env("B", "1", false);
    fixture.run().await;
    let names = fixture.out().join(" ");
    assert!(names.contains(" B ") || names.starts_with("B "), "{names}");
    assert!(!names.contains("CARGO"), "{names}");
    let mut fixture = PodFixture::new("echo $CUDA_VISIBLE_DEVICES");
    fixture.plan.main.gpus = vec![1, 3];
    fixture.run().await;
    assert_eq!(fixture.out(), ["1,3"]);
}
