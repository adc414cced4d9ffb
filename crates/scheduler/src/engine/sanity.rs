//! Whether the state agrees with itself: every cross reference and every counter against a recount. Owns the
//! checks; for tests, fuzzing and doubt, since it reads everything.

use std::collections::BTreeMap;

use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;

use super::Scheduler;
use super::order::valid;
use super::preemptible::Preemptibles;
use super::record::{Life, Task, waits};
use crate::fleet::MAX_DIMS;
use crate::job::Overlap;
use crate::queue::Fifo;
use crate::table::NONE;

/// What is wrong, in one sentence.
type Fault = &'static str;

fn must(holds: bool, fault: Fault) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(fault) }
}

/// What a tenant should use, by recount.
#[derive(Clone, Copy, Default)]
struct Count {
    pending: u64,
    active: u64,
    running: u64,
    held: [u64; MAX_DIMS],
}

impl Scheduler {
    /// Checks every cross reference and counter. Cost: linear in everything, elements of arrays by ranges.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn sanity_check(&self) -> Result<(), &'static str> {
        self.table.check()?;
        let mut counts = vec![Count::default(); self.tenants.len()];
        for (slot, job) in self.jobs.iter() {
            must(self.ids.get(job.id.as_u64()) == Some(slot), "a job is not found by its id")?;
            let count = counts.get_mut(self.tenant_of(slot) as usize).ok_or("a job has no tenant")?;
            if job.array == NONE {
                tally(count, job.life.state, 1);
                self.check_task(Task::whole(slot), &job.life)?;
                let held = self.is_held_back(Task::whole(slot));
                let waits = job.life.state == JobState::Queued;
                must(job.queued == (waits && !held), "a queued job is in no queue, or another is")?;
                must(waits || !held, "a job that does not wait is held back")?;
            } else {
                self.check_array(slot, count)?;
            }
        }
        self.check_attempts(&mut counts)?;
        self.check_reservations(&mut counts)?;
        self.check_seen()?;
        for (tenant, count) in self.tenants.iter().zip(&counts) {
            must(tenant.pending == count.pending, "a tenant's waiting jobs are miscounted")?;
            must(tenant.active == count.active, "a tenant's active jobs are miscounted")?;
            must(tenant.running == count.running, "a tenant's charged attempts are miscounted")?;
            must(tenant.held == count.held, "what a tenant holds is miscounted")?;
        }
        self.check_queues()?;
        self.check_quota_reservations()?;
        self.check_classes()
    }

    /// Tenants reserve for jobs that wait, each for the first of its band that the limits could ever allow.
    fn check_quota_reservations(&self) -> Result<(), Fault> {
        for (number, tenant) in (0_u32..).zip(&self.tenants) {
            let Some(target) = tenant.reservation.target else { continue };
            let job = self.jobs.get(target.job).filter(|job| job.queued || self.held_task(target.job).is_some());
            let job = job.ok_or("what is reserved for does not wait")?;
            let first = self.first_line(number, target.band).ok_or("what is reserved for stands nowhere")?;
            let right = (first.queue, first.key) == (target.queue, target.key) && job.id.as_u64() == target.key.1;
            must(right, "what is reserved for is not the first of its band")?;
        }
        Ok(())
    }

    fn check_array(&self, slot: u32, count: &mut Count) -> Result<(), Fault> {
        let job = self.jobs.get(slot).ok_or("a job is missing")?;
        let array = self.array_of(job).ok_or("an array is missing")?;
        let (mut running, mut untouched) = (0, array.ready.clone());
        for (index, life) in &array.active {
            tally(count, life.state, 1);
            running += u32::from(life.state.holds_capacity());
            let task = Task { job: slot, index: *index };
            self.check_task(task, life)?;
            let ready = !untouched.remove(*index, *index).is_empty();
            let held = self.is_held_back(task);
            let waits = life.state == JobState::Queued;
            must(ready == (waits && !held), "a queued element is not ready, or another is")?;
            must(waits || !held, "an element that does not wait is held back")?;
            must(array.done.get(*index).is_none(), "an element is final and active")?;
        }
        must(running == array.running, "an array's running elements are miscounted")?;
        let state = if job.life.state.is_terminal() { JobState::Pending } else { job.life.state };
        tally(count, state, untouched.len());
        let sum = untouched.len() + array.active.len() as u64 + array.done.len();
        must(sum == u64::from(array.elements), "elements of an array are lost or doubled")?;
        let done = array.done.len() == u64::from(array.elements);
        must(done == job.life.state.is_terminal(), "an array is final before its last element, or not after it")?;
        let waits = job.life.state == JobState::Queued && array.ready.len() > 0 && array.running < array.max_parallel;
        must(job.queued == waits, "an array with room and elements is in no queue, or another is")
    }

    fn check_task(&self, task: Task, life: &Life) -> Result<(), Fault> {
        let live = self.attempts.get(life.live);
        must(life.live == NONE || live.is_some_and(|attempt| attempt.task == task), "a task's attempt is not its own")?;
        let lost = live.is_some_and(|attempt| attempt.state == AttemptState::Lost);
        must(
            life.state.holds_capacity() == (live.is_some() && !lost),
            "a task holds capacity without an attempt, or not with one",
        )?;
        must(live.is_none_or(|attempt| attempt.number == life.attempt), "a task's attempt is not its newest")
    }

    fn check_attempts(&self, counts: &mut [Count]) -> Result<(), Fault> {
        let mut listed = 0;
        for (number, worker) in self.workers.iter() {
            let slots = self.attempts_on(number);
            must(slots.len() == worker.attempts as usize, "a worker's attempts are miscounted")?;
            let waits = |slot: &u32| {
                let attempt = self.attempts.get(*slot).and_then(|attempt| self.spec_of(attempt.task.job));
                attempt.is_some_and(|spec| spec.overlap == Overlap::Forbid)
            };
            let left = worker.state.is_terminal() && !slots.iter().all(waits);
            must(!left, "a worker that left has attempts")?;
            listed += slots.len();
            let mut taken = [0_i64; MAX_DIMS];
            for slot in slots {
                let attempt = self.attempts.get(slot).ok_or("a listed attempt is missing")?;
                let request = self.requests.get(attempt.request).ok_or("an attempt has no request")?;
                must(attempt.worker == number, "an attempt is listed by another worker")?;
                must(!(attempt.waiting && attempt.charged), "an attempt is charged for a slot that it waits for")?;
                for (dim, amount) in request.need.iter().filter(|_| !attempt.waiting) {
                    taken[usize::from(*dim)] += i64::from(*amount);
                }
                let count = counts.get_mut(attempt.tenant as usize).ok_or("an attempt has no tenant")?;
                if attempt.charged {
                    count.running += 1;
                    for (dim, amount) in &request.need {
                        count.held[usize::from(*dim)] += u64::try_from(*amount).unwrap_or(0);
                    }
                }
            }
            self.check_worker(number, &taken)?;
        }
        self.check_feeds()?;
        self.check_given_up()?;
        self.check_parted()?;
        must(listed == self.attempts.len(), "an attempt is listed by no worker")?;
        let mut preemptibles = Preemptibles::default();
        self.attempts.iter().for_each(|(slot, attempt)| preemptibles.insert(slot, attempt));
        must(preemptibles == self.preemptibles, "an attempt that may be preempted is not known, or another is")
    }

    /// Who had an attempt is kept only as long as that may return.
    fn check_parted(&self) -> Result<(), Fault> {
        let may = |task: &Task| self.life(*task).is_some_and(|life| life.may_return_elsewhere());
        must(self.parted.keys().all(may), "an attempt may return that its task knows nothing of")
    }

    /// No job is forgotten while an attempt of it may hold capacity.
    fn check_given_up(&self) -> Result<(), Fault> {
        let mut given_up: BTreeMap<u32, u32> = BTreeMap::new();
        for (_, attempt) in self.attempts.iter() {
            must(self.jobs.get(attempt.task.job).is_some(), "an attempt belongs to a job that was forgotten")?;
            if attempt.state == AttemptState::Lost {
                *given_up.entry(attempt.task.job).or_default() += 1;
            }
        }
        must(given_up == self.given_up, "attempts that were given up are miscounted")?;
        let known = self.finished.iter().all(|(slot, id)| self.jobs.get(*slot).is_some_and(|job| job.id == *id));
        must(known, "a final job is remembered twice, or was forgotten already")?;
        let lasting =
            self.jobs.iter().filter(|(slot, job)| job.life.state.is_terminal() && !given_up.contains_key(slot));
        must(lasting.count() == self.finished.len(), "a final job is never forgotten, or too early")
    }

    /// Feeds list every attempt that holds a slot or waits for one, in the order in which these were sent.
    fn check_feeds(&self) -> Result<(), Fault> {
        let mut all: BTreeMap<u32, (u32, u32, Vec<u32>)> = BTreeMap::new();
        for (number, worker) in self.workers.iter() {
            let mut waiting = 0;
            for slot in self.attempts_on(number) {
                let Some(attempt) = self.attempts.get(slot) else { continue };
                waiting += u32::from(attempt.waiting);
                let known = all.entry(attempt.feed).or_default();
                match (attempt.state == AttemptState::Lost, attempt.waiting) {
                    (true, _) => known.1 += 1,
                    (_, true) => known.2.push(slot),
                    _ => known.0 += 1,
                }
            }
            must(waiting == worker.waiting, "attempts of a worker that wait are miscounted")?;
        }
        all.remove(&NONE);
        must(self.feeds.on || all.is_empty(), "there are feeds although none are kept")?;
        for (number, feed) in self.feeds.iter() {
            let known = all.remove(&number).ok_or("a feed is empty")?;
            let listed = (feed.holding, feed.lost, feed.waiting.iter().copied().collect());
            must(known == listed, "a feed is not what its attempts say")?;
            must(feed.waiting.is_empty() || feed.holding > 0, "an attempt waits for a slot that nobody has")?;
        }
        must(all.is_empty(), "a feed is missing")
    }

    /// A reservation keeps one worker, and what is held for a job is charged to its tenant.
    fn check_reservations(&self, counts: &mut [Count]) -> Result<(), Fault> {
        let reserved = self.workers.iter().filter(|(_, worker)| worker.reserved).count();
        let seats = self.reservations.iter().map(|kept| kept.seats.len()).sum::<usize>();
        must(reserved == seats, "a worker is reserved for nobody, or twice")?;
        for (at, kept) in self.reservations.iter().enumerate() {
            must(!kept.seats.is_empty(), "a reservation keeps no worker")?;
            for seat in &kept.seats {
                let worker = self.workers.get(seat.worker).ok_or("a reserved worker is missing")?;
                must(worker.reserved && seat.times > 0, "a reservation keeps no worker")?;
            }
            let twice = self.reservations.iter().skip(at + 1).any(|other| other.job == kept.job);
            must(!twice, "a job has two reservations")?;
            if kept.is_held() {
                let count = counts.get_mut(kept.payer as usize).ok_or("a reservation has no tenant")?;
                for seat in &kept.seats {
                    let request = self.requests.get(seat.request).ok_or("a reservation has no request")?;
                    count.running += u64::from(seat.times);
                    for (dim, amount) in &request.need {
                        let amount = u64::try_from(*amount).unwrap_or(0);
                        count.held[usize::from(*dim)] += amount * u64::from(seat.times);
                    }
                }
            }
        }
        Ok(())
    }

    fn check_worker(&self, number: u32, taken: &[i64; MAX_DIMS]) -> Result<(), Fault> {
        let Some(worker) = self.workers.get(number).filter(|worker| worker.place != NONE) else { return Ok(()) };
        for (dim, taken) in taken.iter().enumerate() {
            let (free, total) = (self.table.free(dim, worker.place), self.table.total(dim, worker.place));
            must(i64::from(total) - i64::from(free) == *taken, "a worker's free capacity is not total less attempts")?;
        }
        must(self.table.owner(worker.place) == number, "a place belongs to another worker")?;
        let open = worker.state.is_schedulable() && !worker.cordoned && worker.drain.is_none();
        let open = open && !worker.reserved && self.table.is_whole(worker.place);
        must(open == self.table.is_open(worker.place), "a worker is open though it must not be, or closed")
    }

    fn check_queues(&self) -> Result<(), Fault> {
        for queue in &self.queues {
            let live = queue.lists.iter().flat_map(Fifo::iter).filter(|entry| valid(&self.jobs, *entry)).count();
            must((live > 0) == queue.lined, "a queue with jobs stands in no lane, or an empty one does")?;
            let lane = self.tenants.get(queue.tenant as usize).and_then(|tenant| tenant.lanes.get(queue.band));
            if queue.lined {
                let entry =
                    lane.and_then(|lane| lane.get(queue.class)).ok_or("a queue's place in its lane is empty")?;
                must(entry.class == queue.class, "a queue's place in its lane belongs to another")?;
            }
        }
        let queued = self.jobs.iter().filter(|(_, job)| job.queued).count();
        let entries = self.queues.iter().flat_map(|queue| queue.lists.iter().flat_map(Fifo::iter));
        must(entries.filter(|entry| valid(&self.jobs, *entry)).count() == queued, "a waiting job has no entry, or two")
    }

    /// While a class is blocked, no open worker that it may see has room for it, unless that worker grew since; while it is
    /// hinted, none but the hinted ones.
    fn check_classes(&self) -> Result<(), Fault> {
        for (number, class) in self.classes.iter() {
            let queues = self.queues.iter().filter(|queue| queue.class == number && queue.lined).count();
            must(queues == class.queues as usize, "queues of a class are miscounted")?;
            let open = !class.is_blocked() && queues > 0;
            must(open == self.open_classes.has(number), "a class that may be placed is not open, or another is")?;
            if class.shape.gang.is_some() || !class.refused {
                continue;
            }
            let hints = &class.hints;
            for (_, worker) in self.workers.iter().filter(|(_, worker)| worker.place != NONE && !worker.grew) {
                let fits = class.fitting(&self.table.spot(worker.place), &self.requests).is_some();
                must(!fits || hints.contains(&worker.place), "a blocked class fits a worker")?;
            }
        }
        Ok(())
    }
}

fn tally(count: &mut Count, state: JobState, units: u64) {
    count.pending += if waits(state) { units } else { 0 };
    count.active += if state.is_terminal() { 0 } else { units };
}
