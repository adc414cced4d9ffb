//! Making leases, servers and addresses: intents, what answers mean, and the settle rule for those whose answer is unclear. Owns
//! the rule that a create is never repeated before it was looked for.

use std::time::Duration;

use orlop_core::machine::saga::Event as Turn;
use orlop_core::time::Time;

use super::words;
use super::{Answer, Call, Effect, FailedOffering, Saga, Settle, Todo, clock_offset, effect};
use crate::openstack::classify::Meaning;
use crate::openstack::port::{CloudError, FloatingIp, Lease, NewFloatingIp, NewLease, NewServer, Server, UserData};
use crate::provision::join::{Boot, labels};
use crate::provision::journal::{Entry, Kind};

/// When it is looked for again, in seconds after the answer that was unclear.
const LISTINGS: [u64; 5] = [0, 5, 15, 45, 120];
/// How long it is looked for when listings themselves fail.
const PATIENCE: Duration = Duration::from_secs(900);
/// What the name of a lease given by the user has to agree with besides.
const SKEW: Duration = Duration::from_secs(120);

impl Saga {
    /// Writes down what is about to be made, and asks for it.
    pub(super) fn intend(&mut self, kind: Kind, now: Time) {
        if kind == Kind::Lease && clock_offset(Some(self.ahead)) != 0 {
            self.tell_clock();
        }
        self.write_intent(kind);
        self.submitted = Some(now);
        self.ask_now(Todo::Create(kind), now);
    }

    /// Writes down what is about to be asked for.
    pub(super) fn write_intent(&mut self, kind: Kind) {
        let (mark, choice, image) = (self.mark, self.choice, self.image);
        self.slot(kind).open = Some(mark);
        self.record(Entry::Intent { object: kind, mark, choice, image });
    }

    /// Repeats a create that was looked for in vain: under the next mark, or, where nothing was made most likely, under the
    /// same one a little later.
    pub(super) fn repeat(&mut self, kind: Kind, now: Time) {
        if self.settle.easy {
            let wait = Duration::from_secs(5 << self.settle.easy_repeats.min(5));
            self.settle.easy_repeats += 1;
            self.write_intent(kind);
            self.submitted = Some(now.plus(wait));
            return self.ask_in(Todo::Create(kind), now, wait);
        }
        self.settle.repeats += 1;
        self.mark += 1;
        self.intend(kind, now);
    }

    pub(super) fn begin_lease(&mut self, turn: Turn, now: Time) {
        match turn {
            Turn::AttemptUndone | Turn::CapacityFree if !self.take_next(now) => {
                return self.fail_internal("no offering is left", now);
            }
            Turn::NotFound => return self.repeat(Kind::Lease, now),
            _ => self.settle = Settle::default(),
        }
        if self.choice().is_some_and(|choice| choice.taken) {
            return self.fail(words::taken(self.choice()), Turn::CapacityRefused, now);
        }
        self.intend(Kind::Lease, now);
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

    pub(super) fn begin_server(&mut self, turn: Turn, now: Time) {
        if turn == Turn::NotFound {
            return self.repeat(Kind::Server, now);
        }
        if matches!(turn, Turn::AttemptUndone | Turn::CapacityFree) && !self.take_next(now) {
            return self.fail_internal("no offering is left", now);
        }
        self.settle = Settle::default();
        if self.choice().is_some_and(|choice| choice.taken && choice.reserve.is_none()) {
            return self.fail(words::taken(self.choice()), Turn::CapacityRefused, now);
        }
        self.intend(Kind::Server, now);
    }

    pub(super) fn create_address(&mut self, now: Time) {
        self.intend(Kind::Address, now);
    }

    pub(super) fn create_call(&self, kind: Kind, now: Time) -> Option<Call> {
        let order = &self.order;
        let choice = self.choice()?;
        Some(match kind {
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
                port: self.ports.get(self.port).cloned(),
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

    fn not_made(&mut self, object: Kind, error: &CloudError) {
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

    pub(super) fn on_created(&mut self, kind: Kind, answer: Answer, now: Time) {
        match answer {
            Answer::Lease(lease) => {
                self.lease_known(lease);
                self.turn(Turn::Created, now);
            }
            Answer::ServerMade(id) => {
                self.done(Kind::Server, id, String::new(), None);
                self.turn(Turn::Created, now);
            }
            Answer::Address(address) => self.address_made(address, now),
            Answer::Failed(error) => self.create_failed(kind, &error, now),
            _ => self.fail_internal("a create was answered by something else", now),
        }
    }

    fn lease_known(&mut self, lease: Lease) {
        // One of virtual machines is taken up by the flavor that it gives, which goes by the same id.
        let reservation = lease.reservations.into_iter().next().map(|one| one.flavor_id.unwrap_or(one.id));
        let reservation = reservation.unwrap_or_default();
        self.done(Kind::Lease, lease.id, reservation, lease.end);
    }

    fn create_failed(&mut self, kind: Kind, error: &CloudError, now: Time) {
        match error.meaning {
            meaning
                if error.is_passing()
                    || meaning == Meaning::Exists
                    || meaning == Meaning::Gone && kind != Kind::Address =>
            {
                self.settle.easy = error.is_surely_unmade();
                self.settle.distrusted += u32::from(meaning == Meaning::TrustSuspected);
                if self.settle.distrusted >= 2 {
                    self.not_made(kind, error);
                    return self.fail(words::cannot_trust(), Turn::Refused, now);
                }
                let mark = self.mark;
                self.sweep(kind, mark, now);
                self.turn(Turn::Ambiguous, now);
            }
            Meaning::Capacity => {
                self.not_made(kind, error);
                self.remember("capacity", effect::CAPACITY, now);
                self.fail(words::no_room(self.choice(), error), Turn::CapacityRefused, now);
            }
            Meaning::Clock if !self.clock_mended => {
                self.not_made(kind, error);
                self.clock_mended = true;
                self.tell_clock();
                if let Some(choice) = self.order.choices.get_mut(self.choice) {
                    choice.start = None;
                }
                self.intend(kind, now);
            }
            // Somebody removed it meanwhile: another deployment of the same key, perhaps.
            Meaning::Key if kind == Kind::Server && !self.key_mended && self.order.key.public_key.is_some() => {
                self.not_made(kind, error);
                self.key_mended = true;
                self.tries = 0;
                self.warn(format!("key {} is not in the cloud any more; it is made again", self.order.key.name));
                self.ask_now(Todo::KeyLook, now);
            }
            Meaning::Image if kind == Kind::Server => {
                self.not_made(kind, error);
                let left = self.holds(orlop_core::machine::saga::Guard::ImageLeft, now);
                if left {
                    self.turn_image(now);
                } else {
                    self.fail(
                        words::image_refused(self.image().map_or("", |image| image.name.as_str()), error),
                        Turn::ImageRefused,
                        now,
                    );
                }
            }
            _ if kind == Kind::Address => self.address_refused(error, now),
            _ => {
                self.not_made(kind, error);
                if error.meaning == Meaning::Quota {
                    self.remember_site(now);
                }
                self.fail(words::refused(error), Turn::Refused, now);
            }
        }
    }

    fn turn_image(&mut self, now: Time) {
        let before = self.image().map(|image| image.name.clone()).unwrap_or_default();
        self.turn_keeping(Turn::ImageRefused, now);
        self.image += 1;
        self.warn(format!("image {before} was refused; the next one is taken"));
        self.intend(Kind::Server, now);
    }

    /// Takes a turn that stays in its state without beginning it anew.
    pub(super) fn turn_keeping(&mut self, turn: Turn, now: Time) {
        let begun = orlop_core::machine::saga::MACHINE.step(self.state, turn, |guard| self.holds(guard, now));
        if begun != Ok(self.state) {
            self.turn(turn, now);
        }
    }

    /// Remembers that the present choice cannot be had.
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
            self.warn(format!("the site does not tell what an hour costs: {}", cost.text()));
        }
    }

    pub(super) fn listings_left(&self) -> bool {
        if self.settle.easy { self.settle.listings < 1 } else { self.settle.listings < LISTINGS.len() }
    }

    /// Looks for what may have been made, now or at the next time of the rule.
    pub(super) fn continue_settle(&mut self, kind: Kind, turn: Turn, now: Time) {
        if turn != Turn::NotFound {
            self.settle.listings = 0;
            self.settle.began = Some(now);
            if turn == Turn::Resume {
                self.settle.easy = false;
                let mark = self.slot(kind).open.unwrap_or(self.mark);
                self.sweep(kind, mark, now);
            }
        }
        let began = self.settle.began.unwrap_or(now);
        let due = LISTINGS.get(self.settle.listings).copied().unwrap_or(0);
        let at = began.plus(Duration::from_secs(due)).max(now);
        if at == now { self.ask_now(Todo::SettleList(kind), now) } else { self.ask_at(Todo::SettleList(kind), at) }
    }

    pub(super) fn on_settle(&mut self, kind: Kind, answer: Answer, now: Time) {
        let mark = self.slots.get(&kind).and_then(|slot| slot.open).unwrap_or(self.mark);
        let found = match answer {
            Answer::Leases(leases) => {
                let mine = leases.into_iter().filter(|lease| self.is_my_lease(lease, mark));
                mine.min_by_key(|lease| lease.created).map(|lease| self.lease_known(lease))
            }
            Answer::Servers(servers) => {
                let marks = self.order.id.marks();
                let mine = servers.into_iter().filter(|server: &Server| marks.server_attempt(server) == Some(mark));
                let oldest = mine.min_by_key(|server| server.created);
                oldest.map(|server| self.done(Kind::Server, server.id, String::new(), None))
            }
            Answer::Addresses(addresses) => {
                let marks = self.order.id.marks();
                let mine = addresses.into_iter().filter(|one: &FloatingIp| marks.address_attempt(one) == Some(mark));
                let oldest = mine.min_by_key(|address| address.created);
                oldest.map(|address| self.address_known(&address))
            }
            Answer::Failed(error) => {
                // What was not listed says nothing.
                let began = self.settle.began.unwrap_or(now);
                if now.since(began) > PATIENCE || !error.is_passing() {
                    self.settle.easy = true;
                    self.settle.listings = 1;
                    self.settle.repeats = super::machine::REPEATS;
                    self.settle.easy_repeats = super::machine::EASY_REPEATS;
                    let since = self.last_error.as_ref().map_or(began, |(since, _)| *since);
                    return self.fail(words::unavailable(&error, since), Turn::NotFound, now);
                }
                return self.ask_in(Todo::SettleList(kind), now, Duration::from_secs(10));
            }
            _ => return self.fail_internal("a list was asked for, something else came", now),
        };
        match found {
            Some(()) => self.turn(Turn::Found, now),
            None => self.absent(kind, mark, now),
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
    fn absent(&mut self, kind: Kind, mark: u32, now: Time) {
        self.settle.listings += 1;
        if self.listings_left() {
            return self.turn(Turn::NotFound, now);
        }
        self.slot(kind).open = None;
        self.record(Entry::Failed { object: kind, mark, why: "it was not found".to_owned() });
        let repeats = self.holds(orlop_core::machine::saga::Guard::RepeatsLeft, now);
        if !repeats {
            let (since, error) = self.last_error.clone().unwrap_or((now, "no answer".to_owned()));
            let failure = words::kept_failing(kind, since, &error);
            return self.fail(failure, Turn::NotFound, now);
        }
        self.turn(Turn::NotFound, now);
    }
}
