//! Requests whose answers matter to the operator.

use serde_json::{Value, json};

use super::Step;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn step(method: &'static str, path: &str, kind: &'static str, body: impl Into<Option<Value>>) -> Step {
    let path = match path.split_once(' ') {
        Some(("cm", rest)) => format!("/api/v1/namespaces/NS/configmaps{rest}"),
        Some(("secret", rest)) => format!("/api/v1/namespaces/NS/secrets{rest}"),
        Some(("pvc", rest)) => format!("/api/v1/namespaces/NS/persistentvolumeclaims{rest}"),
        Some(("pod", rest)) => format!("/api/v1/namespaces/NS/pods{rest}"),
        Some(("quota", rest)) => format!("/api/v1/namespaces/NS/resourcequotas{rest}"),
        Some(("job", rest)) => format!("/apis/batch/v1/namespaces/NS/jobs{rest}"),
        Some(("lease", rest)) => format!("/apis/coordination.k8s.io/v1/namespaces/NS/leases{rest}"),
        Some(("event", rest)) => format!("/apis/events.k8s.io/v1/namespaces/NS/events{rest}"),
        Some(("w", rest)) => format!("/apis/example.org/v1/namespaces/NS/widgets{rest}"),
        _ => path.to_owned(),
    };
    Step { method, path, kind, body: body.into() }
}

fn get(path: &str) -> Step {
    step("GET", path, "", None)
}

fn post(path: &str, body: Value) -> Step {
    step("POST", path, JSON, body)
}

fn put(path: &str, body: Value) -> Step {
    step("PUT", path, JSON, body)
}

fn merge(path: &str, body: Value) -> Step {
    step("PATCH", path, MERGE, body)
}

fn delete(path: &str, body: impl Into<Option<Value>>) -> Step {
    step("DELETE", path, JSON, body)
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn job(name: &str, more: Value) -> Value {
    let mut spec =
        json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example"}]}}});
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
}

pub(super) fn all() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        ("verbs", verbs()),
        ("sizes", sizes()),
        ("patches", patches()),
        ("deletes", deletes()),
        ("widgets", widgets()),
        ("schema", schema()),
        ("jobs", jobs()),
        ("others", others()),
        ("apply", apply()),
        ("lists", lists()),
    ]
}

fn verbs() -> Vec<Step> {
    vec![
        get("cm /a"),
        post("cm ", map("a", json!({"x": "1"}))),
        post("cm ", map("a", json!({"x": "1"}))),
        get("cm /a"),
        post("cm ", map("B_", json!({}))),
        post("cm ", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})),
        post("cm ", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}})),
        post("cm ", json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})),
        post("cm ", json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "s"}})),
        post("cm ", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s", "namespace": "other"}})),
        post("cm ", json!({"metadata": {"name": "untyped"}})),
        post(
            "cm ",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rv", "resourceVersion": "1"}}),
        ),
        post(
            "cm ",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l", "labels": {"a": "b c"}}}),
        ),
        post(
            "cm ",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l", "labels": {"a/b/c": "d"}}}),
        ),
        post("cm ", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"a b": "1"}})),
        post("cm ", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"a": 1}})),
        post("cm ", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "u"}, "strange": 1})),
        post(
            "cm ?fieldValidation=Strict",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "u2"}, "strange": 1}),
        ),
        post("cm ?dryRun=All", map("dry", json!({"x": "1"}))),
        get("cm /dry"),
        put("cm /a", map("b", json!({"x": "1"}))),
        put("cm /a", map("a", json!({"x": "2"}))),
        put(
            "cm /a",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}, "data": {"x": "3"}}),
        ),
        put(
            "cm /a",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "11111111-1111-4111-8111-111111111111"}, "data": {"x": "3"}}),
        ),
        put(
            "cm /a",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "<rv:a>"}, "data": {"x": "3"}, "immutable": true}),
        ),
        put("cm /a", map("a", json!({"x": "4"}))),
        put("cm /none", map("none", json!({"x": "4"}))),
        get("/api/v1/namespaces/NS/nothing"),
        get("/apis/no.such/v1/things"),
        post("/api/v1/namespaces/no-such-namespace/configmaps", map("a", json!({}))),
        get("/api/v1/namespaces/no-such-namespace/configmaps/a"),
        step("POST", "cm /a", JSON, map("a", json!({}))),
    ]
}

/// Objects that are too large, and metadata that is wrong.
fn sizes() -> Vec<Step> {
    vec![
        post("cm ", map("big", json!({"x": "x".repeat(1_050_000)}))),
        post(
            "w ",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "big"}, "spec": {"size": 1, "open": {"x": "x".repeat(1_600_000)}}}),
        ),
        post(
            "w ",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "huge"}, "spec": {"size": 1, "open": {"x": "x".repeat(3_200_000)}}}),
        ),
        post(
            "w ",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "notes", "annotations": {"x": "x".repeat(270_000)}}, "spec": {"size": 1}}),
        ),
        post(
            "w ",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "odd", "strange": 1, "labels": {"a": 1}}, "spec": {"size": 1}}),
        ),
        post(
            "cm ",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]}}),
        ),
        post(
            "w ",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "owned", "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]}, "spec": {"size": 1}}),
        ),
    ]
}

fn patches() -> Vec<Step> {
    vec![
        post("cm ", map("a", json!({"x": "1", "y": "2"}))),
        merge("cm /a", json!({"data": {"x": null, "z": "3"}})),
        merge("cm /a", json!({"data": {"z": "3"}})),
        merge("cm /a", json!({"metadata": {"resourceVersion": "1"}, "data": {"z": "4"}})),
        merge("cm /a", json!({"metadata": {"uid": "11111111-1111-4111-8111-111111111111"}, "data": {"z": "4"}})),
        merge("cm /a", json!({"metadata": {"name": "b"}})),
        merge("cm /none", json!({"data": {"z": "4"}})),
        merge("cm /a", json!({"data": {"z": 4}})),
        merge("cm /a", json!({"metadata": {"labels": {"k": "v v"}}})),
        step(
            "PATCH",
            "cm /a",
            PATCH,
            json!([{"op": "test", "path": "/data/y", "value": "2"}, {"op": "replace", "path": "/data/y", "value": "5"}]),
        ),
        step("PATCH", "cm /a", PATCH, json!([{"op": "test", "path": "/data/y", "value": "2"}])),
        step("PATCH", "cm /a", PATCH, json!([{"op": "remove", "path": "/data/none"}])),
        step("PATCH", "cm /a", PATCH, json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}])),
        step("PATCH", "cm /a", PATCH, json!({"op": "add"})),
        step("PATCH", "cm /a", STRATEGIC, json!({"metadata": {"finalizers": ["example.org/a"]}})),
        step("PATCH", "cm /a", STRATEGIC, json!({"metadata": {"finalizers": ["example.org/b"]}})),
        step(
            "PATCH",
            "cm /a",
            STRATEGIC,
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.org/a", "example.org/b"]}}),
        ),
        step("PATCH", "cm /a", JSON, json!({"data": {}})),
    ]
}

fn deletes() -> Vec<Step> {
    vec![
        delete("cm /none", None),
        post("cm ", map("a", json!({}))),
        delete("cm /a", json!({"preconditions": {"uid": "11111111-1111-4111-8111-111111111111"}})),
        delete("cm /a", json!({"preconditions": {"resourceVersion": "1"}})),
        delete("cm /a", json!({"preconditions": {"uid": "<uid:a>"}})),
        post(
            "cm ",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "f", "finalizers": ["example.org/a"]}}),
        ),
        delete("cm /f", None),
        delete("cm /f", None),
        merge("cm /f", json!({"data": {"x": "1"}})),
        merge("cm /f", json!({"metadata": {"finalizers": ["example.org/a", "example.org/b"]}})),
        merge("cm /f", json!({"metadata": {"finalizers": null}})),
        get("cm /f"),
        post("cm ", map("g", json!({}))),
        delete("cm /g?propagationPolicy=Foreground", None),
        get("cm /g"),
        merge("cm /g", json!({"metadata": {"finalizers": null}})),
        post("cm ", map("o", json!({}))),
        delete("cm /o", json!({"propagationPolicy": "Orphan"})),
        merge("cm /o", json!({"metadata": {"finalizers": null}})),
        post("cm ", map("p", json!({}))),
        delete("cm /p?dryRun=All", None),
        delete("cm /p?propagationPolicy=Odd", None),
        post("cm ", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "finalizers": ["bad"]}})),
    ]
}

fn widgets() -> Vec<Step> {
    vec![
        post(
            "w ",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}, "status": {"phase": "x"}}),
        ),
        merge(
            "w /a/status",
            json!({"status": {"phase": "Done"}, "spec": {"size": 5}, "metadata": {"labels": {"a": "b"}}}),
        ),
        merge("w /a", json!({"spec": {"size": 2}, "status": {"phase": "x"}})),
        merge("w /a", json!({"metadata": {"labels": {"a": "b"}}})),
        merge("w /a/status", json!({"metadata": {"resourceVersion": "1"}, "status": {"phase": "x"}})),
        merge("w /a/status", json!({"status": {"phase": 1}})),
        merge("w /none/status", json!({"status": {"phase": "x"}})),
        put("w /a", widget("a", json!({"size": 3}))),
        put(
            "w /a",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "<rv:a>"}, "spec": {"size": 3}}),
        ),
        put(
            "w /a/status",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "<rv:a>"}, "status": {"phase": "Put"}}),
        ),
        get("w /a/status"),
        get("w /a/scale"),
        merge("w /a/scale", json!({"spec": {"replicas": 7}})),
        step("PATCH", "w /a", STRATEGIC, json!({"spec": {"size": 2}})),
        post("w ", json!({"kind": "Widget", "metadata": {"name": "b"}, "spec": {"size": 1}})),
        post("w ", json!({"apiVersion": "example.org/v1", "metadata": {"name": "b"}, "spec": {"size": 1}})),
        post("w ", widget("B", json!({"size": 1}))),
        merge("w /a", json!({"metadata": {"finalizers": ["example.org/x"]}})),
        delete("w /a", None),
        merge("w /a/status", json!({"status": {"phase": "Dying"}})),
        merge("w /a", json!({"metadata": {"finalizers": []}})),
        get("w /a"),
    ]
}

fn schema() -> Vec<Step> {
    let specs = [
        json!({}),
        json!({"size": "1"}),
        json!({"size": -1}),
        json!({"size": 1.5}),
        json!({"size": 99_999_999_999_i64}),
        json!({"size": 1, "mode": "Odd"}),
        json!({"size": 1, "name": "ABCDEFG"}),
        json!({"size": 1, "parts": [{"name": "p"}, {"name": "p"}]}),
        json!({"size": 1, "parts": [{"name": "p"}, {"name": "q"}, {"name": "r"}, {"name": "s"}]}),
        json!({"size": 1, "parts": [{"count": 1}]}),
        json!({"size": 1, "parts": "p"}),
        json!({"size": 1, "parts": ["p"]}),
        json!({"size": 1, "tags": ["t", "t"]}),
        json!({"size": 1, "tags": [1]}),
        json!({"size": 1, "labels": {"a": 1}}),
        json!({"size": 1, "port": true}),
        json!({"size": 1, "port": 80}),
        json!({"size": 1, "port": "http"}),
        json!({"size": 1, "note": null, "mode": null, "name": null}),
        json!({"size": 1, "parts": [{"name": "p", "count": 10}]}),
        json!({"size": 1, "parts": [{"name": "p", "count": 10, "kind": "k"}], "strange": 1, "open": {"x": {"y": [1]}}}),
        json!({"size": null}),
        json!({"size": 13}),
        json!({"size": 1, "parts": [{"name": "p", "count": 10}, {"name": "q", "count": 11}], "labels": {"a.b/c": "x"}}),
        json!([]),
        json!("text"),
        Value::Null,
    ];
    let mut steps: Vec<Step> =
        specs.iter().enumerate().map(|(index, spec)| post("w ", widget(&format!("s{index}"), spec.clone()))).collect();
    steps.extend([
        post("w ", json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "nospec"}})),
        post(
            "w ?fieldValidation=Strict",
            widget("strict", json!({"size": 1, "strange": 1, "parts": [{"name": "p", "other": 1}]})),
        ),
        post("w ", widget("t", json!({"size": 1, "name": "x"}))),
        merge("w /t", json!({"spec": {"name": "y"}})),
        merge("w /t", json!({"spec": {"name": null}})),
        merge("w /t", json!({"spec": {"size": "x"}})),
        merge("w /t", json!({"spec": {"size": 4}})),
    ]);
    steps
}

fn jobs() -> Vec<Step> {
    let template = |spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "t"}, "spec": {"template": {"spec": spec}}});
    vec![
        post("job ", job("a", json!({}))),
        post(
            "job ",
            job("b", json!({"completions": 3, "completionMode": "Indexed", "suspend": true, "backoffLimit": 0})),
        ),
        post(
            "job ",
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "l"}, "spec": {"template":
            {"metadata": {"labels": {"x": "y"}}, "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "example:1"}]}}}}),
        ),
        post("job ", template(json!({"containers": [{"name": "main", "image": "example"}]}))),
        post(
            "job ",
            template(json!({"restartPolicy": "Always", "containers": [{"name": "main", "image": "example"}]})),
        ),
        post("job ", template(json!({"restartPolicy": "Never", "containers": []}))),
        post("job ", template(json!({"restartPolicy": "Never", "containers": [{"name": "main"}]}))),
        post("job ", template(json!({"restartPolicy": "Never", "containers": [{"name": "A b", "image": "example"}]}))),
        post(
            "job ",
            template(
                json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}),
            ),
        ),
        post(
            "job ",
            template(
                json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
            ),
        ),
        post("job ", job("n", json!({"backoffLimit": -1}))),
        post("job ", job("n", json!({"parallelism": -1, "completions": -1}))),
        post("job ", job("n", json!({"backoffLimit": "x"}))),
        post("job ", job("n", json!({"completionMode": "Indexed"}))),
        post("job ", job("n", json!({"activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -1}))),
        post("job ?fieldValidation=Strict", job("n", json!({"strange": 1}))),
        merge("job /a", json!({"spec": {"parallelism": 2}})),
        merge("job /a", json!({"spec": {"completions": 2}})),
        merge("job /a", json!({"spec": {"suspend": true}})),
        merge("job /a", json!({"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}})),
        merge("job /a", json!({"metadata": {"annotations": {"x": "y"}}})),
        delete("job /b", None),
        get("job /b"),
        delete("job /a?propagationPolicy=Background", None),
        delete("job /l", json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "<uid:l>"}})),
        get("job /l"),
    ]
}

fn others() -> Vec<Step> {
    let event = |more: Value| {
        let mut event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.org/c", "reportingInstance": "c-0", "action": "Act", "reason": "Why", "type": "Normal",
            "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "NS"}, "note": "text"});
        for (name, value) in more.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        event
    };
    let lease = |spec: Value| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec});
    vec![
        post("event ", event(json!({}))),
        post("event ", event(json!({"reason": "", "action": ""}))),
        post("event ", event(json!({"type": "Odd"}))),
        post("event ", event(json!({"regarding": {"kind": "ConfigMap", "name": "a", "namespace": "other"}}))),
        post(
            "lease ",
            lease(
                json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}),
            ),
        ),
        put("lease /l", lease(json!({"holderIdentity": "b"}))),
        put(
            "lease /l",
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "resourceVersion": "1"}, "spec": {"holderIdentity": "b"}}),
        ),
        put(
            "lease /l",
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "resourceVersion": "<rv:l>"}, "spec": {"holderIdentity": "b"}}),
        ),
        post(
            "secret ",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}),
        ),
        post(
            "pvc ",
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "p"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        post(
            "pvc ",
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "q"}, "spec": {}}),
        ),
        post(
            "pod ",
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "example"}]}}),
        ),
        merge("pod /p", json!({"spec": {"restartPolicy": "Never"}})),
        delete("pod /p", None),
        get("pod /p"),
        post(
            "quota ",
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"count/jobs.batch": "5"}}}),
        ),
        delete("/api/v1/namespaces/NS", None),
        post("cm ", map("late", json!({}))),
        post("w ", widget("late", json!({"size": 1}))),
    ]
}

fn apply() -> Vec<Step> {
    let apply = |path: &str, body: Value| step("PATCH", path, APPLY, body);
    vec![
        apply("cm /a?fieldManager=one", map("a", json!({"x": "1", "y": "1"}))),
        apply("cm /a?fieldManager=two", map("a", json!({"y": "1", "z": "2"}))),
        apply("cm /a?fieldManager=two", map("a", json!({"x": "2"}))),
        apply("cm /a?fieldManager=two", map("a", json!({"x": "2", "y": "3"}))),
        apply("cm /a?fieldManager=two&force=true", map("a", json!({"x": "2"}))),
        apply("cm /a?fieldManager=one", map("a", json!({}))),
        apply("cm /a", map("a", json!({}))),
        merge("cm /a?fieldManager=three", json!({"data": {"m": "1"}})),
        apply("cm /a?fieldManager=one", map("a", json!({"m": "2", "x": "5"}))),
        apply("w /a?fieldManager=one", widget("a", json!({"size": 1, "parts": [{"name": "p", "count": 1}]}))),
        apply("w /a?fieldManager=two", widget("a", json!({"size": 1, "parts": [{"name": "q", "count": 2}]}))),
        apply("w /a?fieldManager=two", widget("a", json!({"size": 1, "parts": [{"name": "p", "count": 2}]}))),
        apply("w /a?fieldManager=two", widget("a", json!({"size": 1}))),
        apply(
            "w /a/status?fieldManager=s",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": {"phase": "x"}}),
        ),
        apply(
            "w /a/status?fieldManager=s",
            json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a", "resourceVersion": "1"}, "status": {"phase": "late"}}),
        ),
        merge("w /a?fieldManager=three", json!({"spec": {"size": 2}})),
        apply("w /a?fieldManager=one", widget("a", json!({"size": 3}))),
        apply("job /j?fieldManager=one", job("j", json!({"backoffLimit": 1}))),
        apply("job /j?fieldManager=two", job("j", json!({"backoffLimit": 2}))),
    ]
}

fn lists() -> Vec<Step> {
    let labelled = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
    vec![
        post("cm ", labelled("a", json!({"app": "x", "tier": "1"}))),
        post("cm ", labelled("b", json!({"app": "y"}))),
        post("cm ", labelled("c", json!({"app": "x"}))),
        post("w ", widget("a", json!({"size": 1}))),
        get("cm "),
        get("w "),
        get("cm ?labelSelector=app%3Dx"),
        get("cm ?labelSelector=app+in+(x,y),!tier"),
        get("cm ?labelSelector=app!%3Dx"),
        get("cm ?labelSelector=tier"),
        get("cm ?fieldSelector=metadata.name%3Db"),
        get("cm ?fieldSelector=data.x%3Db"),
        get("w ?fieldSelector=spec.size%3D1"),
        get("pod ?fieldSelector=status.phase%3DRunning"),
        get("pod ?fieldSelector=status.reason%3DRunning"),
        get("cm ?limit=2"),
        get("cm ?limit=2&labelSelector=app%3Dx"),
        get("cm ?limit=1&labelSelector=app%3Dy"),
        get("cm ?limit=1&labelSelector=app%3Dz"),
        get("cm ?limit=1&fieldSelector=metadata.name%3Da"),
        get("w ?limit=1&fieldSelector=metadata.name%3Da"),
        get("cm ?continue=nonsense"),
        get("cm ?resourceVersion=abc"),
        get("cm ?labelSelector=a+b"),
        get("cm ?limit=-1"),
        delete("cm ?labelSelector=app%3Dx", None),
        get("cm "),
    ]
}
