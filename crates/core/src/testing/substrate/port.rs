//! The port's methods of a scripted substrate. Owns idempotency under the key and the record of calls.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::call::Call;
use super::scripted::ScriptedSubstrate;
use super::world::World;
use crate::attempt::{AttemptKey, AttemptSpec};
use crate::error::{Class, Problem};
use crate::name::sha256_hex;
use crate::ports::substrate::{AttemptReport, FlowOwner, Substrate};
use crate::spec::flow::{ResourceTemplates, template_name};
use crate::spec::meta::ObjectReference;

impl ScriptedSubstrate {
    /// Records a call and carries it out, faults considered.
    fn call<T>(&self, call: Call, work: impl FnOnce(&mut World) -> Result<T, Problem>) -> Result<T, Problem> {
        let mut world = self.world();
        let operation = call.operation();
        world.calls.push(call);
        let fault = world.faults.iter().position(|fault| fault.operation == operation);
        let fault = fault.map(|index| world.faults.remove(index));
        if let Some(fault) = fault.as_ref().filter(|fault| !fault.carried_out) {
            return Err(fault.answer.error());
        }
        let value = work(&mut world)?;
        match fault {
            None => Ok(value),
            Some(fault) => Err(fault.answer.error()),
        }
    }
}

/// The reference of an execution, equal for equal keys.
fn reference(spec: &AttemptSpec) -> ObjectReference {
    ObjectReference {
        api_version: String::new(),
        kind: "Process".to_owned(),
        name: spec.job_name.clone(),
        namespace: spec.namespace.clone(),
        uid: sha256_hex(spec.key.to_string().as_bytes(), 32),
    }
}

/// Creates or verifies one resource of a flow.
fn ensure(world: &mut World, owner: &FlowOwner, kind: &str, template: &Value) -> Result<ObjectReference, Problem> {
    let Some(name) = template_name(template) else {
        return Err(Problem::new(Class::Invalid, format!("a {kind} template has no metadata.name")));
    };
    let name = format!("{}-{name}", owner.name);
    let place = (owner.namespace.clone(), name.clone());
    let holder = world.resources.entry(place).or_insert_with(|| owner.uid.clone());
    if *holder != owner.uid {
        let message = format!("{kind} `{}/{name}` belongs to somebody else", owner.namespace);
        return Err(Problem::new(Class::Exists, message).with_reason("ResourceConflict"));
    }
    let uid = sha256_hex(format!("{}/{kind}/{name}", owner.uid).as_bytes(), 32);
    Ok(ObjectReference {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name,
        namespace: owner.namespace.clone(),
        uid,
    })
}

#[async_trait]
impl Substrate for ScriptedSubstrate {
    async fn ensure_resources(
        &self,
        owner: &FlowOwner,
        templates: &ResourceTemplates,
    ) -> Result<Vec<ObjectReference>, Problem> {
        self.call(Call::EnsureResources(owner.uid.clone()), |world| {
            let claims = templates.volume_claim_templates.iter().map(|template| ("PersistentVolumeClaim", template));
            let maps = templates.config_map_templates.iter().map(|template| ("ConfigMap", template));
            claims.chain(maps).map(|(kind, template)| ensure(world, owner, kind, template)).collect()
        })
    }

    async fn start(&self, spec: AttemptSpec) -> Result<ObjectReference, Problem> {
        self.call(Call::Start(spec.key.clone()), |world| {
            let key = spec.key.clone();
            let reference = reference(&spec);
            if !world.executions.contains_key(&key) {
                let play = world.play(&key);
                if let Some(error) = world.refusal(&key, &play) {
                    return Err(error);
                }
                world.create(spec, play);
            }
            world.watch(self.session, &key);
            world.wake();
            Ok(reference)
        })
    }

    async fn adopt(&self, spec: AttemptSpec) -> Result<(), Problem> {
        self.call(Call::Adopt(spec.key.clone()), |world| {
            world.watch(self.session, &spec.key);
            Ok(())
        })
    }

    async fn cancel(&self, key: &AttemptKey, grace: Option<Duration>) -> Result<(), Problem> {
        self.call(Call::Cancel(key.clone(), grace), |world| {
            world.cancel(self.session, key);
            world.wake();
            Ok(())
        })
    }

    async fn suspend(&self, key: &AttemptKey) -> Result<(), Problem> {
        self.call(Call::Suspend(key.clone()), |world| {
            if world.suspend(key) {
                return Ok(());
            }
            Err(Problem::new(Class::Invalid, format!("attempt {key} cannot be suspended")))
        })
    }

    async fn resume(&self, key: &AttemptKey) -> Result<(), Problem> {
        self.call(Call::Resume(key.clone()), |world| {
            world.resume(key);
            Ok(())
        })
    }

    async fn forget(&self, key: &AttemptKey) -> Result<(), Problem> {
        self.call(Call::Forget(key.clone()), |world| {
            world.settle();
            if world.executions.get(key).is_some_and(|execution| !execution.is_live()) {
                world.executions.remove(key);
            }
            Ok(())
        })
    }

    async fn list(&self, flow: &str) -> Result<Vec<AttemptKey>, Problem> {
        self.call(Call::List(flow.to_owned()), |world| {
            world.settle();
            let of_flow = world.executions.iter().filter(|(key, _)| &*key.flow == flow);
            Ok(of_flow.filter(|(_, execution)| execution.exists()).map(|(key, _)| key.clone()).collect())
        })
    }

    async fn next(&self) -> AttemptReport {
        poll_fn(|context| match self.world().next(self.session, context.waker()) {
            Some(report) => Poll::Ready(report),
            None => Poll::Pending,
        })
        .await
    }
}
