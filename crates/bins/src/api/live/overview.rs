//! The overview: what waits and why, what runs, how full the fleet is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::auth::{Caller, Scope};
use super::super::routes::server::{blocked, queues};
use super::super::view::live::{AllocatedView, WaitingView, WhyView};
use crate::host::scheduler::Snapshot;

/// What a caller sees of the fleet at one moment, but for what the store has to be asked.
pub(super) fn members(snapshot: &Snapshot, caller: &Caller) -> BTreeMap<String, Value> {
    let mut workers: BTreeMap<String, u64> = BTreeMap::new();
    for worker in snapshot.workers.values() {
        *workers.entry(worker.view.state.to_string()).or_default() += 1;
    }
    let allocation = AllocatedView { cpu: share(snapshot.fleet.cpu), memory: share(snapshot.fleet.memory) };
    BTreeMap::from([
        ("waiting".to_owned(), json!(waiting(snapshot, caller))),
        ("running".to_owned(), json!(running(snapshot, caller))),
        ("workers".to_owned(), json!(workers)),
        ("allocation".to_owned(), json!(allocation)),
        ("blocked".to_owned(), json!(blocked(snapshot, caller))),
    ])
}

/// A share to the per mille: smaller changes are no news.
fn share(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

fn running(snapshot: &Snapshot, caller: &Caller) -> u64 {
    match caller.scope {
        Scope::All => snapshot.workers.values().map(|worker| u64::from(worker.view.attempts)).sum(),
        Scope::Tenants(_) => {
            let own = snapshot.tenants.iter().filter(|(name, _)| caller.sees(name));
            own.map(|(_, tenant)| tenant.running).sum()
        }
    }
}

fn waiting(snapshot: &Snapshot, caller: &Caller) -> WaitingView {
    let queues = queues(snapshot, caller);
    let sum = |of: fn(&super::super::view::fleet::TenantQueueView) -> u64| queues.iter().map(of).sum::<u64>();
    // Whose gate is closed is counted of all tenants together.
    let gated = if caller.scope == Scope::All { snapshot.gated.iter().sum() } else { 0 };
    let all = [
        ("capacity", sum(|queue| queue.blocked), "fits no worker now"),
        ("quota", sum(|queue| queue.quota), "the tenant's quota is used up"),
        ("turn", sum(|queue| queue.ready), "its turn has not come"),
        ("not-before", gated, "is not due yet, or waits for its next attempt"),
    ];
    let why: Vec<WhyView> = all
        .into_iter()
        .filter(|(_, count, _)| *count > 0)
        .map(|(reason, count, text)| WhyView { reason, count, text })
        .collect();
    WaitingView { total: why.iter().map(|why| why.count).sum(), why }
}
