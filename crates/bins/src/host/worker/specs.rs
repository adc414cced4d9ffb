//! Specifications an agent was sent: as many as a session keeps, the least recently used goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_cloud::runtime::worker::User;
use orlop_core::id::TenantName;
use orlop_core::spec::job::JobSpec;

use super::work::{Kinds, Work, work};
use crate::wire::bound::SPECS;
use crate::wire::session::SpecCache;

/// See the module.
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

    /// Which program runs steps of flows.
    pub(super) fn run_steps_by(&mut self, program: Vec<String>) {
        self.kinds.steps = program;
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
