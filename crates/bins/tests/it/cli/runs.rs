//! Runs that are looked at and deleted: `get`, `logs`, `watch`, `delete` with all their options.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::bench::{Bench, after, end, signal, step};

/// Mounts a volume in the container of a step.
fn mount(step: &mut Value, path: &str, volume: &Value) {
    let pod = &mut step["template"]["spec"]["template"]["spec"];
    let name = format!("v{}", path.trim_start_matches('/'));
    let add = |list: &mut Value, item: Value| match list {
        Value::Array(items) => items.push(item),
        empty => *empty = json!([item]),
    };
    add(&mut pod["containers"][0]["volumeMounts"], json!({"name": name, "mountPath": path}));
    let mut volume = volume.clone();
    volume["name"] = json!(name);
    add(&mut pod["volumes"], volume);
}

#[test]
fn delete_force_terminates_a_live_run_first() {
    let bench = Bench::new();
    let child = bench.running("live", &json!([step("a", "sleep 100")]));
    let gave = bench.orlop(&["flow", "delete", "live"]);
    assert_eq!(gave.code, 5);
    insta::assert_snapshot!(gave.err, @"error: `live` has not ended; terminate it first, or use --force");
    let gave = bench.orlop(&["flow", "delete", "live", "--force"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, "live deleted\n"), "{gave:?}");
    assert_eq!(end(child).code, 9);
    assert!(!bench.path("home/runs/default/live").exists());
}

#[test]
fn delete_force_ends_what_a_killed_host_has_left_running() {
    let bench = Bench::new();
    let file = bench.flow("orphan", &json!({"steps": [step("a", "sleep 100")]}));
    let child = bench.begin(&file, &[]);
    let status = bench.until("orphan", |status| status["progress"]["runningSteps"] == 1);
    signal(&child, Signal::SIGKILL);
    end(child);
    // The supervisor of the attempt, which has no other and whose host is gone.
    let uid = status["steps"][0]["jobRef"]["uid"].as_str().unwrap();
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", uid.split('@').next().unwrap()));
        // One that has ended may wait to be collected.
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    assert!(lives(), "the attempt outlives its host");
    let gave = bench.orlop(&["flow", "delete", "orphan", "--force"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, "orphan deleted\n"), "{gave:?}");
    let begun = std::time::Instant::now();
    while lives() {
        assert!(begun.elapsed().as_secs() < 30, "the attempt is ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(bench.orlop(&["flow", "get", "orphan"]).code, 4);
}

#[test]
fn delete_older_than_takes_ended_runs_of_that_age_only() {
    let bench = Bench::new();
    assert_eq!(bench.run_steps("old", &json!([step("a", "true")])).code, 0);
    let paused = bench.flow("paused", &json!({"steps": [{"name": "ok", "type": "Manual"}]}));
    assert_eq!(bench.run(&paused, &["--no-wait-approval"]).code, 10);
    let gave = bench.orlop(&["flow", "delete", "--older-than", "1h"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, ""), "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "delete", "old", "--older-than", "1h"]).code, 2);
    assert_eq!(bench.orlop(&["flow", "delete", "--older-than", "soon"]).code, 2);
    let gave = bench.orlop(&["flow", "delete", "--older-than", "0s"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, "old deleted\n"), "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "list", "-o", "name"]).out, "paused\n");
}

#[test]
fn runs_that_were_given_no_name_go_thirty_days_after_their_end_unless_they_are_kept() {
    let bench = Bench::new();
    let month = std::time::Duration::from_secs(30 * 86_400);
    let begin = |name: &str, options: &[&str]| {
        let file = bench.flow(name, &json!({"steps": [step("a", "true")]}));
        let gave = bench.run(&file, options);
        assert_eq!(gave.code, 0, "{gave:?}");
        gave.err
    };
    let written = |name: &str, ago| {
        let journal = std::fs::File::open(bench.path("home/runs/default").join(name).join("run.db")).unwrap();
        journal.set_modified(std::time::SystemTime::now() - ago).unwrap();
    };
    for (name, options) in [("old", &[][..]), ("kept", &["--keep"]), ("file", &["--name", "named"]), ("young", &[])] {
        begin(name, options);
    }
    let paused = bench.flow("paused", &json!({"steps": [{"name": "ok", "type": "Manual"}]}));
    assert_eq!(bench.run(&paused, &["--no-wait-approval"]).code, 10);
    ["old", "kept", "named", "paused"].iter().for_each(|name| written(name, month));
    written("young", month - std::time::Duration::from_secs(60));
    let reported = begin("next", &[]);
    assert!(reported.contains("ended more than 30 days ago and was given no --name: old; --keep keeps"), "{reported}");
    let mut left: Vec<String> = bench.orlop(&["flow", "list", "-o", "name"]).out.lines().map(str::to_owned).collect();
    left.sort();
    assert_eq!(left, ["kept", "named", "next", "paused", "young"]);
    assert!(!begin("last", &[]).contains("30 days"), "there is nothing more to tell");
}

#[test]
fn logs_are_chosen_by_step_attempt_item_outcome_and_age() {
    let bench = Bench::new();
    let mut flaky = step("flaky", "echo try; test -e /data/tried || { touch /data/tried; exit 1; }");
    mount(&mut flaky, "/data", &json!({"persistentVolumeClaim": {"claimName": "store"}}));
    std::fs::create_dir_all(bench.path("volumes/store")).unwrap();
    let volumes = bench.path("volumes").display().to_string();
    flaky["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "10ms"}});
    let mut fan = step("fan", "echo item ${parameters.item}; test ${parameters.item} != y");
    fan["withItems"] = json!(["x", "y"]);
    fan["continueOnFailure"] = json!(true);
    let file = bench.flow("talk", &json!({"steps": [flaky, after(fan, &["flaky"])]}));
    let gave = bench.run(&file, &["--volumes-dir", &volumes]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let logs = |args: &[&str]| bench.orlop(&[&["flow", "logs", "talk"], args].concat()).out;
    assert_eq!(logs(&[]), "flaky/1 try\nflaky/2 try\nfan-i0/1 item x\nfan-i1/1 item y\n");
    assert_eq!(logs(&["flaky", "--attempt", "2"]), "flaky/2 try\n");
    assert_eq!(logs(&["fan"]), "fan-i0/1 item x\nfan-i1/1 item y\n");
    assert_eq!(logs(&["fan", "--item", "1"]), "fan-i1/1 item y\n");
    assert_eq!(logs(&["fan-i0"]), "fan-i0/1 item x\n");
    assert_eq!(logs(&["--failed"]), "fan-i1/1 item y\n");
    assert_eq!(logs(&["--since", "1h", "--attempt", "2"]), "flaky/2 try\n");
    assert_eq!(logs(&["--since", "0s"]), "");
    assert_eq!(logs(&["--attempt", "9"]), "");
    let stamped = logs(&["flaky", "--attempt", "2", "--timestamps"]);
    bench.settings().bind(|| insta::assert_snapshot!(stamped, @"flaky/2 TIME try"));
    let gave = bench.orlop(&["flow", "logs", "talk", "nix"]);
    assert_eq!(gave.code, 4);
    insta::assert_snapshot!(gave.err, @"error: flow `talk` has no step `nix`");
}

#[test]
fn get_and_watch_give_tables_objects_and_names() {
    let bench = Bench::new();
    let mut good = step("good", "echo 7 > /tmp/n");
    good["outputs"] = json!({"parameters": [{"name": "n", "valueFrom": {"path": "/tmp/n"}}]});
    let file = bench.flow("look", &json!({"steps": [good, after(step("bad", "exit 3"), &["good"])]}));
    assert_eq!(bench.run(&file, &["-o", "name"]).out, "look\n");
    let get = |form: &str| bench.orlop(&["flow", "get", "look", "-o", form]).out;
    let object: Value = serde_json::from_str(&get("json")).unwrap();
    assert_eq!(object["kind"], "JobFlow");
    assert_eq!(object["status"]["steps"][0]["outputs"]["parameters"][0]["value"], "7");
    let yaml = get("yaml");
    assert!(yaml.starts_with("apiVersion: workflow.kube-zen.io/v1alpha1\nkind: JobFlow\n"), "{yaml}");
    assert_eq!(get("name"), "look\n");
    bench.settings().bind(|| {
        insta::assert_snapshot!(get("table"), @r"
           STEP  PHASE      REASON       ATTEMPT  TIME  MESSAGE
        ✔  good  Succeeded               1        DURATION
        ✖  bad   Failed     NonZeroExit  1        DURATION  container `main` ended with exit code 3

        ✖ look: Failed in DURATION — 2 steps: 1 succeeded, 1 failed, 0 skipped
          step bad failed: NonZeroExit: container `main` ended with exit code 3
          good.n = 7
          logs of the failure: orlop flow logs look bad
        ");
    });
    let watch = |form: &str| bench.orlop(&["flow", "watch", "look", "-o", form]);
    assert_eq!(watch("table").code, 1);
    let status: Value = serde_json::from_str(&watch("json").out).unwrap();
    assert_eq!(status["phase"], "Failed");
    assert!(watch("yaml").out.contains("phase: Failed\n"));
    assert_eq!(watch("name").out, "look\n");
}

#[test]
fn config_maps_and_volumes_come_from_directories() {
    let bench = Bench::new();
    let mut a = step("a", "echo mode $MODE; cat /config/text; echo kept > /data/new");
    a["template"]["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}]);
    mount(&mut a, "/config", &json!({"configMap": {"name": "settings"}}));
    mount(&mut a, "/data", &json!({"persistentVolumeClaim": {"claimName": "store"}}));
    let file = bench.flow("dirs", &json!({"steps": [a]}));
    for dir in ["configs/settings", "volumes/store"] {
        std::fs::create_dir_all(bench.path(dir)).unwrap();
    }
    bench.file("configs/settings/mode", "fast");
    bench.file("configs/settings/text", "words\n");
    let (configs, volumes) = (bench.path("configs").display().to_string(), bench.path("volumes").display().to_string());
    let gave = bench.run(&file, &["--configs-dir", &configs, "--volumes-dir", &volumes]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "logs", "dirs"]).out, "a/1 mode fast\na/1 words\n");
    assert_eq!(std::fs::read_to_string(bench.path("volumes/store/new")).unwrap(), "kept\n");
    let gave = bench.run(&file, &["--name", "none", "--configs-dir", &bench.path("nowhere").display().to_string()]);
    assert_eq!(gave.code, 2);
    bench.settings().bind(|| insta::assert_snapshot!(gave.err, @"error: DIR/nowhere cannot be used as a directory: No such file or directory (os error 2)"));
    let gave = bench.run(&file, &["--name", "unset", "--volumes-dir", &volumes, "-o", "yaml"]);
    assert_eq!(gave.code, 1);
    assert!(gave.out.contains("it is looked for in a ConfigMap template of the flow or the directory"), "{}", gave.out);
}

#[test]
fn delete_leaves_what_is_not_the_runs_own() {
    let bench = Bench::new();
    let mut a = step("a", "echo x > /tmp/x");
    a["outputs"] = json!({"artifacts": [{"name": "x", "path": "/tmp/x"}]});
    let file = bench.flow("guest", &json!({"steps": [a]}));
    let (mine, shared) = (bench.path("mine").display().to_string(), bench.path("shared").display().to_string());
    std::fs::create_dir(&shared).unwrap();
    bench.file("shared/letter", "dear");
    let gave = bench.run(&file, &["--run-dir", &shared]);
    assert_eq!(gave.code, 6, "others could read logs there: {gave:?}");
    std::fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for dir in [&mine, &shared] {
        assert_eq!(bench.run(&file, &["--run-dir", dir]).code, 0);
        assert_eq!(bench.orlop(&["flow", "delete", "guest", "--run-dir", dir]).code, 0);
        assert_eq!(bench.orlop(&["flow", "get", "guest", "--run-dir", dir]).code, 4);
    }
    assert!(!bench.path("mine").exists());
    let left: Vec<_> = std::fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["letter"]);
}

#[test]
fn what_was_made_for_a_run_that_never_began_goes_at_once_or_by_delete() {
    let bench = Bench::new();
    let file = bench.flow("ghost", &json!({"steps": [step("a", "true")]})).display().to_string();
    let gave = bench.without_engine(&["run", &file]);
    assert_ne!(gave.code, 0, "{gave:?}");
    let dir = bench.path("home/runs/default/ghost");
    assert!(!dir.exists(), "nothing is left of it");
    // As a killed host leaves it.
    std::fs::create_dir_all(&dir).unwrap();
    for lock in ["door.lock", "host.lock"] {
        std::fs::write(dir.join(lock), "").unwrap();
    }
    let gave = bench.orlop(&["flow", "delete", "ghost"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, "ghost deleted\n"), "{gave:?}");
    assert!(!dir.exists());
    assert_eq!(bench.orlop(&["flow", "delete", "ghost"]).code, 4);
}

#[test]
fn a_run_in_a_directory_of_its_own_needs_a_home_only_for_its_key() {
    let bench = Bench::new();
    let run = |name: &str, policy: Value| {
        let file = bench.flow(name, &json!({"executionPolicy": policy, "steps": [step("a", "true")]}));
        let (file, dir) = (file.display().to_string(), bench.path(&format!("{name}.dir")).display().to_string());
        let mut command = bench.command(&["run", &file, "--target", "process", "--run-dir", &dir]);
        for variable in ["HOME", "XDG_STATE_HOME", "ORLOP_HOME"] {
            command.env_remove(variable);
        }
        let gave = command.output().unwrap();
        (gave.status.code(), String::from_utf8_lossy(&gave.stderr).into_owned())
    };
    let (code, text) = run("free", json!({}));
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run("keyed", json!({"concurrencyKey": "k"}));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("give one with --home DIR"), "{text}");
    assert!(!bench.path("keyed.dir").exists(), "nothing was begun");
}

#[test]
fn a_retry_under_a_taken_name_changes_nothing_of_the_other_run() {
    let bench = Bench::new();
    let mut a = step("a", "echo x > /tmp/x");
    a["outputs"] = json!({"artifacts": [{"name": "x", "path": "/tmp/x"}]});
    assert_eq!(bench.run_steps("first", &json!([a, after(step("b", "false"), &["a"])])).code, 1);
    assert_eq!(bench.run(&bench.flow("other", &json!({"steps": [step("a", "true")]})), &[]).code, 0);
    let files = || std::fs::read_dir(bench.path("home/runs/default/other/cas/sha256")).map_or(0, Iterator::count);
    let before = files();
    assert_eq!(bench.orlop(&["flow", "retry", "first", "--name", "other"]).code, 5);
    assert_eq!(files(), before);
}

#[test]
fn resume_refuses_what_would_not_apply() {
    let bench = Bench::new();
    let manual = json!({"name": "ok", "type": "Manual"});
    let spec = json!({"parameters": [{"name": "env", "value": "dev"}], "steps": [manual]});
    let file = bench.flow("kept", &spec);
    assert_eq!(bench.run(&file, &["--no-wait-approval", "--jobs", "2"]).code, 10);
    let resume = |args: &[&str]| {
        let gave = bench.orlop(&[&["run", "--resume", "--no-wait-approval", "--progress", "none"], args].concat());
        format!("{} ({})", gave.err.trim_end(), gave.code)
    };
    insta::assert_snapshot!(resume(&["--name", "kept", "-p", "env=prod", "--jobs", "3"]), @"error: `kept` was started with other values of --jobs, --param and keeps those; leave these options out to resume it, or start a run under another --name (2)");
    insta::assert_snapshot!(resume(&["--name", "kept", "--target", "docker"]), @"error: `kept` was started with other values of --target and keeps those; leave these options out to resume it, or start a run under another --name (2)");
    assert!(resume(&["--name", "kept", "--target", "process", "--jobs", "2", "-p", "env=dev"]).ends_with("(10)"));
    let path = file.display().to_string();
    assert!(resume(&[&path]).ends_with("(10)"), "the environment and defaults are no options");
    let mut edited = spec.clone();
    edited["steps"][0]["message"] = json!("really?");
    bench.flow("kept", &edited);
    insta::assert_snapshot!(resume(&[&path]), @"error: the flow of the file is not the one `kept` was started with; resume that one with `orlop run --resume --name kept`, or run the file under another --name (5)");
    assert!(resume(&["--name", "kept"]).ends_with("(10)"), "what was begun goes on");
}

#[test]
fn a_long_line_of_a_log_is_one_line() {
    let bench = Bench::new();
    let file =
        bench.flow("long", &json!({"steps": [step("a", "head -c 40000 /dev/zero | tr '\\0' x; echo; echo end")]}));
    let child = bench.begin(&file, &[]);
    bench.until("long", |_| true);
    let lines = format!("a/1 {}\na/1 end\n", "x".repeat(40_000));
    let follow = bench.orlop(&["flow", "logs", "long", "--follow"]).out;
    assert_eq!(end(child).code, 0);
    assert!(follow == lines, "followed in {} lines", follow.lines().count());
    assert!(bench.orlop(&["flow", "logs", "long"]).out == lines);
}
