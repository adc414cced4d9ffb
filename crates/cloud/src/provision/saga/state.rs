//! The states of a saga, with what only matters in them. Each belongs to one state of the table in `orlop_core::machine::saga`,
//! which the journal holds.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::time::Time;

use crate::provision::hostkey::HostKey;
use crate::provision::journal::Kind;

/// When something of which it is not known whether it was made is looked for, in seconds after the answer that was unclear.
pub(super) const LISTINGS: [u64; 5] = [0, 5, 15, 45, 120];

/// Times that a create is repeated after it was looked for in vain.
const REPEATS: u32 = 2;
/// The same, where nothing was made most likely.
const EASY_REPEATS: u32 = 3;

/// Where a saga is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// Nothing is under way.
    Rest(SagaState),
    /// Something is asked for, and not answered yet.
    Asked(Phase),
    /// Something will be asked for at a time.
    Waiting(Phase, Time),
}

/// What is asked for, and for what.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    Key(KeyCall, KeyWork),
    /// With how often it was tried.
    Require(Requirement, u32),
    Create(Creation),
    Settle(Creation),
    Reach(AddressCall, Creation),
    LeasePoll,
    ServerPoll,
    ServerStart,
    /// Reads the console of a server that failed, before the event is taken.
    Console(Turn),
    HostKeys {
        since: Time,
    },
    Probe {
        since: Time,
        host_keys: Vec<HostKey>,
    },
    /// Waits for the machine's worker, before the event is taken.
    Joining {
        since: Time,
        event: Turn,
    },
    Allocations,
    UndoList(Box<Undo>),
    UndoDelete(Box<Undo>, Kind, String),
    Resume(Resumption),
    Look(SagaState),
    Extend(Extension),
    ExtendPoll(Extension),
}

/// What is asked for a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum KeyCall {
    Look,
    Import,
}

/// What is asked for before the lease.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Requirement {
    FindGroup,
    CreateGroup,
    AllowSsh,
    Recheck,
}

/// What is asked for between a server and its address, which is made in between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AddressCall {
    ListPorts,
    ListAddresses,
    Bind,
    Look,
}

/// A key that is looked for or made.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct KeyWork {
    pub(super) tries: u32,
    /// The server that was refused without it.
    pub(super) server: Option<Creation>,
}

/// Something that is being made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Creation {
    pub(super) kind: Kind,
    pub(super) settle: Settle,
    /// Since when an address is made and bound.
    pub(super) since: Time,
    /// The ports that an address can be bound to, and the one it is bound to next.
    pub(super) ports: Vec<String>,
    pub(super) port: usize,
    /// Whether it is bound to that.
    pub(super) bound: bool,
}

impl Creation {
    pub(super) fn new(kind: Kind, since: Time) -> Self {
        Self { kind, settle: Settle::default(), since, ports: Vec::new(), port: 0, bound: false }
    }

    pub(super) fn port_left(&self) -> bool {
        self.port + 1 < self.ports.len()
    }
}

/// How a search for something that may have been made goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Settle {
    pub(super) began: Option<Time>,
    pub(super) listings: usize,
    /// Whether nothing was made most likely, so that one empty listing is enough.
    pub(super) easy: bool,
    pub(super) repeats: u32,
    pub(super) easy_repeats: u32,
    /// Creates that failed as those of a service that cannot make its trust.
    pub(super) distrusted: u32,
}

impl Settle {
    pub(super) fn listings_left(&self) -> bool {
        self.listings < if self.easy { 1 } else { LISTINGS.len() }
    }

    pub(super) fn repeats_left(&self) -> bool {
        if self.easy { self.easy_repeats < EASY_REPEATS } else { self.repeats < REPEATS }
    }
}

/// What follows once something is gone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Then {
    /// An event.
    Turn(Turn),
    /// Another server in the same lease.
    HostRetry,
    /// Nothing: only what is no part of the machine was removed.
    Watched,
}

/// Removing, under way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Undo {
    pub(super) at: SagaState,
    pub(super) kinds: BTreeSet<Kind>,
    pub(super) devices: BTreeSet<String>,
    pub(super) then: Then,
    pub(super) since: Time,
    /// When a deletion was last asked for.
    pub(super) asked: BTreeMap<(Kind, String), Time>,
    /// When a listing was first empty.
    pub(super) empty: Option<Time>,
    pub(super) found: Vec<(Kind, String, String)>,
    pub(super) last_failure: Option<String>,
    /// Looks that did not find a keypair that was made.
    pub(super) missed: u32,
}

/// A deployment that is looked at before it is taken up again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resumption {
    pub(super) at: SagaState,
    pub(super) tries: u32,
    pub(super) found: Option<ResumedLease>,
}

/// What the cloud showed of a deployment that is taken up again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ResumedLease {
    /// The lease is no more: why.
    LeaseGone(&'static str),
    LeaseYoung,
    /// The lease is active and has no server.
    LeaseBare,
    Server,
}

/// A lease that gets another end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Extension {
    pub(super) at: SagaState,
    pub(super) end: Time,
    pub(super) since: Time,
}

impl State {
    /// What is under way, if anything is.
    pub(super) const fn phase(&self) -> Option<&Phase> {
        match self {
            Self::Rest(_) => None,
            Self::Asked(phase) | Self::Waiting(phase, _) => Some(phase),
        }
    }

    /// Takes what is under way.
    pub(super) fn take(&mut self) -> Option<Phase> {
        let rest = Self::Rest(self.at());
        match std::mem::replace(self, rest) {
            Self::Rest(_) => None,
            Self::Asked(phase) | Self::Waiting(phase, _) => Some(phase),
        }
    }

    /// The state of the table.
    pub(super) const fn at(&self) -> SagaState {
        match self {
            Self::Rest(at) => *at,
            Self::Asked(phase) | Self::Waiting(phase, _) => phase.at(),
        }
    }

    pub(super) fn creation(&self) -> Option<&Creation> {
        match self.phase()? {
            Phase::Create(creation) | Phase::Settle(creation) | Phase::Reach(_, creation) => Some(creation),
            _ => None,
        }
    }

    pub(super) fn undo(&self) -> Option<&Undo> {
        match self.phase()? {
            Phase::UndoList(undo) | Phase::UndoDelete(undo, ..) => Some(undo),
            _ => None,
        }
    }

    pub(super) fn found(&self) -> Option<ResumedLease> {
        match self.phase()? {
            Phase::Resume(resumption) => resumption.found,
            _ => None,
        }
    }
}

impl Phase {
    /// The state of the table that it belongs to.
    pub(super) const fn at(&self) -> SagaState {
        match self {
            Self::Key(_, work) if work.server.is_none() => SagaState::KeyIntent,
            Self::Key(..) => SagaState::ServerIntent,
            Self::Require(..) => SagaState::KeyReady,
            Self::Create(creation) => match creation.kind {
                Kind::Lease => SagaState::LeaseIntent,
                Kind::Server => SagaState::ServerIntent,
                _ => SagaState::FipIntent,
            },
            Self::Settle(creation) => match creation.kind {
                Kind::Lease => SagaState::LeaseSettle,
                Kind::Server => SagaState::ServerSettle,
                _ => SagaState::FipSettle,
            },
            Self::LeasePoll => SagaState::LeaseWait,
            Self::ServerPoll | Self::ServerStart | Self::Console(_) => SagaState::ServerWait,
            Self::Reach(..) => SagaState::FipIntent,
            Self::HostKeys { .. } | Self::Probe { .. } | Self::Joining { .. } => SagaState::Verifying,
            Self::Allocations => SagaState::CapacityWait,
            Self::UndoList(undo) | Self::UndoDelete(undo, ..) => undo.at,
            Self::Resume(resumption) => resumption.at,
            Self::Look(at) => *at,
            Self::Extend(extension) | Self::ExtendPoll(extension) => extension.at,
        }
    }
}
