//! Workers come, open their streams and lose them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::{Code, Problem};
use orlop_core::id::{Incarnation, SessionId};
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::ports::fleet_store::{AttemptChange, Record, Worker};
use orlop_core::task::{CancelReason, TaskRef};
use orlop_scheduler::effect::{Effect, WorkerReason};
use orlop_scheduler::event::{Departure, Event, Kept};
use orlop_scheduler::token::WorkerKey;

use super::super::command::{Alive, Registration, Reply};
use super::super::commit::Release;
use super::super::error;
use super::super::live::{LiveWorker, Syncing};
use super::super::session::{Closing, Opened, Opening, Session, SessionFacts};
use super::Core;
use super::effects::ReportFields;
use crate::host::flow::fleet::WORKER;
use crate::wire::frame::{LiveAttempt, OutboxRange, Welcome, refs};
use crate::wire::identity::PeerCertificate;

/// When an agent may ask again that has a copy of the state directory of a connected one.
const COPY_AGAIN_MS: u64 = 10_000;

impl Core {
    pub(super) fn register(&mut self, registration: Registration, reply: Reply<Arc<Session>>) {
        let answer = self.registered(registration);
        self.writes.release(Release::reply(reply, answer));
    }

    fn registered(&mut self, mut registration: Registration) -> Result<Arc<Session>, Problem> {
        let id = registration.worker.clone();
        let known = self.scheduler.worker_key(&id).and_then(|key| Some((key, self.scheduler.worker_view(key)?.state)));
        // What the server has named stays named.
        let named = known.and_then(|(key, _)| Some(self.registry.workers.get(key)?.labels.contains_key(WORKER)));
        if named == Some(true) {
            let labels = &mut Arc::make_mut(&mut registration.capabilities).labels;
            labels.insert(WORKER.to_owned(), id.to_string());
        }
        let capabilities = Arc::clone(&registration.capabilities);
        let before = known.and_then(|(key, _)| self.registry.workers.get(key));
        let barred = before.filter(|live| live.barred).map(|live| live.drain_reason.clone());
        let key = match known.filter(|(_, state)| !state.is_terminal()) {
            None => self.declare(&registration)?,
            Some((key, WorkerState::Creating)) => key,
            Some((key, _)) => {
                let live = self.registry.workers.get(key);
                let same = live.is_some_and(|live| live.state_id == registration.state_id);
                let connected = live.is_some_and(|live| live.stream.is_some());
                let there = live.map_or("", |live| live.place.as_str());
                let copied = !there.is_empty() && !registration.place.is_empty() && there != registration.place;
                if same && copied && connected {
                    // One whose stream is dead is taken for silent soon; then this one may come.
                    let text = format!(
                        "worker `{id}` is connected from another state directory of which this one is a copy; start this agent \
                         with an empty directory (`--state DIR`) and another id (`--id NAME`)"
                    );
                    return Err(Problem::coded(Code::Conflict, text).retry_after(Duration::from_millis(COPY_AGAIN_MS)));
                }
                if same {
                    self.disconnect(key);
                    self.call_or(Event::Updated { worker: key, capabilities: Arc::clone(&capabilities) })?;
                    return Ok(self.new_session(key, &registration));
                }
                if connected {
                    let text =
                        format!("worker `{id}` is connected from another state directory; give this one another id");
                    return Err(Problem::coded(Code::Conflict, text));
                }
                self.call_or(Event::Remove { worker: key, why: Departure::Superseded })?;
                self.declare(&registration)?
            }
        };
        self.call_or(Event::Registered { worker: key, capabilities })?;
        if let Some(reason) = barred {
            self.call_or(Event::Cordon { worker: key })?;
            if let Some(live) = self.registry.workers.get_mut(key) {
                (live.barred, live.drain_reason) = (true, reason);
            }
        }
        Ok(self.new_session(key, &registration))
    }

    /// Makes the next incarnation of a worker known.
    fn declare(&mut self, registration: &Registration) -> Result<WorkerKey, Problem> {
        let id = registration.worker.clone();
        self.call_or(Event::WorkerDeclared { id: id.clone() })?;
        let key = self.scheduler.worker_key(&id).ok_or_else(|| error::not_found(&id))?;
        Ok(key)
    }

    fn new_session(&mut self, key: WorkerKey, registration: &Registration) -> Arc<Session> {
        let incarnation = self.scheduler.worker_view(key).map_or(1, |view| view.incarnation);
        let facts = SessionFacts {
            id: registration.session,
            worker: registration.worker.clone(),
            incarnation: Incarnation::new(incarnation).unwrap_or(Incarnation::FIRST),
            key,
            epoch: self.epoch,
        };
        let session = Arc::new(Session::new(facts, self.lease_ms));
        if let Some(live) = self.registry.workers.get_mut(key) {
            live.state_id.clone_from(&registration.state_id);
            live.place.clone_from(&registration.place);
            live.agent_version.clone_from(&registration.agent_version);
            live.labels.clone_from(&registration.capabilities.labels);
            live.registered_at = Some(self.wall);
            (live.stream, live.syncing, live.applied) = (None, None, 0);
        }
        if let Some(old) = self.registry.workers.set_session(key, Arc::clone(&session)) {
            self.writes.release(Release::Close(old, Closing::Replaced));
        }
        self.writes.workers.push(key);
        self.metrics.workers.registered.inc();
        session
    }

    /// A stream wants to open. What is on its way to the worker must be in its session before, so that it is not taken for
    /// lost: it waits for the batches that are not committed yet.
    pub(super) fn open(&mut self, opening: Opening, reply: Reply<Opened>) {
        if let Err(refused) = self.check_certificate(opening.hello.session(), opening.certificate.as_ref()) {
            self.writes.release(Release::reply(reply, Err(refused)));
            return;
        }
        if let Some(key) = self.registry.workers.by_session(opening.hello.session()) {
            self.disconnect(key);
        }
        self.openings.push((self.staged, opening, reply));
    }

    /// A session is its worker's: anyone who shows a certificate shows that one's.
    pub(super) fn check_certificate(
        &self,
        session: SessionId,
        certificate: Option<&PeerCertificate>,
    ) -> Result<(), Problem> {
        let key = self.registry.workers.by_session(session);
        let live = key.and_then(|key| self.registry.workers.get(key));
        match (live, certificate) {
            (Some(live), Some(certificate)) if !certificate.is_of(&live.id) => {
                Err(Problem::coded(Code::Forbidden, "the session is not that of the certificate's worker"))
            }
            _ => Ok(()),
        }
    }

    /// Opens the streams whose time has come: every batch before them is released.
    pub(super) fn open_streams(&mut self, released: u64) {
        let openings = std::mem::take(&mut self.openings);
        for (after, opening, reply) in openings {
            if after > released {
                self.openings.push((after, opening, reply));
                continue;
            }
            let answer = self.opened(&opening);
            self.writes.release(Release::Reply(Box::new(move || {
                let opened = answer.and_then(|(session, welcome)| {
                    let welcome = session.welcome(opening.stream, &opening.hello, welcome);
                    let welcome = welcome.map_err(|error| Problem::coded(Code::Precondition, error.to_string()))?;
                    Ok(Opened { session, stream: opening.stream, welcome })
                });
                // Who has gone away meanwhile needs no answer.
                drop(reply.send(opened));
            })));
        }
    }

    /// Whether a stream waits that can open now.
    pub(in super::super) fn may_open(&self, released: u64) -> bool {
        self.openings.iter().any(|(after, ..)| *after <= released)
    }

    fn opened(&mut self, opening: &Opening) -> Result<(Arc<Session>, Welcome), Problem> {
        let known = self.registry.workers.by_session(opening.hello.session());
        let live = known.and_then(|key| Some((key, self.registry.workers.get(key)?)));
        let Some((key, applied, session)) =
            live.and_then(|(key, live)| Some((key, live.applied, Arc::clone(live.session.as_ref()?))))
        else {
            return Err(Problem::coded(Code::Unauthenticated, "the session is over; register again"));
        };
        let hello = &opening.hello;
        if hello.highest_epoch > self.epoch.0 {
            return Err(error::not_leader(None));
        }
        let reported: BTreeSet<TaskRef> = hello.live.iter().map(LiveAttempt::attempt).collect();
        let on_the_way: BTreeSet<TaskRef> = session.undelivered(hello).into_iter().collect();
        let OutboxRange { first_seq, count } = hello.outbox.unwrap_or_default();
        let until = first_seq.saturating_add(count).saturating_sub(1);
        let spooled = count > 0 && until > applied;
        let held = self.scheduler.held_by(key).into_iter().filter(|attempt| !reported.contains(attempt));
        // What is not live there is still on its way, or may have ended in a frame that is still to come.
        let silent: BTreeSet<TaskRef> = held.filter(|attempt| spooled || on_the_way.contains(attempt)).collect();
        let mut kept = hello.kept();
        kept.extend(silent.iter().map(|attempt| {
            // One that was given up and ended meanwhile is adopted: its result is among what is spooled.
            let row = self.scheduler.attempt_row(*attempt, key).filter(|_| !on_the_way.contains(attempt));
            let started = row.is_some_and(|row| row.lost || row.started_at.is_some());
            Kept { attempt: *attempt, started }
        }));
        self.call_or_keep(Event::Connected { worker: key, kept })?;
        let mut opened = Welcome::default();
        let mut keep: BTreeSet<TaskRef> = BTreeSet::new();
        for attempt in &reported {
            match self.verdict_of(*attempt).unwrap_or(ReportVerdict::Unknown) {
                ReportVerdict::Accepted | ReportVerdict::Adopted => {
                    keep.insert(*attempt);
                }
                ReportVerdict::Duplicate => opened.settled.push((*attempt).into()),
                ReportVerdict::Unknown | ReportVerdict::Stale => opened.kill.push((*attempt).into()),
            }
        }
        self.keep_adopted();
        let is_reported = |effect: &Effect| {
            matches!(effect, Effect::Cancel { attempt, why: CancelReason::Stale, .. }
                if reported.contains(attempt) || silent.contains(attempt))
        };
        self.effects.retain(|effect| !is_reported(effect));
        self.absorb(&ReportFields::default());
        for attempt in hello.live.iter().map(LiveAttempt::attempt).filter(|attempt| keep.contains(attempt)) {
            self.apply(Event::Accepted { attempt, worker: key }, &ReportFields::default());
        }
        opened.keep = refs(keep);
        self.writes.applied = true;
        if let Some(live) = self.registry.workers.get_mut(key) {
            live.stream = Some(opening.stream);
            let missing = silent.difference(&on_the_way).copied().collect();
            live.syncing = spooled.then_some(Syncing { until, missing });
        }
        self.writes.workers.push(key);
        self.publish_worker("worker.connected", key);
        if hello.last_server_seq > 0 || !hello.live.is_empty() || applied > 0 {
            self.metrics.workers.reconnects.of([session.facts().worker.as_str()]).inc();
        }
        Ok((session, opened))
    }

    /// Writes down which attempts that were given up run after all.
    fn keep_adopted(&mut self) {
        let adopted = self.effects.iter().filter_map(|effect| match effect {
            Effect::Verdict { attempt, verdict: ReportVerdict::Adopted } => Some(*attempt),
            _ => None,
        });
        let running = adopted.map(|id| Record::Attempt(Box::new(AttemptChange::new(id, AttemptState::Running))));
        self.writes.records.extend(running);
    }

    /// A stream ended.
    pub(super) fn closed(&mut self, session: SessionId, stream: u64) {
        let Some(key) = self.registry.workers.by_session(session) else { return };
        // A second stream of the session has closed this one, and is up.
        if self.registry.workers.get(key).is_some_and(|live| live.stream == Some(stream)) {
            self.disconnect(key);
        }
    }

    /// A sign of life while no stream is up.
    pub(super) fn alive(
        &mut self,
        session: SessionId,
        healthy: Option<bool>,
        certificate: Option<&PeerCertificate>,
        reply: Reply<Alive>,
    ) {
        let over = || Problem::coded(Code::Unauthenticated, "the session is over; register again");
        let checked = self.check_certificate(session, certificate);
        let answer = match self.registry.workers.by_session(session) {
            Some(key) => checked.map(|()| {
                self.apply(Event::Heartbeat { worker: key }, &ReportFields::default());
                if let Some(live) = self.registry.workers.get(key) {
                    self.metrics.workers.heartbeats.of([live.id.as_str()]).inc();
                }
                self.publish_heartbeat(key);
                if let Some(good) = healthy {
                    self.apply(Event::HealthReport { worker: key, good }, &ReportFields::default());
                }
                key
            }),
            None => Err(over()),
        };
        let known = |key| {
            let live = self.registry.workers.get(key)?;
            Some(Alive { worker: live.id.clone(), given_up: self.scheduler.is_given_up(key) })
        };
        let answer = answer.and_then(|key| known(key).ok_or_else(over));
        self.writes.release(Release::reply(reply, answer));
    }

    /// The stream of a worker is down, if one was up.
    fn disconnect(&mut self, key: WorkerKey) {
        let Some(live) = self.registry.workers.get_mut(key) else { return };
        live.syncing = None;
        if live.stream.take().is_some() {
            self.publish_worker("worker.disconnected", key);
            self.apply(Event::ConnectionLost { worker: key }, &ReportFields::default());
            self.writes.applied = true;
        }
    }

    /// A worker is in a new state.
    pub(super) fn worker_changed(&mut self, key: WorkerKey, to: WorkerState, reason: WorkerReason) {
        let (wall, view) = (self.wall, self.scheduler.worker_view(key));
        if self.registry.workers.get(key).is_none() {
            let Some(view) = view else { return };
            let live = LiveWorker::declared(view.id, view.incarnation, wall);
            self.registry.workers.insert(key, live);
        }
        if let Some(live) = self.registry.workers.get_mut(key) {
            live.since = wall;
            live.reason = reason.word().to_owned();
        }
        self.writes.workers.push(key);
        if to.is_terminal() {
            self.departed.push(key);
        }
        if reason == WorkerReason::Silent {
            self.hang_up(key);
        }
    }

    /// To the core a worker that was silent is gone until it comes back and says what it has: a stream that is still there,
    /// and on which it may be heard again, would hold both up.
    fn hang_up(&mut self, key: WorkerKey) {
        let Some(live) = self.registry.workers.get_mut(key) else { return };
        let (Some(stream), Some(session)) = (live.stream.take(), live.session.clone()) else { return };
        live.syncing = None;
        self.publish_worker("worker.disconnected", key);
        self.writes.release(Release::Reply(Box::new(move || session.hang_up(stream))));
    }

    /// Writes the documents of workers that changed, and ends the sessions of those that left.
    pub(super) fn flush_workers(&mut self) {
        let mut keys = std::mem::take(&mut self.writes.workers);
        keys.sort_unstable();
        keys.dedup();
        for key in &keys {
            let Some(document) = self.worker_document(*key) else { continue };
            match Record::put(&document) {
                Ok(record) => self.writes.records.push(record),
                Err(error) => tracing::error!(target: "orlop::scheduler", %key, %error, "a worker cannot be written"),
            }
        }
        keys.clear();
        self.writes.workers = keys;
    }

    /// Ends the sessions of workers that left; their last frames go out before.
    pub(super) fn end_departed(&mut self) {
        for key in std::mem::take(&mut self.departed) {
            if let Some(session) = self.registry.workers.end_session(key) {
                self.writes.release(Release::Close(session, Closing::Gone));
            }
        }
    }

    fn worker_document(&self, key: WorkerKey) -> Option<Worker> {
        let (row, live) = (self.scheduler.worker_row(key)?, self.registry.workers.get(key)?);
        let incarnation = Incarnation::new(live.incarnation).ok()?;
        let capabilities = serde_json::to_value(&*row.capabilities).ok()?;
        let drain = row.drain.map(|order| {
            let deadline = order.deadline.map(|at| self.wall_of(at));
            let reason = &live.drain_reason;
            serde_json::json!({ "deadline": deadline, "host_shutdown": order.host_shutdown, "reason": reason })
        });
        Some(Worker {
            reason: live.reason.clone(),
            capabilities,
            labels: live.labels.clone(),
            tenants: row.capabilities.tenants.iter().cloned().collect(),
            cordoned: row.cordoned,
            drain,
            session: live.session.as_ref().map(|session| session.id()),
            state_id: live.state_id.clone(),
            agent_version: live.agent_version.clone(),
            registered_at: live.registered_at,
            last_seen_at: Some(self.wall),
            barred: live.barred,
            ..Worker::new(live.id.clone(), incarnation, row.state, live.since)
        })
    }
}

impl LiveWorker {
    /// An incarnation of which only the name is known.
    pub(super) fn declared(id: orlop_core::id::WorkerId, incarnation: u32, since: orlop_core::time::Time) -> Self {
        Self {
            id,
            incarnation,
            state_id: String::new(),
            place: String::new(),
            agent_version: String::new(),
            registered_at: None,
            since,
            reason: String::new(),
            drain_reason: String::new(),
            barred: false,
            labels: BTreeMap::new(),
            session: None,
            stream: None,
            syncing: None,
            out: super::super::session::Batch::default(),
            applied: 0,
            status: None,
        }
    }
}
