//! Sequences of requests drawn from a seed: a few names, all verbs, versions that are right, old, or absent.

use serde_json::{Value, json};

use super::Step;

/// A small generator: equal seeds give equal sequences.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap_or_default();
        &items[index]
    }
}

/// A sequence of that many requests.
pub(super) fn sequence(seed: u64, length: usize) -> Vec<Step> {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..length).map(|_| request(&mut draw)).collect()
}

fn request(draw: &mut Draw) -> Step {
    let widget = draw.below(2) == 0;
    let name = *draw.of(&["a", "b"]);
    let base = if widget { "/apis/example.org/v1/namespaces/NS/widgets" } else { "/api/v1/namespaces/NS/configmaps" };
    let one = format!("{base}/{name}");
    let dry = if draw.below(12) == 0 { "?dryRun=All" } else { "" };
    let plain = |method: &'static str, path: String| Step { method, path, kind: "", body: None };
    let with = |method: &'static str, path: String, kind: &'static str, body: Value| Step {
        method,
        path,
        kind,
        body: Some(body),
    };
    match draw.below(10) {
        0 => plain("GET", one),
        1 => plain("GET", format!("{base}?labelSelector={}", draw.of(&["l%3D1", "l", "!l"]))),
        2 | 3 => with("POST", format!("{base}{dry}"), "application/json", object(draw, widget, name)),
        4 => with("PUT", format!("{one}{dry}"), "application/json", object(draw, widget, name)),
        5 | 6 => with("PATCH", format!("{one}{dry}"), "application/merge-patch+json", change(draw, widget, name)),
        7 if widget => with(
            "PATCH",
            format!("{one}/status"),
            "application/merge-patch+json",
            json!({"status": {"phase": draw.below(3).to_string()}}),
        ),
        8 => delete(draw, one, name),
        _ => {
            let manager = draw.of(&["m", "n"]);
            let force = draw.below(2) == 0;
            let mut body = object(draw, widget, name);
            body["metadata"]
                .as_object_mut()
                .expect("metadata")
                .retain(|member, _| member == "name" || member == "labels");
            with("PATCH", format!("{one}?fieldManager={manager}&force={force}"), "application/apply-patch+yaml", body)
        }
    }
}

fn metadata(draw: &mut Draw, name: &str) -> Value {
    let mut metadata = json!({ "name": name });
    match draw.below(5) {
        0 => metadata["resourceVersion"] = json!(format!("<rv:{name}>")),
        1 => metadata["labels"] = json!({"l": draw.below(2).to_string()}),
        2 => metadata["finalizers"] = json!(["example.org/f"]),
        _ => {}
    }
    metadata
}

fn object(draw: &mut Draw, widget: bool, name: &str) -> Value {
    let metadata = metadata(draw, name);
    if !widget {
        return json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {(*draw.of(&["x", "y"])): draw.below(3).to_string()}});
    }
    let mut spec = json!({"size": draw.below(4)});
    if draw.below(3) == 0 {
        spec["parts"] = json!([{"name": draw.of(&["p", "q"]), "count": draw.below(12)}]);
    }
    if draw.below(6) == 0 {
        spec["mode"] = json!(draw.of(&["Slow", "Odd"]));
    }
    json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": metadata, "spec": spec})
}

fn change(draw: &mut Draw, widget: bool, name: &str) -> Value {
    let mut change = match draw.below(4) {
        0 => json!({"metadata": {"finalizers": null}}),
        1 => json!({"metadata": {"labels": {"l": draw.below(2).to_string()}}}),
        _ if widget => json!({"spec": {"size": draw.below(4)}}),
        _ => json!({"data": {(*draw.of(&["x", "y"])): draw.below(3).to_string()}}),
    };
    if draw.below(5) == 0 {
        change["metadata"]["resourceVersion"] = json!(format!("<rv:{name}>"));
    }
    change
}

fn delete(draw: &mut Draw, path: String, name: &str) -> Step {
    let body = match draw.below(4) {
        0 => Some(json!({"preconditions": {"uid": format!("<uid:{name}>")}})),
        1 => Some(json!({"preconditions": {"resourceVersion": format!("<rv:{name}>")}})),
        2 => Some(json!({"propagationPolicy": "Background"})),
        _ => None,
    };
    Step { method: "DELETE", path, kind: "application/json", body }
}
