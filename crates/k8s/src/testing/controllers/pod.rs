//! The scheduler and the kubelet, played: pods are bound, start, run, restart and end as their annotations say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::object::{Object, at, child, deleting, finalizers, list, meta, set_meta, text};
use super::super::state::State;
use super::super::verb::write_back;
use super::index::owners;
use super::schedule::{self, Choice};
use super::{Controllers, PodHabits, Tables, Timer, job};

/// Where the player is with each pod, by uid.
#[derive(Clone, Debug, Default)]
pub(super) struct Plays {
    pods: BTreeMap<String, Play>,
    lost: BTreeSet<String>,
    /// Pods bound so far: nodes take turns.
    bound: usize,
}

#[derive(Clone, Debug)]
struct Play {
    stage: Stage,
    restarts: i64,
    /// The timer of this stage has rung.
    due: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    Waiting,
    Dying,
    Done,
}

impl Plays {
    pub(super) fn ring(&mut self, uid: &str) {
        if let Some(play) = self.pods.get_mut(uid) {
            play.due = true;
        }
    }

    pub(super) fn lose(&mut self, node: &str) {
        self.lost.insert(node.to_owned());
    }

    pub(super) fn find(&mut self, node: &str) {
        self.lost.remove(node);
    }
}

/// A number of seconds in an annotation, as milliseconds; `None` is for ever.
fn seconds(pod: &Object, name: &str, usual: i64) -> Option<i64> {
    let Some(value) = annotation(pod, name) else { return Some(usual) };
    if value == "inf" {
        return None;
    }
    let seconds: f64 = value.parse().unwrap_or_default();
    // Times of tests are far from the limits of either type.
    Some((seconds * 1000.0).round() as i64)
}

fn annotation<'a>(pod: &'a Object, name: &str) -> Option<&'a str> {
    at(pod, &["metadata", "annotations", &format!("fake/{name}")]).and_then(Value::as_str)
}

/// The exit code of a pod at its n-th start.
fn exit_code(pod: &Object, restarts: i64) -> i64 {
    let index =
        at(pod, &["metadata", "annotations", "batch.kubernetes.io/job-completion-index"]).and_then(Value::as_str);
    let own = index.and_then(|index| annotation(pod, &format!("exit-code-index-{index}")));
    let codes: Vec<&str> = own.or_else(|| annotation(pod, "exit-code")).unwrap_or("0").split(',').collect();
    let last = codes.len().saturating_sub(1);
    let at = usize::try_from(restarts).unwrap_or(usize::MAX).min(last);
    codes.get(at).and_then(|code| code.trim().parse().ok()).unwrap_or_default()
}

impl Controllers {
    /// The next step of a pod, if one is due.
    pub(super) fn play(&mut self, state: &mut State, tables: Tables, key: &str) {
        let Some(stored) = state.get(tables.pods, key).cloned() else { return };
        let pod = &stored.object;
        let uid = meta(pod, "uid").to_owned();
        if finalizers(pod).contains(&job::TRACKING) && !owners(pod).any(|owner| self.index.place(owner).is_some()) {
            job::release_one(state, tables, key);
            return;
        }
        if self.plays.lost.contains(text(pod, &["spec", "nodeName"])) {
            return;
        }
        if deleting(pod) {
            self.die(state, tables, key, pod, &uid);
            return;
        }
        if matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
            self.plays.pods.remove(&uid);
            return;
        }
        let Some(play) = self.plays.pods.get(&uid).cloned() else {
            if text(pod, &["spec", "nodeName"]).is_empty() {
                self.bind(state, tables, pod, key, &uid);
            }
            return;
        };
        if !play.due {
            return;
        }
        match play.stage {
            Stage::Starting | Stage::Waiting => self.run(state, tables, key, &uid, play.restarts),
            Stage::Running => self.exit(state, tables, key, &uid, play.restarts),
            Stage::Dying | Stage::Done => {}
        }
    }

    fn stage(&mut self, key: &str, uid: &str, stage: Stage, restarts: i64, due: Option<i64>) {
        self.plays.pods.insert(uid.to_owned(), Play { stage, restarts, due: false });
        if let Some(due) = due {
            self.after(due, Timer::Pod(key.to_owned(), uid.to_owned()));
        }
    }

    /// The scheduler's part.
    fn bind(&mut self, state: &mut State, tables: Tables, pod: &Object, key: &str, uid: &str) {
        let node = match schedule::choose(state, tables, &self.plays.lost, self.plays.bound, pod) {
            Choice::Node(node) => node,
            Choice::Nowhere(nodes) => {
                self.unplaced.insert(key.to_owned());
                return refuse(state, tables, pod, nodes);
            }
        };
        self.plays.bound += 1;
        let now = state.timestamp();
        let mut object = pod.clone();
        child(&mut object, "spec").insert("nodeName".to_owned(), node.into());
        let status = child(&mut object, "status");
        status.insert(
            "conditions".to_owned(),
            json!([{"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}]),
        );
        if let Some(reason) = annotation(pod, "waiting-reason") {
            let waiting = json!({"waiting": {"reason": reason, "message": format!("fake {reason}")}});
            let status = child(&mut object, "status");
            status.insert("startTime".to_owned(), now.into());
            status.insert("containerStatuses".to_owned(), containers(pod, 0, &waiting, false, None));
            self.stage(key, uid, Stage::Waiting, 0, None);
        } else {
            let wait = seconds(pod, "start-seconds", self.habits.start);
            self.stage(key, uid, Stage::Starting, 0, wait.map(|wait| state.now().saturating_add(wait)));
        }
        write_back(state, tables.pods, object);
    }

    /// The containers start, or start again.
    fn run(&mut self, state: &mut State, tables: Tables, key: &str, uid: &str, restarts: i64) {
        let Some(stored) = state.get(tables.pods, key).cloned() else { return };
        let now = state.timestamp();
        let mut object = stored.object.clone();
        let state_now = json!({"running": {"startedAt": now}});
        let last = list(&stored.object, &["status", "containerStatuses"])
            .first()
            .and_then(|status| status.get("lastState"))
            .cloned();
        let list = containers(&stored.object, restarts, &state_now, true, last);
        let status = child(&mut object, "status");
        status.insert("phase".to_owned(), "Running".into());
        status.entry("startTime").or_insert_with(|| now.clone().into());
        status.insert("containerStatuses".to_owned(), list);
        status.insert("podIP".to_owned(), "10.244.0.1".into());
        condition(status, "Ready", true, &now);
        let always = text(&stored.object, &["spec", "restartPolicy"]) == "Always"
            && annotation(&stored.object, "run-seconds").is_none();
        let length = if always { None } else { seconds(&stored.object, "run-seconds", self.habits.run) };
        self.stage(key, uid, Stage::Running, restarts, length.map(|length| state.now().saturating_add(length)));
        write_back(state, tables.pods, object);
    }

    /// The containers end: for good, or until they start again in place.
    fn exit(&mut self, state: &mut State, tables: Tables, key: &str, uid: &str, restarts: i64) {
        let Some(stored) = state.get(tables.pods, key).cloned() else { return };
        let code = exit_code(&stored.object, restarts);
        let policy = text(&stored.object, &["spec", "restartPolicy"]);
        let now = state.timestamp();
        let end = terminated(&stored.object, code, &now);
        if policy == "Always" || policy == "OnFailure" && code != 0 {
            let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "fake back-off"}});
            let mut object = stored.object.clone();
            let list = containers(&stored.object, restarts + 1, &waiting, false, Some(end));
            let status = child(&mut object, "status");
            status.insert("containerStatuses".to_owned(), list);
            condition(status, "Ready", false, &now);
            let wait = backoff(self.habits, restarts);
            self.stage(key, uid, Stage::Waiting, restarts + 1, Some(state.now().saturating_add(wait)));
            write_back(state, tables.pods, object);
            return;
        }
        self.stage(key, uid, Stage::Done, restarts, None);
        end_pod(state, tables, key, code, restarts);
    }

    /// A pod that was told to go ends and goes.
    fn die(&mut self, state: &mut State, tables: Tables, key: &str, pod: &Object, uid: &str) {
        let done = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
        let play = self.plays.pods.get(uid).cloned().unwrap_or(Play { stage: Stage::Done, restarts: 0, due: false });
        let started =
            list(pod, &["status", "containerStatuses"]).iter().any(|status| status.pointer("/state/running").is_some());
        if !done && play.stage != Stage::Dying {
            let wait = if started { seconds(pod, "term-seconds", 0) } else { Some(0) };
            self.stage(key, uid, Stage::Dying, play.restarts, wait.map(|wait| state.now().saturating_add(wait)));
            return;
        }
        if !done && play.due {
            let code = annotation(pod, "term-exit-code").and_then(|code| code.parse().ok()).unwrap_or(143);
            self.stage(key, uid, Stage::Done, play.restarts, None);
            end_pod(state, tables, key, code, play.restarts);
            finish_deletion(state, tables, key, true);
        } else if done {
            self.plays.pods.remove(uid);
            finish_deletion(state, tables, key, true);
        }
    }
}

/// Says once that no node takes a pod.
fn refuse(state: &mut State, tables: Tables, pod: &Object, nodes: usize) {
    let said = list(pod, &["status", "conditions"]).iter().any(|known| {
        known.get("type").and_then(Value::as_str) == Some("PodScheduled")
            && known.get("status").and_then(Value::as_str) == Some("False")
    });
    if said {
        return;
    }
    let now = state.timestamp();
    let mut object = pod.clone();
    child(&mut object, "status").insert(
        "conditions".to_owned(),
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastProbeTime": null,
            "lastTransitionTime": now, "message": format!("0/{nodes} nodes are available")}]),
    );
    write_back(state, tables.pods, object);
}

/// Milliseconds before the next restart in place.
fn backoff(habits: PodHabits, restarts: i64) -> i64 {
    let factor = 1_i64 << restarts.clamp(0, 6);
    habits.backoff.saturating_mul(factor).min(60_000)
}

/// Says that a pod has ended on its node, after which nothing but finalizers keeps it.
pub(super) fn finish_deletion(state: &mut State, tables: Tables, key: &str, grace_over: bool) {
    let Some(stored) = state.get(tables.pods, key) else { return };
    if !deleting(&stored.object) {
        return;
    }
    let mut object = stored.object.clone();
    if grace_over {
        set_meta(&mut object, "deletionGracePeriodSeconds", 0);
    }
    if finalizers(&object).is_empty() {
        state.take(tables.pods, key, Some(object));
    } else {
        write_back(state, tables.pods, object);
    }
}

/// Writes the end of a pod.
fn end_pod(state: &mut State, tables: Tables, key: &str, code: i64, restarts: i64) {
    let Some(stored) = state.get(tables.pods, key) else { return };
    let now = state.timestamp();
    let mut object = stored.object.clone();
    let end = terminated(&stored.object, code, &now);
    let list = containers(&stored.object, restarts, &end, false, None);
    let reason = annotation(&stored.object, "pod-reason").filter(|_| code != 0).map(str::to_owned);
    let status = child(&mut object, "status");
    status.insert("phase".to_owned(), if code == 0 { "Succeeded" } else { "Failed" }.into());
    status.insert("containerStatuses".to_owned(), list);
    condition(status, "Ready", false, &now);
    if let Some(reason) = reason {
        status.insert("reason".to_owned(), reason.into());
    }
    write_back(state, tables.pods, object);
}

fn terminated(pod: &Object, code: i64, now: &str) -> Value {
    let begun = list(pod, &["status", "containerStatuses"])
        .first()
        .and_then(|status| status.pointer("/state/running/startedAt"))
        .and_then(Value::as_str)
        .unwrap_or(now);
    let usual = if code == 0 { "Completed" } else { "Error" };
    let reason = annotation(pod, "exit-reason").filter(|_| code != 0).unwrap_or(usual);
    let mut end = json!({"exitCode": code, "reason": reason, "startedAt": begun, "finishedAt": now});
    if let (Some(message), Some(end)) = (annotation(pod, "log-message"), end.as_object_mut()) {
        end.insert("message".to_owned(), message.into());
    }
    json!({"terminated": end})
}

fn containers(pod: &Object, restarts: i64, now: &Value, ready: bool, last: Option<Value>) -> Value {
    let list = list(pod, &["spec", "containers"]);
    let status = |container: &Value| {
        let image = container.get("image").cloned().unwrap_or_default();
        json!({"name": container.get("name"), "image": image, "imageID": "", "ready": ready, "started": ready,
            "restartCount": restarts, "state": now, "lastState": last.clone().unwrap_or_else(|| json!({}))})
    };
    list.iter().map(status).collect()
}

/// Sets a condition of a pod; the time moves only with the status.
fn condition(status: &mut Object, kind: &str, holds: bool, now: &str) {
    let value = if holds { "True" } else { "False" };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else { return };
    let found = list.iter_mut().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind));
    match found {
        Some(condition) if condition.get("status").and_then(Value::as_str) == Some(value) => {}
        Some(condition) => *condition = json!({"type": kind, "status": value, "lastTransitionTime": now}),
        None => list.push(json!({"type": kind, "status": value, "lastTransitionTime": now})),
    }
}
