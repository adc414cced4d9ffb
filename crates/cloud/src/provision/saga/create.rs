//! Making leases, servers and addresses: intents, what answers mean, and the settle rule for those whose answer is unclear. Owns
//! the rule that a create is never repeated before it was looked for.

use std::time::Duration;

use orlop_core::machine::saga::{Event as Turn, Guard};
use orlop_core::time::Time;

use super::state::LISTINGS;
use super::state::{Creation, KeyCall, KeyWork, Phase, Settle};
use super::words;
use super::{Answer, Call, Effect, FailedOffering, Saga, clock_offset, effect};
use crate::openstack::classify::Meaning;
use crate::openstack::port::{CloudError, FloatingIp, Lease, NewFloatingIp, NewLease, NewServer, Server, UserData};
use crate::provision::join::{Boot, labels};
use crate::provision::journal::{Entry, Kind};

/// How long it is looked for when listings themselves fail.
const PATIENCE: Duration = Duration::from_secs(900);
/// What the name of a lease given by the user has to agree with besides.
const SKEW: Duration = Duration::from_secs(120);

impl Saga {
    /// Writes down what is about to be made, and asks for it.
    pub(super) fn intend(&mut self, creation: Creation, now: Time) {
        if creation.kind == Kind::Lease && clock_offset(Some(self.ahead)) != 0 {
            self.tell_clock();
        }
        self.write_intent(creation.kind);
        self.submitted = Some(now);
        self.ask_now(Phase::Create(creation), now);
    }

    /// Writes down what is about to be asked for.
    pub(super) fn write_intent(&mut self, kind: Kind) {
        let (mark, choice, image) = (self.mark, self.choice, self.image);
        self.slot(kind).open = Some(mark);
        self.record(Entry::Intent { object: kind, mark, choice, image });
    }

    /// Repeats a create that was looked for in vain: under the next mark, or, where nothing was made most likely, under the
    /// same one a little later.
    pub(super) fn repeat(&mut self, mut creation: Creation, now: Time) {
        let settle = &mut creation.settle;
        if settle.easy {
            let wait = Duration::from_secs(5 << settle.easy_repeats.min(5));
            settle.easy_repeats += 1;
            self.write_intent(creation.kind);
            self.submitted = Some(now.plus(wait));
            return self.ask_in(Phase::Create(creation), now, wait);
        }
        settle.repeats += 1;
        self.mark += 1;
        self.intend(creation, now);
    }

    /// Begins to make a lease or a server.
    pub(super) fn begin_create(&mut self, creation: Creation, turn: Turn, now: Time) {
        match turn {
            Turn::NotFound => return self.repeat(creation, now),
            Turn::ImageRefused => return self.next_image(creation, now),
            Turn::AttemptUndone | Turn::CapacityFree if !self.take_next(now) => {
                return self.fail_internal("no offering is left", now);
            }
            _ => {}
        }
        let is_lease = creation.kind == Kind::Lease;
        if self.choice().is_some_and(|choice| choice.taken && (is_lease || choice.reserve.is_none())) {
            return self.fail(words::taken(self.choice()), Turn::CapacityRefused, now);
        }
        self.intend(Creation::new(creation.kind, now), now);
    }

    /// Goes to the next offering, if there is one.
    fn take_next(&mut self, now: Time) -> bool {
        let Some(next) = self.next_choice(now) else { return false };
        self.choice = next;
        self.image = 0;
        self.attempt += 1;
        // A mark under which nothing was asked for is still good.
        self.mark += u32::from(self.submitted.is_some());
        self.host_retried = false;
        self.started = false;
        self.failure = None;
        true
    }

    /// Whether the next offering is a virtual machine without a lease.
    pub(super) fn is_next_unreserved(&self, now: Time) -> bool {
        let next = self.next_choice(now).and_then(|next| self.order.choices.get(next));
        next.is_some_and(|choice| choice.reserve.is_none())
    }

    pub(super) fn create_call(&self, creation: &Creation, now: Time) -> Option<Call> {
        let order = &self.order;
        let choice = self.choice()?;
        Some(match creation.kind {
            Kind::Lease => {
                let cloud_now = self.cloud_time(now);
                // A start that has passed meanwhile is now.
                let start = choice.start.filter(|start| *start > cloud_now.plus(Duration::from_secs(60)));
                let from = start.unwrap_or(Time::from_millis(cloud_now.millis().div_euclid(60_000) * 60_000));
                let end = from.plus(Duration::from_secs(u64::from(choice.hours) * 3600));
                let name = order.lease_name(self.mark);
                Call::CreateLease(Box::new(NewLease { name, start, end, reserve: choice.reserve.clone()? }))
            }
            Kind::Server => {
                let is_flavor = matches!(choice.reserve, Some(crate::openstack::port::Reserve::Flavor { .. }));
                let reservation = self.detail_of(Kind::Lease).map(str::to_owned);
                let group = order.ssh_from.as_ref().map(|_| order.id.marks().group_name());
                // Hosts take none.
                let groups = order.groups.iter().cloned().chain(group).filter(|_| choice.is_vm()).collect();
                let own = order.user_data.clone();
                let boot = order
                    .join
                    .clone()
                    .map(|join| Box::new(Boot { order: join, labels: labels(&order.id, choice), own: own.clone() }));
                let server = NewServer {
                    name: order.server_name.clone(),
                    image: self.image()?.id.clone(),
                    flavor: if is_flavor { reservation.clone()? } else { choice.flavor.clone() },
                    key: order.key.name.clone(),
                    network: order.network.0.clone(),
                    reservation: reservation.filter(|_| !is_flavor),
                    groups,
                    deployment: order.id.to_string(),
                    attempt: self.mark,
                    user_data: own.map(UserData::new),
                };
                Call::CreateServer(Box::new(server), boot)
            }
            Kind::Address => Call::CreateAddress(Box::new(NewFloatingIp {
                network: order.external.clone()?,
                port: creation.ports.get(creation.port).cloned(),
                description: order.id.marks().address(self.mark),
            })),
            Kind::Key | Kind::Group | Kind::Port => return None,
        })
    }

    /// Something is there, and known from now on.
    pub(super) fn done(&mut self, object: Kind, id: String, detail: String, until: Option<Time>) {
        self.record(Entry::Done { object, id: id.clone(), detail: detail.clone(), until });
        self.know(object, id, detail, until);
    }

    /// What is written down of something that is there; the same thing may be written down again with another end.
    pub(super) fn know(&mut self, object: Kind, id: String, detail: String, until: Option<Time>) {
        let slot = self.slot(object);
        let at_first = slot.at_first.filter(|_| slot.id.as_ref() == Some(&id)).or(until);
        let open = slot.open;
        *slot = super::Slot { id: Some(id), detail, until, at_first, open: None };
        if let (Kind::Lease, Some(mark)) = (object, open) {
            self.lease_mark = mark;
        }
    }

    pub(super) fn not_made(&mut self, object: Kind, error: &CloudError) {
        let mark = self.slot(object).open.take().unwrap_or(self.mark);
        self.record(Entry::Failed { object, mark, why: error.to_string() });
    }

    /// Something may have been made under a mark: it is looked for until it cannot come any more.
    pub(super) fn sweep(&mut self, object: Kind, mark: u32, now: Time) {
        match self.sweeps.iter_mut().find(|(kind, known, _)| *kind == object && *known == mark) {
            Some(known) => known.2 = now,
            None => {
                self.sweeps.push((object, mark, now));
                self.record(Entry::Sweep { object, mark });
            }
        }
    }

    /// Anything whose create has no result may have been made.
    pub(super) fn sweep_open(&mut self, now: Time) {
        let open: Vec<(Kind, u32)> = self.slots.iter().filter_map(|(kind, slot)| Some((*kind, slot.open?))).collect();
        for (kind, mark) in open {
            self.sweep(kind, mark, now);
        }
    }

    pub(super) fn on_created(&mut self, mut creation: Creation, answer: Answer, now: Time) {
        match answer {
            Answer::Lease(lease) => self.lease_known(lease),
            Answer::ServerMade(id) => self.done(Kind::Server, id, String::new(), None),
            Answer::Address(address) => self.address_known(&mut creation, &address),
            Answer::Failed(error) => return self.create_failed(creation, &error, now),
            _ => return self.fail_internal("the answer does not match the create request", now),
        }
        self.turn_with(Phase::Create(creation), Turn::Created, now);
    }

    fn lease_known(&mut self, lease: Lease) {
        // One of virtual machines is taken up by the flavor that it gives, which goes by the same id.
        let reservation = lease.reservations.into_iter().next().map(|one| one.flavor_id.unwrap_or(one.id));
        let reservation = reservation.unwrap_or_default();
        self.done(Kind::Lease, lease.id, reservation, lease.end);
    }

    fn create_failed(&mut self, mut creation: Creation, error: &CloudError, now: Time) {
        let kind = creation.kind;
        let may_be_made = error.is_passing()
            || error.meaning == Meaning::Exists
            || error.meaning == Meaning::Gone && kind != Kind::Address;
        if may_be_made {
            creation.settle.easy = error.is_surely_unmade();
            creation.settle.distrusted += u32::from(error.meaning == Meaning::TrustSuspected);
            if creation.settle.distrusted < 2 {
                self.sweep(kind, self.mark, now);
                return self.turn_with(Phase::Create(creation), Turn::Ambiguous, now);
            }
        }
        self.not_made(kind, error);
        match error.meaning {
            _ if may_be_made => self.fail(words::cannot_trust(), Turn::Refused, now),
            Meaning::Capacity => {
                self.remember("capacity", effect::CAPACITY, now);
                self.fail(words::no_room(self.choice(), error), Turn::CapacityRefused, now);
            }
            Meaning::Clock if !self.clock_mended => {
                self.clock_mended = true;
                self.tell_clock();
                if let Some(choice) = self.order.choices.get_mut(self.choice) {
                    choice.start = None;
                }
                self.intend(creation, now);
            }
            // Somebody removed it meanwhile: another deployment of the same key, perhaps.
            Meaning::Key if kind == Kind::Server && !self.key_mended && self.order.key.public_key.is_some() => {
                self.key_mended = true;
                self.warn(format!("key {} is no longer in the cloud; creating it again", self.order.key.name));
                self.ask_now(Phase::Key(KeyCall::Look, KeyWork { tries: 0, server: Some(creation) }), now);
            }
            Meaning::Image if kind == Kind::Server && self.holds(Guard::ImageLeft, now) => {
                self.turn_with(Phase::Create(creation), Turn::ImageRefused, now);
            }
            Meaning::Image if kind == Kind::Server => {
                let name = self.image().map_or("", |image| image.name.as_str());
                self.fail(words::image_refused(name, error), Turn::ImageRefused, now);
            }
            Meaning::NextPort if kind == Kind::Address => self.port_refused(creation, error, now),
            _ if kind == Kind::Address => self.go_without(&error.to_string(), now),
            _ => {
                if error.meaning == Meaning::Quota {
                    self.remember_site(now);
                }
                self.fail(words::refused(error), Turn::Refused, now);
            }
        }
    }

    fn next_image(&mut self, creation: Creation, now: Time) {
        let before = self.image().map(|image| image.name.clone()).unwrap_or_default();
        self.image += 1;
        self.warn(format!("image {before} was rejected; trying the next one"));
        self.intend(creation, now);
    }

    /// Remembers that the present choice is not available.
    pub(super) fn remember(&mut self, why: &str, lasts: Duration, now: Time) {
        let Some(choice) = self.choice() else { return };
        let failed = FailedOffering {
            site: choice.site.clone(),
            what: choice.what().to_owned(),
            hour: choice.start.unwrap_or(now).millis().div_euclid(3_600_000),
            hours: choice.hours,
            why: why.to_owned(),
            until: now.plus(lasts),
        };
        self.out.push(Effect::Remember(failed.clone()));
        self.failed.push(failed);
    }

    fn remember_site(&mut self, now: Time) {
        let Some(choice) = self.choice() else { return };
        let everything = FailedOffering {
            site: choice.site.clone(),
            what: "*".to_owned(),
            hour: 0,
            hours: 0,
            why: "quota".to_owned(),
            until: now.plus(self.order.pace.deadline),
        };
        self.failed.push(everything);
    }

    /// The first choice that is not known to be out of reach, if attempts and time are left.
    pub(super) fn next_choice(&self, now: Time) -> Option<usize> {
        let spent = now.since(self.began.unwrap_or(now)) >= self.order.pace.deadline;
        if spent || self.attempt >= self.order.max_attempts || self.stop.is_some() {
            return None;
        }
        (self.choice + 1..self.order.choices.len()).chain(0..=self.choice).find(|index| !self.is_out(*index, now))
    }

    /// Whether a choice could not be had lately, at the same time for the same hours.
    fn is_out(&self, index: usize, now: Time) -> bool {
        let Some(choice) = self.order.choices.get(index).filter(|choice| !choice.taken) else { return true };
        let hour = choice.start.unwrap_or(now).millis().div_euclid(3_600_000);
        self.failed.iter().filter(|failed| failed.until > now && failed.site == choice.site).any(|failed| {
            failed.what == "*" || failed.what == choice.what() && failed.hour == hour && failed.hours == choice.hours
        })
    }

    /// Begins with the first choice that could be had lately; where none could, with the first all the same.
    pub(super) fn begin_with(&mut self, now: Time) {
        self.choice = (0..self.order.choices.len()).find(|index| !self.is_out(*index, now)).unwrap_or(0);
        if self.choice().is_some_and(|choice| !choice.su_known)
            && let Some(cost) = self.cost()
        {
            self.warn(format!("the site does not publish the cost of an hour: {}", cost.text()));
        }
    }

    /// Looks for what may have been made, now or at the next time of the rule.
    pub(super) fn continue_settle(&mut self, mut creation: Creation, turn: Turn, now: Time) {
        if turn != Turn::NotFound {
            creation.since = now;
            creation.settle.listings = 0;
            creation.settle.began = Some(now);
        }
        if turn == Turn::Resume {
            let mark = self.slot(creation.kind).open.unwrap_or(self.mark);
            self.sweep(creation.kind, mark, now);
        }
        let Settle { began, listings, .. } = creation.settle;
        let due = LISTINGS.get(listings).copied().unwrap_or(0);
        let at = began.unwrap_or(now).plus(Duration::from_secs(due)).max(now);
        let phase = Phase::Settle(creation);
        if at == now { self.ask_now(phase, now) } else { self.ask_at(phase, at) }
    }

    pub(super) fn on_settle(&mut self, mut creation: Creation, answer: Answer, now: Time) {
        let kind = creation.kind;
        let mark = self.slots.get(&kind).and_then(|slot| slot.open).unwrap_or(self.mark);
        let id = self.order.id.clone();
        let marks = id.marks();
        let found = match answer {
            Answer::Leases(leases) => {
                let mine = leases.into_iter().filter(|lease| self.is_my_lease(lease, mark));
                mine.min_by_key(|lease| lease.created).map(|lease| self.lease_known(lease))
            }
            Answer::Servers(servers) => {
                let mine = servers.into_iter().filter(|server: &Server| marks.server_attempt(server) == Some(mark));
                let oldest = mine.min_by_key(|server| server.created);
                oldest.map(|server| self.done(Kind::Server, server.id, String::new(), None))
            }
            Answer::Addresses(addresses) => {
                let mine = addresses.into_iter().filter(|one: &FloatingIp| marks.address_attempt(one) == Some(mark));
                let oldest = mine.min_by_key(|address| address.created);
                oldest.map(|address| self.address_known(&mut creation, &address))
            }
            Answer::Failed(error) => {
                // What was not listed says nothing.
                let began = creation.settle.began.unwrap_or(now);
                if now.since(began) > PATIENCE || !error.is_passing() {
                    let since = self.last_error.as_ref().map_or(began, |(since, _)| *since);
                    return self.fail(words::unavailable(&error, since), Turn::NotFound, now);
                }
                return self.ask_in(Phase::Settle(creation), now, Duration::from_secs(10));
            }
            _ => return self.fail_internal("a list was requested, another answer came", now),
        };
        match found {
            Some(()) => self.turn_with(Phase::Settle(creation), Turn::Found, now),
            None => self.absent(creation, mark, now),
        }
    }

    fn is_my_lease(&self, lease: &Lease, mark: u32) -> bool {
        if self.order.id.marks().lease_attempt(&lease.name) == Some(mark) {
            return true;
        }
        // A name that the user gave may be somebody else's too.
        let asked = self.submitted.or(self.began);
        lease.name == self.order.lease_name(mark)
            && self.order.lease_name.is_some()
            && lease.project_id == self.order.project_id
            && self.choice().is_none_or(|choice| choice.may_be(lease))
            && self.is_since(lease, asked)
    }

    /// Whether a lease was made since a time of this machine, as far as clocks agree.
    pub(super) fn is_since(&self, lease: &Lease, since: Option<Time>) -> bool {
        lease.created.zip(since).is_some_and(|(made, since)| made.plus(SKEW) >= self.cloud_time(since))
    }

    /// It was not listed: it is looked for again, or counts as not made.
    fn absent(&mut self, mut creation: Creation, mark: u32, now: Time) {
        let kind = creation.kind;
        creation.settle.listings += 1;
        if !creation.settle.listings_left() {
            self.slot(kind).open = None;
            self.record(Entry::Failed { object: kind, mark, why: "it was not found".to_owned() });
            if !creation.settle.repeats_left() {
                let (since, error) = self.last_error.clone().unwrap_or((now, "no answer".to_owned()));
                return self.fail(words::kept_failing(kind, since, &error), Turn::NotFound, now);
            }
        }
        self.turn_with(Phase::Settle(creation), Turn::NotFound, now);
    }
}
