//! Interruptions, destruction, extension, and a look at what is there.

use std::time::Duration;

use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::time::Time;

use super::state::{Extension, KeyCall, Phase, Requirement};
use super::wait::{LeaseReadiness, readiness};
use super::words;
use super::{Answer, Failure, Inventory, Saga, Stop};
use crate::catalog::cost::{EXTENSION_OPENS_HOURS, MAX_HOURS};
use crate::catalog::site::site_named;
use crate::exit::Exit;
use crate::provision::journal::{Entry, Kind};

/// Between two looks.
pub(super) const LOOK: Duration = Duration::from_secs(10);
/// How long another end may take to be taken.
const CHANGE: Duration = Duration::from_secs(120);
const HOUR: u64 = 3600;

impl Saga {
    pub(super) fn interrupted(&mut self, stop: Stop, now: Time) {
        let unseen = match self.state.phase() {
            Some(Phase::Extend(_) | Phase::ExtendPoll(_)) => Some("whether the lease has its new end"),
            Some(Phase::Resume(_)) if self.is_good() => Some("whether the machine is still there"),
            _ => None,
        };
        if let Some(what) = unseen {
            let message = format!("interrupted; {what} was not seen");
            return self.close_with(Failure::new(Exit::Interrupted, "interrupted", message, "see status"));
        }
        let only_looks = matches!(self.state.phase(), None | Some(Phase::Look(_)));
        if self.state().is_final() || self.is_good() || only_looks {
            if self.watches_until().is_some() {
                self.warn(
                    "objects of requests without an answer were not watched for to the end: run resume".to_owned(),
                );
            }
            return self.close();
        }
        self.stop = Some(stop);
        let failure = match stop {
            Stop::RollBack => {
                let hint = "nothing of it is left; apply again to start another one";
                Failure::new(Exit::Interrupted, "interrupted", "interrupted; rolled back", hint)
            }
            Stop::Keep => {
                let hint = "continue with resume, or remove it with destroy";
                Failure::new(Exit::Interrupted, "interrupted", "interrupted; kept as it is", hint)
            }
        };
        if self.state() == SagaState::RollingBack && stop == Stop::RollBack {
            return self.ask(now);
        }
        self.failure = Some(failure);
        // A create that is under way may have been done.
        let under_way = match self.state.phase() {
            Some(Phase::Create(creation)) => Some(creation.kind),
            Some(Phase::Key(KeyCall::Import, _)) => Some(Kind::Key),
            Some(Phase::Require(Requirement::CreateGroup, _)) => Some(Kind::Group),
            _ => None,
        };
        if let Some(kind) = under_way {
            self.sweep(kind, self.mark, now);
        }
        self.turn(Turn::Interrupt, now);
    }

    pub(super) fn is_good(&self) -> bool {
        matches!(self.state(), SagaState::Ready | SagaState::Degraded)
    }

    pub(super) fn destroy(&mut self, now: Time) {
        self.destroy = true;
        self.failure = None;
        self.leftovers.clear();
        self.sweep_open(now);
        self.turn(Turn::Destroy, now);
    }

    /// Gives the key away, so that removing leaves it; recorded in the journal for a later run.
    pub(super) fn keep_key(&mut self) {
        if let Some(name) = self.id_of(Kind::Key).map(str::to_owned) {
            self.record(Entry::UndoDone { object: Kind::Key, id: name });
        }
        if let Some(mark) = self.slots.get(&Kind::Key).and_then(|slot| slot.open) {
            self.record(Entry::Failed { object: Kind::Key, mark, why: "kept".to_owned() });
        }
        self.slots.remove(&Kind::Key);
    }

    /// Another end of the lease, if the rules of site and user allow it.
    pub(super) fn extend(&mut self, end: Time, now: Time) {
        if let Err(failure) = self.may_extend(end, now) {
            return self.close_with(failure);
        }
        self.failure = None;
        self.ask_now(Phase::Extend(Extension { at: self.state(), end, since: now }), now);
    }

    fn may_extend(&self, end: Time, now: Time) -> Result<(), Failure> {
        let hint = "see status for the present end";
        let policy = |message: String| Err(Failure::new(Exit::Denied, "policy", message, hint));
        if !self.is_good() && self.state() != SagaState::Unreachable {
            let message = format!("a deployment that is {} cannot be extended", self.state());
            return Err(Failure::new(Exit::Conflict, "state", message, "only one that is ready can"));
        }
        let (Some(present), Some(choice)) = (self.lease_end(), self.choice()) else {
            return Err(Failure::new(Exit::Conflict, "no_lease", "there is no lease to extend", hint));
        };
        if matches!(choice.reserve, Some(crate::openstack::port::Reserve::Flavor { .. })) {
            return policy("leases of virtual machines cannot be changed".to_owned());
        }
        if end <= present {
            return Err(Failure::new(Exit::Usage, "end", format!("the lease lasts until {present} already"), hint));
        }
        let opens = Time::from_millis(present.millis() - i64::from(EXTENSION_OPENS_HOURS) * 3_600_000);
        // Other clouds say themselves what they allow.
        if site_named(&choice.site).is_some() && self.cloud_time(now) < opens {
            return policy(format!("extension opens at {opens} (48 h before end)"));
        }
        if end.since(present).as_secs() > u64::from(MAX_HOURS) * HOUR {
            return policy(format!("an extension by more than {MAX_HOURS} h is not possible"));
        }
        let whole = self.hours_until(end).unwrap_or_default();
        if let Some(most) = self.order.max_hours
            && whole > u64::from(most)
        {
            return policy(format!("a lease of {whole} h is longer than --max-lifetime of {most} h"));
        }
        let price = self.milli_su_of(whole).unwrap_or(u64::MAX);
        if let Some(max_su) = self.order.max_su
            && price > max_su.saturating_mul(1000)
        {
            let su = price.div_ceil(1000);
            let hint = "choose an earlier end, or a larger --max-su";
            return Err(Failure::new(Exit::Quota, "budget", format!("estimate {su} SU over --max-su {max_su}"), hint));
        }
        Ok(())
    }

    pub(super) fn on_extended(&mut self, extension: Extension, answer: Answer, now: Time) {
        match answer {
            Answer::Lease(_) => self.ask_in(Phase::ExtendPoll(extension), now, Duration::from_secs(1)),
            Answer::Failed(error) if error.is_passing() && now.since(extension.since) < CHANGE => {
                self.ask_in(Phase::Extend(extension), now, LOOK);
            }
            Answer::Failed(error) if error.meaning == crate::openstack::classify::Meaning::Capacity => {
                let hint = "choose an earlier end";
                let message = format!("the host is taken after the present end: {}", error.message);
                self.close_with(Failure::new(Exit::Quota, "capacity", message, hint));
            }
            Answer::Failed(error) => self.close_with(words::refused(&error)),
            _ => self.fail_internal("an extension was requested, another answer came", now),
        }
    }

    pub(super) fn on_extend_poll(&mut self, extension: Extension, answer: Answer, now: Time) {
        let minute = |time: Time| time.millis().div_euclid(60_000);
        let is_over = now.since(extension.since) >= CHANGE;
        match answer {
            Answer::Lease(lease) => match (readiness(&lease), lease.end) {
                (LeaseReadiness::Active, Some(seen)) if minute(seen) >= minute(extension.end) => {
                    let detail = self.detail_of(Kind::Lease).unwrap_or_default().to_owned();
                    self.done(Kind::Lease, lease.id, detail, Some(seen));
                    self.turn(Turn::Extend, now);
                }
                // A change that failed can leave the lease broken.
                (LeaseReadiness::Over(why), _) => self.close_with(words::lease_failed(why)),
                _ if is_over => {
                    let message = "the lease did not accept the new end in time";
                    let hint = "see status, then try again";
                    self.close_with(Failure::new(Exit::Unreachable, "unavailable", message, hint));
                }
                _ => self.ask_in(Phase::ExtendPoll(extension), now, Duration::from_secs(5)),
            },
            Answer::Failed(error) if !error.is_passing() || is_over => self.close_with(words::refused(&error)),
            _ => self.ask_in(Phase::ExtendPoll(extension), now, Duration::from_secs(5)),
        }
    }

    /// Compares what should be there with what is.
    pub(super) fn on_look_list(&mut self, answer: Answer, now: Time) {
        let Answer::Inventory(all) = answer else {
            let (message, hint) = ("the cloud cannot be listed", "try again later");
            return self.close_with(Failure::new(Exit::Unreachable, "unavailable", message, hint));
        };
        if self.has_ended(&all, now) && self.is_good() {
            return self.turn(Turn::LeaseEnded, now);
        }
        self.close();
    }

    /// Whether the lease has ended or the server is gone; that, and an address that is gone, is noted.
    pub(super) fn has_ended(&mut self, all: &Inventory, now: Time) -> bool {
        let is_there = |kind: Kind, there: bool| there || all.failed_for(kind) || self.id_of(kind).is_none();
        let lease = self.id_of(Kind::Lease).and_then(|id| all.leases.iter().find(|lease| lease.id == id));
        let ended =
            lease.map_or(!is_there(Kind::Lease, false), |lease| matches!(readiness(lease), LeaseReadiness::Over(_)));
        let server = self.id_of(Kind::Server).is_some_and(|id| all.servers.iter().any(|server| server.id == id));
        let server_gone = !is_there(Kind::Server, server);
        let address = self.id_of(Kind::Address).is_some_and(|id| all.addresses.iter().any(|one| one.id == id));
        if !is_there(Kind::Address, address) {
            self.warn("drift: the floating IP is gone".to_owned());
        }
        let is_over = ended || server_gone;
        if is_over && self.is_good() {
            let at = lease.and_then(|lease| lease.end).or(self.lease_end());
            let text = match at {
                _ if !ended => "the server is gone".to_owned(),
                Some(end) if self.cloud_time(now) < end => {
                    format!("the lease no longer exists before its end at {end}; its server was removed with it")
                }
                Some(end) => format!("lease ended {end}; server removed by the site"),
                None => "the lease no longer exists; its server was removed with it".to_owned(),
            };
            self.record(Entry::Warned { text: text.clone() });
            self.warnings.push(text);
        }
        is_over
    }
}
