//! The concurrency gate among the flows of a server. A flow that was admitted holds its key until it has ended, whichever
//! server drives it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::ports::journal::FlowRecord;
use orlop_dag::gate::{Answer, Claim, ConcurrencyLimiter, key_of};
use tokio::sync::watch;

use crate::host::flow::{Admission, AdmissionDecision};

/// Ends a flow because another one of the same key takes its place.
pub(super) type Replace = Arc<dyn Fn(String) + Send + Sync>;

/// The gate of a server.
#[derive(Debug, Default)]
pub(super) struct Keys {
    gate: Mutex<ConcurrencyLimiter>,
    /// Counts what may have changed an answer.
    changes: watch::Sender<u64>,
}

impl Keys {
    fn gate(&self) -> MutexGuard<'_, ConcurrencyLimiter> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins anew: another term of leadership.
    pub(super) fn clear(&self) {
        *self.gate() = ConcurrencyLimiter::default();
    }

    /// A flow was admitted before.
    pub(super) fn hold(&self, claim: &Claim) {
        self.gate().hold(claim);
    }

    /// A flow has ended. Who waited asks again.
    pub(super) fn release(&self, uid: &str) {
        // The one that may begin now hears so when it asks.
        drop(self.gate().release(uid));
        self.changes.send_modify(|count| *count += 1);
    }

    /// Who says when a flow may begin.
    pub(super) fn admission(self: &Arc<Self>, claim: Claim, replace: Replace) -> Box<dyn Admission> {
        Box::new(Waiting { keys: Arc::clone(self), claim, replace, changes: None })
    }
}

/// The claim of a flow to its key; none when it has none.
pub(super) fn claim(record: &FlowRecord) -> Option<Claim> {
    let key = key_of(&record.flow, &[])?.to_owned();
    let policy = record.flow.spec.execution_policy.as_ref().and_then(|policy| policy.concurrency_policy);
    Some(Claim {
        uid: record.uid.clone(),
        namespace: record.namespace().to_owned(),
        key,
        policy: policy.unwrap_or_default(),
        created_at: record.created_at,
    })
}

struct Waiting {
    keys: Arc<Keys>,
    claim: Claim,
    replace: Replace,
    changes: Option<watch::Receiver<u64>>,
}

#[async_trait]
impl Admission for Waiting {
    async fn next(&mut self) -> Result<AdmissionDecision, Problem> {
        match &mut self.changes {
            // The gate lives as long as the server; without it nobody is woken any more.
            Some(changes) => drop(changes.changed().await),
            None => self.changes = Some(self.keys.changes.subscribe()),
        }
        let answer = self.keys.gate().ask(self.claim.clone());
        let key = &self.claim.key;
        Ok(match answer {
            Answer::Begin => AdmissionDecision::Begin,
            Answer::Wait { behind } => {
                let message = format!("waits for {} flows that hold or asked for key `{key}` before", behind.len());
                AdmissionDecision::Wait { message }
            }
            Answer::Replace { holders } => {
                let message = format!("takes the place of {} flows that hold key `{key}`", holders.len());
                holders.into_iter().for_each(|holder| (self.replace)(holder));
                AdmissionDecision::Wait { message }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::policy::ConcurrencyPolicy;
    use orlop_core::time::Time;

    use super::*;

    fn claim(uid: &str, policy: ConcurrencyPolicy) -> Claim {
        let created_at = Time::from_millis(i64::from(uid.as_bytes()[0]));
        Claim { uid: uid.into(), namespace: "n".into(), key: "k".into(), policy, created_at }
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_the_end_of_the_holder() {
        let keys = Arc::<Keys>::default();
        let nobody: Replace = Arc::new(|_| {});
        let mut one = keys.admission(claim("a", ConcurrencyPolicy::Forbid), Arc::clone(&nobody));
        let mut two = keys.admission(claim("b", ConcurrencyPolicy::Forbid), nobody);
        assert_eq!(one.next().await.unwrap(), AdmissionDecision::Begin);
        assert!(matches!(two.next().await.unwrap(), AdmissionDecision::Wait { .. }));
        let waits = tokio::spawn(async move { two.next().await.unwrap() });
        keys.release("a");
        assert_eq!(waits.await.unwrap(), AdmissionDecision::Begin);
    }

    #[tokio::test]
    async fn who_replaces_ends_the_holders() {
        let keys = Arc::<Keys>::default();
        keys.hold(&claim("a", ConcurrencyPolicy::Forbid));
        let ended = Arc::<Mutex<Vec<String>>>::default();
        let reported = Arc::clone(&ended);
        let replace: Replace = Arc::new(move |uid| reported.lock().unwrap().push(uid));
        let mut new = keys.admission(claim("b", ConcurrencyPolicy::Replace), replace);
        assert!(matches!(new.next().await.unwrap(), AdmissionDecision::Wait { .. }));
        assert_eq!(*ended.lock().unwrap(), ["a"]);
        keys.release("a");
        assert_eq!(new.next().await.unwrap(), AdmissionDecision::Begin);
    }
}
