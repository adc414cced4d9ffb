//! What can be seen of a saga from outside. Owns no rule.

use orlop_core::machine::saga::SagaState;
use orlop_core::time::Time;

use super::{Failure, Saga};
use crate::provision::journal::Kind;
use crate::provision::order::{Choice, Order, OrderImage};

impl Saga {
    /// What is carried out.
    #[must_use]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// In which state it is.
    #[must_use]
    pub fn state(&self) -> SagaState {
        self.state
    }

    /// Which attempt it is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
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

    /// What else is known of an object: the reservation of a lease, the address of a floating IP.
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

    /// The address of the server inside its network, once it is known.
    #[must_use]
    pub fn fixed_address(&self) -> Option<&str> {
        self.fixed.as_deref()
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

    /// When to call again if nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.wait
    }
}
