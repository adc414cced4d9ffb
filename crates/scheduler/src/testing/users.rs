//! What users of a random world do: specifications and submits, some of them twice. Owns how they look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::hardware::placement::{LabelExpr, Operator};
use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::job::JobState;

use super::model::{Broken, Job, Unit};
use super::world::World;
use crate::event::{ArraySpec, Capabilities, Event, Gate};
use crate::job::{Gang, JobSpec, Priority, Runtime};

impl World<'_> {
    fn spec(&mut self) -> Result<Arc<JobSpec>, Broken> {
        let Some(tenant) = self.choices.pick(&self.tenants) else { return Err("no tenants".to_owned()) };
        let mut spec = JobSpec::new(tenant);
        spec.priority = Priority(self.choices.below(10) as u8);
        spec.resources.cpu_m = [500, 1000, 1500, 3000, 1, u64::MAX][self.choices.below(6) as usize];
        spec.resources.memory_bytes =
            [0, 1 << 20, 512 << 20, 1 << 30, 3 << 30, u64::MAX][self.choices.below(6) as usize];
        spec.retries = self.choices.below(3) as u32;
        spec.timeout_ms = [0, 1000, 60_000, u64::MAX][self.choices.below(4) as usize];
        if self.choices.once_in(6) {
            let max_per_worker = self.choices.once_in(2).then(|| 1 + self.choices.below(2) as u32);
            let same_label = self.choices.once_in(3).then(|| "zone".to_owned());
            spec.gang = Some(Gang { size: 2 + self.choices.below(3) as u32, max_per_worker, same_label });
        }
        if self.choices.once_in(4) {
            let values: BTreeSet<String> = [self.choices.below(2).to_string()].into();
            let op = if self.choices.once_in(2) { Operator::In } else { Operator::NotIn };
            spec.requires.labels.push(LabelExpr { key: "zone".to_owned(), op, values });
        }
        if self.scheduler.config().preemption {
            self.press(&mut spec);
        }
        Ok(Arc::new(spec))
    }

    /// Makes a job one that presses others or may be pressed.
    fn press(&mut self, spec: &mut JobSpec) {
        spec.preemptible = self.choices.once_in(2);
        if self.choices.once_in(2) {
            spec.priority = Priority([0, 2, 5, 9][self.choices.below(4) as usize]);
            spec.resources.cpu_m = spec.resources.cpu_m.min(3000);
            spec.resources.memory_bytes = spec.resources.memory_bytes.min(3 << 30);
        }
    }

    pub(super) fn submit(&mut self) -> Result<(), Broken> {
        let spec = self.spec()?;
        let again = self.choices.once_in(20);
        let number = if again { self.choices.below(self.next_job) } else { self.next_job };
        let Some(job) = JobId::new(Epoch(1), number) else { return Ok(()) };
        let mut gate = Gate::default();
        if self.choices.once_in(5) {
            gate.not_before = Some(self.now + self.choices.below(20_000));
        }
        if self.choices.once_in(5) {
            gate.queue_timeout = Some(self.choices.below(60_000));
        }
        let mut indices = vec![0];
        let mut parallel = u32::MAX;
        let array = spec.gang.is_none() && self.choices.once_in(4);
        let event = if array {
            let (first, size) = (self.choices.below(5) as u32, self.choices.below(9) as u32);
            indices = (first..=first + size).chain([40]).collect();
            let mut array = ArraySpec { indices: vec![(first, first + size), (40, 40)], ..ArraySpec::default() };
            if self.choices.once_in(2) {
                parallel = 1 + self.choices.below(3) as u32;
                array.max_parallel = Some(parallel);
            }
            array.max_failures = self.choices.once_in(2).then(|| self.choices.below(3) as u32);
            Event::SubmitArray { job, spec: Arc::clone(&spec), gate, array }
        } else {
            Event::Submit { job, spec: Arc::clone(&spec), gate }
        };
        let known = self.scheduler.job(job, None).is_some();
        let before = self.effects.len();
        // The model has to know the job before the effects that follow its admission.
        if !known && !self.model.jobs.contains_key(&job) {
            self.model.jobs.insert(job, Job { spec, array, parallel });
            for index in indices {
                self.model.units.insert((job, index), Unit { state: JobState::Pending, issued: 0, finished: false });
            }
            self.next_job = self.next_job.max(number + 1);
        } else if !known {
            return Ok(());
        }
        debug_assert_eq!(before, 0, "effects are absorbed after every call");
        let taken = self.apply(event)?;
        if taken == known {
            return Err(format!("{job} is taken twice, or not at all"));
        }
        if !known && self.scheduler.job(job, None).is_none() {
            self.model.jobs.remove(&job);
            self.model.units.retain(|(id, _), _| *id != job);
        }
        Ok(())
    }

    pub(super) fn offer(&mut self) -> Arc<Capabilities> {
        let cpu_m = [1000, 2000, 4000, 8000, 0, u64::MAX][self.choices.below(6) as usize];
        let memory_bytes = [1 << 30, 4 << 30, 8 << 30, 0, u64::MAX][self.choices.below(5) as usize];
        let mut offer = Capabilities {
            cpu_m,
            memory_bytes,
            max_jobs: [4, 16, 0][self.choices.below(3) as usize],
            runtimes: [Runtime::Process].into(),
            labels: BTreeMap::from([("zone".to_owned(), self.choices.below(2).to_string())]),
            ..Capabilities::default()
        };
        if self.scheduler.config().preemption {
            // Workers that are full at times.
            offer.cpu_m = offer.cpu_m.clamp(1000, 4000);
            offer.memory_bytes = offer.memory_bytes.max(4 << 30);
            offer.max_jobs = offer.max_jobs.max(4);
        }
        if self.choices.once_in(6) {
            offer.tenants.extend(self.choices.pick(&self.tenants));
        }
        Arc::new(offer)
    }
}
