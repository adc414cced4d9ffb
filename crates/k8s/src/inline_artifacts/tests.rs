//! Who may hand in what, and what becomes of it.

use std::sync::Arc;

use futures::FutureExt as _;
use orlop_core::attempt::{ArtifactCollection, AttemptKey, AttemptSpec};

use super::*;
use crate::render::helper::{HelperOptions, Tokens};
use crate::render::{ArtifactTransfer, job};
use crate::shell::fake::{Fault, Server, TestClock, refused};

const TOKEN: &str = "token-1";

/// A server with the Job of an attempt that keeps `model`.
fn server() -> Server {
    let server = Server::new(Arc::new(TestClock::new()));
    let output = |name: &str| ArtifactCollection {
        name: name.into(),
        path: "/out".into(),
        optional: false,
        archive: None,
        s3: None,
    };
    let spec = AttemptSpec {
        function: None,
        key: AttemptKey { flow: "u1".into(), step: "work".into(), item: None, attempt: 1 },
        flow_name: "etl".into(),
        namespace: "default".into(),
        job_name: "etl-work-u1".into(),
        template: Arc::new(json!({"spec": {"template": {"spec": {"containers": [{"name": "m", "command": ["c"]}]}}}})),
        inputs: vec![],
        output_files: vec![],
        output_artifacts: vec![output("model"), output("other")],
    };
    let helper = HelperOptions::new("helper", "http://operator", Tokens::new(|| TOKEN.to_owned()));
    let owner = FlowOwner { uid: "u1".into(), name: "etl".into(), namespace: "default".into() };
    let carriage = ArtifactTransfer { helper: Some(&helper), ..ArtifactTransfer::default() };
    server.put(Kind::Job, job(&spec, &owner, carriage).unwrap());
    server
}

const CLAIM: Claim<'static> = Claim { namespace: "default", job: "etl-work-u1", artifact: "model", token: TOKEN };

fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("nothing here waits")
}

fn hand_in(server: &Server, claim: Claim<'_>, content: &[u8]) -> Result<(), KeepError> {
    let inline = InlineArtifacts::new(server.clone());
    let permit = now(inline.admit(claim))?;
    now(inline.keep(&permit, &sha256_hex(content, 64), content))
}

fn kept(server: &Server) -> Value {
    server.get(Kind::ConfigMap, "etl-work-model").unwrap()
}

#[test]
fn a_small_artifact_is_kept_in_a_config_map_of_its_flow() {
    let server = server();
    hand_in(&server, CLAIM, b"bytes").unwrap();
    let map = kept(&server);
    assert_eq!(map["binaryData"], json!({"model": STANDARD.encode("bytes")}));
    assert_eq!(map["metadata"]["ownerReferences"][0]["uid"], "u1");
    let writes = server.store().writes.len();
    hand_in(&server, CLAIM, b"bytes").unwrap();
    assert_eq!(kept(&server), map, "twice equals once");
    // Only the creation was tried again.
    assert_eq!(server.store().writes.len(), writes + 1);
    // A pod that runs again in the same attempt may give something else.
    hand_in(&server, CLAIM, b"later").unwrap();
    assert_eq!(kept(&server)["binaryData"]["model"], STANDARD.encode("later"));
}

#[test]
fn only_a_running_attempt_under_its_own_token_hands_in_what_it_keeps() {
    let server = server();
    let wrong = [
        Claim { token: "token-2", ..CLAIM },
        Claim { token: "", ..CLAIM },
        Claim { artifact: "else", ..CLAIM },
        Claim { job: "no-such-job", ..CLAIM },
        Claim { job: "../../etl-work-u1", ..CLAIM },
        Claim { namespace: "kube-system", ..CLAIM },
    ];
    for claim in wrong {
        assert_eq!(hand_in(&server, claim, b"x"), Err(KeepError::Unknown), "{claim:?}");
    }
    server.edit(Kind::Job, "etl-work-u1", |job| {
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    });
    assert_eq!(hand_in(&server, CLAIM, b"x"), Err(KeepError::Unknown), "it is over");
    assert!(server.get(Kind::ConfigMap, "etl-work-model").is_none());
}

#[test]
fn a_config_map_of_somebody_else_is_left_alone() {
    let ours = json!([{"uid": "u1", "controller": true, "apiVersion": orlop_core::spec::flow::API_VERSION,
        "kind": "JobFlow", "name": "etl"}]);
    for metadata in [
        json!({"name": "etl-work-model"}),
        json!({"name": "etl-work-model", "labels": {"workflow.kube-zen.io/keeps": "artifacts"}}),
        // Of the same flow, from a template.
        json!({"name": "etl-work-model", "ownerReferences": ours}),
    ] {
        let server = server();
        server.put(Kind::ConfigMap, json!({"metadata": metadata, "data": {"a": "b"}}));
        let before = kept(&server);
        assert_eq!(hand_in(&server, CLAIM, b"x"), Err(KeepError::Taken("etl-work-model".into())));
        assert_eq!(kept(&server), before);
    }
}

#[test]
fn more_than_a_mebibyte_is_not_kept() {
    let server = server();
    let whole = vec![7; 1 << 20];
    hand_in(&server, CLAIM, &whole).unwrap();
    let more = vec![7; (1 << 20) + 1];
    assert_eq!(hand_in(&server, CLAIM, &more), Err(KeepError::TooLarge((1 << 20) + 1, 1 << 20)));
    // Another key in the same ConfigMap counts with it.
    server.edit(Kind::ConfigMap, "etl-work-model", |map| map["binaryData"]["beside"] = json!(STANDARD.encode("xy")));
    assert_eq!(hand_in(&server, CLAIM, &whole[1..]), Err(KeepError::TooLarge((1 << 20) + 1, 1 << 20)));
}

#[test]
fn what_is_not_what_was_announced_is_not_kept() {
    let server = server();
    let inline = InlineArtifacts::new(server.clone());
    let permit = now(inline.admit(CLAIM)).unwrap();
    let reported = now(inline.keep(&permit, &sha256_hex(b"x", 64), b"y"));
    assert_eq!(reported, Err(KeepError::Digest(sha256_hex(b"y", 64))));
    assert!(server.get(Kind::ConfigMap, "etl-work-model").is_none());
}

#[test]
fn lost_answers_and_trouble_that_passes_lose_nothing() {
    let server = server();
    let first = server.store().writes.len();
    server.store().faults.push(Fault::LoseAnswer(first));
    hand_in(&server, CLAIM, b"bytes").unwrap();
    assert_eq!(kept(&server)["binaryData"]["model"], STANDARD.encode("bytes"));
    for (code, passes) in [(503, true), (429, true), (403, false)] {
        let server = super::tests::server();
        let fault = Fault::Refuse("create", Kind::ConfigMap, 1, refused(code, "No"));
        server.store().faults.push(fault);
        assert_eq!(hand_in(&server, CLAIM, b"bytes").unwrap_err().passes(), passes, "{code}");
        hand_in(&server, CLAIM, b"bytes").unwrap();
    }
}
