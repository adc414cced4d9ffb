//! The flow that a flow repeats: it is read where it stands, and what it hands over is imported before the new one
//! begins. Owns the questions asked about it; which steps run again is chosen elsewhere.

use std::collections::BTreeMap;

use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::spec::flow::{JobFlow, RetryOf};
use orlop_core::spec::status::FlowStatus;
use orlop_dag::engine::{FlowMeta, State, apply, reconstruct};
use orlop_dag::plan::Plan;
use orlop_dag::repeat::{Parent, Wanted, imports, is_of, may_repeat};

use super::Controller;
use super::open::OpenError;
use crate::api::{Api, Kind, Request};
use crate::convert;
use crate::records::{self, FetchError};

impl<A: Api> Controller<A> {
    /// What a flow takes over of the one it repeats. The inner error is a sentence: it cannot be repeated.
    pub(super) async fn parent_imports(
        &self,
        flow: &JobFlow,
        plan: &Plan,
    ) -> Result<Result<Vec<FlowEvent>, String>, OpenError> {
        let Some(RetryOf { name, uid, steps, force }) = &flow.spec.retry_of else { return Ok(Ok(Vec::new())) };
        let namespace = flow.metadata.namespace.as_deref().unwrap_or_default();
        let object = match self.api.send(&Request::get(Kind::JobFlow, namespace, name)).await {
            Ok(object) => object,
            Err(error) if error.code == Some(404) => {
                return Ok(Err(format!("retryOf: flow `{name}` not found in this namespace")));
            }
            Err(error) => return Err(error.into()),
        };
        let unreadable = |why: String| format!("retryOf: flow `{name}` cannot be read: {why}");
        // It is not judged again by rules that came later.
        let (old, old_plan) = match self.planned(&object, true) {
            Ok(planned) => planned,
            Err(found) => {
                let first = found.into_vec().into_iter().next().map(|violation| violation.message);
                return Ok(Err(unreadable(first.unwrap_or_default())));
            }
        };
        if old.metadata.uid.as_ref() != Some(uid) {
            return Ok(Err(format!("retryOf: flow `{name}` is not the one of uid `{uid}`; name the uid it has now")));
        }
        let status = match convert::status(&object) {
            Ok(status) => status.unwrap_or_default(),
            Err(why) => return Ok(Err(unreadable(why))),
        };
        if let Err(why) = may_repeat(name, status.phase, steps, *force == Some(true)) {
            return Ok(Err(format!("retryOf: {why}")));
        }
        if let Err(why) = is_of(name, plan, &old_plan) {
            return Ok(Err(format!("retryOf: {why}")));
        }
        // All values stand in the spec.
        let wanted = Wanted { steps, parameters: &BTreeMap::new() };
        self.parent_state(&old, &old_plan, status, plan, wanted).await.map(|found| found.map_err(unreadable))
    }

    /// The state of a flow, from its status and what it takes over: instances that are imported are not in a status before
    /// their fan-out begins. What is known changes nothing, and where the parent is gone they run again.
    pub(super) async fn rebuild_with_imports(
        &self,
        flow: &JobFlow,
        plan: &Plan,
        meta: &FlowMeta,
        status: &FlowStatus,
    ) -> Result<(State, Vec<FlowEffect>), OpenError> {
        let now = self.now();
        let (mut state, mut effects) = self.rebuild(plan, meta, status, now);
        for event in self.parent_imports(flow, plan).await?.unwrap_or_default() {
            apply(plan, &mut state, &event, now, &mut effects);
        }
        Ok((state, effects))
    }

    async fn parent_state(
        &self,
        old: &JobFlow,
        old_plan: &Plan,
        status: FlowStatus,
        plan: &Plan,
        wanted: Wanted<'_>,
    ) -> Result<Result<Vec<FlowEvent>, String>, OpenError> {
        let meta = FlowMeta {
            uid: old.metadata.uid.clone().unwrap_or_default(),
            name: old.metadata.name.clone(),
            namespace: old.metadata.namespace.clone().unwrap_or_default(),
            ..FlowMeta::default()
        };
        let whole = match records::whole(&self.api, old, &status).await {
            Err(FetchError::Read(error)) => return Ok(Err(error.to_string())),
            whole => whole?,
        };
        let state = reconstruct(old_plan, &meta, &whole, &[], self.now(), &mut Vec::new());
        Ok(Ok(imports(plan, Parent { plan: old_plan, state: &state }, wanted)))
    }
}
