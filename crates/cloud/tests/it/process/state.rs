//! The state in which programs start: what a runtime, a supervisor or a supervisor sets for itself reaches none of them.

use std::process::{Command, Stdio};

use nix::sys::signal::{SigSet, Signal};
use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::process::{ResourceLimit, ResourceLimits};
use orlop_cloud::runtime::worker::JobRuntime;
use orlop_cloud::runtime::worker::process::ProcessOptions;
use orlop_core::task::Run;
use serde_json::Value;

use super::{PodFixture, program};
use crate::worker::{Machine, plan};

const STATE: &str = "__state";

/// The state of the example program as a process of a worker.
fn of_worker(machine: &Machine, survive: bool) -> Value {
    let argv = vec![program().display().to_string(), STATE.to_owned()];
    let job = plan(Run { argv, survive, ..Run::default() });
    let id = job.id;
    machine.runtime.start(job);
    serde_json::from_str(&machine.reported.ended(id).0.text()).unwrap()
}

/// What a state shows that is nobody's to choose.
fn common(mut state: Value) -> Value {
    for chosen in ["environment", "umask", "oomScoreAdj", "leadsGroup", "open"] {
        state.as_object_mut().unwrap().remove(chosen);
    }
    // Two signals are the C library's own: whether they are ignored passes on, and no program can choose it.
    let ignored = u64::from_str_radix(state["signals"]["SigIgn"].as_str().unwrap(), 16).unwrap();
    state["signals"]["SigIgn"] = (ignored & !(0b11 << 31)).into();
    state
}

#[tokio::test]
async fn what_a_supervisor_sets_for_itself_reaches_no_program() {
    // This program was started with one descriptor more.
    let open = std::fs::File::open("/dev/null").unwrap();
    nix::fcntl::fcntl(&open, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    // A worker keeps its own files to itself.
    let _ = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    // A worker limits its own process, and with it all that this test starts.
    let supervisor = |options: &mut ProcessOptions| {
        options.supervisor = Some(RoleProgram { path: program(), args: vec!["__supervisor".into()] });
    };
    let machines = [
        ("a worker", Machine::new(), false),
        ("a supervisor", Machine::with(supervisor), true),
        (
            "a launcher",
            Machine::with(|options| {
                supervisor(options);
                options.launcher = Some(RoleProgram { path: program(), args: vec!["__launcher".into()] });
                options.limits = ResourceLimits::from([(ResourceLimit::Core, 0)]);
            }),
            true,
        ),
    ];
    let bare = Command::new(program()).arg(STATE).stdin(Stdio::null()).output().unwrap();
    let bare: Value = serde_json::from_slice(&bare.stdout).unwrap();
    // Whoever embeds a runtime may have set much, too.
    let blocked = SigSet::from_iter([Signal::SIGUSR2, Signal::SIGWINCH]);
    blocked.thread_block().unwrap();
    let mut fixture = PodFixture::new("");
    fixture.plan.main.command = vec![program().display().to_string(), STATE.to_owned()];
    fixture.run().await;
    let pod: Value = serde_json::from_str(&fixture.out().concat()).unwrap();
    let jobs = machines.map(|(whose, machine, survive)| (whose, of_worker(&machine, survive)));
    drop(open);
    blocked.thread_unblock().unwrap();

    assert_eq!(pod["open"], serde_json::json!([0, 1, 2]));
    assert_eq!(common(pod.clone()), common(bare.clone()), "a supervisor");
    assert_eq!((&pod["umask"], &pod["leadsGroup"]), (&bare["umask"], &true.into()));
    // The supervisor is to be the last of the pod that is killed for memory.
    assert_eq!(pod["oomScoreAdj"], "100");
    for (whose, job) in jobs {
        assert_eq!(common(job.clone()), common(bare.clone()), "{whose}");
        assert_eq!(job["open"], serde_json::json!([0, 1, 2]), "{whose}");
        assert_eq!((&job["umask"], &job["oomScoreAdj"]), (&Value::from("0022"), &bare["oomScoreAdj"]), "{whose}");
        let names: Vec<&str> = job["environment"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(
            names.iter().all(|name| ["HOME", "LANG", "PATH"].contains(name) || name.starts_with("ORLOP_")),
            "{names:?}"
        );
    }
    let names: Vec<&str> = pod["environment"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let known = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "ORLOP_POD", "PATH", "SHELL", "TZ", "USER"];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
}
