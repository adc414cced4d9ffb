//! Anything may happen in any order: the laws of section 3.2 hold after every pass, and once it is quiet a performer serves
//! and nothing is written any more.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Bed, INCARNATION, pods, spec};
use crate::api::Kind;
use crate::hourglass::tests::host;
use crate::shell::small::Fault;
use crate::value::{item, texts, word};

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
    ]
}

fn node(ready: bool, bed: &Bed) -> Value {
    let mut node = host("node-1", json!({}), json!({}));
    if !ready {
        let now = crate::shell::Clock::now(bed.clock.as_ref()).whole_seconds().to_string();
        node["status"]["conditions"][0] = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": now});
    }
    node
}

fn happens(bed: &mut Bed, event: Event) {
    match event {
        Event::Image(image) => bed.change("avs", |spec| spec["image"] = json!(image)),
        Event::Strategy(strategy) => {
            bed.change("avs", |spec| spec["upgrade"] = json!({"strategy": strategy, "progressDeadlineSeconds": 30}));
        }
        Event::Port(port) => bed.change("avs", |spec| spec["config"] = json!({"grpcPort": port})),
        Event::Spec(valid) => {
            let asked = if valid { json!({}) } else { json!({"gpuType": "none"}) };
            bed.change("avs", |spec| spec["hardwareRequirements"] = asked);
        }
        Event::DeletePod => pods(bed).first().into_iter().for_each(|name| bed.server.ask_to_go(Kind::Pod, name)),
        Event::FailPod => {
            if let Some(name) = pods(bed).last() {
                bed.server.edit(Kind::Pod, name, |pod| pod["status"]["phase"] = json!("Failed"));
            }
        }
        Event::DeleteService => bed.server.remove(Kind::Service, "performer-avs"),
        Event::LoseStatus => bed.server.edit(Kind::Performer, "avs", |performer| performer["status"] = json!({})),
        Event::Node(ready) => {
            let node = node(ready, bed);
            bed.show(Kind::Node, node);
        }
        Event::Steps(steps) => bed.few_steps(steps),
        Event::Wait(seconds) => bed.wait(seconds),
        Event::Restart => bed.restart(),
        Event::Crash(writes) => {
            let at = bed.writes().len() + writes;
            bed.server.store().faults.push(Fault::DieAfter(at));
        }
    }
}

/// K1 to K3, as far as they can be seen in the objects alone.
fn laws(bed: &Bed) -> Result<(), TestCaseError> {
    let all = bed.server.list(Kind::Pod);
    let live = |pod: &&Value| {
        !pod["metadata"]["deletionTimestamp"].is_string()
            && !matches!(word(pod, "/status/phase"), "Failed" | "Succeeded")
    };
    let ready =
        |pod: &&Value| item(pod, "/status/conditions", "type", "Ready").is_some_and(|known| known["status"] == "True");
    let lost = bed.world(Kind::Node).iter().any(|node| node["status"]["conditions"][0]["status"] != "True");
    let status = bed.status("avs");
    let told = || format!("{} {status}", all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    if !lost {
        let count = all.iter().filter(live).count();
        prop_assert!(count <= 3, "K3: {count} pods: {}", told());
        let selected = super::selected(bed);
        let is = |pod: &&Value| texts(pod, "/metadata/labels").get(INCARNATION) == Some(&selected);
        let serves = all.iter().filter(live).filter(is).any(|pod| ready(&pod));
        let active = status["active"]["incarnation"].to_string();
        let active_ready = all
            .iter()
            .filter(live)
            .filter(ready)
            .any(|pod| texts(pod, "/metadata/labels").get(INCARNATION) == Some(&active));
        prop_assert!(serves || !active_ready, "K2: {selected} is selected: {}", told());
    }
    let theirs = bed.server.get(Kind::ConfigMap, "theirs");
    prop_assert!(theirs.is_some_and(|theirs| theirs["metadata"]["resourceVersion"] == "1"), "K1");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn k1_to_k5_hold_whatever_happens(events in prop::collection::vec(event(), 1..24)) {
        let mut bed = Bed::new();
        bed.server.put(Kind::ConfigMap, json!({"metadata": {"name": "theirs"}}));
        bed.images.insert("bad".into(), "never");
        bed.images.insert("crash".into(), "CrashLoopBackOff");
        let ready = node(true, &bed);
        bed.show(Kind::Node, ready);
        bed.submit("avs", spec("well"));
        for event in events {
            happens(&mut bed, event);
            bed.settle();
            laws(&bed)?;
        }
        // Quiet: everything is as it should be, and stays so.
        bed.server.store().faults.clear();
        let ready = node(true, &bed);
        bed.show(Kind::Node, ready);
        bed.change("avs", |spec| *spec = super::spec("last"));
        bed.wait(2_000);
        let status = bed.status("avs");
        prop_assert!(status["phase"] == "Running" && status["image"] == "last" && status["ready"] == true, "{status}");
        prop_assert_eq!(pods(&bed).len(), 1);
        let before = bed.writes().len();
        bed.restart();
        bed.wait(400);
        prop_assert_eq!(&bed.writes()[before..], &[] as &[String]);
        bed.server.ask_to_go(Kind::Performer, "avs");
        bed.wait(100);
        prop_assert!(bed.server.list(Kind::Performer).is_empty() && pods(&bed).is_empty());
    }
}
