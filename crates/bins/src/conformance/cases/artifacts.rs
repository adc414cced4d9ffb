//! Artifacts.

use orlop_core::testing::substrate::{Play, When};
use serde_json::{Value, json};

use super::{Case, output};

fn gives(artifact: Value) -> Value {
    json!({"outputs": {"artifacts": [artifact]}})
}

fn takes(artifact: Value) -> Value {
    json!({"inputs": {"artifacts": [artifact]}, "outputs": output("o", "/tmp/o")})
}

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("artifact-file")
            .step("make", "printf 'one\\ntwo' > /tmp/file.txt", gives(json!({"name": "file", "path": "/tmp/file.txt"})))
            .step("use", "cat /tmp/artifacts/in > /tmp/o", takes(json!({"name": "in", "from": "make/file"})))
            .ends(&[("make", "Succeeded"), ("use", "Succeeded")])
            .gives("use", "o", "one\ntwo"),
        Case::new("artifact-tree")
            .step(
                "make",
                "mkdir -p /tmp/tree/sub && printf deep > /tmp/tree/sub/leaf",
                gives(
                    json!({"name": "tree", "path": "/tmp/tree", "archive": {"format": "tar", "compression": "gzip"}}),
                ),
            )
            .step(
                "use",
                "cat /tmp/data/sub/leaf > /tmp/o",
                takes(json!({"name": "in", "from": "make", "path": "/tmp/data"})),
            )
            .ends(&[("use", "Succeeded")])
            .gives("use", "o", "deep"),
        Case::new("artifact-as-archive")
            .step(
                "make",
                "printf x > /tmp/f",
                gives(json!({"name": "zip", "path": "/tmp/f", "archive": {"format": "zip"}})),
            )
            .step(
                "use",
                "head -c 2 /tmp/in.zip > /tmp/o",
                takes(json!({"name": "in", "from": "make/zip", "path": "/tmp/in.zip", "unpack": false})),
            )
            .ends(&[("use", "Succeeded")])
            .gives("use", "o", "PK"),
        Case::new("artifact-missing")
            .step("make", "true", gives(json!({"name": "file", "path": "/tmp/none"})))
            .play(When::step("make"), Play::success().without("file"))
            .ends(&[("make", "Failed/OutputMissing")])
            .fails("FlowFailed"),
        Case::new("artifact-optional")
            .step("make", "true", gives(json!({"name": "file", "path": "/tmp/none", "optional": true})))
            .play(When::step("make"), Play::success().without("file"))
            .ends(&[("make", "Succeeded")]),
        Case::new("artifact-unavailable")
            .step(
                "make",
                "exit 1",
                json!({"continueOnFailure": true, "outputs": {"artifacts": [{"name": "file", "path": "/tmp/none"}]}}),
            )
            .step(
                "use",
                "true",
                json!({"dependencies": ["make"], "inputs": {"artifacts": [{"name": "in", "from": "make/file"}]}}),
            )
            .play(When::step("make"), Play::exit(1))
            .ends(&[("use", "Failed/ArtifactUnavailable")])
            .fails("FlowFailed"),
    ]
}
