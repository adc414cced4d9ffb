//! Anything may happen in any order: the laws hold whenever the controller rests, and once it is quiet a
//! performer serves and nothing is written any more.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::RETRY;
use super::{INCARNATION, TestEnv, pods, spec};
use crate::api::Kind;
use crate::hourglass::tests::laws::histories;
use crate::hourglass::tests::{host, quota};
use crate::shell::Clock as _;
use crate::shell::fake::refused;
use crate::value::{item, texts, time, word};

#[derive(Clone, Debug)]
enum Event {
    Image(&'static str),
    Strategy(&'static str),
    Port(u16),
    DeletePod,
    FailPod,
    DeleteService,
    LoseStatus,
    Node(bool),
    Steps(usize),
    Wait(u64),
    Restart,
    Crash(usize),
    Spec(bool),
    Ready(bool, usize),
    Selects(u32),
    Quota(u32),
    Fails(u32),
    Again(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        prop::sample::select(vec!["well", "other", "bad", "crash"]).prop_map(Event::Image),
        prop::sample::select(vec!["Auto", "Surge", "Recreate"]).prop_map(Event::Strategy),
        (9000_u16..9003).prop_map(Event::Port),
        Just(Event::DeletePod),
        Just(Event::FailPod),
        Just(Event::DeleteService),
        Just(Event::LoseStatus),
        any::<bool>().prop_map(Event::Node),
        (0_usize..8).prop_map(Event::Steps),
        (0_u64..200).prop_map(Event::Wait),
        Just(Event::Restart),
        (0_usize..4).prop_map(Event::Crash),
        any::<bool>().prop_map(Event::Spec),
        (any::<bool>(), 0_usize..3).prop_map(|(ready, which)| Event::Ready(ready, which)),
        (0_u32..4).prop_map(Event::Selects),
        (1_u32..4).prop_map(Event::Quota),
        (1_u32..4).prop_map(Event::Fails),
        (0_u8..3).prop_map(Event::Again),
    ]
}

fn node(ready: bool, env: &TestEnv) -> Value {
    let mut node = host("node-1", json!({}), json!({}));
    if !ready {
        let now = env.clock.now().whole_seconds().to_string();
        node["status"]["conditions"][0] = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": now});
    }
    node
}

fn happens(env: &mut TestEnv, event: Event) {
    match event {
        Event::Image(image) => env.change("avs", |spec| spec["image"] = json!(image)),
        Event::Strategy(strategy) => {
            env.change("avs", |spec| spec["upgrade"] = json!({"strategy": strategy, "progressDeadlineSeconds": 30}));
        }
        Event::Port(port) => env.change("avs", |spec| spec["config"] = json!({"grpcPort": port})),
        Event::Spec(valid) => {
            let asked = if valid { json!({}) } else { json!({"gpuType": "none-nvlink"}) };
            env.change("avs", |spec| spec["hardwareRequirements"] = asked);
        }
        Event::DeletePod => mine(env).first().into_iter().for_each(|name| env.server.request_deletion(Kind::Pod, name)),
        Event::FailPod => {
            if let Some(name) = mine(env).last() {
                env.server.edit(Kind::Pod, name, |pod| pod["status"]["phase"] = json!("Failed"));
            }
        }
        Event::DeleteService => env.server.remove(Kind::Service, "performer-avs"),
        Event::LoseStatus => env.server.edit(Kind::Performer, "avs", |performer| performer["status"] = json!({})),
        Event::Node(ready) => {
            let node = node(ready, env);
            env.add(Kind::Node, node);
        }
        Event::Ready(ready, which) => {
            let now = env.clock.now().whole_seconds().to_string();
            let runs = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["running"].is_object();
            if let Some(pod) = env.server.list(Kind::Pod).iter().filter(|pod| is_live(pod) && runs(pod)).nth(which) {
                let reported = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": now}]);
                env.server.edit(Kind::Pod, word(pod, "/metadata/name"), |pod| pod["status"]["conditions"] = reported);
            }
        }
        Event::Selects(number) => {
            if env.server.get(Kind::Service, "performer-avs").is_some() {
                env.server.edit(Kind::Service, "performer-avs", |service| {
                    service["spec"]["selector"][INCARNATION] = json!(number.to_string());
                });
            }
        }
        Event::Quota(times) => {
            env.refuse("create", Kind::Pod, times, quota());
        }
        Event::Fails(times) => env.refuse("create", Kind::Revision, times, refused(500, "InternalError")),
        Event::Again(value) => env.server.edit(Kind::Performer, "avs", |performer| {
            performer["metadata"]["annotations"][RETRY] = json!(value.to_string());
        }),
        Event::Steps(steps) => env.few_steps(steps),
        Event::Wait(seconds) => env.wait(seconds),
        Event::Restart => env.restart(),
        Event::Crash(writes) => env.dies_after(writes),
    }
}

fn mine(env: &TestEnv) -> Vec<String> {
    pods(env).into_iter().filter(|name| name != THEIRS).collect()
}

fn is_live(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_string() && !matches!(word(pod, "/status/phase"), "Failed" | "Succeeded")
}

fn is_ready(pod: &Value) -> bool {
    item(pod, "/status/conditions", "type", "Ready").is_some_and(|known| known["status"] == "True")
}

fn number(pod: &Value) -> String {
    texts(pod, "/metadata/labels").remove(INCARNATION).unwrap_or_default()
}

/// K2 and K3, while no node is lost: what is lost is no matter of theirs.
fn serves(env: &TestEnv) -> Result<(), TestCaseError> {
    if env.cluster(Kind::Node).iter().any(|node| node["status"]["conditions"][0]["status"] != "True") {
        return Ok(());
    }
    let (all, status) = (env.server.list(Kind::Pod), env.status("avs"));
    let reported = || format!("{} {status}", all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let live: Vec<&Value> = all.iter().filter(|pod| is_live(pod) && word(pod, "/metadata/name") != THEIRS).collect();
    let of = |entry: &str| status[entry]["incarnation"].to_string();
    let beside = live.iter().filter(|pod| ![of("active"), of("candidate")].contains(&number(pod))).count();
    // A status that is lost is found again at the next pass, which the loss alone does not begin.
    let lost = status.as_object().is_none_or(serde_json::Map::is_empty);
    prop_assert!(lost || beside <= 1, "{beside} pods drain: {}", reported());
    let selected = super::selected(env);
    let selects_ready = live.iter().any(|pod| number(pod) == selected && is_ready(pod));
    prop_assert!(selects_ready || !live.iter().any(|pod| is_ready(pod)), "{selected} is selected: {}", reported());
    Ok(())
}

/// A pod of somebody else, with labels like ours.
const THEIRS: &str = "theirs";

fn foreign(env: &TestEnv) {
    let labels = json!({"app": "hourglass-performer", super::super::PERFORMER: "avs", INCARNATION: "3"});
    let pod = json!({"metadata": {"name": THEIRS, "labels": labels}, "spec": {"containers": [{"name": "performer", "image": "i"}]},
        "status": {"phase": "Succeeded"}});
    env.server.put(Kind::Pod, pod);
}

/// Pods that were made, and until when a failure asks for patience.
fn patience(env: &TestEnv) -> (usize, Option<orlop_core::time::Time>) {
    let made = env.created().iter().filter(|made| made.starts_with("pods ")).count();
    (made, time(&env.status("avs"), "/retry/nextRetryTime"))
}

/// What ends the wait for a failure before its time: another spec, another try, a status that is lost, room in place of a pod.
fn ends_waits(event: &Event) -> bool {
    use Event::{Again, DeletePod, Image, LoseStatus, Port, Spec, Strategy};
    matches!(event, Image(_) | Strategy(_) | Port(_) | Spec(_) | LoseStatus | Again(_) | DeletePod)
}

proptest! {
    #![proptest_config(histories(96))]

    #[test]
    fn invariants_hold_whatever_happens(events in prop::collection::vec(event(), 1..24), late in any::<bool>()) {
        let mut env = TestEnv::new();
        env.late = late;
        foreign(&env);
        let theirs = env.server.get(Kind::Pod, THEIRS);
        env.images.insert("bad".into(), "never");
        env.images.insert("crash".into(), "CrashLoopBackOff");
        let ready = node(true, &env);
        env.add(Kind::Node, ready);
        env.submit("avs", spec("well"));
        let keeps_status = !events.iter().any(|event| matches!(event, Event::LoseStatus));
        for event in events {
            let ((made, until), ends) = (patience(&env), ends_waits(&event));
            happens(&mut env, event);
            env.settles()?;
            serves(&env)?;
            env.laws()?;
            let early = until.is_some_and(|until| env.clock.now() < until) && patience(&env).0 > made;
            prop_assert!(ends || !early || env.events().contains(&"SurgeImpossible".to_owned()), "{}", env.status("avs"));
        }
        // Quiet: everything is as it should be, and stays so.
        env.server.store().faults.clear();
        let ready = node(true, &env);
        env.add(Kind::Node, ready);
        env.change("avs", |spec| *spec = super::spec("last"));
        env.wait(2_000);
        let status = env.status("avs");
        prop_assert!(status["phase"] == "Running" && status["image"] == "last" && status["ready"] == true, "{status}");
        prop_assert_eq!(pods(&env).len(), 2, "its pod, and that of another");
        let before = env.writes().len();
        env.restart();
        env.wait(400);
        prop_assert_eq!(&env.writes()[before..], &[] as &[String], "K5");
        let made: Vec<String> = env.created().into_iter().filter(|made| made.starts_with("pods ")).collect();
        prop_assert!(!keeps_status || made.iter().collect::<BTreeSet<_>>().len() == made.len(), "{made:?}");
        env.server.request_deletion(Kind::Performer, "avs");
        env.wait(100);
        prop_assert!(env.server.list(Kind::Performer).is_empty() && env.server.get(Kind::Pod, THEIRS) == theirs);
        prop_assert_eq!(pods(&env).len(), 1);
        env.laws()?;
        env.conditions()?;
    }
}
