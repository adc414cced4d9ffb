//! Kinds of workers: everything but amounts that decides whether a class may run there. Owns their numbers.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::id::TenantName;

use crate::event::Capabilities;
use crate::job::{Requires, Runtime};

/// The interned shape of a worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Kind {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) features: BTreeSet<String>,
    pub(crate) runtimes: BTreeSet<Runtime>,
    /// Whose jobs it takes; none = everybody's.
    pub(crate) tenants: BTreeSet<TenantName>,
}

/// Which of a class's conditions on a kind fails first, in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Tenant,
    Labels,
    Features,
    Runtime,
}

impl Kind {
    fn of(offer: &Capabilities) -> Self {
        Self {
            labels: offer.labels.clone(),
            features: offer.features.clone(),
            runtimes: offer.runtimes.clone(),
            tenants: offer.tenants.clone(),
        }
    }

    /// What keeps a job of `tenant` (none: of no tenant that any worker names) with these needs away.
    pub(crate) fn mismatch(&self, tenant: Option<&TenantName>, needs: &Requires, runtime: Runtime) -> Option<Mismatch> {
        let visible = self.tenants.is_empty() || tenant.is_some_and(|tenant| self.tenants.contains(tenant));
        if !visible {
            Some(Mismatch::Tenant)
        } else if !needs.labels.iter().all(|expression| expression.matches(&self.labels)) {
            Some(Mismatch::Labels)
        } else if !needs.features.is_subset(&self.features) {
            Some(Mismatch::Features)
        } else if !self.runtimes.contains(&runtime) && runtime != Runtime::Noop {
            Some(Mismatch::Runtime)
        } else {
            None
        }
    }
}

/// All kinds, by number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kinds {
    list: Vec<Arc<Kind>>,
    #[serde(with = "crate::table::stored::pairs")]
    numbers: BTreeMap<Arc<Kind>, u32>,
}

impl Kinds {
    /// The number of a worker's kind, and whether it is new.
    pub(crate) fn intern(&mut self, offer: &Capabilities) -> (u32, bool) {
        let kind = Kind::of(offer);
        if let Some(number) = self.numbers.get(&kind) {
            return (*number, false);
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let kind = Arc::new(kind);
        self.list.push(Arc::clone(&kind));
        self.numbers.insert(kind, number);
        (number, true)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Kind> {
        self.list.get(number as usize).map(Arc::as_ref)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Kind)> {
        (0..).zip(self.list.iter().map(Arc::as_ref))
    }
}
