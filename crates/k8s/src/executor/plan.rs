//! What is to be done about an executor: children in their order, each once the one before is what it is to be. Owns that
//! order.

use orlop_core::time::Time;
use serde_json::Value;

use super::observe::Observation;
use super::render::{Rendered, render};
use super::{FINALIZER, delete, state, status};
use crate::api::Kind;
use crate::hourglass::Config;
use crate::hourglass::children::{delete as remove, is_terminating};
use crate::hourglass::last_applied::Child;
use crate::hourglass::plan::{Effect, Plan};
use crate::hourglass::reference::{GENERATION, follow};
use crate::hourglass::spec::{Reference, Retry};
use crate::value::{texts, word};

/// Why nothing may be changed, in one word and in a sentence.
pub(super) type FailureReason = (&'static str, String);

/// An observation with everything that follows from its spec.
pub(super) struct Facts<'a> {
    pub(super) obs: &'a Observation,
    pub(super) now: Time,
    /// The children as they are to be, or why there are none.
    pub(super) wanted: Result<Rendered, FailureReason>,
    /// What is to be recorded of references.
    pub(super) references: Vec<Reference>,
    /// How often references have changed.
    pub(super) generation: u32,
    /// Whether ConfigMap and Secret are what they are to be.
    pub(super) configured: bool,
    /// What a controller before this one has said to wait for.
    pub(super) pending_retry: Option<&'a Retry>,
}

impl<'a> Facts<'a> {
    fn of(obs: &'a Observation, config: &Config, now: Time) -> Self {
        // Not less than the Deployment knows, so that a status that is lost rolls nothing.
        let known = obs.deployment.as_ref().filter(|live| obs.meta.owns(live));
        let annotations = known.map(|live| texts(live, "/spec/template/metadata/annotations")).unwrap_or_default();
        let known = annotations.get(GENERATION).and_then(|generation| generation.parse().ok()).unwrap_or_default();
        let (references, generation) =
            follow(&obs.status.references, obs.status.reference_generation.max(known), &obs.references);
        let wanted = wanted(obs, config, generation);
        let is = |live: Option<&Value>, wanted: &Value| {
            live.is_some_and(|live| !is_terminating(live) && !obs.last_applied.differs(live, wanted, now))
        };
        let configured = wanted.as_ref().is_ok_and(|wanted| {
            let hidden = wanted.secret.as_ref().is_none_or(|secret| is(obs.secret.as_ref(), secret));
            hidden && is(obs.config.as_ref(), &wanted.config)
        });
        let same = obs.status.observed_generation == Some(obs.meta.generation) && obs.last_failure.is_none();
        let pending_retry = obs.status.retry.as_ref().filter(|_| same);
        let pending_retry = pending_retry.filter(|retry| retry.next_retry_time.is_some_and(|at| at > now));
        Self { obs, now, wanted, references, generation, configured, pending_retry }
    }

    /// The children that are there, as they are and as they are wanted.
    pub(super) fn children(&self) -> Vec<Child<'_>> {
        let Ok(wanted) = &self.wanted else { return Vec::new() };
        let all = [
            (Kind::ConfigMap, self.obs.config.as_ref(), Some(&wanted.config)),
            (Kind::Secret, self.obs.secret.as_ref(), wanted.secret.as_ref()),
            (Kind::Deployment, self.obs.deployment.as_ref(), Some(&wanted.deployment)),
            (Kind::Service, self.obs.service.as_ref(), Some(&wanted.service)),
            (Kind::DisruptionBudget, self.obs.budget.as_ref(), wanted.budget.as_ref()),
        ];
        let there =
            all.into_iter().filter_map(|(kind, live, wanted)| Some(Child { kind, live: live?, wanted: wanted? }));
        there.filter(|child| !is_terminating(child.live)).collect()
    }

    /// A child that another client has changed and that is not put back yet, since it was a moment ago.
    pub(super) fn left_changed(&self) -> Option<Child<'_>> {
        let known = &self.obs.last_applied;
        let left = |child: &Child<'_>| {
            known.is_changed(child.live, child.wanted) && !known.differs(child.live, child.wanted, self.now)
        };
        self.children().into_iter().find(left)
    }

    /// The Deployment, where it is ours and stays.
    pub(super) fn deployment(&self) -> Option<&'a Value> {
        self.obs.deployment.as_ref().filter(|live| self.obs.meta.owns(live) && !is_terminating(live))
    }
}

fn wanted(obs: &Observation, config: &Config, generation: u32) -> Result<Rendered, FailureReason> {
    let spec = obs.spec.as_ref().map_err(|message| ("InvalidSpec", message.clone()))?;
    if spec.config.operator_keys.is_some() == spec.config.operator_keys_secret_ref.is_some() {
        let message = "config needs exactly one of operatorKeys and operatorKeysSecretRef".to_owned();
        return Err(("InvalidSpec", message));
    }
    let rendered = render(&obs.meta, spec, config.security, generation).map_err(|message| ("InvalidSpec", message))?;
    let children = [
        (Kind::ConfigMap, &obs.config),
        (Kind::Secret, &obs.secret),
        (Kind::Deployment, &obs.deployment),
        (Kind::DisruptionBudget, &obs.budget),
        (Kind::Service, &obs.service),
    ];
    let foreign = |(_, live): &(Kind, &Option<Value>)| live.as_ref().is_some_and(|live| !obs.meta.owns(live));
    for (kind, live) in children.into_iter().filter(foreign) {
        let is_wanted = match kind {
            Kind::Secret => rendered.secret.is_some(),
            Kind::DisruptionBudget => rendered.budget.is_some(),
            _ => true,
        };
        if is_wanted {
            let name = live.as_ref().map(|live| word(live, "/metadata/name")).unwrap_or_default();
            let message = format!(
                "{} `{name}` exists and belongs to another owner; delete it or rename this object",
                kind.name()
            );
            return Err(("Conflict", message));
        }
    }
    match &obs.last_failure {
        Some(failure) if failure.reason == "Conflict" => Err((failure.reason, failure.message.clone())),
        _ => Ok(rendered),
    }
}

/// What is to be done about an executor: pure.
pub fn plan(obs: &Observation, config: &Config, now: Time) -> Plan {
    if obs.meta.deleted_at.is_some() {
        return delete::plan(obs, now);
    }
    if !obs.meta.finalizers.iter().any(|name| name == FINALIZER) {
        return Plan { effects: vec![Effect::AddFinalizer], ..Plan::default() };
    }
    let facts = Facts::of(obs, config, now);
    let wanted = facts.wanted.as_ref().ok().filter(|_| facts.pending_retry.is_none() && !state::is_new(&facts));
    let actions = wanted.map(|wanted| actions(&facts, wanted)).unwrap_or_default();
    let observed = state::observed_state(&facts);
    status::finish(&facts, &observed, actions)
}

/// A child that is not what it is to be.
fn make(facts: &Facts<'_>, kind: Kind, live: Option<&Value>, wanted: &Value) -> Option<Effect> {
    match live {
        None => Some(Effect::Create(kind, wanted.clone())),
        // Its name is free in a moment.
        Some(live) if is_terminating(live) => None,
        Some(live) => {
            facts.obs.last_applied.differs(live, wanted, facts.now).then(|| Effect::Apply(kind, wanted.clone()))
        }
    }
}

/// Children that are not what they are to be.
fn actions(facts: &Facts<'_>, wanted: &Rendered) -> Vec<Effect> {
    let obs = facts.obs;
    let mut actions = Vec::new();
    actions.extend(make(facts, Kind::ConfigMap, obs.config.as_ref(), &wanted.config));
    actions.extend(wanted.secret.as_ref().and_then(|secret| make(facts, Kind::Secret, obs.secret.as_ref(), secret)));
    if obs.account.is_none() {
        actions.push(Effect::Create(Kind::ServiceAccount, wanted.account.clone()));
    }
    if !facts.configured {
        // Pods must not start with a configuration that is not there yet.
        return actions;
    }
    actions.extend(make(facts, Kind::Deployment, obs.deployment.as_ref(), &wanted.deployment));
    actions.extend(make(facts, Kind::Service, obs.service.as_ref(), &wanted.service));
    actions.extend(
        wanted.budget.as_ref().and_then(|budget| make(facts, Kind::DisruptionBudget, obs.budget.as_ref(), budget)),
    );
    let obsolete = |live: Option<&'_ Value>, wanted: Option<&Value>| {
        live.filter(|live| wanted.is_none() && obs.meta.owns(live) && !is_terminating(live)).cloned()
    };
    let budget = obsolete(obs.budget.as_ref(), wanted.budget.as_ref());
    actions.extend(budget.map(|live| remove(Kind::DisruptionBudget, &live)));
    if state::is_complete(facts) {
        // Pods of an older template mount it until they are gone.
        let secret = obsolete(obs.secret.as_ref(), wanted.secret.as_ref());
        actions.extend(secret.map(|live| remove(Kind::Secret, &live)));
    }
    actions
}
