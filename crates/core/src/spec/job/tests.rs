//! The table, row by row: defaults, bounds, rules, and the canonical form.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::hardware::placement::{LabelExpr, Operator};

fn read(value: &Value) -> JobSpec {
    JobSpec::from_json(value).unwrap_or_else(|errors| panic!("{value}: {errors}"))
}

fn with(more: Value) -> Value {
    let mut value = json!({"command": ["true"]});
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    value
}

#[test]
fn a_command_alone_has_every_default() {
    let spec = read(&json!({"command": ["true"]}));
    assert_eq!(spec, JobSpec { command: vec!["true".into()], ..JobSpec::default() });
    assert_eq!((spec.priority, spec.grace_ms, spec.timeout_ms, spec.retries), (5, 10_000, 0, 0));
    assert_eq!((spec.resources.cpu_m, spec.resources.memory_bytes), (1000, 256 << 20));
    let Retry { backoff_ms, factor_milli, max_ms, jitter_milli, .. } = spec.retry;
    assert_eq!((backoff_ms, factor_milli, max_ms, jitter_milli), (1000, 2000, 300_000, 200));
    assert_eq!((spec.log.limit, spec.log.on_full), (64 << 20, OnFull::Drop));
    assert!(spec.survives_agent() && spec.success_codes.contains(&0));
    assert_eq!(String::from_utf8(spec.encode()).unwrap(), r#"{"command":["true"],"priority":5,"grace_ms":10000}"#);
}

#[test]
fn an_image_makes_a_container_whose_own_command_will_do() {
    let spec = read(&json!({"image": "alpine:3"}));
    assert_eq!((spec.runtime, spec.program().len()), (Runtime::Docker, 0));
    assert_eq!(read(&json!({"runtime": "noop"})).runtime, Runtime::Noop);
    let script = read(&json!({"script": "echo {{x}}", "shell": "bash"}));
    assert_eq!(script.program(), ["bash", "-c", "echo {{x}}"]);
    assert_eq!(read(&json!({"script": "true"})).program(), ["/bin/sh", "-c", "true"]);
}

#[test]
fn amounts_are_numbers_or_quantities() {
    let spec = |cpu: Value, memory: Value| {
        read(&with(
            json!({"resources": {"cpu_m": cpu, "memory_bytes": memory, "extras": {"licence": "2", "disk": "1Ki"}}}),
        ))
    };
    let read = spec(json!("500m"), json!("1.5Gi"));
    assert_eq!((read.resources.cpu_m, read.resources.memory_bytes), (500, 1_610_612_736));
    assert_eq!((read.resources.extras["licence"], read.resources.extras["disk"]), (2, 1024));
    assert_eq!(read, spec(json!(500), json!(1_610_612_736_u64)));
    assert_eq!(spec(json!("2"), json!(0)).resources.cpu_m, 2000);
}

#[test]
fn agents_survive_by_the_time_limit_unless_said_otherwise() {
    let survives = |more: Value| read(&with(more)).survives_agent();
    assert!(survives(json!({"timeout_ms": 60_001})) && !survives(json!({"timeout_ms": 60_000})));
    assert!(survives(json!({"timeout_ms": 1, "survive_agent": true})));
    assert!(!survives(json!({"survive_agent": false})) && survives(json!({"survive_agent": "auto"})));
}

/// Every row of the table, wrong in each way it can be.
fn wrong() -> Vec<Value> {
    let long = "x".repeat(129);
    let many = |count: usize| (0..count).map(|at| (format!("k{at}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let label = |label: Value| with(json!({"requires": {"labels": [label]}}));
    vec![
        json!([]),
        json!({}),
        with(json!({"comand": [], "time-out-ms": 1, "frobnicate": 1, "resources": {"cpu": 1}})),
        with(json!({"name": long, "tenant": "a b", "correlation_id": "ä\n"})),
        with(json!({"labels": many(65)})),
        with(json!({"labels": {"a b": "x", "ok": "a b", "n": {}}})),
        with(json!({"runtime": "Docker", "pull": "sometimes"})),
        with(json!({"image": "a b", "runtime": "process"})),
        json!({"runtime": "docker"}),
        json!({"command": ["a"], "script": "b", "shell": ""}),
        json!({"command": ["", 1]}),
        json!({"command": ["", "a\u{0}b", "{{shard}}"], "shell": "sh"}),
        json!({"script": " "}),
        with(json!({"env": {"ORLOP_X": "1", "A=B": "2", "": "3", "C": "{{host}}", "D": [1]}})),
        with(json!({"env": many(513)})),
        with(json!({"env": {"A": "x".repeat(128 << 10)}})),
        with(json!({"working_dir": "/etc"})),
        with(json!({"working_dir": "a/../b/{{user}}"})),
        with(json!({"secret_refs": [
            {"name": "", "as": "disk"}, {"name": "a", "target": "../a"}, {"name": "b", "as": "env", "target": "ORLOP_B"},
            {"name": "c", "as": "env", "target": "E"}, {"name": "d", "as": "env", "target": "E"}, {"value": "x"},
        ], "env": {"E": "1"}})),
        with(json!({"resources": {"cpu_m": 0, "memory_bytes": "-1Gi", "gpus": {"count": 1025}, "extras": {"a b": 1}}})),
        with(json!({"resources": {"cpu_m": "1 core", "memory_bytes": 1.5, "extras": {"a": "x"}}})),
        with(
            json!({"resources": {"gpus": {"any_of": [{"vendor": "nvidia", "model": "A 100"}, {"model": "a"}, {"vendor": "x"}]}}}),
        ),
        with(json!({"resources": {"gpus": {"any_of": vec![json!({"vendor": "amd", "memory_min": "64Gi"}); 5]}}})),
        with(json!({"resources": {"gpus": {"any_of": vec![json!({"vendor": "amd"}); 5], "count": 1}}})),
        label(json!({"key": "a", "op": "equals", "values": ["b"]})),
        label(json!({"key": "a b", "op": "in"})),
        label(json!({"key": "a", "op": "exists", "values": ["b"]})),
        label(json!({"key": "a", "op": "gt", "values": ["x"]})),
        label(json!({"key": "a", "op": "lt", "values": [1, 2]})),
        label(json!({"op": "in", "values": [{}]})),
        with(json!({"requires": {"features": [""], "label": []}})),
        with(json!({"prefers": vec![json!({"label": {"key": "a", "values": ["b"]}, "weight": 101}); 9]})),
        with(json!({"prefers": [{"weight": 0}, {"label": {"key": "a", "values": ["b"]}, "weight": 0}]})),
        with(json!({"priority": 10})),
        with(json!({"priority": -1, "timeout_ms": -1, "retries": 101})),
        with(json!({"timeout_ms": u64::MAX, "expected_ms": 0, "grace_ms": 1e3, "queue_timeout_ms": 0})),
        with(json!({"retry": {"on": ["failed", "lost"], "factor": 0.5, "jitter": 2, "backoff": "1s", "limit": 3}})),
        with(json!({"retry": {"on": [], "exit_codes": [], "factor": 0.5, "jitter": 2}})),
        with(json!({"retry": {"exit_codes": [256]}, "success_codes": []})),
        with(json!({"success_codes": [-1]})),
        with(json!({"not_before": "tomorrow"})),
        with(json!({"array": {}})),
        with(json!({"array": {"count": 1, "indices": "0"}})),
        with(json!({"array": {"count": 0, "max_parallel": 0}})),
        with(json!({"array": {"count": 10_000_001}})),
        with(json!({"array": {"indices": "0-10000000"}})),
        with(json!({"array": {"indices": "5-1"}, "gang": {"size": 2}})),
        with(json!({"gang": {"size": 1, "max_per_worker": 0, "same_label": "a b"}})),
        with(json!({"gang": {}})),
        with(json!({"preemptible": "yes", "urgent": 1, "overlap": "never", "survive_agent": "always"})),
        with(json!({"artifacts_in": [{"name": "a", "path": "/a", "sha256": "AB"}, {"path": "a"}]})),
        with(json!({"artifacts_in": [
            {"name": "a", "path": "./"}, {"name": "a", "path": ".", "unpack": true, "executable": true},
            {"name": "a", "path": "x", "unpack": "tar"},
        ]})),
        with(json!({"resources": {"extras": {"a.b": 1, "A-b": 1, "c": 1}}})),
        with(json!({"artifacts_out": [{"name": "a", "path": "a/*"}, {"name": "a", "path": "../b", "required": 1}]})),
        with(json!({"artifacts_out": [{"name": "a", "path": "a/*"}, {"name": "a", "path": "b"}]})),
        with(json!({"log": {"limit": "2Ti", "on_full": "stop"}})),
        with(json!({"log": {"limit": "2Ti"}})),
        with(json!({"requires": {"features": (0..40).map(|at| format!("{at:08000}")).collect::<Vec<_>>()}})),
    ]
}

#[test]
fn every_rule_has_its_words() {
    let mut listing = String::new();
    for value in wrong() {
        let errors = JobSpec::from_json(&value).expect_err(&value.to_string());
        let list: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
        let mut sorted = errors.list().to_vec();
        sorted.sort();
        assert_eq!(sorted, errors.list(), "in order of their places");
        let shown: String = value.to_string().chars().take(200).collect();
        listing.push_str(&format!("{shown}\n    {}\n", list.join("\n    ")));
    }
    insta::assert_snapshot!(listing);
}

#[test]
fn every_text_is_taken_as_it_is_where_placeholders_are_off() {
    let texts = json!({"command": ["{{name}}", "{{index}}"], "env": {"A": "{{ x }}"}, "working_dir": "{{w}}"});
    assert!(JobSpec::from_json(&texts).is_err());
    let mut off = texts;
    off["placeholders"] = json!(false);
    let spec = read(&off);
    assert!(!spec.placeholders && spec.command == ["{{name}}", "{{index}}"]);
    assert_eq!(serde_json::from_slice::<JobSpec>(&spec.encode()).unwrap(), spec);
    off["command"] = json!(["a\0b"]);
    assert!(JobSpec::from_json(&off).is_err(), "other rules hold");
}

#[test]
fn a_list_of_faults_is_bounded() {
    let unknown: serde_json::Map<String, Value> = (0..500).map(|at| (format!("zz{at}"), json!(1))).collect();
    let errors = JobSpec::from_json(&with(Value::Object(unknown))).unwrap_err();
    assert_eq!((errors.list().len(), errors.more()), (100, 400));
    assert!(errors.to_string().ends_with("; and 400 more"));
}

#[test]
fn equal_specifications_have_one_hash_and_the_shared_part_leaves_the_job_out() {
    let long =
        read(&with(json!({"resources": {"cpu_m": "1", "memory_bytes": "256Mi"}, "priority": 5, "labels": null})));
    let short = read(&json!({"command": ["true"]}));
    assert_eq!(long.content_hash(), short.content_hash());
    let named = read(&with(json!({
        "name": "n", "labels": {"a": "b"}, "correlation_id": "c", "not_before": "2026-01-01T00:00:00Z",
        "queue_timeout_ms": 5, "array": {"count": 3},
    })));
    assert_ne!(named.content_hash(), short.content_hash());
    assert_eq!(named.shared(), short);
    insta::assert_snapshot!(short.content_hash(), @"7406609d1267fcc197c6b2a303b57e94a411bc99fe2ee0a733c1323db07da11d");
}

#[test]
fn what_was_stored_is_read_even_when_a_rule_became_stricter() {
    let stored = br#"{"command":["true"],"priority":77,"grace_ms":10000}"#;
    let spec: JobSpec = serde_json::from_slice(stored).unwrap();
    assert_eq!((spec.priority, spec.check().is_err()), (77, true));
    assert!(serde_json::from_slice::<JobSpec>(br#"{"comand": []}"#).is_err());
    assert!(serde_json::from_slice::<JobSpec>(b"[]").is_err());
}

fn specs() -> impl Strategy<Value = JobSpec> {
    let texts = prop::collection::btree_map("[a-zB-Y][a-z0-9]{0,6}", "[ -~]{0,12}", 0..4);
    let labels = prop::collection::btree_map("[a-z]{1,6}", "[a-z0-9]{0,6}", 0..4);
    let run = prop_oneof![
        prop::collection::vec("[a-z{}./ -]{1,12}", 1..4).prop_map(|command| JobSpec { command, ..JobSpec::default() }),
        "[ -~]{0,20}x".prop_map(|script| JobSpec { script: Some(script), ..JobSpec::default() }),
        any::<String>().prop_map(|text| JobSpec { step: Some(step::tests::step(&text)), ..JobSpec::default() }),
    ];
    let shape = (1..9000_u64, 0..(1_u64 << 40), 0..4_u32, prop::option::of(0..1_u64 << 30));
    let numbers = (0..10_u8, 0..100_000_u64, prop::option::of(1..9_u64), 0..101_u32, any::<bool>());
    let retry =
        (0..9_000_u64, 1000..10_000_u32, 0..1000_u32, prop::option::of(prop::collection::btree_set(0..256_i32, 1..4)));
    (texts, labels, run, shape, numbers, retry).prop_map(|(env, labels, run, shape, numbers, retry)| {
        let (cpu_m, memory_bytes, count, memory_min) = shape;
        let (priority, timeout_ms, expected_ms, retries, urgent) = numbers;
        let (backoff_ms, factor_milli, jitter_milli, exit_codes) = retry;
        let kind = GpuKind { vendor: crate::hardware::gpu::Vendor::Amd, model: "mi300x".parse().ok(), memory_min };
        let any_of = if count > 1 { vec![kind] } else { Vec::new() };
        let need = LabelExpr::new("zone", Operator::NotIn, labels.values().cloned());
        let need = if need.values.is_empty() { LabelExpr { op: Operator::DoesNotExist, ..need } } else { need };
        JobSpec {
            labels,
            env,
            resources: Resources { cpu_m, memory_bytes, gpus: Gpus { count, any_of }, ..Resources::default() },
            requires: Requires { labels: vec![need.clone()], ..Requires::default() },
            prefers: vec![Prefer { label: need, weight: 7 }],
            priority,
            timeout_ms,
            expected_ms,
            retries,
            retry: Retry { backoff_ms, factor_milli, jitter_milli, exit_codes, ..Retry::default() },
            urgent,
            not_before: expected_ms.map(|ms| Time::from_millis(1_700_000_000_123 + ms as i64)),
            array: (!urgent && run.step.is_none())
                .then(|| Array { indices: Some("0-9,20".into()), ..Array::default() }),
            gang: urgent.then(|| Gang { size: 2, max_per_worker: Some(1), same_label: Some("rack".into()) }),
            survive_agent: if urgent { SurviveAgent::Yes } else { SurviveAgent::Auto },
            ..run
        }
    })
}

proptest! {
    #[test]
    fn the_canonical_form_reads_back_and_is_a_fixed_point(spec in specs()) {
        let bytes = spec.encode();
        let again: JobSpec = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(&again, &spec);
        prop_assert_eq!(again.encode(), bytes);
        let value: Value = serde_json::to_value(&spec).unwrap();
        match JobSpec::from_json(&value) {
            Ok(read) => prop_assert_eq!(read, spec),
            Err(errors) => prop_assert_eq!(spec.check(), Err(errors)),
        }
    }
}

#[test]
fn inputs_have_places_of_their_own_and_outputs_have_names_that_lead_nowhere_else() {
    let wrong = |spec: serde_json::Value| {
        let errors = JobSpec::from_json(&spec).err().map(|errors| errors.to_string());
        errors.unwrap_or_default()
    };
    let inputs = |paths: &[(&str, bool)]| {
        let file = |(path, unpack): &(&str, bool)| json!({ "name": "n", "path": path, "unpack": unpack });
        let files: Vec<_> = paths.iter().map(file).collect();
        json!({ "command": ["true"], "artifacts_in": files })
    };
    let twice = wrong(inputs(&[("d/x", false), ("./d//x", true)]));
    assert!(twice.contains("artifacts_in[1].path: is the path of artifacts_in[0] too"), "{twice}");
    let below = wrong(inputs(&[("d/x/y", false), ("d", false)]));
    assert!(below.contains("artifacts_in[0].path: is below artifacts_in[1], which is a file"), "{below}");
    assert_eq!(wrong(inputs(&[(".", true), ("d", true), ("d/x", false), ("dx", false)])), "");
    for name in ["../x", "/x", "..", "d/../x"] {
        let out = wrong(json!({ "command": ["true"], "artifacts_out": [{ "name": name, "path": "r" }] }));
        assert!(out.contains("artifacts_out[0].name: leads out of the folder"), "{name}: {out}");
    }
    assert_eq!(wrong(json!({ "command": ["true"], "artifacts_out": [{ "name": "d/..x", "path": "r" }] })), "");
}

/// The schema of a job, and of the object that a path of members leads to.
fn described(path: &str) -> Value {
    let schema = crate::schema::of::<JobSpec>();
    path.split('.').filter(|name| !name.is_empty()).fold(schema.clone(), |own, name| {
        let member = &own["properties"][name];
        let reference = [&member["$ref"], &member["items"]["$ref"]].into_iter().find_map(Value::as_str).unwrap();
        schema.pointer(reference.trim_start_matches('#')).unwrap().clone()
    })
}

#[test]
fn the_schema_has_the_fields_that_are_read_and_no_other() {
    let at = |path: &str, inner: Value| match path.split_once('.') {
        Some((first, second)) => json!({first: {second: inner}}),
        None if path.is_empty() => inner,
        None => json!({path: inner}),
    };
    let wrong = json!({"strange_name_of_nothing": 1});
    let lists = ["secret_refs", "artifacts_in", "artifacts_out", "prefers", "requires.labels", "resources.gpus"];
    for path in ["", "resources", "requires", "retry", "array", "gang", "log"].into_iter().chain(lists) {
        let inner = match path {
            "secret_refs" | "artifacts_in" | "artifacts_out" | "prefers" | "requires.labels" => json!([wrong]),
            _ => wrong.clone(),
        };
        let errors = JobSpec::from_json(&at(path, inner)).unwrap_err();
        let known =
            errors.list().iter().find_map(|error| error.message.split_once("known fields: ")).unwrap().1.to_owned();
        let schema = described(path);
        let mut names: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        // Programs set a step, people do not.
        let known: Vec<&str> = known.split(", ").filter(|name| *name != "step").collect();
        assert_eq!(known, names, "{path}");
    }
}

#[test]
fn the_schema_has_the_defaults_and_requires_what_has_none() {
    let value = |path: &str, name: &str| described(path)["properties"][name]["default"].clone();
    assert_eq!((value("", "priority"), value("", "grace_ms")), (json!(DEFAULT_PRIORITY), json!(DEFAULT_GRACE_MS)));
    assert_eq!(value("resources", "memory_bytes"), json!(256 << 20));
    assert_eq!((value("retry", "factor"), value("retry", "jitter")), (json!(2.0), json!(0.2)));
    for (path, required) in [
        ("", Value::Null),
        ("secret_refs", json!(["name"])),
        ("gang", json!(["size"])),
        ("artifacts_in", json!(["name", "path"])),
        ("artifacts_out", json!(["name", "path"])),
        ("prefers", json!(["label"])),
        ("prefers.label", json!(["key"])),
        ("resources", Value::Null),
        ("log", Value::Null),
    ] {
        assert_eq!(described(path)["required"], required, "{path}");
    }
}
