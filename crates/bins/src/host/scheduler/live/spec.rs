//! Specifications that live jobs share: equal ones once, by the hash of their body. Owns the table and the numbers under
//! which specs travel to workers; a spec that no live job uses is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use orlop_core::ports::fleet_store::{NewSpec, SpecHash};
use orlop_scheduler::job::JobSpec as Asks;

use super::super::prepare::Prepared;
use super::ByNumber;

/// How many specs are kept before those that nobody uses are looked for.
const SWEEP: usize = 4096;

/// A specification as live jobs share it.
#[derive(Debug)]
pub struct Interned {
    /// Number under which it travels to workers, unique while the server lives.
    pub number: u64,
    /// What it says.
    pub spec: Arc<Prepared>,
}

impl Interned {
    /// What it asks of the core.
    #[must_use]
    pub fn asks(&self) -> &Arc<Asks> {
        &self.spec.asks
    }
}

/// The specs of live jobs.
#[derive(Debug)]
pub(crate) struct Specs {
    known: HashMap<SpecHash, Arc<Interned>>,
    numbers: HashMap<u64, Weak<Interned>, ByNumber>,
    next: u64,
    sweep_at: usize,
}

impl Default for Specs {
    fn default() -> Self {
        Self { known: HashMap::new(), numbers: HashMap::default(), next: 1, sweep_at: SWEEP }
    }
}

impl Specs {
    /// The spec that travels under a number, while a live job uses it.
    pub(crate) fn by_number(&self, number: u64) -> Option<Arc<Interned>> {
        self.numbers.get(&number)?.upgrade()
    }

    /// The shared form of a spec, and its record if the store may not have it: no live job uses it.
    pub(crate) fn intern(&mut self, spec: &Arc<Prepared>) -> (Arc<Interned>, Option<NewSpec>) {
        if let Some(known) = self.known.get(&spec.hash) {
            // Who else holds it is a live job, whose spec is stored. Retention may have deleted others.
            let stored = Arc::strong_count(known) > 1;
            return (Arc::clone(known), (!stored).then(|| spec.record()));
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, known| Arc::strong_count(known) > 1);
            self.numbers.retain(|_, known| known.strong_count() > 0);
            self.sweep_at = (self.known.len() * 2).max(SWEEP);
        }
        let interned = Arc::new(Interned { number: self.next, spec: Arc::clone(spec) });
        self.next += 1;
        self.numbers.insert(interned.number, Arc::downgrade(&interned));
        self.known.insert(spec.hash, Arc::clone(&interned));
        (interned, Some(spec.record()))
    }
}
