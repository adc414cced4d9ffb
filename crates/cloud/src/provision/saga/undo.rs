//! Removing what was made: listing, deleting in order, waiting until it is gone, and watching for what may still show up. Owns
//! the rule that nothing counts as gone before a listing says so, and that nothing of another deployment is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orlop_core::machine::lease::LeaseState;
use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::time::Time;

use super::state::{Phase, Then, Undo};
use super::{Answer, Inventory, Saga};
use crate::exit::Exit;
use crate::provision::journal::{Entry, Kind};

/// How long removing may take.
const BUDGET: Duration = Duration::from_secs(900);
/// Between two listings while something goes away.
const LOOK: Duration = Duration::from_secs(5);
/// After so long a deletion is asked for again.
const REPEAT: Duration = Duration::from_secs(60);
/// A server that stays longer does not hold up the rest.
const PATIENCE: Duration = Duration::from_secs(600);
/// What nobody saw may show so long after it was asked for.
const LATE: Duration = Duration::from_secs(150);
/// Between the two listings that have to be empty.
const APART: Duration = Duration::from_secs(60);

impl Saga {
    pub(super) fn begin_undo(&mut self, kinds: &[Kind], then: Then, now: Time) {
        let mut devices = BTreeSet::new();
        if kinds.contains(&Kind::Port) {
            devices.extend(self.id_of(Kind::Server).map(str::to_owned));
        }
        let undo = Undo {
            at: self.state(),
            kinds: kinds.iter().copied().collect(),
            devices,
            then,
            since: now,
            asked: BTreeMap::new(),
            empty: None,
            found: Vec::new(),
            last_failure: None,
            missed: 0,
        };
        self.ask_now(Phase::UndoList(Box::new(undo)), now);
    }

    /// Watches, behind a machine that is there, for what nobody saw being made: a second one is removed.
    pub(super) fn watch(&mut self, now: Time) {
        let kinds = self.watched();
        if kinds.is_empty() { self.close() } else { self.begin_undo(&kinds, Then::Watched, now) }
    }

    /// Kinds of what may still show up beside a machine that is there.
    pub(super) fn watched(&self) -> Vec<Kind> {
        let has_machine = self.is_good() || matches!(self.state(), SagaState::Unreachable | SagaState::Mismatch);
        // There can be only one key of a name.
        let kinds = self.sweeps.iter().map(|(kind, _, _)| *kind).filter(|kind| *kind != Kind::Key);
        if has_machine { kinds.collect() } else { Vec::new() }
    }

    /// Until when it is watched for what nobody saw being made, if it is.
    #[must_use]
    pub fn watches_until(&self) -> Option<Time> {
        self.state.undo().filter(|undo| undo.then == Then::Watched)?;
        self.sweeps.iter().map(|(_, _, asked)| asked.plus(LATE).plus(APART)).max()
    }

    /// What of an inventory is to go: kind, id, words.
    fn unwanted(&self, all: &Inventory, undo: &Undo) -> Vec<(Kind, String, String)> {
        let marks = self.order.id.marks();
        let only_extra = undo.then == Then::Watched;
        let known = |kind: Kind, id: &str| self.id_of(kind) == Some(id);
        let is_extra = |kind: Kind, id: &str| !only_extra || !known(kind, id);
        let mut found: Vec<(Kind, String, String)> = Vec::new();
        let mut add = |kind: Kind, id: &str, words: String| {
            if undo.kinds.contains(&kind) && is_extra(kind, id) {
                found.push((kind, id.to_owned(), words));
            }
        };
        for one in &all.addresses {
            let reserved = one.tags.iter().any(|tag| tag.starts_with("reservation:"));
            if marks.address_attempt(one).is_some() || known(Kind::Address, &one.id) && !reserved {
                add(Kind::Address, &one.id, one.address.clone());
            }
        }
        for one in &all.servers {
            if marks.owns_server(one) || known(Kind::Server, &one.id) {
                add(Kind::Server, &one.id, one.name.clone());
            }
        }
        for one in &all.ports {
            let has_server = all.servers.iter().any(|server| server.id == one.device);
            if undo.devices.contains(&one.device) && !has_server && !all.failed_for(Kind::Server) {
                add(Kind::Port, &one.id, one.addresses.join(", "));
            }
        }
        for one in &all.groups {
            if marks.owns_group(one) || known(Kind::Group, &one.id) {
                add(Kind::Group, &one.id, one.name.clone());
            }
        }
        for one in &all.leases {
            let named = marks.lease_attempt(&one.name).is_some() || self.is_given_lease(one);
            if (named || known(Kind::Lease, &one.id)) && one.status != Some(LeaseState::Gone) {
                let until = one.end.map_or_else(|| one.name.clone(), |end| format!("until {end}"));
                add(Kind::Lease, &one.id, until);
            }
        }
        if let Some(pair) = &all.key
            && !only_extra
            && (pair.name == marks.key_name() || self.order.key.public_key.as_ref().is_some_and(|key| pair.is(key)))
        {
            add(Kind::Key, &pair.name, pair.fingerprint.clone());
        }
        found.sort_by_key(|(kind, id, _)| (*kind, id.clone()));
        found
    }

    /// Whether a lease has the name that the user gave, was made since this deployment began, and is ours by all that is known.
    fn is_given_lease(&self, lease: &crate::openstack::port::Lease) -> bool {
        let may_be = self
            .sweeps
            .iter()
            .any(|(kind, mark, _)| *kind == Kind::Lease && self.order.lease_name(*mark) == lease.name);
        let young = self.is_since(lease, self.born);
        // Whatever was tried: any of the choices may have been.
        let fits = self.order.choices.is_empty() || self.order.choices.iter().any(|choice| choice.may_be(lease));
        let is_named = self.order.lease_name.is_some() && may_be;
        is_named && young && fits && lease.project_id == self.order.project_id
    }

    pub(super) fn on_undo_list(&mut self, mut undo: Box<Undo>, all: &Inventory, now: Time) {
        undo.devices.extend(
            all.servers
                .iter()
                .filter(|server| self.order.id.marks().owns_server(server))
                .map(|server| server.id.clone()),
        );
        undo.found = self.unwanted(all, &undo);
        undo.last_failure = all.failed.first().map(ToString::to_string).or(undo.last_failure.take());
        self.note_gone(&undo, all);
        let is_spent = now.since(undo.since) >= BUDGET;
        if undo.found.is_empty() && all.failed.is_empty() {
            let has_key = undo.kinds.contains(&Kind::Key) && undo.then != Then::Watched && self.owned_key().is_some();
            undo.missed += 1;
            // A keypair is not in a list: one look that does not find it may have met a liar.
            if has_key && undo.missed < 2 {
                return self.ask_in(Phase::UndoList(undo), now, Duration::from_secs(1));
            }
            return self.nothing_listed(undo, now);
        }
        undo.missed = 0;
        undo.empty = None;
        if is_spent {
            return self.spent(&undo, now);
        }
        let Some((kind, id)) = undo.next_deletion(now) else {
            return self.ask_in(Phase::UndoList(undo), now, LOOK);
        };
        if undo.asked.insert((kind, id.clone()), now).is_none() {
            self.record(Entry::UndoIntent { object: kind, id: id.clone() });
        }
        self.ask_now(Phase::UndoDelete(undo, kind, id), now);
    }

    /// Writes down what was asked to go and is not listed any more.
    fn note_gone(&mut self, undo: &Undo, all: &Inventory) {
        for kind in &undo.kinds {
            if all.failed_for(*kind) {
                continue;
            }
            let gone: Vec<String> = undo
                .asked
                .keys()
                .filter(|(asked, id)| asked == kind && !undo.found.iter().any(|(_, other, _)| other == id))
                .map(|(_, id)| id.clone())
                .collect();
            for id in gone {
                self.forget(*kind, &id);
            }
        }
    }

    /// An object is gone.
    fn forget(&mut self, kind: Kind, id: &str) {
        let slot = self.slot(kind);
        if slot.id.as_deref() == Some(id) {
            *slot = super::Slot::default();
            self.record(Entry::UndoDone { object: kind, id: id.to_owned() });
        }
    }

    pub(super) fn on_undo_delete(&mut self, mut undo: Box<Undo>, answer: &Answer, now: Time) {
        if let Answer::Failed(error) = answer
            && !error.is_gone()
        {
            undo.last_failure = Some(error.to_string());
        }
        // What a listing says counts, not this answer. Much is gone at once; the rest is looked for less often.
        self.ask_in(Phase::UndoList(undo), now, Duration::from_secs(1));
    }

    /// Nothing is listed: it is over, unless something may still show.
    fn nothing_listed(&mut self, mut undo: Box<Undo>, now: Time) {
        let of_these = self.sweeps.iter().filter(|(kind, ..)| undo.kinds.contains(kind));
        // Another attempt goes on: what shows up late is removed before the end.
        if let Some(first_allowed) = of_these.map(|(_, _, asked)| asked.plus(LATE)).max()
            && matches!(undo.then, Then::Turn(Turn::AllGone) | Then::Watched)
        {
            if now < first_allowed {
                undo.empty = None;
                return self.ask_at(Phase::UndoList(undo), first_allowed);
            }
            let second = undo.empty.get_or_insert(now).plus(APART);
            if now < second {
                return self.ask_at(Phase::UndoList(undo), second);
            }
            self.sweeps.retain(|(kind, ..)| !undo.kinds.contains(kind));
        }
        for kind in undo.kinds.iter().filter(|_| undo.then != Then::Watched) {
            if let Some(id) = self.id_of(*kind).map(str::to_owned) {
                self.forget(*kind, &id);
            }
            self.slot(*kind).open = None;
        }
        match undo.then {
            Then::Turn(turn) => self.turn(turn, now),
            Then::HostRetry => self.host_retry(now),
            Then::Watched => self.close(),
        }
    }

    /// What people need to know of something that is left: where, until when, at which price.
    fn leftover(&self, kind: Kind, words: &str) -> String {
        let choice = self.choice();
        let rate = choice.filter(|_| kind == Kind::Lease).map(|choice| {
            let milli_su = choice.su_milli.div_ceil(u64::from(choice.hours.max(1)));
            let cost = crate::catalog::cost::Cost { milli_su, known: choice.su_known };
            format!("{}/h", cost.text())
        });
        let site = choice.map(|choice| choice.site.clone());
        [site, Some(words.to_owned()), rate].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The time for removing is spent.
    fn spent(&mut self, undo: &Undo, now: Time) {
        let described = |(kind, id, words): &(Kind, String, String)| {
            format!("{} {id} ({})", kind.as_str(), self.leftover(*kind, words))
        };
        let left: Vec<String> = undo.found.iter().map(described).collect();
        let why = undo.last_failure.clone().unwrap_or_default();
        if !matches!(undo.at, SagaState::RollingBack | SagaState::NextOffering) {
            // The rest is as it should be; what is left is warned of, and goes with the deployment.
            for one in left {
                self.warn(format!("left behind for now: {one}"));
            }
            return match undo.then {
                Then::Turn(turn @ (Turn::PortRefused | Turn::FipExhausted)) => self.turn(turn, now),
                Then::Watched => self.close(),
                Then::HostRetry | Then::Turn(_) => {
                    self.host_retried = true;
                    self.turn(Turn::ServerError, now);
                }
            };
        }
        if undo.at == SagaState::RollingBack {
            self.leftovers = left;
            if self.leftovers.is_empty() {
                self.leftovers.push(format!("unknown, since the cloud cannot be listed: {why}"));
            }
            let list = self.leftovers.join("; ");
            let hint = "run destroy again, or ask the site";
            self.failure = Some(super::Failure::new(Exit::Leftovers, "leftover", format!("LEFT BEHIND: {list}"), hint));
        }
        self.turn(Turn::CleanupDeadline, now);
    }
}

impl Undo {
    /// The next thing to delete: in the order of kinds, each once a minute, what depends on it being gone before.
    fn next_deletion(&self, now: Time) -> Option<(Kind, String)> {
        for (kind, id, _) in &self.found {
            let waits_for_server = matches!(kind, Kind::Group | Kind::Lease | Kind::Port | Kind::Key);
            let has_server = self.found.iter().any(|(other, _, _)| *other == Kind::Server);
            if waits_for_server && has_server && now.since(self.since) < PATIENCE {
                return None;
            }
            let asked = self.asked.get(&(*kind, id.clone()));
            if asked.is_none_or(|asked| now.since(*asked) >= REPEAT) {
                return Some((*kind, id.clone()));
            }
        }
        None
    }
}

impl Inventory {
    /// Whether objects of a kind could not be listed.
    #[must_use]
    pub fn failed_for(&self, kind: Kind) -> bool {
        use crate::openstack::classify::Service;
        let service = match kind {
            Kind::Address | Kind::Port | Kind::Group => Service::Network,
            Kind::Server | Kind::Key => Service::Compute,
            Kind::Lease => Service::Reservation,
        };
        self.failed.iter().any(|error| error.service == service || error.service == Service::Identity)
    }
}
