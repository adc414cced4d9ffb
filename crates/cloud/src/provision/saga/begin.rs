//! What comes before the lease: key, security group, and another look at what everything needs.

use std::time::Duration;

use orlop_core::machine::saga::Event as Turn;
use orlop_core::time::Time;

use super::state::{KeyCall, KeyWork, Phase, Requirement};
use super::words;
use super::{Answer, Call, Facts, Failure, Saga};
use crate::exit::Exit;
use crate::openstack::classify::Meaning;
use crate::openstack::port::{CloudError, Keypair};
use crate::provision::journal::Kind;

/// Times that a step without a settle rule is tried.
const TRIES: u32 = 5;
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(30);

impl Saga {
    /// Tries again later, or gives up by rolling back.
    fn again(&mut self, phase: Phase, tries: u32, error: &CloudError, give_up: Turn, now: Time) {
        if tries < TRIES {
            return self.ask_in(phase, now, PAUSE.max(error.retry_after.unwrap_or_default()));
        }
        self.fail(words::unavailable(error, self.last_error.as_ref().map_or(now, |(since, _)| *since)), give_up, now);
    }

    pub(super) fn on_key(&mut self, call: KeyCall, work: KeyWork, answer: Answer, now: Time) {
        match (call, answer) {
            (KeyCall::Import, Answer::Keypair(pair)) => self.key_made(work, &pair, now),
            (KeyCall::Look, Answer::Keypair(pair)) => self.key_found(work, &pair, now),
            (KeyCall::Look, Answer::Failed(error)) if error.is_gone() => {
                if self.order.key.public_key.is_none() {
                    return self.key_conflict(&work, words::no_key(&self.order.key.name), now);
                }
                if work.tries >= TRIES {
                    return self.fail(words::unavailable(&error, now), Turn::Destroy, now);
                }
                if !self.is_open(Kind::Key) {
                    self.write_intent(Kind::Key);
                }
                self.ask_now(Phase::Key(KeyCall::Import, work), now);
            }
            // The key goes by its name: looking tells whether it was made.
            (call, Answer::Failed(error)) if error.is_passing() || error.meaning == Meaning::Exists => {
                if call == KeyCall::Import {
                    self.sweep(Kind::Key, self.mark, now);
                }
                let tries = work.tries + 1;
                let again = Phase::Key(KeyCall::Look, KeyWork { tries, ..work });
                self.again(again, tries, &error, Turn::Destroy, now);
            }
            (_, Answer::Failed(error)) => self.fail(words::refused(&error), Turn::Destroy, now),
            _ => self.fail_internal("a key was requested, another answer came", now),
        }
    }

    fn key_made(&mut self, work: KeyWork, pair: &Keypair, now: Time) {
        self.done(Kind::Key, pair.name.clone(), String::new(), None);
        self.key_is_there(work, now);
    }

    /// Goes on with the key: to what comes next, or to the server that was refused without it.
    fn key_is_there(&mut self, work: KeyWork, now: Time) {
        match work.server {
            Some(creation) => self.intend(creation, now),
            None => self.turn(Turn::KeyMade, now),
        }
    }

    /// There is another key of this name: where a lease already exists, that is given back.
    fn key_conflict(&mut self, work: &KeyWork, failure: Failure, now: Time) {
        let turn = if work.server.is_some() { Turn::Refused } else { Turn::KeyConflict };
        self.fail(failure, turn, now);
    }

    fn key_found(&mut self, work: KeyWork, pair: &Keypair, now: Time) {
        let key = &self.order.key;
        let is_ours = key.public_key.as_ref().is_some_and(|public_key| pair.is(public_key));
        if self.is_open(Kind::Key) && is_ours {
            return self.key_made(work, pair, now);
        }
        if !is_ours && key.public_key.is_some() {
            let name = key.name.clone();
            if key.must_match {
                return self.key_conflict(&work, words::other_key(&name), now);
            }
            self.warn(format!("key {name} in the cloud is not the key of this machine; the one in the cloud is used"));
        }
        self.key_is_there(work, now);
    }

    pub(super) fn requirement_call(&self, requirement: Requirement) -> Call {
        let marks = self.order.id.marks();
        match requirement {
            Requirement::FindGroup => Call::Groups,
            Requirement::CreateGroup => Call::CreateGroup(marks.group_name(), marks.group()),
            Requirement::AllowSsh => {
                Call::AllowSsh(self.text_id(Kind::Group), self.order.ssh_from.clone().unwrap_or_default())
            }
            Requirement::Recheck => Call::Recheck {
                image: self.image().map(|image| image.id.clone()).unwrap_or_default(),
                flavor: self.choice().map(|choice| choice.flavor.clone()).unwrap_or_default(),
            },
        }
    }

    pub(super) fn on_requirement(&mut self, requirement: Requirement, tries: u32, answer: Answer, now: Time) {
        use Requirement::{AllowSsh, CreateGroup, FindGroup, Recheck};
        match (requirement, answer) {
            (FindGroup | CreateGroup, Answer::Groups(groups)) => {
                let mark = self.order.id.marks().group();
                let ours = groups.into_iter().filter(|group| group.description == mark).min_by_key(|one| one.created);
                match ours {
                    Some(group) => {
                        self.done(Kind::Group, group.id, String::new(), None);
                        self.ask_now(Phase::Require(AllowSsh, tries), now);
                    }
                    // One that nobody saw yet may still come.
                    None if self.is_open(Kind::Group) && tries < TRIES => {
                        self.ask_in(Phase::Require(FindGroup, tries + 1), now, PAUSE);
                    }
                    None => {
                        self.write_intent(Kind::Group);
                        self.ask_now(Phase::Require(CreateGroup, 0), now);
                    }
                }
            }
            (AllowSsh, Answer::Done) => self.ask_now(Phase::Require(Recheck, tries), now),
            (Recheck, Answer::Rechecked(facts)) => match self.missing(&facts) {
                None => self.turn(Turn::RequirementsFound, now),
                Some(failure) => self.fail(failure, Turn::RequirementMissing, now),
            },
            (requirement, Answer::Failed(error)) if error.is_passing() => {
                let is_unclear = requirement == CreateGroup;
                if is_unclear {
                    self.sweep(Kind::Group, self.mark, now);
                }
                let again = Phase::Require(if is_unclear { FindGroup } else { requirement }, tries + 1);
                self.again(again, tries + 1, &error, Turn::RequirementMissing, now);
            }
            (_, Answer::Failed(error)) => self.fail(words::refused(&error), Turn::RequirementMissing, now),
            _ => self.fail_internal("a requirement was requested, another answer came", now),
        }
    }

    fn missing(&self, facts: &Facts) -> Option<Failure> {
        let (id, name) = &self.order.network;
        let usable = |network: &&crate::openstack::port::Network| network.usable && network.id == *id;
        if facts.networks.iter().find(usable).is_none() {
            let site = self.choice().map_or("", |choice| choice.site.as_str());
            return Some(words::no_network(name, site, &facts.networks));
        }
        if let Some(external) = &self.order.external
            && !facts.networks.iter().any(|network| network.external && network.id == *external)
        {
            return Some(words::no_network(external, "", &facts.networks));
        }
        if !facts.image {
            return Some(words::no_image(self.image().map_or("", |image| image.name.as_str())));
        }
        if !facts.flavor {
            let (message, hint) = ("the flavor is not there", "choose another with --flavor");
            return Some(Failure::new(Exit::Usage, "flavor_missing", message, hint));
        }
        let quota = |message: String, hint: &str| Some(Failure::new(Exit::Quota, "quota", message, hint));
        let of_vm = self.choice().filter(|choice| choice.is_vm()).and_then(|choice| choice.expects);
        if of_vm.is_some_and(|vm| !facts.limits.has_room_for(vm.threads, vm.ram_gib)) {
            let (used, most) = facts.limits.cores;
            let words = format!("the project has {used} of {} threads, or too little memory", most.unwrap_or(0));
            return quota(words, "delete a server, choose a smaller flavor, or ask for more");
        }
        if !facts.limits.has_room() {
            let (used, most) = facts.limits.instances;
            let words = format!("the project has {used} of {} servers", most.unwrap_or(0));
            return quota(words, "delete a server, or ask for a larger quota");
        }
        None
    }
}
