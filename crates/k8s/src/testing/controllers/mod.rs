//! The controllers of a cluster, played: Jobs, Deployments and their pods, garbage, namespaces, nodes. They see changes through
//! the log like real ones, but act only when told to. Time is the server's clock.

mod claim;
mod collect;
mod deployment;
mod handle;
mod index;
mod job;
mod namespace;
mod node;
mod pod;
mod schedule;

use std::collections::{BTreeMap, BTreeSet};

use super::object::{Object, meta, text};
use super::state::State;
use super::store::Change;
pub use handle::ControllersHandle;
use index::Index;
pub(crate) use node::{evict, lose_node, remove_node};

/// What a controller has to come back to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Job(String),
    /// A pod, by key and uid, whose next step is due.
    Pod(String, String),
}

/// The tables that controllers look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) jobs: usize,
    pub(crate) pods: usize,
    pub(crate) namespaces: usize,
    pub(crate) nodes: usize,
    pub(crate) claims: usize,
    pub(crate) deployments: usize,
}

/// What the controllers know between their turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Controllers {
    seen: u64,
    index: Index,
    jobs: BTreeSet<String>,
    deployments: BTreeSet<String>,
    pods: BTreeSet<String>,
    /// Pods that no node takes: looked at again when there is more room.
    unplaced: BTreeSet<String>,
    /// Objects whose owners, dependents or finalizers have to be looked at.
    garbage: BTreeSet<(usize, String)>,
    /// Uids of objects that are gone and had dependents.
    orphaned: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    timers: BTreeMap<(i64, u64), Timer>,
    sequence: u64,
    plays: pod::Plays,
    backoffs: job::Backoffs,
    /// How pods run that do not say how.
    pub(crate) habits: PodHabits,
}

/// How pods run that do not say how by annotation.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PodHabits {
    /// Milliseconds between binding and running.
    pub start: i64,
    /// Milliseconds of running.
    pub run: i64,
    /// Milliseconds before the first restart in place; doubles with each, up to a minute.
    pub backoff: i64,
}

impl Default for PodHabits {
    /// Everything happens at once; restarts wait for a second.
    fn default() -> Self {
        Self { start: 0, run: 0, backoff: 1000 }
    }
}

impl Tables {
    fn of(state: &State) -> Option<Self> {
        Some(Self {
            jobs: state.table_named("batch", "jobs")?,
            pods: state.table_named("", "pods")?,
            namespaces: state.table_named("", "namespaces")?,
            nodes: state.table_named("", "nodes")?,
            claims: state.table_named("", "persistentvolumeclaims")?,
            deployments: state.table_named("apps", "deployments")?,
        })
    }
}

/// Lets the controllers act until none has anything to do at this moment. Returns how many turns they took.
pub(crate) fn settle(state: &mut State) -> usize {
    let mut turns = 0;
    while step(state) {
        turns += 1;
    }
    turns
}

/// Lets one controller take one turn; false where none has anything to do at this moment.
pub(crate) fn step(state: &mut State) -> bool {
    let Some(tables) = Tables::of(state) else { return false };
    let mut controllers = std::mem::take(&mut state.controllers);
    controllers.absorb(state, tables);
    controllers.ring(state.now());
    let acted = controllers.turn(state, tables);
    state.controllers = controllers;
    acted
}

/// When the controllers have something to do next, in milliseconds since 1970.
pub(crate) fn next_due(state: &State) -> Option<i64> {
    state.controllers.timers.keys().next().map(|(time, _)| *time)
}

impl Controllers {
    /// Takes notice of what changed since the last turn.
    fn absorb(&mut self, state: &State, tables: Tables) {
        if state.tables.iter().any(|table| table.floor() > self.seen) {
            // History was forgotten: start over with what is there.
            self.index = Index::default();
            for (number, table) in state.tables.iter().enumerate() {
                for stored in table.all() {
                    self.notice(tables, number, &super::store::key_of(&stored.object), None, Some(&stored.object));
                }
            }
            self.seen = state.revision;
            return;
        }
        for (number, table) in state.tables.iter().enumerate() {
            for event in table.since(self.seen) {
                let before = event.previous.as_ref().map(|previous| &previous.object);
                let after = (event.change != Change::Deleted).then_some(&event.object.object);
                self.notice(tables, number, &event.key, before, after);
            }
        }
        self.seen = state.revision;
    }

    fn notice(&mut self, tables: Tables, table: usize, key: &str, before: Option<&Object>, after: Option<&Object>) {
        self.index.update(table, key, before, after);
        if table == tables.jobs {
            self.jobs.insert(key.to_owned());
            if let Some(gone) = before.filter(|_| after.is_none()) {
                // Nobody counts its pods any more.
                let pods = self.index.dependents(meta(gone, "uid"));
                self.pods.extend(pods.into_iter().filter(|(table, _)| *table == tables.pods).map(|(_, key)| key));
            }
        }
        if table == tables.pods {
            self.pods.insert(key.to_owned());
            let pod = after.or(before);
            let place = |name: &str| pod.map(|pod| super::store::key(meta(pod, "namespace"), name)).unwrap_or_default();
            self.garbage.extend(pod.into_iter().flat_map(claim::claims).map(|name| (tables.claims, place(name))));
            self.jobs.extend(after.or(before).and_then(job::key_of_owner));
            self.deployments.extend(after.or(before).and_then(deployment::key_of_owner));
            let ended = |pod: &Object| matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
            if after.is_none_or(ended) {
                self.pods.append(&mut self.unplaced);
            }
        }
        if table == tables.deployments {
            self.deployments.insert(key.to_owned());
        }
        if table == tables.nodes {
            self.pods.append(&mut self.unplaced);
        }
        if table == tables.namespaces {
            self.namespaces.insert(key.to_owned());
        } else if let Some(before) = before.filter(|_| after.is_none()) {
            // A namespace that goes waits for its objects to go.
            self.namespaces.insert(meta(before, "namespace").to_owned());
        }
        if collect::concerns(before, after) {
            self.garbage.insert((table, key.to_owned()));
        }
        if let Some(gone) = before.filter(|_| after.is_none()) {
            let uid = meta(gone, "uid");
            if self.index.has_dependents(uid) {
                self.orphaned.insert(uid.to_owned());
            }
            self.garbage.extend(collect::owners_waiting(gone, &self.index));
        }
    }

    /// Makes what is due known to who waits for it.
    fn ring(&mut self, now: i64) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                return;
            }
            match entry.remove() {
                Timer::Job(key) => {
                    self.jobs.insert(key);
                }
                Timer::Pod(key, uid) => {
                    self.plays.ring(&uid);
                    self.pods.insert(key);
                }
            }
        }
    }

    fn after(&mut self, time: i64, timer: Timer) {
        self.sequence += 1;
        self.timers.insert((time, self.sequence), timer);
    }

    /// One turn of the first controller that has something to do. Pods come before Jobs, as a Job looks at its pods.
    fn turn(&mut self, state: &mut State, tables: Tables) -> bool {
        if let Some(key) = self.pods.pop_first() {
            self.play(state, tables, &key);
        } else if let Some(key) = self.jobs.pop_first() {
            self.sync_job(state, tables, &key);
        } else if let Some(key) = self.deployments.pop_first() {
            self.sync_deployment(state, tables, &key);
        } else if let Some(uid) = self.orphaned.pop_first() {
            self.garbage.extend(self.index.dependents(&uid));
        } else if let Some((table, key)) = self.garbage.pop_first() {
            self.collect(state, tables, table, &key);
        } else if let Some(name) = self.namespaces.pop_first() {
            namespace::sync(state, tables, &name);
        } else {
            return false;
        }
        true
    }
}
