//! `orlop-scheduler` as a program: its configuration, both interfaces, the store that a second one waits for.

use nix::sys::signal::Signal;

use super::programs::{Programs, until};

#[test]
fn a_job_goes_from_the_command_line_by_way_of_the_scheduler_to_a_worker_and_back() {
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &[]);
    let worker = programs.worker("w1", &[&scheduler.grpc], &["--label", "zone=a"]);
    let done = programs.orlop(&scheduler.rest, &["submit", "--cpu", "100m", "--memory", "1Mi", "--wait", "--", "true"]);
    assert_eq!(done.code, 0, "{done:?}\n{}\n{}", programs.log("s1"), programs.log("w1"));
    // Views are of a picture that is up to a tenth of a second old.
    let listed = || programs.good(&scheduler.rest, &["workers", "-o", "name"]);
    until("the worker is listed", || (listed().trim() == "w1").then_some(()));
    let labelled = |label: &str| programs.good(&scheduler.rest, &["workers", "-o", "name", "--label", label]);
    assert_eq!((labelled("zone=a").trim(), labelled("zone=b").trim(), labelled("ring=a").trim()), ("w1", "", ""));
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.end(), Some(0), "{}", programs.log("w1"));
    scheduler.process.signal(Signal::SIGTERM);
    assert_eq!(scheduler.process.end(), Some(0), "{}", programs.log("s1"));
}

#[test]
fn with_a_file_a_second_server_waits_for_the_first_and_then_has_everything() {
    let programs = Programs::new();
    let first = programs.leader("s1", &[]);
    let id = programs.good(&first.rest, &["submit", "--", "true"]);
    let second = programs.spawn_scheduler("s2", &[]);
    until("the second one to say that it waits", || programs.log("s2").contains("waits for the store").then_some(()));
    assert!(!programs.path("s2.address").exists());
    first.process.signal(Signal::SIGKILL);
    assert_eq!(first.process.end(), None);
    let address = until("the second one's address", || std::fs::read_to_string(programs.path("s2.address")).ok());
    let rest = address.lines().next().expect("an address");
    let listed = until("what the first one had", || {
        Some(programs.orlop(rest, &["jobs", "-o", "name"])).filter(|gave| gave.code == 0)
    });
    assert_eq!(listed.out, id);
    drop(second);
}

#[test]
fn the_configuration_is_shown_without_secrets_and_what_it_does_not_know_is_an_error() {
    let programs = Programs::new();
    let file = programs.path("scheduler.yaml");
    std::fs::write(&file, "store: {url: 'postgres://orlop:hush@db/orlop'}\nserver: {name: a, listen: '127.0.0.1:1'}\n")
        .expect("a file is written");
    let config = file.display().to_string();
    let shown = |args: &[&str], variable: (&str, &str)| {
        let mut command = programs.scheduler_command();
        command.args(["--config", &config, "--print-config"]).args(args).env(variable.0, variable.1);
        command.output().expect("it runs")
    };
    let good = shown(&["--server-name", "c"], ("ORLOP_SERVER_LISTEN", "127.0.0.1:2"));
    let text = String::from_utf8_lossy(&good.stdout);
    assert!(good.status.success() && !text.contains("hush"), "{text}");
    assert!(
        text.contains("name: c  # --server-name\n") && text.contains("127.0.0.1:2  # ORLOP_SERVER_LISTEN\n"),
        "each with its source: {text}"
    );
    assert!(text.contains(&format!("postgres://orlop:***@db/orlop  # {config}\n")), "{text}");
    assert!(text.contains("  queue: 8192  # default\n"), "{text}");
    for (args, variable, why) in [
        (["--server-x=1"].as_slice(), ("A", "b"), "unexpected argument '--server-x'"),
        (&[], ("ORLOP_STORE_X", "1"), "ORLOP_STORE_X: there is no key `store.x`"),
    ] {
        let bad = shown(args, variable);
        let text = String::from_utf8_lossy(&bad.stderr);
        assert_eq!(bad.status.code(), Some(2), "{text}");
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn a_hangup_loads_the_configuration_again_and_a_bad_one_changes_nothing() {
    let programs = Programs::new();
    let file = programs.path("scheduler.yaml");
    let write = |text: &str| std::fs::write(&file, text).expect("a file is written");
    write("log: {level: info}\n");
    let config = file.display().to_string();
    let scheduler = programs.leader("s1", &["--config", &config]);
    let hang_up = |word: &str| {
        scheduler.process.signal(Signal::SIGHUP);
        until(word, || programs.log("s1").contains(word).then_some(()));
    };
    programs.good(&scheduler.rest, &["jobs"]);
    assert!(!programs.log("s1").contains("answered"), "{}", programs.log("s1"));
    write("log: {level: 'info,orlop=debug'}\n");
    hang_up("loaded the configuration again");
    let id = programs.good(&scheduler.rest, &["submit", "--", "true"]);
    until("the log of a request", || programs.log("s1").contains("answered").then_some(()));
    let log = programs.log("s1");
    let line =
        log.lines().find(|line| line.contains("orlop::jobs") && line.contains(id.trim())).expect("a line of the job");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert!(line["correlation_id"].as_str().is_some_and(|id| !id.is_empty()) && line["tenant"] == "default", "{line}");
    write("log: {level: info, colour: red}\n");
    hang_up("was not loaded again");
    write("log: {level: info}\nserver: {queue: 77}\n");
    hang_up("take effect at the next start only");
}

#[test]
fn jobs_that_no_worker_could_run_are_taken_with_a_warning_and_defaults_hold() {
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &["--defaults-timeout=7s"]);
    let submit =
        |cpu: &str| programs.orlop(&scheduler.rest, &["submit", "--cpu", cpu, "--memory", "1Mi", "--", "true"]);
    let early = submit("10m");
    assert!(early.code == 0 && early.err.contains("no worker is registered yet"), "{early:?}");
    let shown = programs.orlop(&scheduler.rest, &["job", "get", early.out.trim(), "-o", "json"]).json();
    assert_eq!(shown["spec"]["timeout_ms"], 7000);
    let _worker = programs.worker("w1", &[&scheduler.grpc], &["--cpu-m", "1000"]);
    let fits = until("a worker", || Some(submit("10m")).filter(|gave| gave.err.is_empty()));
    assert_eq!(fits.code, 0);
    let never = submit("3");
    assert!(never.code == 0 && never.err.contains("no worker could ever run it"), "{never:?}");
}
