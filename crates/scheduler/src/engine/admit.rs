//! Submits: interning, admission, storing, and the first gate. Owns how a job enters.

use std::sync::Arc;

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::{self, JobState};

use super::record::{Array, Job, Life, Spec, Task};
use super::timer::Timer;
use super::{Admitted, Scheduler, machine};
use crate::effect::{Effect, JobPart, Reason};
use crate::error::{EventError, SubmitError};
use crate::event::{ArraySpec, StartWindow};
use crate::job::{Demand, ELEMENTS_MAX};
use crate::queue::Queue;
use crate::table::{NONE, RangeSet};
use crate::tenant::{QuotaUse, Tenant};

/// How many specifications are kept by address.
const RECENT: usize = 4096;

impl Scheduler {
    /// Takes a job, or refuses it with nothing of it kept.
    pub(super) fn admit(
        &mut self,
        id: JobId,
        spec: &Arc<Demand>,
        gate: StartWindow,
        array: Option<ArraySpec>,
        effects: &mut Vec<Effect>,
    ) -> Result<Admitted, SubmitError> {
        if self.ids.get(id.as_u64()).is_some() {
            return Err(EventError::DuplicateJob(id).into());
        }
        let recent = self.recent_spec(spec);
        if recent.is_none() {
            spec.check().map_err(|source| EventError::Spec { job: id, source })?;
        }
        let is_array = array.is_some();
        let array = array.map(|array| build(id, spec, array)).transpose()?;
        let units = array.as_ref().map_or(1, |array| u64::from(array.elements));
        let (now, tenant) = (self.now, self.tenant_number(&spec.tenant));
        let Some(record) = self.tenants.get_mut(tenant as usize) else {
            return Err(EventError::Fatal("a tenant is missing").into());
        };
        record.admit(now, spec, units, is_array)?;
        record.pending += units;
        record.active += units;
        record.demand_more(spec, units);
        let spec = recent.unwrap_or_else(|| self.intern(spec, tenant));
        let number = match array {
            Some(array) => self.arrays.insert(array).ok_or(EventError::Fatal("too many arrays"))?,
            None => NONE,
        };
        self.store(id, spec, number, units, gate, effects)?;
        Ok(Admitted { elements: u32::try_from(units).unwrap_or(u32::MAX) })
    }

    /// Stores an admitted job and opens its gate if it may start at once.
    fn store(
        &mut self,
        id: JobId,
        spec: u32,
        array: u32,
        units: u64,
        gate: StartWindow,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let birth = job::Event::Submitted;
        debug_assert!(job::MACHINE.step(None, birth, |_| true).is_ok_and(|state| state == JobState::Pending));
        let expires = gate.queue_timeout.map_or(u64::MAX, |wait| self.now.saturating_add(wait));
        let opens = gate.not_before.filter(|at| *at > self.now);
        let life = Life { due: opens.unwrap_or(0), ..Life::new(JobState::Pending) };
        let record = Job { id, spec, array, stamp: 0, queued: false, life, submitted: self.now };
        let slot = self.jobs.insert(record).ok_or(EventError::Fatal("too many jobs"))?;
        self.ids.insert(id.as_u64(), slot);
        effects.push(Effect::Admitted { job: id, elements: u32::try_from(units).unwrap_or(u32::MAX) });
        if expires != u64::MAX {
            self.timers.set(expires, Timer::Expire(slot, self.jobs.generation(slot)));
        }
        if let Some(at) = opens {
            self.timers.set(at, Timer::StartWindow(slot, self.jobs.generation(slot)));
            return Ok(());
        }
        self.open_gate(slot, effects);
        Ok(())
    }

    /// Pending becomes Queued.
    pub(super) fn open_gate(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let from = job.life.state;
        let Some(to) = machine::job(from, job::Event::StartAfterPassed, |_| true) else { return };
        job.life.state = to;
        let (id, array) = (job.id, job.array);
        if let Some(array) = self.arrays.get(array) {
            for (first, last, ()) in array.ready.iter() {
                self.revision += 1;
                let (part, revision) = (JobPart::Elements(first, last), self.revision);
                effects.push(Effect::JobChanged { job: id, part, from, to, reason: Reason::Plain, revision });
            }
        } else {
            self.revision += 1;
            let (part, revision) = (JobPart::Whole, self.revision);
            effects.push(Effect::JobChanged { job: id, part, from, to, reason: Reason::Plain, revision });
        }
        self.line_up(slot);
    }

    /// A specification that was seen lately, by address.
    fn recent_spec(&self, spec: &Arc<Demand>) -> Option<u32> {
        let known = self.recent.get(address(spec))?;
        Arc::ptr_eq(&known.0, spec).then_some(known.1)
    }

    /// The number of a specification.
    pub(super) fn intern(&mut self, spec: &Arc<Demand>, tenant: u32) -> u32 {
        let number = match self.spec_numbers.get(spec) {
            Some(number) => *number,
            None => self.add_spec(spec, tenant),
        };
        if self.recent.len() < RECENT {
            self.recent.resize_with(RECENT, || (Arc::clone(spec), number));
        }
        if let Some(place) = self.recent.get_mut(address(spec)) {
            *place = (Arc::clone(spec), number);
        }
        number
    }

    fn add_spec(&mut self, spec: &Arc<Demand>, tenant: u32) -> u32 {
        let number = u32::try_from(self.specs.len()).unwrap_or(NONE);
        let named = self.tenants.get(tenant as usize).is_some_and(|tenant| tenant.named);
        let domain = named.then(|| spec.tenant.clone());
        let class = self.classes.intern(spec, domain, (&self.kinds, &self.dims, &mut self.requests));
        let queue = self.queue_number(tenant, spec.priority.band().index(), class);
        let preferences = if spec.prefers.is_empty() {
            0
        } else {
            let known = self.preferences.iter().position(|preferences| *preferences == spec.prefers);
            let at = known.unwrap_or_else(|| {
                self.preferences.push(spec.prefers.clone());
                self.score_preferences(self.preferences.len() - 1);
                self.preferences.len() - 1
            });
            u32::try_from(at).unwrap_or(0)
        };
        let preemptible = spec.preemptible.then_some(spec.priority.0);
        let (members, one) = (spec.members(), QuotaUse::of(spec, 1));
        self.specs.push(Spec { spec: Arc::clone(spec), tenant, class, queue, preferences, preemptible, members, one });
        self.spec_numbers.insert(Arc::clone(spec), number);
        number
    }

    /// The number of a queue, which exists from then on.
    pub(super) fn queue_number(&mut self, tenant: u32, band: usize, class: u32) -> u32 {
        let next = u32::try_from(self.queues.len()).unwrap_or(NONE);
        let number = *self.queue_numbers.entry((tenant, band, class)).or_insert(next);
        if number == next {
            self.queues.push(Queue { tenant, band, class, ..Queue::default() });
        }
        number
    }

    /// The number of a tenant, who exists from then on.
    pub(super) fn tenant_number(&mut self, name: &TenantName) -> u32 {
        if let Some(number) = self.tenant_numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.tenants.len()).unwrap_or(NONE);
        self.tenants.push(Tenant::new(name.clone()));
        self.tenant_numbers.insert(name.clone(), number);
        number
    }

    /// Puts a job that may start into its queue: a single job, or an array with elements to place.
    pub(super) fn line_up(&mut self, slot: u32) {
        let Some(job) = self.jobs.get(slot) else { return };
        if job.queued {
            // Another of its elements may be the first by now.
            self.note_queue_of(slot);
            return;
        }
        if job.life.state != JobState::Queued {
            return;
        }
        if let Some(array) = self.array_of(job) {
            if array.running >= array.max_parallel {
                return;
            }
            if array.ready.len() == 0 {
                self.window_opens(slot);
                return;
            }
        }
        self.enqueue(slot);
    }
}

/// Where a specification would stand among those seen lately. Depends on an address, so it may only find what comparing
/// would find too.
fn address(spec: &Arc<Demand>) -> usize {
    (Arc::as_ptr(spec) as usize >> 5) % RECENT
}

/// Checks the elements of an array and builds its record.
fn build(job: JobId, spec: &Demand, array: ArraySpec) -> Result<Array, EventError> {
    let wrong = |problem| Err(EventError::Array { job, problem });
    if spec.gang.is_some() {
        return wrong("cannot be a gang; submit it as one or the other");
    }
    let mut ready = RangeSet::default();
    let mut sum = 0_u64;
    for (first, last) in array.indices {
        if first > last {
            return wrong("has a range that ends before it begins; write the lower index first");
        }
        sum += u64::from(last - first) + 1;
        ready.insert(first, last, ());
        if sum != ready.len() {
            return wrong("names an index twice; name each one once");
        }
    }
    if sum == 0 || sum > ELEMENTS_MAX {
        return wrong("needs 1 to 10,000,000 elements");
    }
    if array.max_parallel == Some(0) {
        return wrong("whose `max_parallel` is 0 runs nothing; use 1 or more, or leave it out");
    }
    Ok(Array {
        ready,
        elements: u32::try_from(sum).unwrap_or(u32::MAX),
        max_parallel: array.max_parallel.unwrap_or(u32::MAX),
        max_failures: array.max_failures.map_or(u64::MAX, u64::from),
        ..Array::default()
    })
}

impl Task {
    /// A single job or gang.
    pub(super) const fn whole(job: u32) -> Self {
        Self { job, index: 0 }
    }
}
