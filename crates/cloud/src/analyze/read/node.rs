//! `package.json`: front ends that are built, browsers that are started, TensorFlow on a GPU.

use orlop_core::hardware::gpu::Vendor;
use serde_json::Value;

use super::super::fact::{Finding, HARD, SOFT, Sink};
use super::super::sizing::Class;
use super::{locate, unreadable};

/// Packages of front ends whose build is heavy.
const FRAMEWORKS: [&str; 17] = [
    "next",
    "nuxt",
    "react-scripts",
    "@angular/cli",
    "@angular/core",
    "vue",
    "@vue/cli-service",
    "svelte",
    "@sveltejs/kit",
    "gatsby",
    "webpack",
    "vite",
    "parcel",
    "rollup",
    "@remix-run/react",
    "astro",
    "react-dom",
];

/// Reads a `package.json`.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return unreadable(sink, &error.to_string()),
    };
    let names = ["dependencies", "devDependencies", "optionalDependencies"]
        .iter()
        .filter_map(|key| document.get(*key)?.as_object());
    let mut class = Class::Plain;
    for name in names.flat_map(|table| table.keys()) {
        let at = locate(text, &format!("\"{name}\""));
        if FRAMEWORKS.contains(&name.as_str()) {
            class = Class::FrontEnd;
        } else if ["puppeteer", "playwright", "@playwright/test"].contains(&name.as_str()) {
            sink.add(at, "browser", Finding::ExtraRam(2), SOFT);
        } else if name == "@tensorflow/tfjs-node-gpu" {
            sink.add(at, "gpu-node-package", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
        }
    }
    sink.add(locate(text, "ependencies"), "class-of-project", Finding::Class(class), SOFT);
    if let Some(engine) = document.get("engines").and_then(|engines| engines.get("node")).and_then(Value::as_str) {
        let words = super::super::fact::quoted(engine);
        sink.add(locate(text, "\"engines\""), "node-engine", Finding::Special(format!("node {words}")), SOFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_json() {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        let text = "{\"engines\":{\"node\":\">=18\"},\n\"dependencies\":{\"next\":\"14\",\n\"@tensorflow/tfjs-node-gpu\":\"4\"},\n\"devDependencies\":{\"playwright\":\"1\"}}";
        read(text, &mut Sink::new("package.json", &mut facts, &mut notes));
        let reported = facts
            .iter()
            .map(|fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding))
            .collect::<Vec<_>>()
            .join("\n");
        insta::assert_snapshot!(reported, @r#"
        3 Hard Gpu(Some(Nvidia))
        4 Target ExtraRam(2)
        2 Target Class(FrontEnd)
        1 Target Special("node >=18")
        "#);
        read("{", &mut Sink::new("package.json", &mut facts, &mut notes));
        assert_eq!(notes.len(), 1);
    }
}
