//! Concurrency keys: of all flows with the same key in a namespace, only some may run at once. [`ConcurrencyLimiter`] tracks which
//! flow holds a key and which wait for it. It never ends a flow and never reads a clock; the host carries its answers out.

use std::collections::BTreeMap;

use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::policy::ConcurrencyPolicy;
use orlop_core::time::Time;

/// Name of the annotation or label with the concurrency key of a flow.
pub const KEY: &str = "workflow.kube-zen.io/concurrency-key";

/// The concurrency key of a flow: the first that is there of `executionPolicy.concurrencyKey`, the annotation [`KEY`], the label
/// [`KEY`], and the uid of the object that controls the flow where its kind is CronJob or one of `schedule_kinds`. A flow without
/// a key never waits.
///
/// ```
/// use orlop_core::spec::flow::{FlowSpec, JobFlow};
/// let mut flow = JobFlow::new("nightly", FlowSpec::default());
/// assert_eq!(orlop_dag::gate::key_of(&flow, &[]), None);
/// flow.metadata.labels.insert(orlop_dag::gate::KEY.into(), "etl".into());
/// assert_eq!(orlop_dag::gate::key_of(&flow, &[]), Some("etl"));
/// ```
#[must_use]
pub fn key_of<'f>(flow: &'f JobFlow, schedule_kinds: &[&str]) -> Option<&'f str> {
    let metadata = &flow.metadata;
    let own = flow.spec.execution_policy.as_ref().and_then(|policy| policy.concurrency_key.as_deref());
    let named = || metadata.annotations.get(KEY).or_else(|| metadata.labels.get(KEY)).map(String::as_str);
    let schedule = || {
        let owner = metadata.owner_references.iter().find(|owner| owner.controller == Some(true))?;
        let known = owner.kind == "CronJob" || schedule_kinds.contains(&owner.kind.as_str());
        known.then_some(owner.uid.as_str())
    };
    own.or_else(named).or_else(schedule).filter(|key| !key.is_empty())
}

/// A request of a flow for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Unique id of the flow.
    pub uid: String,
    /// Its namespace: keys of different namespaces have nothing to do with each other.
    pub namespace: String,
    /// Its key.
    pub key: String,
    /// What happens when another flow holds the key.
    pub policy: ConcurrencyPolicy,
    /// When it was created.
    pub created_at: Time,
}

/// The answer to a flow that asks for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// It begins, and holds the key from now on.
    Begin,
    /// It waits until all of these flows, which hold the key or asked earlier, have ended.
    Wait {
        /// Uids of the flows that hold the key; where nobody does, of those that come first.
        behind: Vec<String>,
    },
    /// It waits until these flows, which hold the key, have ended; the host must end them.
    Replace {
        /// Uids of the flows that hold the key.
        holders: Vec<String>,
    },
}

/// Order among those who wait: who replaces comes first, then by creation time and uid.
type Precedence = (bool, Time, String);

#[derive(Clone, Debug, Default)]
struct Key {
    /// Flows that hold it; several under policy Allow.
    holders: Vec<String>,
    waiting: BTreeMap<Precedence, Claim>,
}

/// Tracks which flow holds a concurrency key, and which flows wait for it.
///
/// ```
/// use orlop_core::spec::policy::ConcurrencyPolicy;
/// use orlop_core::time::Time;
/// use orlop_dag::gate::{Answer, Claim, ConcurrencyLimiter};
/// let claim = |uid: &str, second: i64| Claim {
///     uid: uid.into(),
///     namespace: "default".into(),
///     key: "nightly".into(),
///     policy: ConcurrencyPolicy::Forbid,
///     created_at: Time::from_millis(second * 1000),
/// };
/// let mut gate = ConcurrencyLimiter::default();
/// assert_eq!(gate.ask(claim("a", 1)), Answer::Begin);
/// assert_eq!(gate.ask(claim("b", 2)), Answer::Wait { behind: vec!["a".into()] });
/// assert_eq!(gate.release("a"), [("b".to_owned(), Answer::Begin)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConcurrencyLimiter {
    keys: BTreeMap<(String, String), Key>,
    places: BTreeMap<String, (String, String)>,
}

impl ConcurrencyLimiter {
    /// Asks for a flow to begin. Asking again gives the current answer.
    pub fn ask(&mut self, claim: Claim) -> Answer {
        let place = (claim.namespace.clone(), claim.key.clone());
        if self.leave(&claim, &place) {
            return Answer::Begin;
        }
        self.places.insert(claim.uid.clone(), place.clone());
        let key = self.keys.entry(place).or_default();
        if claim.policy == ConcurrencyPolicy::Allow {
            key.holders.push(claim.uid);
            return Answer::Begin;
        }
        let turn = turn(&claim);
        key.waiting.insert(turn.clone(), claim);
        if key.holders.is_empty() && key.waiting.first_key_value().is_some_and(|(first, _)| *first == turn) {
            key.admit_first();
            return Answer::Begin;
        }
        key.answer(&turn)
    }

    /// A flow whose spec was edited while it waits does not wait any more for what it asked for before. Answers whether it
    /// has begun: then it keeps the key it holds.
    fn leave(&mut self, claim: &Claim, place: &(String, String)) -> bool {
        let Some(before) = self.places.get(&claim.uid) else { return false };
        let Some(key) = self.keys.get_mut(before) else { return false };
        if key.holders.contains(&claim.uid) {
            return true;
        }
        if before != place || !key.waiting.contains_key(&turn(claim)) {
            key.waiting.retain(|_, known| known.uid != claim.uid);
        }
        if key.holders.is_empty() && key.waiting.is_empty() {
            self.keys.remove(before);
        }
        false
    }

    /// Records a flow that holds its key already, because it was admitted before this value was made.
    pub fn hold(&mut self, claim: &Claim) {
        let place = (claim.namespace.clone(), claim.key.clone());
        self.places.insert(claim.uid.clone(), place.clone());
        let key = self.keys.entry(place).or_default();
        key.waiting.remove(&turn(claim));
        if !key.holders.contains(&claim.uid) {
            key.holders.push(claim.uid.clone());
        }
    }

    /// Releases the key of a flow that has ended, or withdraws its request. Gives the new answers of flows that waited for it.
    #[must_use]
    pub fn release(&mut self, uid: &str) -> Vec<(String, Answer)> {
        let Some(place) = self.places.remove(uid) else { return Vec::new() };
        let Some(key) = self.keys.get_mut(&place) else { return Vec::new() };
        key.holders.retain(|holder| holder != uid);
        key.waiting.retain(|_, claim| claim.uid != uid);
        let mut answers = Vec::new();
        if key.holders.is_empty()
            && let Some(first) = key.admit_first()
        {
            answers.push((first, Answer::Begin));
            // Whoever replaces does so to the new holder too.
            let replacing = key.waiting.iter().filter(|(_, claim)| claim.policy == ConcurrencyPolicy::Replace);
            answers.extend(replacing.map(|(turn, claim)| (claim.uid.clone(), key.answer(turn))));
        }
        if key.holders.is_empty() && key.waiting.is_empty() {
            self.keys.remove(&place);
        }
        answers
    }

    /// Whether a flow holds a key.
    #[must_use]
    pub fn is_holder(&self, uid: &str) -> bool {
        let key = self.places.get(uid).and_then(|place| self.keys.get(place));
        key.is_some_and(|key| key.holders.iter().any(|holder| holder == uid))
    }

    /// Uids of the flows that hold a key, in the order they began.
    #[must_use]
    pub fn holders(&self, namespace: &str, key: &str) -> &[String] {
        self.keys.get(&(namespace.to_owned(), key.to_owned())).map_or(&[], |key| &key.holders)
    }
}

fn turn(claim: &Claim) -> Precedence {
    (claim.policy != ConcurrencyPolicy::Replace, claim.created_at, claim.uid.clone())
}

impl Key {
    fn admit_first(&mut self) -> Option<String> {
        let (_, claim) = self.waiting.pop_first()?;
        self.holders.push(claim.uid.clone());
        Some(claim.uid)
    }

    /// What is said to one who waits.
    fn answer(&self, turn: &Precedence) -> Answer {
        if self.holders.is_empty() {
            let ahead = self.waiting.range(..turn).map(|(_, claim)| claim.uid.clone());
            return Answer::Wait { behind: ahead.collect() };
        }
        match self.waiting.get(turn) {
            Some(claim) if claim.policy == ConcurrencyPolicy::Replace => {
                Answer::Replace { holders: self.holders.clone() }
            }
            _ => Answer::Wait { behind: self.holders.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::flow::FlowSpec;
    use orlop_core::spec::meta::OwnerReference;
    use orlop_core::spec::policy::ExecutionPolicy;
    use proptest::prelude::*;

    use super::*;

    fn claim(uid: &str, second: i64, policy: ConcurrencyPolicy) -> Claim {
        let created_at = Time::from_millis(second * 1000);
        Claim { uid: uid.into(), namespace: "n".into(), key: "k".into(), policy, created_at }
    }

    fn forbid(uid: &str, second: i64) -> Claim {
        claim(uid, second, ConcurrencyPolicy::Forbid)
    }

    fn replace(uid: &str, second: i64) -> Claim {
        claim(uid, second, ConcurrencyPolicy::Replace)
    }

    fn behind(uids: &[&str]) -> Answer {
        Answer::Wait { behind: uids.iter().map(|uid| (*uid).to_owned()).collect() }
    }

    fn begins(answers: &[(String, Answer)]) -> Vec<&str> {
        answers.iter().filter(|(_, answer)| *answer == Answer::Begin).map(|(uid, _)| uid.as_str()).collect()
    }

    #[test]
    fn the_key_is_the_first_that_is_present() {
        let mut flow = JobFlow::new("f", FlowSpec::default());
        assert_eq!(key_of(&flow, &[]), None);
        let owner = |kind: &str, controller| OwnerReference {
            kind: kind.into(),
            uid: format!("uid-of-{kind}"),
            controller: Some(controller),
            ..OwnerReference::default()
        };
        flow.metadata.owner_references = vec![owner("CronJob", false)];
        assert_eq!(key_of(&flow, &[]), None);
        flow.metadata.owner_references = vec![owner("CronJob", true)];
        assert_eq!(key_of(&flow, &[]), Some("uid-of-CronJob"));
        flow.metadata.owner_references = vec![owner("FlowTimer", true)];
        assert_eq!(key_of(&flow, &[]), None);
        assert_eq!(key_of(&flow, &["FlowTimer"]), Some("uid-of-FlowTimer"));
        flow.metadata.labels.insert(KEY.into(), "label".into());
        assert_eq!(key_of(&flow, &["FlowTimer"]), Some("label"));
        flow.metadata.annotations.insert(KEY.into(), "annotation".into());
        assert_eq!(key_of(&flow, &[]), Some("annotation"));
        let policy = ExecutionPolicy { concurrency_key: Some("field".into()), ..ExecutionPolicy::default() };
        flow.spec.execution_policy = Some(policy);
        assert_eq!(key_of(&flow, &[]), Some("field"));
    }

    #[test]
    fn forbid_waits_in_order_of_creation_then_uid() {
        let mut gate = ConcurrencyLimiter::default();
        assert_eq!(gate.ask(forbid("a", 5)), Answer::Begin);
        assert_eq!(gate.ask(forbid("d", 9)), behind(&["a"]));
        assert_eq!(gate.ask(forbid("c", 7)), behind(&["a"]));
        assert_eq!(gate.ask(forbid("b", 7)), behind(&["a"]));
        assert_eq!(gate.ask(forbid("a", 5)), Answer::Begin);
        assert_eq!(begins(&gate.release("a")), ["b"]);
        assert_eq!(begins(&gate.release("d")), [""; 0]);
        assert_eq!(begins(&gate.release("b")), ["c"]);
        assert_eq!(begins(&gate.release("c")), [""; 0]);
        assert!(gate.keys.is_empty() && gate.places.is_empty());
    }

    #[test]
    fn replace_ends_the_holders_and_begins_before_those_who_wait() {
        let mut gate = ConcurrencyLimiter::default();
        assert_eq!(gate.ask(claim("a", 1, ConcurrencyPolicy::Allow)), Answer::Begin);
        assert_eq!(gate.ask(claim("b", 2, ConcurrencyPolicy::Allow)), Answer::Begin);
        assert_eq!(gate.ask(forbid("c", 3)), behind(&["a", "b"]));
        assert_eq!(gate.ask(replace("d", 4)), Answer::Replace { holders: vec!["a".into(), "b".into()] });
        assert_eq!(gate.ask(replace("e", 5)), Answer::Replace { holders: vec!["a".into(), "b".into()] });
        assert_eq!(gate.release("a"), []);
        let woken = gate.release("b");
        let again = Answer::Replace { holders: vec!["d".into()] };
        assert_eq!(woken, [("d".to_owned(), Answer::Begin), ("e".to_owned(), again)]);
        assert_eq!(begins(&gate.release("d")), ["e"]);
        assert_eq!(begins(&gate.release("e")), ["c"]);
    }

    #[test]
    fn keys_and_namespaces_do_not_meet() {
        let mut gate = ConcurrencyLimiter::default();
        assert_eq!(gate.ask(forbid("a", 1)), Answer::Begin);
        assert_eq!(gate.ask(Claim { namespace: "other".into(), ..forbid("b", 1) }), Answer::Begin);
        assert_eq!(gate.ask(Claim { key: "other".into(), ..forbid("c", 1) }), Answer::Begin);
        assert_eq!(gate.holders("n", "k"), ["a"]);
    }

    #[test]
    fn a_flow_that_asks_for_something_else_has_left_its_place() {
        let other = |uid: &str| Claim { key: "other".into(), ..forbid(uid, 2) };
        let mut gate = ConcurrencyLimiter::default();
        assert_eq!(gate.ask(forbid("a", 1)), Answer::Begin);
        assert_eq!(gate.ask(forbid("b", 2)), behind(&["a"]));
        assert_eq!(gate.ask(other("b")), Answer::Begin);
        assert_eq!(gate.ask(other("a")), Answer::Begin, "who has begun keeps its key");
        assert_eq!((gate.holders("n", "k"), gate.holders("n", "other")), (&["a".into()][..], &["b".into()][..]));
        assert_eq!(gate.release("a"), []);
        assert_eq!(gate.ask(forbid("c", 3)), Answer::Begin);
        assert_eq!(gate.ask(forbid("d", 4)), behind(&["c"]));
        assert_eq!(gate.ask(replace("d", 4)), Answer::Replace { holders: vec!["c".into()] });
        assert_eq!(begins(&gate.release("c")), ["d"]);
        assert_eq!((gate.release("d"), gate.release("b")), (vec![], vec![]));
        assert!(gate.keys.is_empty() && gate.places.is_empty());
    }

    #[test]
    fn a_flow_admitted_earlier_holds_its_key() {
        let mut gate = ConcurrencyLimiter::default();
        gate.hold(&forbid("b", 2));
        assert_eq!(gate.ask(forbid("a", 1)), behind(&["b"]));
        assert_eq!((gate.is_holder("b"), gate.is_holder("a"), gate.is_holder("c")), (true, false, false));
        gate.hold(&forbid("b", 2));
        assert_eq!(begins(&gate.release("b")), ["a"]);
    }

    proptest! {
        /// Whatever is asked and released in whatever order, at most one flow that does not allow others begins while a
        /// key is held, and everybody who waits begins once all others are gone.
        #[test]
        fn one_holder_at_a_time_and_nobody_is_forgotten(moves in proptest::collection::vec((0_u8..6, any::<bool>(), any::<bool>()), 1..60)) {
            let mut gate = ConcurrencyLimiter::default();
            let mut asked: Vec<String> = Vec::new();
            for (flow, ask, replaces) in moves {
                let uid = format!("f{flow}");
                if ask {
                    let policy = if replaces { ConcurrencyPolicy::Replace } else { ConcurrencyPolicy::Forbid };
                    if !asked.contains(&uid) {
                        let _ = gate.ask(claim(&uid, i64::from(flow), policy));
                        asked.push(uid);
                    }
                } else {
                    let answers = gate.release(&uid);
                    prop_assert!(begins(&answers).len() <= 1);
                    asked.retain(|known| *known != uid);
                }
                prop_assert_eq!(gate.holders("n", "k").len(), usize::from(!asked.is_empty()));
            }
            while let Some(holder) = gate.holders("n", "k").first().cloned() {
                let _ = gate.release(&holder);
                asked.retain(|known| *known != holder);
            }
            prop_assert!(asked.is_empty());
        }
    }
}
