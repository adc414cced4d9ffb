//! Attempts under limits of resources, and as other users where this user is root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::process::{ResourceLimit, ResourceLimits};
use orlop_cloud::runtime::worker::process::{ProcessOptions, ProcessRuntime};
use orlop_cloud::runtime::worker::{AttemptEnd, AttemptPlan, JobRuntime, Secret, User};
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{LogStream, TaskEnd};

use super::recorder::Recorder;
use super::{Machine, script};
use crate::process::program;

/// A user without a name, whose group is another number.
const USER: User = User { uid: 54_321, gid: 54_322 };

fn helped(options: &mut ProcessOptions) {
    options.launcher = Some(RoleProgram { path: program(), args: vec!["__launcher".into()] });
}

/// A machine whose attempts run as users; none where this test is not root's.
fn of_users() -> Option<Machine> {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root runs attempts as other users");
        return None;
    }
    // A group that no job may keep.
    nix::unistd::setgroups(&[nix::unistd::Gid::from_raw(54_399)]).unwrap();
    Some(Machine::with(|options| {
        helped(options);
        options.users = true;
        options.supervisor = Some(RoleProgram { path: program(), args: vec!["__supervisor".into()] });
        // It can be passed, and no more.
        let above = options.work.parent().unwrap();
        fs::set_permissions(above, fs::Permissions::from_mode(0o711)).unwrap();
    }))
}

/// What an attempt and its worker said, on all streams, and its end.
fn ended(machine: &Machine, job: AttemptPlan) -> (String, AttemptEnd) {
    let id = job.id;
    machine.runtime.start(job);
    let (reports, end) = machine.reported.ended(id);
    let streams = [LogStream::Stdout, LogStream::Stderr, LogStream::System];
    (streams.map(|stream| String::from_utf8(reports.bytes(stream)).unwrap()).concat(), end)
}

#[test]
fn limits_of_resources_hold_from_the_first_instruction_and_others_stay() {
    let limits =
        ResourceLimits::from([(ResourceLimit::Nofile, 99), (ResourceLimit::Fsize, 4096), (ResourceLimit::Core, 0)]);
    let machine = Machine::with(|options| {
        helped(options);
        options.limits = limits;
    });
    let (text, end) = ended(&machine, script("ulimit -n; ulimit -Hn; ulimit -c; head -c 9000 /dev/zero > big"));
    assert!(text.starts_with("99\n99\n0\n"), "{text}");
    assert_eq!(end.outcome, TaskEnd::Failed, "a file is longer than it may be");
    let (text, ..) = ended(&Machine::new(), script("ulimit -Hc; ulimit -n"));
    let files: u64 = text.lines().nth(1).unwrap().parse().unwrap();
    assert!(text.starts_with("0\n") && files > 99, "{text}");
}

#[test]
fn limits_and_users_that_cannot_be_enforced_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut ProcessOptions)| {
        let mut options = ProcessOptions::new("w", dir.path().join("work"));
        change(&mut options);
        ProcessRuntime::new(options, std::sync::Arc::new(Recorder::default())).unwrap_err().message
    };
    let message = refused(&|options| options.limits = ResourceLimits::from([(ResourceLimit::Nofile, 99)]));
    assert!(message.contains("need a launcher"), "{message}");
    let root = nix::unistd::geteuid().is_root();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let message = refused(&|options| {
        helped(options);
        options.users = true;
    });
    assert!(message.contains(if root { "allow it with `chmod o+x`" } else { "which only root may do" }), "{message}");
    if !root {
        let message = refused(&|options| {
            helped(options);
            options.limits = ResourceLimits::from([(ResourceLimit::Core, u64::MAX)]);
        });
        assert!(message.contains("`core` is unlimited"), "{message}");
    }
}

#[test]
fn a_job_is_its_tenants_user_and_has_no_group_of_ours() {
    let Some(machine) = of_users() else { return };
    // What it may do: read its inputs and secrets, write where it works, open its outputs by name.
    let inputs = machine.dir.path().join("inputs");
    fs::create_dir(&inputs).unwrap();
    for (name, text) in [("single", "one"), ("linked", "two")] {
        fs::write(inputs.join(name), text).unwrap();
        fs::set_permissions(inputs.join(name), fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(&inputs, fs::Permissions::from_mode(0o700)).unwrap();
    let mut job = script(
        "id -u; id -g; id -G; cat \"$ORLOP_SECRETS_DIR/key\"; cat \"$ORLOP_ARTIFACTS_DIR/single\" \"$HOME/linked\"; echo
         stat -c '%u:%g %a' . \"$HOME\" \"$ORLOP_SECRETS_DIR/key\"; echo by name > /dev/stdout
         echo a=1 > \"$ORLOP_OUTPUT\"; ls \"$HOME/..\" 2>&1; kill -0 $PPID 2>&1",
    );
    let given_as = SecretAs::File;
    job.secrets = vec![Secret { name: "k".to_owned(), value: "abc".to_owned(), given_as, target: "key".to_owned() }];
    (job.user, job.artifacts) = (Some(USER), Some(inputs.clone()));
    let mut spec = (*job.run).clone();
    spec.working_dir = Some("deep/down".to_owned());
    job.run = spec.into();
    let (text, end) = ended(&machine, job);
    let mut lines = text.lines();
    assert_eq!(lines.by_ref().take(4).collect::<Vec<_>>(), ["54321", "54322", "54322", "abconetwo"], "{text}");
    let own = lines.by_ref().take(4).collect::<Vec<_>>();
    assert_eq!(own, ["54321:54322 700", "54321:54322 700", "54321:54322 400", "by name"], "{text}");
    assert!(text.contains("Permission denied") && text.contains("not permitted"), "others are out of reach: {text}");
    assert_eq!(end.outputs.get("a").map(String::as_str), Some("1"));
    // What it was lent is not its own.
    assert_eq!(fs::metadata(inputs.join("linked")).unwrap().uid(), 0);
    // A program of root alone is none of its.
    let private = machine.dir.path().join("private");
    fs::write(&private, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    let mut job = script("");
    let mut spec = (*job.run).clone();
    spec.argv = vec![private.display().to_string()];
    (job.run, job.user) = (spec.into(), Some(USER));
    let (text, end) = ended(&machine, job);
    assert_eq!((end.outcome, end.exit_code), (TaskEnd::Failed, Some(126)));
    assert!(text.contains("cannot be run: Permission denied"), "{text}");
}

#[test]
fn a_job_under_a_supervisor_is_its_tenants_user_too() {
    let Some(machine) = of_users() else { return };
    let mut job = script("id -u; id -G; pwd");
    let mut spec = (*job.run).clone();
    spec.survive = true;
    (job.run, job.user) = (spec.into(), Some(USER));
    let (text, end) = ended(&machine, job);
    assert!(end.outcome == TaskEnd::Succeeded && text.starts_with("54321\n54322\n/"), "{end:?} {text}");
}

#[test]
fn no_job_is_roots_by_mistake() {
    let Some(machine) = of_users() else { return };
    let (text, end) = ended(&machine, script("id -u"));
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "user"));
    assert!(text.contains("this tenant has none here"), "{text}");
    let mut job = script("id -u");
    job.user = Some(USER);
    let (text, end) = ended(&Machine::new(), job);
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "user"));
    assert!(text.contains("as its own user only"), "{text}");
}
