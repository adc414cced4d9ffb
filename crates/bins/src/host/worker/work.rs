//! From a job's specification to what this machine runs: the specifications an agent was sent, as many as a session keeps, what
//! attempts of each have in common, and what an agent that starts later needs to know of an attempt. Never starts anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::runtime::worker::{AttemptPlan, ExtraUnits, GpuDevice, Secret, User};
use orlop_core::id::TenantName;
use orlop_core::spec::job::{Gang, Gpus, JobSpec, Requires, Resources, Runtime};
use orlop_core::task::Run;
use serde::{Deserialize, Serialize};

use super::artifacts::Needs;
use crate::wire::attempt::AssignJob;
use crate::wire::bound::SPECS;
use crate::wire::session::SpecCache;

/// Tenant and class of attempts, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Kind(pub(super) u32);

/// What attempts of one specification have in common.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) runtime: Runtime,
    pub(super) kind: Kind,
    pub(super) run: Arc<Run>,
    pub(super) gpus: Gpus,
    pub(super) extras: BTreeMap<String, u64>,
    pub(super) cpu_m: u64,
    pub(super) memory_bytes: u64,
    pub(super) needs: Option<Arc<Needs>>,
    pub(super) user: Option<User>,
}

/// What an attempt holds of this machine that no other may use meanwhile.
#[derive(Debug, Default)]
pub(super) struct Devices {
    pub(super) gpus: Vec<GpuDevice>,
    pub(super) extras: Vec<ExtraUnits>,
}

impl Devices {
    /// Those of an attempt that gets them with the slot of another one.
    pub(super) fn to_come(work: &Work) -> Self {
        let amount =
            |(name, count): (&String, &u64)| ExtraUnits { name: name.clone(), count: *count, units: Vec::new() };
        Self { gpus: Vec::new(), extras: work.extras.iter().map(amount).collect() }
    }
}

/// What the server charges and places alike: tenant, runtime, resources, conditions, gang.
type Shape = (Option<TenantName>, Runtime, Resources, Requires, Option<Gang>);

/// Kinds by number.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    known: BTreeMap<Shape, Kind>,
    /// As whom processes of each tenant run; empty: as the agent's user.
    pub(super) users: BTreeMap<TenantName, User>,
}

impl Kinds {
    fn of(&mut self, spec: &JobSpec) -> Kind {
        let JobSpec { tenant, runtime, resources, requires, gang, .. } = spec;
        let shape = (tenant.clone(), *runtime, resources.clone(), requires.clone(), gang.clone());
        let next = Kind(u32::try_from(self.known.len()).unwrap_or(u32::MAX));
        *self.known.entry(shape).or_insert(next)
    }
}

/// Translates a specification.
pub(super) fn work(spec: &JobSpec, kinds: &mut Kinds) -> Work {
    let resources = &spec.resources;
    Work {
        runtime: spec.runtime,
        kind: kinds.of(spec),
        gpus: resources.gpus.clone(),
        extras: resources
            .extras
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(n, count)| (n.clone(), *count))
            .collect(),
        cpu_m: resources.cpu_m,
        memory_bytes: resources.memory_bytes,
        needs: if spec.runtime == Runtime::Noop { None } else { Needs::of(spec) },
        user: spec.tenant.as_ref().and_then(|tenant| kinds.users.get(tenant)).copied(),
        run: Arc::new(spec.run()),
    }
}

/// The plan of an attempt; or why it has a secret that it cannot get, as the reason of a rejection.
pub(super) fn plan(assign: AssignJob, work: &Work, devices: Devices) -> Result<AttemptPlan, String> {
    let secret = |secret: crate::wire::attempt::SecretValue| {
        if !secret.problem.is_empty() {
            return Err(secret.problem);
        }
        let given_as = secret.secret_as();
        let value =
            String::from_utf8(secret.value).map_err(|_| format!("secret: `{}` is not UTF-8 text", secret.name))?;
        Ok(Secret { name: secret.name, value, given_as, target: secret.target })
    };
    let mut plan = AttemptPlan::new(assign.attempt(), Arc::clone(&work.run));
    plan.timeout = (assign.timeout_ms > 0).then(|| Duration::from_millis(assign.timeout_ms));
    plan.grace = Duration::from_millis(assign.grace_ms);
    plan.secrets = assign.secrets.into_iter().map(secret).collect::<Result<_, String>>()?;
    (plan.gpus, plan.extras, plan.user) = (devices.gpus, devices.extras, work.user);
    plan.correlation_id = assign.correlation_id;
    Ok(plan)
}

/// Specifications an agent was sent; the least recently used goes first.
#[derive(Debug)]
pub(super) struct Specs {
    kinds: Kinds,
    works: SpecCache<Arc<Work>>,
}

impl Default for Specs {
    fn default() -> Self {
        Self { kinds: Kinds::default(), works: SpecCache::new(SPECS) }
    }
}

impl Specs {
    /// As whom processes of each tenant run.
    pub(super) fn run_as(&mut self, users: BTreeMap<TenantName, User>) {
        self.kinds.users = users;
    }

    /// Takes a specification in.
    pub(super) fn put(&mut self, id: u64, spec: &JobSpec) {
        self.works.insert(id, Arc::new(work(spec, &mut self.kinds)));
    }

    /// The work of a specification, if it is here.
    pub(super) fn get(&mut self, id: u64) -> Option<Arc<Work>> {
        self.works.get(id).cloned()
    }

    /// A new session numbers specifications anew.
    pub(super) fn clear(&mut self) {
        self.works = SpecCache::new(SPECS);
    }
}

/// What an agent that starts later needs to know of an attempt, in the spool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    #[serde(rename = "r", default)]
    pub(super) runtime: Runtime,
    #[serde(rename = "c", default)]
    pub(super) cpu_m: u64,
    #[serde(rename = "m", default)]
    pub(super) memory_bytes: u64,
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) gpus: Vec<GpuDevice>,
    #[serde(rename = "x", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) extras: Vec<ExtraUnits>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub(super) needs: Option<Needs>,
    /// The context of its trace, where that is kept.
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    pub(super) traceparent: String,
    #[serde(rename = "i", default, skip_serializing_if = "String::is_empty")]
    pub(super) correlation_id: String,
}

impl Taken {
    pub(super) fn encode(&self) -> Vec<u8> {
        // Writing to memory fails for values JSON has no form for; here are none.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads it back; of one that an agent of another version wrote as much as is understood.
    pub(super) fn decode(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::job::OnFull;
    use orlop_core::task::{StartMode, TaskRef};
    use serde_json::json;

    use super::*;

    fn spec(value: serde_json::Value) -> JobSpec {
        JobSpec::from_json(&value).unwrap()
    }

    #[test]
    fn what_is_charged_and_placed_alike_is_of_one_kind() {
        let mut kinds = Kinds::default();
        let of = |kinds: &mut Kinds, value| work(&spec(value), kinds).kind;
        let one = of(&mut kinds, json!({"command": ["a"], "tenant": "t"}));
        assert_eq!(of(&mut kinds, json!({"command": ["b"], "tenant": "t", "priority": 1, "timeout_ms": 5})), one);
        for other in [
            json!({"command": ["a"], "tenant": "u"}),
            json!({"command": ["a"], "tenant": "t", "resources": {"cpu_m": 500}}),
            json!({"command": ["a"], "tenant": "t", "requires": {"features": ["x"]}}),
            json!({"runtime": "noop", "command": ["a"], "tenant": "t"}),
        ] {
            assert_ne!(of(&mut kinds, other.clone()), one, "{other}");
        }
    }

    #[test]
    fn processes_run_as_their_tenants_users() {
        let user = User { uid: 7, gid: 8 };
        let mut kinds = Kinds { users: BTreeMap::from([("t".parse().unwrap(), user)]), ..Kinds::default() };
        let mut of = |tenant: &str| work(&spec(json!({"command": ["a"], "tenant": tenant})), &mut kinds);
        let (job, epoch) = (orlop_core::id::JobId::from_u64(1), orlop_core::id::Epoch(1));
        let attempt = TaskRef { job, index: 0, member: 0, attempt: 1, epoch };
        let assign = || AssignJob::new(attempt, 1, StartMode::Now);
        assert_eq!(plan(assign(), &of("t"), Devices::default()).unwrap().user, Some(user));
        assert_eq!(plan(assign(), &of("u"), Devices::default()).unwrap().user, None);
    }

    #[test]
    fn a_specification_becomes_what_the_runtime_takes() {
        let spec = spec(json!({
            "script": "echo hi", "env": {"A": "b"}, "success_codes": [0, 3], "overlap": "forbid",
            "timeout_ms": 1000, "log": {"limit": 5, "on_full": "block"}, "working_dir": "in"
        }));
        let work = work(&spec, &mut Kinds::default());
        assert_eq!(work.run.argv, ["/bin/sh", "-c", "echo hi"]);
        assert_eq!((work.run.success_codes.as_slice(), work.run.log.on_full), (&[0, 3][..], OnFull::Block));
        assert!(work.run.forbid_overlap && !work.run.survive && work.needs.is_none());
    }
}
