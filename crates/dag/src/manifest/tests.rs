//! Files as users write them: recognition of documents, places of violations, and what is left of a file with errors.

use serde_json::json;

use super::testing::{flow, lines};
use super::*;
use crate::code::Code;

fn report(text: &str) -> String {
    match read("flow.yaml", text, &Options::new(Limits::kubernetes())) {
        Ok(reading) => format!("{} flows; {}", reading.manifests.len(), reading.warnings),
        Err(report) => report.to_string(),
    }
}

const FLOW: &str = "apiVersion: workflow.kube-zen.io/v1alpha1
kind: JobFlow
metadata: {name: etl}
spec:
  steps:
    - name: load
      template: &job
        apiVersion: batch/v1
        kind: Job
        spec:
          template:
            spec:
              containers: [{name: main, image: busybox, command: [\"true\"]}]
";

#[test]
fn a_flow_is_read_from_yaml_and_json_alike() {
    let yaml = read("f.yaml", FLOW, &Options::default()).unwrap().manifests.remove(0);
    let json = read("f.json", serde_json::to_string_pretty(&yaml.flow).unwrap(), &Options::default())
        .unwrap()
        .manifests
        .remove(0);
    assert_eq!((yaml.form, json.form), (Form::JobFlow, Form::JobFlow));
    assert_eq!(yaml.flow, json.flow);
    assert_eq!(yaml.flow.spec.steps[0].template, Some(super::testing::step("x")["template"].clone()));
}

#[test]
fn every_violation_is_reported_with_its_place() {
    let text = format!(
        "{FLOW}    - name: Extract\n      dependecies: [load]\n      template: *job\n    - name: clean\n      dependencies: [lod]\n      timeoutSeconds: 0\n      template: *job\n  executionPolicy: {{backoffLimit: -1, failurePolicy: never}}\n"
    );
    insta::assert_snapshot!(report(&text), @"
    error[value]: step name `Extract` is not valid: character 'E' at position 1 is not allowed
      --> flow.yaml:14:13
       |
    14 |     - name: Extract
       |             ^^^^^^^
       = field: spec.steps[1].name
       = help: use lower case letters, digits, `-` and `.`

    error[unknown-field]: unknown field `dependecies`
      --> flow.yaml:15:7
       |
    15 |       dependecies: [load]
       |       ^^^^^^^^^^^
       = field: spec.steps[1].dependecies
       = help: did you mean `dependencies`?

    error[dependency]: there is no step `lod`
      --> flow.yaml:18:22
       |
    18 |       dependencies: [lod]
       |                      ^^^
       = field: spec.steps[2].dependencies[0]
       = help: did you mean `load`?

    error[value]: a timeout of 0 seconds
      --> flow.yaml:19:23
       |
    19 |       timeoutSeconds: 0
       |                       ^
       = field: spec.steps[2].timeoutSeconds
       = help: use 1 to 2592000 (30 days), or leave it out for none

    error[value]: -1 is too small
      --> flow.yaml:21:35
       |
    21 |   executionPolicy: {backoffLimit: -1, failurePolicy: never}
       |                                   ^^
       = field: spec.executionPolicy.backoffLimit
       = help: use 0 or more

    error[value]: expected one of FailFast, CancelRunning, Continue, found the text `never`
      --> flow.yaml:21:54
       |
    21 |   executionPolicy: {backoffLimit: -1, failurePolicy: never}
       |                                                      ^^^^^
       = field: spec.executionPolicy.failurePolicy

    6 errors
    ");
}

#[test]
fn rules_do_not_speak_of_what_could_not_be_read() {
    let text = FLOW.replace("template: &job", "tempalte: &job") + "  finally: 5\n";
    insta::assert_snapshot!(report(&text), @"
    error[unknown-field]: unknown field `tempalte`
     --> flow.yaml:7:7
      |
    7 |       tempalte: &job
      |       ^^^^^^^^
      = field: spec.steps[0].tempalte
      = help: did you mean `template`?

    error[value]: expected a list of mappings, found the number 5
      --> flow.yaml:14:12
       |
    14 |   finally: 5
       |            ^
       = field: spec.finally
       = help: write a list: one item per line, each after `- `, or [a, b]

    2 errors
    ");
    let text = FLOW.to_owned() + "  paramters: []\n  retryOf: {name: ''}\n";
    insta::assert_snapshot!(report(&text), @"
    error[unknown-field]: unknown field `paramters`
      --> flow.yaml:14:3
       |
    14 |   paramters: []
       |   ^^^^^^^^^
       = field: spec.paramters
       = help: did you mean `parameters`?

    error[value]: `uid` is missing
      --> flow.yaml:15:3
       |
    15 |   retryOf: {name: ''}
       |   ^^^^^^^
       = field: spec.retryOf.uid
       = help: it must be text

    2 errors
    ");
}

#[test]
fn documents_of_other_kinds_are_ignored_with_a_warning() {
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\n---\n{FLOW}---\n");
    insta::assert_snapshot!(report(&text), @"
    1 flows; warning[object]: a document of kind `ConfigMap` is ignored
     --> flow.yaml:2:7
      |
    2 | kind: ConfigMap
      |       ^^^^^^^^^
      = field: kind
      = help: apply it with its own tool

    1 warning
    ");
}

#[test]
fn files_without_flow_are_refused() {
    insta::assert_snapshot!(report("apiVersion: v1\nkind: Secret\n"), @"
    error[object]: the file holds no flow
     = help: write a document with apiVersion: workflow.kube-zen.io/v1alpha1 and kind: JobFlow, or a pipeline with `steps`

    warning[object]: a document of kind `Secret` is ignored
     --> flow.yaml:2:7
      |
    2 | kind: Secret
      |       ^^^^^^
      = field: kind
      = help: apply it with its own tool

    1 error, 1 warning
    ");
    insta::assert_snapshot!(report("# nothing\n"), @"
    error[object]: the file holds no flow
     = help: write a document with apiVersion: workflow.kube-zen.io/v1alpha1 and kind: JobFlow, or a pipeline with `steps`

    1 error
    ");
    insta::assert_snapshot!(report("name: x\n"), @"
    error[object]: the document has neither `kind` nor `steps`, so it is not a flow
     --> flow.yaml:1:1
      |
    1 | name: x
      | ^^^^
      = field: kind
      = help: write kind: JobFlow and apiVersion: workflow.kube-zen.io/v1alpha1, or list `steps` for a pipeline

    1 error
    ");
    insta::assert_snapshot!(report("- a\n"), @"
    error[object]: the document is a list, not a flow
     --> flow.yaml:1:1
      |
    1 | - a
      | ^^^
      = help: begin it with kind: JobFlow

    1 error
    ");
    insta::assert_snapshot!(report("kind: jobflow\napiVersion: workflow.kube-zen.io/v1alpha1\n---\nkind: Flow\napiVersion: workflow.kube-zen.io/v1\n---\nkind: List\nitems: []\n---\nkind: 5\n"), @"
    error[object]: there is no kind `jobflow`
     --> flow.yaml:1:7
      |
    1 | kind: jobflow
      |       ^^^^^^^
      = field: kind
      = help: did you mean `JobFlow`?

    error[object]: there is no kind `Flow`
     --> flow.yaml:4:7
      |
    4 | kind: Flow
      |       ^^^^
      = field: kind
      = help: did you mean `JobFlow`?

    error[object]: a document of kind List is not read
     --> flow.yaml:7:7
      |
    7 | kind: List
      |       ^^^^
      = field: kind
      = help: write its items as separate documents, separated by `---`

    error[object]: `kind` is the number 5, not a text
      --> flow.yaml:10:7
       |
    10 | kind: 5
       |       ^
       = field: kind

    4 errors
    ");
}

#[test]
fn several_flows_of_one_file_are_read() {
    let other = FLOW.replace("name: etl", "name: other");
    let reading = read("f.yaml", format!("{FLOW}---\n{other}"), &Options::default()).unwrap();
    assert_eq!(
        reading.manifests.iter().map(|manifest| manifest.flow.metadata.name.as_str()).collect::<Vec<_>>(),
        ["etl", "other"]
    );
}

#[test]
fn a_manifests_own_status_does_not_count() {
    let reading = read("f.yaml", format!("{FLOW}status: {{phase: Odd, x: 1}}\n"), &Options::default()).unwrap();
    assert_eq!(reading.manifests[0].flow.status, None);
}

#[test]
fn violations_found_later_get_their_place_too() {
    let reading = read("f.yaml", FLOW, &Options::default()).unwrap();
    let mut cycle = Violations::new();
    let spec = Path::ROOT.field("spec");
    cycle.error(Code::Cycle, &spec.field("steps").index(0).field("name"), || "a depends on itself");
    reading.manifests[0].place(&mut cycle);
    insta::assert_snapshot!(Report::new(cycle), @"
    error[cycle]: a depends on itself
     --> f.yaml:6:13
      |
    6 |     - name: load
      |             ^^^^
      = field: spec.steps[0].name

    1 error
    ");
}

#[test]
fn errors_in_texts_point_into_the_text() {
    let text = FLOW.to_owned() + "      when: \"steps.load.phase = 'x'\"\n";
    insta::assert_snapshot!(report(&text), @r#"
    error[condition]: unknown sign `=`
      --> flow.yaml:14:31
       |
    14 |       when: "steps.load.phase = 'x'"
       |                               ^
       = field: spec.steps[0].when
       = help: write == to compare

    1 error
    "#);
}

#[test]
fn more_than_a_hundred_violations_are_counted() {
    let mut text = FLOW.to_owned();
    for n in 0..150 {
        text += &format!("    - {{name: S{n}, type: Manual}}\n");
    }
    let report = report(&text);
    assert!(report.ends_with("and 50 errors more\n\n150 errors"), "{}", &report[report.len() - 200..]);
}

#[test]
fn objects_from_the_wire_keep_the_same_rules() {
    let mut object = flow();
    assert!(read_object(&object, &Limits::kubernetes()).is_ok());
    object["spec"]["steps"][0]["odd"] = json!(1);
    insta::assert_snapshot!(lines(&read_object(&object, &Limits::kubernetes()).unwrap_err()), @"error[unknown-field] spec.steps[0].odd: unknown field `odd` (remove it, or check where it belongs)");
}

#[test]
fn cycles_are_named_beside_other_violations() {
    let text = FLOW.replace("    - name: load\n", "    - name: load\n      dependencies: [clean]\n")
        + "    - {name: clean, type: Manual, when: \"steps.load.phase == 'Failed'\", timeoutSeconds: 0}\n    - {name: alone, type: Manual, dependencies: [alone]}\n";
    insta::assert_snapshot!(report(&text), @r#"
    error[cycle]: steps wait for each other in a cycle: load → clean → load
     --> flow.yaml:7:7
      |
    7 |       dependencies: [clean]
      |       ^^^^^^^^^^^^
      = field: spec.steps[0].dependencies
      = help: remove one of these dependencies or references

    error[value]: a timeout of 0 seconds
      --> flow.yaml:15:89
       |
    15 | …, type: Manual, when: "steps.load.phase == 'Failed'", timeoutSeconds: 0}
       |                                                                        ^
       = field: spec.steps[1].timeoutSeconds
       = help: use 1 to 2592000 (30 days), or leave it out for none

    2 errors
    "#);
    let pipeline = "name: p\nsteps:\n- {name: A, depends_on: [B], job_spec: {command: [x], image: i}}\n- {name: B, depends_on: [A], job_spec: {command: [x], image: i}}\n";
    insta::assert_snapshot!(report(pipeline), @"
    error[cycle]: steps wait for each other in a cycle: a → b → a
     --> flow.yaml:3:13
      |
    3 | - {name: A, depends_on: [B], job_spec: {command: [x], image: i}}
      |             ^^^^^^^^^^
      = field: steps[0].depends_on
      = help: remove one of these dependencies or references

    1 error
    ");
}

#[test]
fn a_long_chain_is_no_cycle_until_it_is_closed() {
    let mut object = flow();
    let link = |n: usize| json!({"name": format!("s{n}"), "type": "Manual", "dependencies": [format!("s{}", n.saturating_sub(1).min(n))]});
    let mut steps: Vec<_> = (0..30_000).map(link).collect();
    steps[0] = json!({"name": "s0", "type": "Manual"});
    object["spec"]["steps"] = steps.into();
    assert!(read_object(&object, &Limits::elsewhere()).is_ok());
    object["spec"]["steps"][0]["dependencies"] = json!(["s29999"]);
    let found = lines(&read_object(&object, &Limits::elsewhere()).unwrap_err());
    assert!(found.starts_with("error[cycle]") && found.lines().count() == 1, "{found}");
}

/// A value of the type a table gives, so that the typed flow can be compared with the table.
fn sample(name: &str) -> serde_json::Value {
    use super::schema::{Base, Outer, table};
    let known = table().get(table().find(name).unwrap()).unwrap();
    let mut object = serde_json::Map::new();
    for field in &known.fields {
        let one = match field.kind.base {
            Base::Object(_) if field.name == "metadata" && name == "JobFlow" => json!({"name": "x"}),
            Base::Object(inner) => sample(table().get(inner).unwrap().name),
            Base::Choice(words) => json!(words.split('|').next_back().unwrap()),
            Base::Bool => json!(true),
            Base::Int32 | Base::Int64 => json!(7),
            Base::Number => json!(0.5),
            Base::Any => json!({"any": null}),
            _ => json!("text"),
        };
        let value = match field.kind.outer {
            Outer::One => one,
            Outer::List => json!([one]),
            Outer::Map => json!({"key": one}),
        };
        object.insert(field.name.to_owned(), value);
    }
    object.into()
}

#[test]
fn the_field_table_and_the_typed_flow_are_the_same() {
    let mut object = sample("JobFlow");
    object.as_object_mut().unwrap().remove("status");
    let typed: orlop_core::spec::flow::JobFlow = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), object, "the types lose or change a field of the table");
}
