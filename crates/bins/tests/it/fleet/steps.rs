//! Steps of flows on a worker: their processes, and what becomes of them when their agent is killed.

use std::time::Duration;

use serde_json::{Value, json};

use super::limits::Group;
use super::programs::{Programs, Scheduler, json as get, until};

fn step(name: &str, script: &str) -> Value {
    let container = json!({
        "name": "main", "command": ["sh", "-c", script],
        "resources": { "requests": { "cpu": "10m", "memory": "32Mi" } },
    });
    let pod = json!({ "containers": [container], "terminationGracePeriodSeconds": 1 });
    let template = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": pod } } });
    json!({ "name": name, "template": template })
}

fn flow_of(programs: &Programs, name: &str, steps: &[Value]) -> String {
    let flow = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": name },
        "spec": { "steps": steps },
    });
    let place = programs.path(&format!("{name}.json"));
    std::fs::write(&place, flow.to_string()).expect("a file is written");
    place.display().to_string()
}

fn flow(programs: &Programs, name: &str, script: &str) -> String {
    flow_of(programs, name, &[step("a", script)])
}

/// The status of a flow once it has ended.
fn ended(programs: &Programs, server: &Scheduler, name: &str) -> Value {
    until("the end of a flow", || {
        let shown = programs.orlop(&server.rest, &["flow", "get", name, "--target", "fleet", "-o", "json"]).out;
        let status = serde_json::from_str::<Value>(&shown).ok()?["status"].clone();
        matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")).then_some(status)
    })
}

fn logs(programs: &Programs, server: &Scheduler, name: &str) -> String {
    programs.orlop(&server.rest, &["flow", "logs", name, "--target", "fleet"]).out
}

/// Parents and command lines of all processes.
fn processes() -> Vec<(i32, i32, String)> {
    let pids = std::fs::read_dir("/proc")
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let one = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((pid, parent, String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned()))
    };
    pids.filter_map(one).collect()
}

#[test]
fn a_step_is_one_process_below_the_supervisor_as_a_job_is() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let worker = programs.worker("w1", &[&server.grpc], &[]);
    let [of_step, of_job] = [seconds(1), seconds(2)];
    let file = flow(&programs, "one", &format!("exec sleep {of_step}"));
    programs.good(&server.rest, &["flow", "submit", &file, "--target", "fleet"]);
    programs.good(&server.rest, &["submit", "--cpu", "100m", "--memory", "1Mi", "--", "sleep", &of_job]);
    let below = |seconds: &str| {
        let all = processes();
        let sleep = format!("sleep {seconds}");
        let (_, supervisor, _) = all.iter().find(|(.., line)| *line == sleep)?;
        let (_, agent, line) = all.iter().find(|(pid, ..)| pid == supervisor)?;
        let children = all.iter().filter(|(_, parent, _)| parent == supervisor).count();
        Some((*agent, line.ends_with("__supervisor"), children))
    };
    let agent = i32::try_from(worker.pid()).expect("a process id");
    let (step, job) = (until("the step", || below(&of_step)), until("the job", || below(&of_job)));
    assert_eq!((step, job), ((agent, true, 1), (agent, true, 1)));
    programs.good(&server.rest, &["flow", "terminate", "one", "--target", "fleet"]);
    until("its end", || below(&of_step).is_none().then_some(()));
}

/// A number of seconds that nobody else sleeps for on this machine.
fn seconds(n: u32) -> String {
    format!("{}", 100_000 + 10 * u64::from(std::process::id()) + u64::from(n))
}

#[test]
fn a_step_goes_on_when_its_agent_is_killed_and_no_line_of_it_is_missing_or_comes_twice() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let mut agent = programs.worker("w1", &[&server.grpc], &[]);
    let script = "for n in $(seq 1 60); do echo line $n; echo other $n >&2; sleep 0.1; done; exit 3";
    let file = flow(&programs, "long", script);
    programs.good(&server.rest, &["flow", "submit", &file, "--target", "fleet"]);
    let logs = || logs(&programs, &server, "long");
    until("its start", || logs().contains("line 1\n").then_some(()));
    let since = get(&server.rest, "/jobs").expect("jobs")["items"][0]["started_at"].clone();
    for wanted in ["line 5\n", "line 20\n"] {
        until("a part of its output", || logs().contains(wanted).then_some(()));
        agent.kill();
        let before = written(&programs);
        until("output without an agent", || (written(&programs) > before).then_some(()));
        agent = programs.worker("w1", &[&server.grpc], &[]);
    }
    let status = ended(&programs, &server, "long");
    let step = &status["steps"][0];
    assert_eq!((&step["reason"], &step["attempt"]), (&json!("NonZeroExit"), &json!(1)), "{status}");
    let text = logs();
    for stream in ["line", "other"] {
        let prefix = format!("a/1 {stream} ");
        let seen: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let all: Vec<String> = (1..=60).map(|n| n.to_string()).collect();
        assert_eq!(seen, all, "{stream}");
    }
    let jobs = get(&server.rest, "/jobs").expect("jobs");
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(1), "{jobs}");
    assert_eq!(jobs["items"][0]["started_at"], since, "it ran from its first start on: {jobs}");
}

/// Bytes of the logs of steps below the state of the worker.
fn written(programs: &Programs) -> u64 {
    fn below(folder: &std::path::Path) -> u64 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .map(|entry| match entry.file_type() {
                Ok(kind) if kind.is_dir() => below(&entry.path()),
                _ if entry.path().extension().is_some_and(|ending| ending == "out") => {
                    entry.metadata().map_or(0, |found| found.len())
                }
                _ => 0,
            })
            .sum()
    }
    below(&programs.path("w1-state/work"))
}

#[test]
fn no_step_is_run_again_or_lost_whenever_its_agent_is_killed() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let mut agent = programs.worker("w1", &[&server.grpc], &[]);
    let chain = |n: usize| {
        let mut step = step(&format!("s{n}"), "echo ran; sleep 0.0$(($$ % 10))");
        if n >= 6 {
            step["dependencies"] = json!([format!("s{}", n - 6)]);
        }
        step
    };
    // One is there whenever the agent is killed.
    let long = step("long", "echo ran; sleep 4");
    let steps: Vec<Value> = (0..48).map(chain).chain([long]).collect();
    let file = flow_of(&programs, "many", &steps);
    programs.good(&server.rest, &["flow", "submit", &file, "--target", "fleet"]);
    for round in 0..8_u64 {
        until("a step that runs", || {
            let jobs = get(&server.rest, "/jobs?state=Running")?;
            jobs["items"].as_array().is_some_and(|jobs| !jobs.is_empty()).then_some(())
        });
        std::thread::sleep(Duration::from_millis(round * 17 % 60));
        agent.kill();
        agent = programs.worker("w1", &[&server.grpc], &[]);
    }
    let status = ended(&programs, &server, "many");
    let all = status["steps"].as_array().expect("steps");
    let log = programs.log("w1");
    assert!(log.contains("fate=Adopt"), "an agent found a step that ran: {log}");
    let odd: Vec<&Value> = all.iter().filter(|step| step["phase"] != "Succeeded" || step["attempt"] != 1).collect();
    assert!(odd.is_empty() && all.len() == 49, "{odd:?}\n{log}");
    let text = logs(&programs, &server, "many");
    for n in 0..48 {
        assert_eq!(text.matches(&format!("s{n}/1 ran\n")).count(), 1, "s{n}: {text}");
    }
    drop(agent);
}

#[test]
fn the_limits_of_a_worker_hold_for_steps_as_for_jobs() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let group = Group::make("steps");
    let place = group.as_ref().map(|group| group.0.display().to_string());
    let mut args = vec!["--rlimit=nofile=99".to_owned(), "--rlimit=fsize=4096".to_owned()];
    args.extend(place.iter().map(|place| format!("--cgroup={place}")));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let _worker = programs.worker("w1", &[&server.grpc], &args);
    let file = flow(&programs, "limited", "ulimit -n; ulimit -Hn; ulimit -f; cat /proc/self/cgroup; umask");
    programs.good(&server.rest, &["flow", "submit", &file, "--target", "fleet"]);
    let status = ended(&programs, &server, "limited");
    let text = logs(&programs, &server, "limited");
    assert_eq!(status["phase"], "Succeeded", "{status} {text}");
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("a/1 ")).collect();
    assert_eq!((&lines[..3], lines.last()), (&["99", "99", "8"][..], Some(&"0022")), "{text}");
    let Some(group) = group else {
        return println!(
            "skipped: the_limits_of_a_worker_hold_for_steps_as_for_jobs: no control group can be made here"
        );
    };
    let name = group.0.file_name().expect("a name").display().to_string();
    let own = lines.iter().find_map(|line| line.split_once(&format!("/{name}/"))).expect("its group").1;
    let (job, pod) = own.split_once('/').expect("the group of its pod in that of its job");
    assert!(job.starts_with("orlop-j") && pod.starts_with("orlop-"), "{own}");
    until("the end of the groups", || (!group.0.join(job).exists()).then_some(()));
}

#[test]
fn a_step_that_is_terminated_while_no_agent_is_there_ends_as_asked() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let mut agent = programs.worker("w1", &[&server.grpc], &[]);
    let seconds = seconds(3);
    let file = flow(&programs, "asked", &format!("echo begun; exec sleep {seconds}"));
    programs.good(&server.rest, &["flow", "submit", &file, "--target", "fleet"]);
    until("its start", || logs(&programs, &server, "asked").contains("begun").then_some(()));
    agent.kill();
    programs.good(&server.rest, &["flow", "terminate", "asked", "--target", "fleet"]);
    let sleep = format!("sleep {seconds}");
    let sleeps = || processes().into_iter().any(|(.., line)| line == sleep);
    assert!(sleeps(), "it goes on without its agent");
    agent = programs.worker("w1", &[&server.grpc], &[]);
    let status = ended(&programs, &server, "asked");
    let step = &status["steps"][0];
    assert_eq!((&status["phase"], &step["phase"]), (&json!("Failed"), &json!("Failed")), "{status}");
    assert_eq!((&step["reason"], &step["attempt"]), (&json!("Terminated"), &json!(1)), "{status}");
    until("its end", || (!sleeps()).then_some(()));
    drop(agent);
}

#[test]
fn a_worker_that_runs_jobs_as_users_says_why_it_runs_no_steps() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: a_worker_that_runs_jobs_as_users…: only root runs processes as other users");
    }
    let programs = Programs::new();
    std::fs::set_permissions(programs.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o711))
        .expect("it is ours");
    let server = programs.leader("s1", &[]);
    let _worker = programs.worker("w1", &[&server.grpc], &["--user=default=54321"]);
    let file = flow(&programs, "nobody", "true");
    programs.good(&server.rest, &["flow", "submit", &file, "--target", "fleet"]);
    let status = ended(&programs, &server, "nobody");
    let step = &status["steps"][0];
    let message = step["message"].as_str().unwrap_or_default();
    assert!(step["reason"] == "StepsUnsupported" && message.contains("as users of their tenants"), "{status}");
}
