//! Tasks that avoid a worker. A worker that failed a task is not tried again for it while any other schedulable worker could
//! hold it by its total, however full those are. Such a task is held back outside its queue while the avoided worker has
//! room and the others have none, so that the tasks behind it may use that worker.

use std::collections::{BTreeMap, BTreeSet};

use super::Scheduler;
use super::record::{Life, Task};
use crate::class::Class;
use crate::fleet::kind::Kind;
use crate::job::Gang;
use crate::queue::LaneEntry;
use crate::table::NONE;
use crate::token::WorkerKey;

/// A queue and the worker that tasks of it avoid.
pub(super) type Avoiding = (u32, WorkerKey);

/// Tasks that are held back: priority step, job id, task. The first one started first before.
pub(super) type HeldBack = BTreeSet<(u8, u64, Task)>;

/// How many tasks return to a queue at once where no worker has room for any of them.
const MOST_RETURNED: usize = 1024;

impl Scheduler {
    /// The worker that a task must not get now; `NONE` if there is none, or if no other worker could hold it.
    pub(super) fn shunned(&self, task: Task) -> u32 {
        let avoided = self.life(task).map_or(NONE, |life| self.avoided(&life));
        if avoided == NONE || !self.could_hold_elsewhere(self.class_of(task.job), avoided) {
            return NONE;
        }
        avoided
    }

    /// Whether a class could be held by schedulable workers other than one, by their totals. Cost: constant where the first
    /// workers could, else linear in workers.
    pub(super) fn could_hold_elsewhere(&self, number: u32, but: u32) -> bool {
        let Some(class) = self.classes.get(number) else { return false };
        let total = |place: u32, dim: usize| self.table.total(dim, place);
        self.room_without(class, but, &total) >= u64::from(class.shape.gang.as_ref().map_or(1, |gang| gang.size))
    }

    /// How many attempts of a class workers other than one have room for, as `amount` counts what a place has; of a gang the
    /// members that one group of workers holds. Counts no further than needed.
    fn room_without(&self, class: &Class, but: u32, amount: &dyn Fn(u32, usize) -> i32) -> u64 {
        let gang = class.shape.gang.as_ref();
        let size = gang.map_or(1, |gang| u64::from(gang.size));
        let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, worker) in self.workers.iter().filter(|(number, _)| *number != but) {
            let kind = self.table.kind(worker.place);
            let takes = worker.state.is_schedulable() && !worker.cordoned && worker.drain.is_none();
            if !takes || worker.place == NONE || !class.sees(kind) {
                continue;
            }
            let Some(group) = group_of(gang, self.kinds.get(kind)) else { continue };
            let times = class.requests.iter().filter_map(|request| self.requests.get(*request)).map(|request| {
                let times = |(dim, need): &(u8, i32)| amount(worker.place, usize::from(*dim)) / (*need).max(1);
                request.need.iter().map(times).min().unwrap_or(0).max(0)
            });
            let most = gang.and_then(|gang| gang.max_per_worker).unwrap_or(u32::MAX);
            let times = u64::try_from(times.max().unwrap_or(0)).unwrap_or(0).min(u64::from(most));
            let sum = groups.entry(group).or_default();
            *sum += times;
            if *sum >= size {
                return *sum;
            }
        }
        0
    }

    /// Takes a task out of its queue until another worker has room for it.
    pub(super) fn hold_back(&mut self, queue: u32, task: Task) {
        let Some(life) = self.life(task) else { return };
        let Some((key, place)) = self.held_place(task, &life) else { return };
        debug_assert_eq!(key.0, queue, "it stands in its own queue");
        self.held_back.entry(key).or_default().insert(place);
        self.unqueue(task);
        self.refresh_head(queue);
        self.await_reservation();
    }

    /// Jobs of which all that waits is held back, arrays counting as one, by their queues.
    pub(super) fn held_jobs(&self) -> BTreeMap<u32, u64> {
        let units =
            self.held_back.iter().flat_map(|((queue, _), held)| held.iter().map(|(.., task)| (*queue, task.job)));
        let jobs: BTreeSet<(u32, u32)> = units.collect();
        let mut counts = BTreeMap::new();
        for (queue, _) in jobs.into_iter().filter(|(_, job)| self.jobs.get(*job).is_some_and(|job| !job.queued)) {
            *counts.entry(queue).or_default() += 1;
        }
        counts
    }

    /// All tasks of a tenant that are held back.
    pub(super) fn held_units(&self, tenant: u32) -> Vec<Task> {
        let own = |queue: u32| self.queues.get(queue as usize).is_some_and(|queue| queue.tenant == tenant);
        let held = self.held_back.iter().filter(|((queue, _), _)| own(*queue));
        held.flat_map(|(_, held)| held.iter().map(|(.., task)| *task)).collect()
    }

    /// The first task of a job that is held back.
    pub(super) fn held_task(&self, job: u32) -> Option<Task> {
        if self.held_back.is_empty() {
            return None;
        }
        let record = self.jobs.get(job)?;
        let number = self.specs.get(record.spec as usize)?.queue;
        let (step, id) = self.key_of_job(record);
        let place = |index: u32| (step, id, Task { job, index });
        let own = self.held_back.iter().filter(|((queue, _), _)| *queue == number);
        own.filter_map(|(_, held)| held.range(place(0)..=place(u32::MAX)).next()).map(|(.., task)| *task).min()
    }

    /// Where the first of those that are held back stand in a band of a tenant, by queue and the worker that they avoid. Cost:
    /// linear in these, and in elements of arrays whose window is full.
    pub(super) fn held_lines(&self, tenant: u32, band: usize) -> impl Iterator<Item = LaneEntry> {
        let full = |job: u32| {
            let array = self.jobs.get(job).and_then(|job| self.array_of(job));
            array.is_some_and(|array| array.running >= array.max_parallel)
        };
        self.held_back.iter().filter_map(move |((number, _), held)| {
            let queue =
                self.queues.get(*number as usize).filter(|queue| (queue.tenant, queue.band) == (tenant, band))?;
            let (step, id, _) = held.iter().find(|(.., task)| !full(task.job))?;
            Some(LaneEntry { class: queue.class, queue: *number, key: (*step, *id), stopped: false })
        })
    }

    /// The window of an array has room of which no element waits in its queue: what is held back of it may come first.
    pub(super) fn window_opens(&mut self, slot: u32) {
        let Some(job) = self.jobs.get(slot).filter(|_| self.held_task(slot).is_some()) else { return };
        let (key, Some(spec)) = (self.key_of_job(job), self.specs.get(job.spec as usize)) else { return };
        let Some(queue) = self.queues.get(spec.queue as usize) else { return };
        self.pass_quota_reservations(queue.tenant, spec.queue, queue.band, key);
    }

    /// Where a task stands among those that are held back.
    fn held_place(&self, task: Task, life: &Life) -> Option<(Avoiding, (u8, u64, Task))> {
        let job = self.jobs.get(task.job)?;
        let (queue, (step, id)) = (self.specs.get(job.spec as usize)?.queue, self.key_of_job(job));
        Some(((queue, life.avoid), (step, id, task)))
    }

    /// Whether a task is held back.
    pub(super) fn is_held_back(&self, task: Task) -> bool {
        if self.held_back.is_empty() {
            return false;
        }
        let place = self.life(task).and_then(|life| self.held_place(task, &life));
        place.is_some_and(|(key, place)| self.held_back.get(&key).is_some_and(|held| held.contains(&place)))
    }

    /// A task is held back no more: it leaves Queued, or returns to its queue.
    pub(super) fn release_held(&mut self, task: Task) {
        if self.held_back.is_empty() {
            return;
        }
        let Some((key, place)) = self.life(task).and_then(|life| self.held_place(task, &life)) else { return };
        let Some(held) = self.held_back.get_mut(&key) else { return };
        held.remove(&place);
        if held.is_empty() {
            self.held_back.remove(&key);
        }
        self.note_queue(key.0);
    }

    /// Brings tasks back into their queues: as many as other workers have room for now, and the first where no worker has, so
    /// that they may have reservations and slots ahead. Cost: nothing while no task is held back, else linear in workers by queue and avoided worker.
    pub(super) fn release_fitting(&mut self) {
        if self.held_back.is_empty() {
            return;
        }
        let keys: Vec<Avoiding> = self.held_back.keys().copied().collect();
        for key in keys {
            let stopped = self.is_stopped(key);
            // Whom limits stop waits for these in its line, and is to be reserved for.
            if let Some(queue) = self.queues.get(key.0 as usize).filter(|_| stopped) {
                self.watch(queue.tenant, queue.band);
            }
            let most = if stopped { MOST_RETURNED } else { self.releasable(key) };
            let units = self.held_back.get(&key).into_iter().flatten().take(most).map(|(.., task)| *task);
            for task in units.collect::<Vec<_>>() {
                self.bring_back(task);
            }
        }
    }

    /// Whether the limits of their tenant stop the first of the tasks of a queue that avoid a worker.
    fn is_stopped(&self, key: Avoiding) -> bool {
        let first = self.held_back.get(&key).and_then(HeldBack::first);
        let (Some((step, id, _)), Some(queue)) = (first, self.queues.get(key.0 as usize)) else { return false };
        let Some(class) = self.classes.get(queue.class) else { return false };
        let members = class.shape.gang.as_ref().map_or(1, |gang| gang.size);
        self.room(queue.tenant, (*step, *id), &class.requests, members, &mut Vec::new()) == 0
    }

    /// How many tasks of a queue that avoid a worker may return to it now.
    fn releasable(&self, (queue, avoided): Avoiding) -> usize {
        let Some(number) = self.queues.get(queue as usize).map(|queue| queue.class) else { return usize::MAX };
        let Some(class) = self.classes.get(number) else { return usize::MAX };
        let avoided = self.worker_at(avoided).unwrap_or(NONE);
        if avoided == NONE || !self.could_hold_elsewhere(number, avoided) {
            return usize::MAX;
        }
        if let Some(gang) = &class.shape.gang {
            // Gangs are few: whether one fits elsewhere is found out in its turn.
            let open = |place: u32, dim: usize| if self.table.is_open(place) { self.table.free(dim, place) } else { 0 };
            let fits = |but: u32| self.room_without(class, but, &open) >= u64::from(gang.size);
            return usize::from(fits(avoided) || !fits(NONE));
        }
        let hosts = |place: u32| {
            let spot = self.table.spot(place);
            let vectors = class.requests.iter().filter_map(|request| self.requests.get(*request));
            let times = vectors.map(|request| self.table.hosts(place, &request.need)).max();
            if class.fits(&spot, &self.requests) { times.unwrap_or(0) as usize } else { 0 }
        };
        let others = self.workers.iter().filter(|(number, worker)| *number != avoided && worker.place != NONE);
        let room = others.fold(0_usize, |sum, (_, worker)| sum.saturating_add(hosts(worker.place)));
        let place = self.workers.get(avoided).map_or(NONE, |worker| worker.place);
        let shut = place == NONE || hosts(place) == 0;
        if room == 0 && shut { MOST_RETURNED } else { room }
    }

    /// Puts a task that is held back into its queue.
    pub(super) fn bring_back(&mut self, task: Task) {
        self.release_held(task);
        if let Some(array) = self.array_mut(task.job) {
            array.ready.insert(task.index, task.index, ());
        }
        self.line_up(task.job);
        self.restamp(task.job);
    }
}

/// The group of workers that a worker of a kind belongs to for a gang; none if it lacks the label.
pub(super) fn group_of<'a>(gang: Option<&Gang>, kind: Option<&'a Kind>) -> Option<&'a str> {
    match gang.and_then(|gang| gang.same_label.as_deref()) {
        None => Some(""),
        Some(label) => kind?.labels.get(label).map(String::as_str),
    }
}
