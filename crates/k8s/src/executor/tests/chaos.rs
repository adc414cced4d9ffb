//! Anything may happen in any order: the laws hold whenever the controller rests, and once it is quiet an
//! executor serves and nothing is written any more.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{TestEnv, checksums, env, spec};
use crate::api::Kind;
use crate::hourglass::tests::laws::histories;
use crate::hourglass::tests::quota;
use crate::shell::Clock as _;
use crate::shell::fake::refused;
use crate::value::{item, time, word};

#[derive(Clone, Debug)]
enum Event {
    Image(&'static str),
    Replicas(u32),
    Key(&'static str),
    Chain(&'static str),
    Invalid,
    Remove(Kind, &'static str),
    Spoil(Kind, &'static str),
    DeletePod,
    Unready,
    Replicate(bool),
    Squat(bool),
    LoseStatus,
    Quota(Kind, u32),
    Fails(Kind, u32),
    Steps(usize),
    Wait(u64),
    Restart,
    Crash(usize),
}

/// What somebody may remove, change, or be refused.
const CHILDREN: [(Kind, &str); 5] = [
    (Kind::ConfigMap, "exec-config"),
    (Kind::Secret, "exec-secrets"),
    (Kind::Deployment, "exec"),
    (Kind::DisruptionBudget, "exec"),
    (Kind::Service, "executor-exec"),
];

fn event() -> impl Strategy<Value = Event> {
    let child = || prop::sample::select(CHILDREN.to_vec());
    prop_oneof![
        prop::sample::select(vec!["executor:1", "executor:2", "never", "crash"]).prop_map(Event::Image),
        (1_u32..4).prop_map(Event::Replicas),
        prop::sample::select(KEYS.to_vec()).prop_map(Event::Key),
        prop::sample::select(URLS.to_vec()).prop_map(Event::Chain),
        Just(Event::Invalid),
        child().prop_map(|(kind, name)| Event::Remove(kind, name)),
        child().prop_map(|(kind, name)| Event::Spoil(kind, name)),
        Just(Event::DeletePod),
        Just(Event::Unready),
        any::<bool>().prop_map(Event::Replicate),
        any::<bool>().prop_map(Event::Squat),
        Just(Event::LoseStatus),
        (child(), 1_u32..4).prop_map(|((kind, _), times)| Event::Quota(kind, times)),
        (child(), 1_u32..4).prop_map(|((kind, _), times)| Event::Fails(kind, times)),
        (0_usize..8).prop_map(Event::Steps),
        (0_u64..200).prop_map(Event::Wait),
        Just(Event::Restart),
        (0_usize..6).prop_map(Event::Crash),
    ]
}

/// What may be found in Secrets and nowhere else.
const KEYS: [&str; 2] = ["KEY-OF-THE-OPERATOR", "ANOTHER-KEY"];
const URLS: [&str; 3] = [
    "https://base.example",
    "https://base.example/v2/0123456789abcdef0123456789abcdef",
    "https://u:PASS-WORD@base.example",
];
const SECRETS: [&str; 4] = ["KEY-OF-THE-OPERATOR", "ANOTHER-KEY", "0123456789abcdef", "PASS-WORD"];

fn happens(env: &mut TestEnv, event: &Event) {
    match *event {
        Event::Image(image) => env.change("exec", |spec| spec["image"] = json!(image)),
        Event::Replicas(count) => env.change("exec", |spec| spec["replicas"] = json!(count)),
        Event::Key(key) => env.change("exec", |spec| spec["config"]["operatorKeys"]["ecdsa"] = json!(key)),
        Event::Chain(url) => env.change("exec", |spec| spec["config"]["chains"][1]["rpc"] = json!(url)),
        Event::Invalid => env.change("exec", |spec| spec["image"] = json!(5)),
        Event::Remove(kind, name) => env.server.remove(kind, name),
        Event::Spoil(kind, name) => {
            if env.server.get(kind, name).is_some() {
                env.server.edit(kind, name, |object| object["metadata"]["labels"] = json!({"app": "spoiled"}));
            }
        }
        Event::DeletePod => {
            let pods = env.server.list(Kind::Pod);
            pods.first()
                .into_iter()
                .for_each(|pod| env.server.request_deletion(Kind::Pod, word(pod, "/metadata/name")));
        }
        Event::Unready => {
            for pod in env.server.list(Kind::Pod) {
                env.server.edit(Kind::Pod, word(&pod, "/metadata/name"), |pod| {
                    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
                });
            }
        }
        Event::Replicate(fails) => {
            if env.server.get(Kind::Deployment, "exec").is_some() {
                let condition = json!([{"type": "ReplicaFailure", "status": if fails { "True" } else { "False" }}]);
                env.server.edit(Kind::Deployment, "exec", |live| live["status"]["conditions"] = condition);
            }
        }
        Event::Squat(comes) => squat(env, comes),
        Event::LoseStatus => env.server.edit(Kind::Executor, "exec", |executor| executor["status"] = json!({})),
        Event::Quota(kind, times) => {
            env.refuse("create", kind, times, quota());
        }
        Event::Fails(kind, times) => {
            env.refuse("patch", kind, times, refused(500, "InternalError"));
        }
        Event::Steps(steps) => env.few_steps(steps),
        Event::Wait(seconds) => env.wait(seconds),
        Event::Restart => env.restart(),
        Event::Crash(writes) => env.dies_after(writes),
    }
}

/// Somebody else takes the name of a child, or gives it back.
fn squat(env: &TestEnv, comes: bool) {
    let theirs = |found: &Value| found["metadata"]["ownerReferences"].is_null();
    match env.server.get(Kind::DisruptionBudget, "exec") {
        None if comes => drop(env.server.put(Kind::DisruptionBudget, json!({"metadata": {"name": "exec"}}))),
        Some(found) if !comes && theirs(&found) => env.server.remove(Kind::DisruptionBudget, "exec"),
        _ => {}
    }
}

/// A refusal that asks for patience: the kind it is about, and until when. What stands before that kind may be made all the
/// same.
fn patience(env: &TestEnv) -> Option<(Kind, orlop_core::time::Time)> {
    let status = env.status("exec");
    let until = time(&status, "/retry/nextRetryTime")?;
    let said =
        item(&status, "/conditions", "type", "Degraded").filter(|said| said["reason"] == status["retry"]["reason"]);
    let said = word(said?, "/message");
    let (kind, _) = CHILDREN.into_iter().find(|(kind, name)| said.starts_with(&format!("{} `{name}`", kind.name())))?;
    Some((kind, until))
}

/// How often a child of a kind was to be made.
fn made(env: &TestEnv, kind: Kind) -> usize {
    env.writes().iter().filter(|write| write.starts_with(&format!("create {} ", kind.plural()))).count()
}

fn is_another_spec(event: &Event) -> bool {
    use Event::{Chain, Image, Invalid, Key, LoseStatus, Replicas};
    matches!(event, Chain(_) | Image(_) | Invalid | Key(_) | LoseStatus | Replicas(_))
}

proptest! {
    #![proptest_config(histories(64))]

    #[test]
    fn invariants_hold_whatever_happens(events in prop::collection::vec(event(), 1..20)) {
        let mut env = env();
        env.images.insert("never".into(), "never");
        env.images.insert("crash".into(), "CrashLoopBackOff");
        env.submit("exec", spec());
        for event in &events {
            let patience = patience(&env).map(|(kind, until)| (kind, until, made(&env, kind)));
            let generation = env.object("exec")["metadata"]["generation"].clone();
            let same = env.status("exec")["observedGeneration"] == generation;
            happens(&mut env, event);
            env.settles()?;
            env.laws()?;
            let early = |(kind, until, before)| env.clock.now() < until && made(&env, kind) > before;
            let early = patience.is_some_and(early);
            prop_assert!(!early || !same || is_another_spec(event), "{event:?} {}", env.status("exec"));
        }
        // Quiet: everything is as it should be, and stays so.
        env.server.store().faults.clear();
        squat(&env, false);
        happens(&mut env, &Event::Replicate(false));
        env.change("exec", |last| {
            *last = spec();
            last["image"] = json!("last");
            last["replicas"] = json!(2);
        });
        env.wait(2_000);
        let status = env.status("exec");
        prop_assert!(status["phase"] == "Running" && status["readyReplicas"] == 2, "{status}");
        prop_assert_eq!(env.condition("exec", "Degraded"), "False/AsExpected");
        let sums = checksums(&env);
        prop_assert!(sums.len() == 2 && sums.iter().all(|sum| Some(sum.as_str()) == status["configHash"].as_str()), "{sums:?}");
        let before = env.writes().len();
        env.restart();
        env.wait(400);
        prop_assert_eq!(&env.writes()[before..], &[] as &[String], "K5");
        env.server.request_deletion(Kind::Executor, "exec");
        env.wait(100);
        prop_assert!(env.server.list(Kind::Executor).is_empty());
        prop_assert!(CHILDREN.iter().all(|(kind, _)| env.server.list(*kind).is_empty()), "nothing is left");
        env.laws()?;
        env.conditions()?;
        let shown = env.shown(&[Kind::Secret]);
        for secret in SECRETS {
            prop_assert!(!shown.contains(secret), "{secret}");
        }
    }
}
