//! Full and read-only disks, programs that are no supervisor, and machines that allow little.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use orlop_cloud::runtime::pod::{PodResult, PodRuntime};
use orlop_cloud::runtime::process::{ProcessRuntime, RoleProgram};
use orlop_core::error::Class;

use super::{PodFixture, in_time, plan, reason, runtime};

/// A small file system in memory, unmounted at the end; none where this user may not mount.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path()).output().unwrap();
        done.status.success().then_some(Self(dir))
    }

    /// Mounts it with other options. The kernel refuses that while a file on it is still open for writing: what has ended may
    /// be about to close one.
    fn remount(&self, options: &str) {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            let done = Command::new("mount").args(["-o", options]).arg(self.0.path()).output().unwrap();
            if done.status.success() {
                return;
            }
            assert!(Instant::now() < limit, "{}", String::from_utf8_lossy(&done.stderr));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A pod whose directory and standard output are on a disk.
fn pod_on(disk: &Disk, script: &str) -> PodFixture {
    let mut pod = PodFixture::new(script);
    pod.plan.directory = disk.path().join("pod");
    pod.plan.stdout = disk.path().join("1.out");
    std::fs::create_dir(&pod.plan.directory).unwrap();
    pod
}

#[tokio::test]
async fn a_full_disk_stops_neither_the_job_nor_its_record_nor_a_stop() {
    let Some(disk) = Disk::new("size=512k") else { return };
    let script =
        "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo done >&2; echo words > /dev/termination-log; sleep 1000";
    let pod = pod_on(&disk, script);
    pod.start().await;
    super::until(|| super::lines(&pod.plan.stderr).contains(&"done".to_owned())).await;
    pod.stop(Duration::from_secs(30)).await;
    let exit = pod.wait().await;
    assert_eq!(exit.result, PodResult::Cancelled);
    let record = ProcessRuntime::exit_record(&pod.plan.directory).unwrap().unwrap();
    assert!(record.lost_stdout > 2_000_000 && record.lost_stderr == 0, "{record:?}");
    let said = pod.out().pop().unwrap();
    let note = format!(
        "[{} bytes of this log could not be written: No space left on device (os error 28)]",
        record.lost_stdout
    );
    assert_eq!(said, note);
}

#[tokio::test]
async fn a_log_that_begins_on_a_full_disk_says_what_it_lacks() {
    let Some(disk) = Disk::new("size=512k") else { return };
    // Its /tmp is on that disk.
    let script = "cat /dev/zero 2>/dev/null >/tmp/fill; echo short >&2; head -c 9000 /dev/zero | tr '\\0' x; echo";
    let mut pod = pod_on(&disk, script);
    pod.plan.stderr = disk.path().join("1.err");
    pod.start().await;
    assert_eq!(pod.wait().await.result, PodResult::Succeeded);
    assert_eq!(super::lines(&pod.plan.stderr), ["short"]);
    let note = pod.out().pop().unwrap();
    assert!(note.ends_with("bytes of this log could not be written: No space left on device (os error 28)]"), "{note}");
}

#[tokio::test]
async fn a_disk_without_room_or_read_only_refuses_the_start() {
    let Some(disk) = Disk::new("size=64k") else { return };
    let plan = plan(disk.path(), "true");
    std::fs::create_dir(&plan.directory).unwrap();
    std::fs::write(disk.path().join("fill"), vec![0; 40 << 10]).unwrap();
    let runtime = runtime(None);
    let error = in_time(runtime.start(&plan)).await.unwrap_err();
    assert_eq!(error.class, Class::Capacity, "{error}");
    let text = error.to_string().replace(disk.path().to_str().unwrap(), "<disk>");
    insta::assert_snapshot!(text, @"No space left on device (os error 28), while keeping room for the record of the pod's end in `<disk>/pod/exit.pending`");
    // Nothing was claimed: with room it runs.
    std::fs::remove_file(disk.path().join("fill")).unwrap();
    disk.remount("remount,size=4m");
    in_time(runtime.start(&plan)).await.unwrap();
    assert_eq!(reason(&in_time(runtime.wait(&plan.key, &plan.directory)).await.unwrap()), "Succeeded");

    let mut plan = super::plan(disk.path(), "true");
    plan.directory = disk.path().join("other");
    std::fs::create_dir(&plan.directory).unwrap();
    disk.remount("remount,ro");
    let error = in_time(runtime.start(&plan)).await.unwrap_err();
    assert_eq!(error.class, Class::Denied, "{error}");
    let text = error.to_string().replace(disk.path().to_str().unwrap(), "<disk>");
    insta::assert_snapshot!(text, @"Read-only file system (os error 30), while opening `<disk>/other/lock`");
}

#[tokio::test]
async fn programs_that_are_no_supervisor_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path(), "true");
    std::fs::create_dir(&plan.directory).unwrap();
    let start = |path: &str| {
        let runtime = ProcessRuntime::new(RoleProgram { path: path.into(), args: vec!["__supervisor".into()] });
        let plan = plan.clone();
        async move { in_time(runtime.start(&plan)).await.unwrap_err().to_string() }
    };
    insta::assert_snapshot!(start("/no/such/program").await, @"the supervisor program `/no/such/program` cannot be run");
    insta::assert_snapshot!(start("/bin/false").await, @"`/bin/false` does not work as a supervisor: it ended without an answer, with exit code 1; a program that runs pods calls the supervisor first of all when it is started with these arguments");
    let error = start("/bin/ls").await;
    assert!(error.contains("does not work as a supervisor: ") && error.contains("__supervisor"), "{error}");
}

#[tokio::test]
async fn a_supervisor_started_by_hand_says_so() {
    let run = |input: &str| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("in");
        std::fs::write(&file, input).unwrap();
        Command::new(super::program()).arg("__supervisor").stdin(std::fs::File::open(&file).unwrap()).output().unwrap()
    };
    assert_eq!(run("").status.code(), Some(2));
    let output = run("hello supervisor, do something\n");
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @"a supervisor takes its orders from the runtime over a socket: Socket operation on non-socket (os error 88)");
}

#[tokio::test]
async fn what_can_never_run_is_refused() {
    let mut fixture = PodFixture::new("true");
    fixture.plan.main.command.clear();
    let error = in_time(fixture.runtime.start(&fixture.plan)).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Invalid, Some("TemplateInvalid")));
}

#[tokio::test]
async fn capabilities_are_found_by_trying() {
    let runtime = runtime(None);
    let capabilities = in_time(runtime.capabilities()).await.unwrap();
    assert!(capabilities.why.is_none() || capabilities.paths == orlop_cloud::runtime::process::Paths::Rewritten);
}
