//! What ships beside the programs: dashboards and alerts ask only for metrics and labels that exist, settings and units fit the
//! programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use orlop::telemetry::metrics::{Described, Metrics, OperatorMetrics};
use orlop_core::machine::worker::WorkerState;
use orlop_core::named::Named as _;
use serde_json::Value;

static FLEET: LazyLock<Metrics> = LazyLock::new(Metrics::new);
static OPERATOR: LazyLock<OperatorMetrics> = LazyLock::new(OperatorMetrics::new);

/// The metrics that a file asks for: those of the fleet, or of the operator.
fn metrics_of(path: &Path) -> &'static BTreeMap<String, Described> {
    if is_of_operator(path) { OPERATOR.names() } else { FLEET.names() }
}

fn is_of_operator(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_str().is_some_and(|name| name.contains("operator")))
}

/// Labels that the scraper adds, and that functions of the query language make.
const FOREIGN: [&str; 3] = ["instance", "job", "le"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(deploy().join(folder)).unwrap();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found.sort();
    assert!(!found.is_empty(), "deploy/{folder} holds *.{extension}");
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).filter(|word| !word.is_empty())
}

/// What metrics say of themselves: the values that a label of theirs can have.
fn values(metric: &str, label: &str) -> Option<Vec<&'static str>> {
    let states = || WorkerState::ALL.iter().map(|state| state.as_str()).collect();
    Some(match (metric, label) {
        ("orlop_workers_total", "state") => states(),
        ("orlop_scheduler_queue_size", "state") => vec!["ready", "blocked", "quota", "pending"],
        ("orlop_scheduling_decisions_total", "result") => vec!["placed", "prefilled", "preempted", "quota", "blocked"],
        // Devices and counters have names of the user's.
        ("orlop_worker_allocated" | "orlop_worker_capacity", "resource") => vec!["cpu", "memory", "slots"],
        ("orlop_engine_events_total", "event") => vec!["Tick"],
        ("orlop_kube_request_duration_seconds_bucket", "verb") => vec!["watch"],
        ("orlop_status_writes_total", "result") => vec!["stored", "refused"],
        ("orlop_webhook_requests_total", "result") => vec!["allowed", "patched", "refused", "failed"],
        ("orlop_webhook_certificate_loads_total", "result") => vec!["taken", "failed"],
        ("orlop_performer_upgrades_total", "result") => vec!["rolled_back"],
        ("orlop_objects", "phase") => vec!["Failed", "Terminating"],
        (_, "controller") => vec!["jobflow", "performer", "executor"],
        _ => return None,
    })
}

/// Values that a query looks for and that the label of its metric never has.
fn never(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some((before, after)) = rest.split_once('{') {
        let metric = words(before).last().unwrap_or_default();
        let (mut inside, mut end) = (false, after.len());
        for (at, c) in after.char_indices() {
            inside ^= c == '"';
            if c == '}' && !inside {
                end = at;
                break;
            }
        }
        for matcher in after[..end].split("\",").map(|matcher| matcher.trim_end_matches('"')) {
            let (left, value) = matcher.split_once('"').unwrap_or((matcher, ""));
            let label = left.trim_matches([' ', '=', '!', '~', ',']);
            // What is filled in by the board, and what is a pattern, is any.
            if FOREIGN.contains(&label) || value.contains(['$', '*', '.']) {
                continue;
            }
            for value in value.split('|').filter(|value| !value.is_empty()) {
                if !values(metric, label).is_some_and(|known| known.contains(&value)) {
                    found.push(format!("{metric} has no {label} {value}"));
                }
            }
        }
        rest = &after[end..];
    }
    found
}

/// What a query asks for and nobody has: metrics by name, and labels that none of its metrics carries.
fn unknown(known: &BTreeMap<String, Described>, expression: &str) -> Vec<String> {
    let mut bare = String::new();
    let mut inside = false;
    for c in expression.chars() {
        // Label values may hold anything.
        inside ^= c == '"';
        bare.push(if inside { ' ' } else { c });
    }
    let metrics: BTreeSet<_> =
        words(&bare).filter(|word| word.starts_with("orlop_") || word.starts_with("process_")).collect();
    let mut found: Vec<_> =
        metrics.iter().filter(|name| !known.contains_key(**name)).map(|name| format!("metric {name}")).collect();
    if metrics.is_empty() {
        found.push("no metric at all".to_owned());
    }
    let known = metrics.iter().filter_map(|name| known.get(*name)).flat_map(|metric| &metric.labels);
    let known: BTreeSet<_> = known.copied().chain(FOREIGN).collect();
    let listed = ["by (", "on ("].into_iter().flat_map(|opening| bare.split(opening).skip(1));
    let listed = listed.filter_map(|rest| rest.split(')').next()).flat_map(words);
    let matched = bare.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let matched =
        matched.flat_map(|rest| rest.split(',')).filter_map(|matcher| matcher.split(['=', '!']).next()).flat_map(words);
    found.extend(listed.chain(matched).filter(|label| !known.contains(label)).map(|label| format!("label {label}")));
    found
}

#[test]
fn a_query_for_what_does_not_exist_is_found() {
    let unknown = |expression| unknown(FLEET.names(), expression);
    assert_eq!(unknown("sum by (state) (orlop_workers_total)"), Vec::<String>::new());
    assert_eq!(unknown("rate(orlop_job_execution_duration_bucket{tenant=~\"a|orlop_x\"}[5m])"), Vec::<String>::new());
    assert_eq!(unknown("rate(orlop_nothing_total[5m])"), ["metric orlop_nothing_total"]);
    assert_eq!(unknown("sum by (tenant) (orlop_workers_total)"), ["label tenant"]);
    assert_eq!(unknown("orlop_workers_total{colour=\"red\"}"), ["label colour"]);
    assert_eq!(unknown("vector(1)"), ["no metric at all"]);
}

#[test]
fn a_query_for_a_value_that_no_label_has_is_found() {
    assert_eq!(never("orlop_workers_total{state=\"Unhealthy\"} > orlop_leader{job=~\"a.*\"}"), Vec::<String>::new());
    assert_eq!(never("sum(orlop_workers_total{state=\"unhealthy\"})"), ["orlop_workers_total has no state unhealthy"]);
    assert_eq!(
        never("rate(orlop_scheduling_decisions_total{tenant=~\"$tenant\", result=~\"placed|put\"}[5m])"),
        ["orlop_scheduling_decisions_total has no result put"]
    );
}

#[test]
fn dashboards_query_only_metrics_that_exist() {
    let mut titles = BTreeSet::new();
    for path in files("grafana", "json") {
        let board: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let uid = board["uid"].as_str().unwrap();
        assert_eq!(path.file_stem().unwrap().to_str(), Some(uid), "the file has the name of its board");
        titles.insert(board["title"].as_str().unwrap().to_owned());
        let panels = board["panels"].as_array().unwrap();
        let mut ids = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in panels {
            let title = panel["title"].as_str().unwrap();
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{uid}: {title}: an id of its own");
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            for x in place("x")..place("x") + place("w") {
                for y in place("y")..place("y") + place("h") {
                    assert!(x < 24 && taken.insert((x, y)), "{uid}: {title} lies over another panel");
                }
            }
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                let found = unknown(metrics_of(&path), expression);
                assert_eq!(found, Vec::<String>::new(), "{uid}: {title}: {expression}");
                assert_eq!(never(expression), Vec::<String>::new(), "{uid}: {title}: {expression}");
            }
        }
        for variable in board["templating"]["list"].as_array().unwrap() {
            if let Some(query) = variable["definition"].as_str() {
                let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
                let (metric, label) = inner.split_once(", ").unwrap();
                assert!(metrics_of(&path)[metric].labels.contains(&label), "{uid}: {query}");
            }
        }
    }
    let drawn = ["Job Performance", "Operator", "Resource Utilization", "Scheduler Health", "Worker Overview"];
    assert_eq!(titles.into_iter().collect::<Vec<_>>(), drawn.map(|title| format!("Orlop / {title}")));
}

/// Operator contract, chapter 7: what a panel shows, and by which labels.
const PANELS: [(&str, &[&str]); 12] = [
    ("orlop_reconcile_total", &["controller"]),
    ("orlop_reconcile_errors_total", &["class"]),
    ("orlop_api_writes_total", &["kind", "verb"]),
    ("orlop_workqueue_depth", &["controller"]),
    ("orlop_leader", &[]),
    ("orlop_objects", &["phase"]),
    ("orlop_performer_time_to_ready_seconds_bucket", &["le"]),
    ("orlop_performer_upgrade_duration_seconds_bucket", &["le"]),
    // Upgrades and rollbacks are results of it.
    ("orlop_performer_upgrades_total", &["result"]),
    ("orlop_performer_retries_total", &["reason"]),
    ("orlop_hardware_unavailable", &["reason"]),
    ("orlop_executor_unready", &[]),
];

#[test]
fn the_dashboard_of_the_operator_has_every_panel_of_the_contract() {
    let board = std::fs::read(deploy().join("grafana/orlop-operator.json")).unwrap();
    let board: Value = serde_json::from_slice(&board).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let asked = |panel: &Value| -> Vec<String> {
        panel["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
    };
    for (metric, labels) in PANELS {
        let shows = |expression: &String| {
            let listed: Vec<&str> = expression
                .split("by (")
                .nth(1)
                .and_then(|rest| rest.split(')').next())
                .map(|list| words(list).collect())
                .unwrap_or_default();
            words(expression).any(|word| word == metric) && labels.iter().all(|label| listed.contains(label))
        };
        assert!(panels.iter().any(|panel| asked(panel).iter().any(shows)), "no panel shows {metric} by {labels:?}");
    }
}

#[test]
fn alerts_query_only_metrics_that_exist_and_say_what_to_do() {
    let mut alerts = BTreeSet::new();
    for path in files("prometheus", "yaml") {
        let text = std::fs::read_to_string(&path).unwrap();
        let rules: Value = serde_saphyr::from_str(&text).unwrap();
        for rule in rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()) {
            let expression = rule["expr"].as_str().unwrap();
            assert_eq!(unknown(metrics_of(&path), expression), Vec::<String>::new(), "{rule}");
            assert_eq!(never(expression), Vec::<String>::new(), "{rule}");
            let Some(name) = rule["alert"].as_str() else { continue };
            assert!(alerts.insert(name.to_owned()), "{name} stands twice");
            assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
            for key in ["summary", "description"] {
                assert!(rule["annotations"][key].as_str().is_some_and(|text| text.len() > 10), "{name}: {key}");
            }
            let runbook = rule["annotations"]["runbook"].as_str();
            assert!(runbook.is_some() || !is_of_operator(&path), "{name} has no section of the runbook");
            if let Some(runbook) = runbook {
                let (file, section) = runbook.split_once('#').unwrap();
                let book = std::fs::read_to_string(deploy().join("..").join(file)).unwrap();
                assert!(book.contains(&format!("\n## {name}\n")) && section == name.to_lowercase(), "{runbook}");
            }
        }
    }
    for name in [
        "OrlopNoLeader",
        "OrlopReconcileErrors",
        "OrlopCancelBlocked",
        "OrlopWriteLoop",
        "OrlopContended",
        "OrlopPerformerFailed",
        "OrlopUpgradeRolledBack",
        "OrlopHardwareUnavailable",
        "OrlopExecutorUnready",
        "OrlopFinalizerStuck",
    ] {
        assert!(alerts.contains(name), "{name} is missing");
    }
}

/// What the program answers in a role to `--config FILE --print-config`.
fn printed(role: &str, config: &Path) -> Output {
    crate::role::command(role).arg("--config").arg(config).arg("--print-config").output().unwrap()
}

#[test]
fn programs_take_the_settings_that_ship() {
    for path in files("config", "yaml") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let given = printed(name, &path);
        assert!(given.status.success(), "{name}: {}", String::from_utf8_lossy(&given.stderr));
        let all: Value = serde_saphyr::from_str(&String::from_utf8(given.stdout).unwrap()).unwrap();
        let ours: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for (key, value) in ours.as_object().unwrap() {
            let Some(section) = value.as_object().filter(|_| name == "scheduler") else {
                assert_eq!(&all[key], value, "{name}: {key}");
                continue;
            };
            for (inner, value) in section {
                assert_eq!(&all[key][inner], value, "{name}: {key}.{inner}");
            }
        }
    }
}

#[test]
fn units_start_our_programs_with_the_settings_that_ship() {
    for path in files("systemd", "service") {
        let text = std::fs::read_to_string(&path).unwrap();
        let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let start: Vec<_> = of("ExecStart").unwrap().split(' ').collect();
        let ["/usr/local/bin/orlop", role, "--config", config] = start[..] else { panic!("{path:?}: {start:?}") };
        assert_eq!(
            path.file_stem().unwrap().to_str(),
            Some(format!("orlop-{role}").as_str()),
            "a unit is named after its role"
        );
        let shipped = deploy().join("config").join(Path::new(config).file_name().unwrap());
        let settings = std::fs::read_to_string(&shipped).unwrap();
        let state = format!("/var/lib/{}", of("StateDirectory").unwrap());
        let written = settings.lines().filter(|line| line.contains("/var/lib/"));
        assert!(written.clone().count() > 0);
        written.for_each(|line| assert!(line.contains(&state), "{shipped:?} writes to {state} only: {line}"));
        if role == "worker" {
            let drain: Value = serde_saphyr::from_str(&settings).unwrap();
            let patience: u64 = of("TimeoutStopSec").unwrap().parse().unwrap();
            assert!(patience > drain["drain_seconds"].as_u64().unwrap(), "jobs get the time that they were promised");
        }
    }
}

#[test]
fn units_are_understood_by_systemd() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("skipped: units_are_understood_by_systemd: systemd-analyze is not here");
        return;
    }
    for path in files("systemd", "service") {
        let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        let text = [verified.stdout, verified.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        // The programs are not installed where tests run; what the machine's own units say is none of ours.
        let name = path.file_name().unwrap().to_str().unwrap();
        let ours = text.lines().filter(|line| line.contains(name) && !line.contains("is not executable"));
        assert_eq!(ours.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn the_image_runs_as_nobody_and_holds_the_one_program() {
    let text = std::fs::read_to_string(deploy().join("container/Containerfile")).unwrap();
    let last = text.rsplit("\nFROM ").next().unwrap();
    assert!(last.starts_with("scratch"), "nothing but the program is in the image: {last}");
    let user = last.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    assert!(!user.starts_with("0") && !user.contains("root"), "{user}");
    let copied: Vec<_> = last.split_whitespace().filter(|word| word.starts_with("/src/")).collect();
    assert_eq!(copied, ["/src/target/dist/orlop"]);
    let helper = text.split("\nFROM ").find(|part| part.starts_with("scratch AS helper\n")).unwrap();
    assert!(
        helper.contains("USER 65532") && helper.contains("ENTRYPOINT [\"/usr/local/bin/orlop-helper\"]"),
        "{helper}"
    );
}
