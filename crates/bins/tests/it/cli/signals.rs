//! Programs of a step that send, catch and end by signals, run as processes by the real `orlop`.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::bench::{Bench, ReleaseFile, end, phases, signal, step};
use crate::ongoing::until;

/// A step that runs a command.
fn runs(name: &str, command: &[&str]) -> Value {
    let mut step = step(name, "");
    step["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = json!(command);
    step
}

/// Whether a program is here; says so where it is not.
fn is_here(program: &str) -> bool {
    let here = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !here {
        println!("skipped: signals of {program}: it is not here");
    }
    here
}

/// Less than the time between asking a program to end and killing it.
const GRACE: Duration = Duration::from_secs(25);
const SAVES: &str = "exec 2>/dev/null; trap 'echo saved; exit 0' TERM; echo ready; sleep 100; echo woke";
const PYTHON_SAVES: &str = "
import signal, sys, time
def save(*_):
    print('saved', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print('ready', flush=True)
time.sleep(100)";
const PYTHON_CHILDREN: &str = "
import multiprocessing, os, signal, subprocess, time
child = subprocess.Popen(['sleep', '100'])
child.terminate()
print(child.wait(), end=' ')
child = subprocess.Popen(['sleep', '100'])
child.send_signal(signal.SIGINT)
print(child.wait(), end=' ')
child = multiprocessing.Process(target=time.sleep, args=(100,))
child.start()
child.terminate()
child.join()
print(child.exitcode, end=' ')
signal.signal(signal.SIGUSR1, lambda *_: print('called', flush=True))
os.kill(os.getpid(), signal.SIGUSR1)";

#[test]
fn signals_reach_programs_as_from_a_shell() {
    let bench = Bench::new();
    let mut steps = vec![runs("timeout", &["timeout", "0.2", "sleep", "100"])];
    let mut expected = vec!["timeout=Failed/NonZeroExit"];
    if is_here("bash") {
        let children =
            "exec 2>/dev/null; sleep 100 & kill $!; wait $!; echo $?; trap 'echo called' USR1; kill -USR1 $BASHPID";
        let mut saves = runs("saves", &["bash", "-c", SAVES]);
        saves["timeoutSeconds"] = json!(2);
        steps.extend([runs("bash", &["bash", "-c", children]), saves]);
        expected.extend(["bash=Succeeded", "saves=Failed/Timeout"]);
    }
    if is_here("python3") {
        steps.push(runs("python", &["python3", "-c", PYTHON_CHILDREN]));
        expected.push("python=Succeeded");
    }
    let spec = json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": steps});
    let file = bench.flow("signals", &spec);
    let begun = Instant::now();
    let gave = bench.run(&file, &["--jobs", "8"]);
    assert!(begun.elapsed() < GRACE, "a grace was waited out: {gave:?}");
    let status = bench.status("signals").unwrap();
    assert_eq!(phases(&status), expected.join(" "));
    assert!(status["steps"][0]["message"].as_str().unwrap().contains("exit code 124"), "{status}");
    let log = |step: &str| bench.orlop(&["flow", "logs", "signals", step]).out;
    if expected.contains(&"bash=Succeeded") {
        assert_eq!(log("bash"), "bash/1 143\nbash/1 called\n");
        assert_eq!(log("saves"), "saves/1 ready\nsaves/1 saved\n");
    }
    if expected.contains(&"python=Succeeded") {
        assert_eq!(log("python"), "python/1 -15 -2 -15 called\n");
    }
}

#[test]
fn programs_save_their_work_when_their_flow_is_terminated() {
    let bench = Bench::new();
    let all = [("bash", SAVES), ("python3", PYTHON_SAVES)];
    let here: Vec<_> = all.into_iter().filter(|(program, _)| is_here(program)).collect();
    let steps: Vec<Value> = here.iter().map(|(program, script)| runs(program, &[program, "-c", script])).collect();
    if steps.is_empty() {
        return;
    }
    let child = bench.begin(&bench.flow("saves", &json!({"steps": steps})), &["--jobs", "2"]);
    let log = |step: &str| bench.orlop(&["flow", "logs", "saves", step]).out;
    bench.until("saves", |_| here.iter().all(|(program, _)| log(program).contains("ready")));
    let begun = Instant::now();
    assert_eq!(bench.orlop(&["flow", "terminate", "saves"]).code, 0);
    assert_eq!(end(child).code, 9);
    assert!(begun.elapsed() < GRACE, "the grace was waited out");
    for (program, _) in here {
        assert_eq!(log(program), format!("{program}/1 ready\n{program}/1 saved\n"));
    }
}

#[test]
fn an_order_to_a_host_that_is_stopped_is_withdrawn_and_never_carried_out() {
    let bench = Bench::new();
    let release = ReleaseFile::new();
    let file = bench.flow("stands", &json!({"steps": [step("a", &release.then("true"))]}));
    let child = bench.begin(&file, &[]);
    bench.until("stands", |status| phases(status) == "a=Running");
    signal(&child, Signal::SIGSTOP);
    let stat = format!("/proc/{}/stat", child.id());
    until("the host's stop", || std::fs::read_to_string(&stat).ok().filter(|stat| stat.contains(") T ")));
    let begun = Instant::now();
    let gave = bench.orlop(&["flow", "terminate", "stands"]);
    assert!(gave.code != 0 && gave.err.contains("the command is withdrawn"), "{gave:?}");
    assert!(begun.elapsed() < Duration::from_secs(60), "it waits for a while and not for ever");
    signal(&child, Signal::SIGCONT);
    release.open();
    let gave = end(child);
    assert_eq!(gave.code, 0, "{gave:?}");
}
