//! What comes before the lease: key, security group, and another look at what everything needs.

use std::time::Duration;

use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::time::Time;

use super::words;
use super::{Answer, Call, Facts, Failure, Saga, Todo};
use crate::exit::Exit;
use crate::openstack::classify::Meaning;
use crate::openstack::port::Keypair;
use crate::provision::journal::Kind;

/// Times that a step without a settle rule is tried.
const TRIES: u32 = 5;
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(30);

impl Saga {
    /// Tries again later, or gives up by rolling back.
    fn again(&mut self, todo: Todo, error: &crate::openstack::port::CloudError, give_up: Turn, now: Time) {
        self.tries += 1;
        if self.tries < TRIES {
            return self.ask_in(todo, now, PAUSE.max(error.retry_after.unwrap_or_default()));
        }
        self.fail(words::unavailable(error, self.last_error.as_ref().map_or(now, |(since, _)| *since)), give_up, now);
    }

    pub(super) fn on_key(&mut self, answer: Answer, now: Time) {
        match answer {
            Answer::Keypair(pair) if self.todo == Todo::KeyImport => self.key_made(&pair, now),
            Answer::Keypair(pair) => self.key_found(&pair, now),
            Answer::Failed(error) if self.todo == Todo::KeyLook && error.is_gone() => {
                if self.order.key.public_key.is_none() {
                    let failure = words::no_key(&self.order.key.name);
                    return self.key_conflict(failure, now);
                }
                if self.tries >= TRIES {
                    let failure = words::unavailable(&error, now);
                    return self.fail(failure, Turn::Destroy, now);
                }
                if self.slot(Kind::Key).open.is_none() {
                    self.write_intent(Kind::Key);
                }
                self.ask_now(Todo::KeyImport, now);
            }
            // The key goes by its name: looking tells whether it was made.
            Answer::Failed(error) if error.is_passing() || error.meaning == Meaning::Exists => {
                if self.todo == Todo::KeyImport {
                    let mark = self.mark;
                    self.sweep(Kind::Key, mark, now);
                }
                self.again(Todo::KeyLook, &error, Turn::Destroy, now);
            }
            Answer::Failed(error) => self.fail(words::refused(&error), Turn::Destroy, now),
            _ => self.fail_internal("a key was asked for, something else came", now),
        }
    }

    fn key_made(&mut self, pair: &Keypair, now: Time) {
        self.done(Kind::Key, pair.name.clone(), String::new(), None);
        self.key_is_there(now);
    }

    /// Goes on with the key: to what comes next, or to the server that was refused without it.
    fn key_is_there(&mut self, now: Time) {
        if self.state == SagaState::ServerIntent {
            return self.intend(Kind::Server, now);
        }
        self.turn(Turn::KeyMade, now);
    }

    /// There is another key of this name: where a lease is there already, that is given back.
    fn key_conflict(&mut self, failure: Failure, now: Time) {
        let turn = if self.state == SagaState::ServerIntent { Turn::Refused } else { Turn::KeyConflict };
        self.fail(failure, turn, now);
    }

    fn key_found(&mut self, pair: &Keypair, now: Time) {
        let key = &self.order.key;
        let is_ours = key.public_key.as_ref().is_some_and(|public_key| pair.is(public_key));
        if self.slots.get(&Kind::Key).is_some_and(|slot| slot.open.is_some()) && is_ours {
            return self.key_made(pair, now);
        }
        if !is_ours && key.public_key.is_some() {
            if key.must_match {
                let failure = words::other_key(&key.name);
                return self.key_conflict(failure, now);
            }
            let name = key.name.clone();
            self.warn(format!("key {name} in the cloud is not the key of this machine; the one in the cloud is used"));
        }
        self.key_is_there(now);
    }

    pub(super) fn begin_ready(&mut self, now: Time) {
        let wanted = self.order.ssh_from.is_some();
        self.ask_now(if wanted { Todo::GroupLook } else { Todo::Recheck }, now);
    }

    pub(super) fn on_group(&mut self, answer: Answer, now: Time) {
        let marks_group = self.order.id.marks().group();
        match answer {
            Answer::Groups(groups) if self.todo == Todo::GroupCreate || self.todo == Todo::GroupLook => {
                let ours =
                    groups.into_iter().filter(|group| group.description == marks_group).min_by_key(|one| one.created);
                match ours {
                    Some(group) => {
                        self.done(Kind::Group, group.id, String::new(), None);
                        self.ask_now(Todo::GroupRule, now);
                    }
                    None if self.slots.get(&Kind::Group).is_some_and(|slot| slot.open.is_some())
                        && self.tries < TRIES =>
                    {
                        // One that nobody saw yet may still come.
                        self.tries += 1;
                        self.ask_in(Todo::GroupLook, now, Duration::from_secs(30));
                    }
                    None => {
                        self.tries = 0;
                        self.write_intent(Kind::Group);
                        self.ask_now(Todo::GroupCreate, now);
                    }
                }
            }
            Answer::Done => self.ask_now(Todo::Recheck, now),
            Answer::Failed(error) if error.is_passing() => {
                if self.todo == Todo::GroupCreate {
                    let mark = self.mark;
                    self.sweep(Kind::Group, mark, now);
                }
                let todo = if self.todo == Todo::GroupRule { Todo::GroupRule } else { Todo::GroupLook };
                self.again(todo, &error, Turn::RequirementMissing, now);
            }
            Answer::Failed(error) => self.fail(words::refused(&error), Turn::RequirementMissing, now),
            _ => self.fail_internal("a security group was asked for, something else came", now),
        }
    }

    pub(super) fn recheck_call(&self) -> Call {
        let choice = self.choice();
        Call::Recheck {
            image: self.image().map(|image| image.id.clone()).unwrap_or_default(),
            flavor: choice.map(|choice| choice.flavor.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn on_recheck(&mut self, answer: Answer, now: Time) {
        match answer {
            Answer::Rechecked(facts) => match self.missing(&facts) {
                None => self.turn(Turn::RequirementsFound, now),
                Some(failure) => self.fail(failure, Turn::RequirementMissing, now),
            },
            Answer::Failed(error) if error.is_passing() => {
                self.again(Todo::Recheck, &error, Turn::RequirementMissing, now);
            }
            Answer::Failed(error) => self.fail(words::refused(&error), Turn::RequirementMissing, now),
            _ => self.fail_internal("requirements were asked for, something else came", now),
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
            return Some(Failure::new(
                Exit::Usage,
                "flavor_missing",
                "the flavor is not there",
                "choose another with --flavor",
            ));
        }
        let of_vm = self.choice().filter(|choice| choice.is_vm()).and_then(|choice| choice.expects);
        if of_vm.is_some_and(|vm| !facts.limits.has_room_for(vm.threads, vm.ram_gib)) {
            let (used, most) = facts.limits.cores;
            let words = format!("the project has {used} of {} threads, or too little memory", most.unwrap_or(0));
            return Some(Failure::new(
                Exit::Quota,
                "quota",
                words,
                "delete a server, choose a smaller flavor, or ask for more",
            ));
        }
        if !facts.limits.has_room() {
            let (used, most) = facts.limits.instances;
            let words = format!("the project has {used} of {} servers", most.unwrap_or(0));
            return Some(Failure::new(Exit::Quota, "quota", words, "delete a server, or ask for a larger quota"));
        }
        None
    }
}
