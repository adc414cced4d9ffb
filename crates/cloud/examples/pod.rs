//! Runs one command as a pod of processes and tells how it ended: the smallest program that embeds the runtime, supervisor
//! included. Owns nothing but its arguments.
//!
//! ```text
//! cargo run -p orlop-cloud --features process --example pod -- /tmp/some-new-directory sh -c 'echo hello; exit 3'
//! ```
//!
//! Kill it while the command runs and start it again with the same directory: it finds the pod and its end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use orlop_cloud::runtime::pod::{ContainerPlan, HostNamespaces, PodKey, PodPlan, PodRuntime};
use orlop_cloud::runtime::process::{ProcessRuntime, RoleProgram};
use orlop_cloud::runtime::worker::process::{launch, supervise};
use orlop_core::attempt::AttemptKey;

/// The hidden argument with which this program is the supervisor of pods or of a worker's attempts.
const SUPERVISOR: &str = "__supervisor";
/// The hidden argument with which it joins a control group and becomes an attempt's command.
const LAUNCHER: &str = "__launcher";
/// The hidden argument with which it prints the state it was started in.
const STATE: &str = "__state";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((first, _)) if first == SUPERVISOR => supervise::main(),
        Some((first, _)) if first == STATE => state(),
        Some((first, _)) if first == LAUNCHER => launch(std::env::args_os().skip(2)),
        Some((directory, command)) if !command.is_empty() => match run(Path::new(directory), command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("error: {error}"));
                ExitCode::FAILURE
            }
        },
        _ => {
            say("usage: pod DIRECTORY COMMAND [ARGUMENT]…");
            ExitCode::from(2)
        }
    }
}

fn run(directory: &Path, command: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pods = ProcessRuntime::new(RoleProgram { path: std::env::current_exe()?, args: vec![SUPERVISOR.into()] });
    std::fs::create_dir_all(directory)?;
    let plan = plan(directory.to_owned(), command);
    runtime.block_on(async {
        say(&format!("started {}", pods.start(&plan).await?.id));
        let exit = pods.wait(&plan.key, &plan.directory).await?;
        say(&format!("ended {:?}", exit.result));
        Ok(())
    })
}

fn plan(directory: PathBuf, command: &[String]) -> PodPlan {
    let attempt = AttemptKey { flow: "example".into(), step: "only".into(), item: None, attempt: 1 };
    PodPlan {
        key: PodKey { attempt, pod: 0 },
        name: "only".to_owned(),
        labels: std::collections::BTreeMap::new(),
        init: Vec::new(),
        main: ContainerPlan { name: "main".to_owned(), command: command.to_vec(), ..ContainerPlan::default() },
        restart_on_failure: false,
        restart_limit: 0,
        grace: Duration::from_secs(30),
        active_deadline: None,
        further_groups: Vec::new(),
        secret_files: Vec::new(),
        host_namespaces: HostNamespaces::default(),
        hostname: None,
        host_aliases: Vec::new(),
        pull_secrets: Vec::new(),
        stdout: directory.join("out.log"),
        stderr: directory.join("err.log"),
        delivered: Vec::new(),
        outputs: Vec::new(),
        directory,
    }
}

/// Prints what a program gets from its parent, as JSON.
fn state() -> ExitCode {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let status = read("status");
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(':').trim().to_owned()
    };
    let signals = ["SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"].map(|name| (name, of(name)));
    // The program's own look at the directory is the last one.
    let mut open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .map(|entries| entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
        .unwrap_or_default();
    open.sort_unstable();
    open.pop();
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let limits = read("limits");
    let limits: Vec<Vec<&str>> =
        limits.lines().map(|line| line.split("  ").filter(|part| !part.is_empty()).collect()).collect();
    let mut environment: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    environment.sort_unstable();
    let state = serde_json::json!({
        "signals": std::collections::BTreeMap::from(signals),
        "open": open,
        "limits": limits,
        "umask": of("Umask"),
        "nice": fields.get(16),
        "oomScoreAdj": read("oom_score_adj").trim(),
        "leadsGroup": fields.get(2) == Some(&std::process::id().to_string().as_str()),
        "environment": environment,
    });
    say(&state.to_string());
    ExitCode::SUCCESS
}

#[allow(clippy::print_stdout)]
fn say(what: &str) {
    println!("{what}");
}
