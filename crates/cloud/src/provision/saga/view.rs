//! What can be seen of a saga from outside.

use orlop_core::machine::saga::SagaState;
use orlop_core::time::Time;

use super::state::State;
use super::{Failure, Saga};
use crate::catalog::cost::Cost;
use crate::provision::journal::Kind;
use crate::provision::order::{Choice, DeploymentOrder, OrderImage};

impl Saga {
    /// What is carried out.
    #[must_use]
    pub fn order(&self) -> &DeploymentOrder {
        &self.order
    }

    /// In which state it is.
    #[must_use]
    pub fn state(&self) -> SagaState {
        self.state.at()
    }

    /// Which attempt it is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many attempts were made, those at sites before included: one for which nothing was asked of the cloud is none.
    #[must_use]
    pub fn attempts_made(&self) -> u32 {
        self.attempt.saturating_sub(u32::from(self.submitted.is_none()))
    }

    /// Why it fails, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// What people should know.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What could not be removed.
    #[must_use]
    pub fn leftovers(&self) -> &[String] {
        &self.leftovers
    }

    /// The id of an object, once it is known.
    #[must_use]
    pub fn id_of(&self, kind: Kind) -> Option<&str> {
        self.slots.get(&kind)?.id.as_deref()
    }

    /// What else is known of an object: the reservation of a lease, the address of a floating IP, that of a
    /// server inside its network.
    #[must_use]
    pub fn detail_of(&self, kind: Kind) -> Option<&str> {
        self.slots.get(&kind).map(|slot| slot.detail.as_str()).filter(|detail| !detail.is_empty())
    }

    /// The mark of the lease that is known.
    pub(in crate::provision) fn lease_mark(&self) -> u32 {
        self.lease_mark
    }

    /// The end of the lease, once it is known.
    #[must_use]
    pub fn lease_end(&self) -> Option<Time> {
        self.slots.get(&Kind::Lease)?.until
    }

    /// The length of a lease of the present choice with such an end, in whole hours: what was asked for at first, and what
    /// lies behind the end it had then.
    pub(super) fn hours_until(&self, end: Time) -> Option<u64> {
        let slot = self.slots.get(&Kind::Lease)?;
        let added = end.since(slot.at_first.or(slot.until)?).as_secs().div_ceil(3600);
        Some(u64::from(self.choice()?.hours) + added)
    }

    /// What a lease of the present choice costs, in thousandths of a service unit.
    pub(super) fn milli_su_of(&self, hours: u64) -> Option<u64> {
        let choice = self.choice()?;
        let planned = u64::from(choice.hours.max(1));
        // Only what was added has a rate that may have to be rounded.
        let added = hours.saturating_sub(planned).saturating_mul(choice.su_milli.div_ceil(planned));
        Some(choice.su_milli.saturating_add(added))
    }

    /// What the lease costs with all its extensions, or would cost as it was planned; nothing if nothing is being tried.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        let hours = self.lease_end().and_then(|end| self.hours_until(end)).unwrap_or_default();
        Some(Cost { milli_su: self.milli_su_of(hours)?, known: self.choice()?.su_known })
    }

    /// The address of the server inside its network, once it is known.
    #[must_use]
    pub fn fixed_address(&self) -> Option<&str> {
        self.fixed.as_deref().or_else(|| self.detail_of(Kind::Server))
    }

    /// What is being tried.
    #[must_use]
    pub fn choice(&self) -> Option<&Choice> {
        self.order.choices.get(self.choice)
    }

    /// The image that is taken.
    #[must_use]
    pub fn image(&self) -> Option<&OrderImage> {
        self.choice()?.images.get(self.image)
    }

    /// The other site that was seen to have room last, if any was looked at.
    #[must_use]
    pub fn room(&self) -> Option<&str> {
        self.room.as_deref()
    }

    /// When to call again if nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        match self.state {
            State::Waiting(_, due) => Some(due),
            _ => None,
        }
    }
}
