//! Laws of sessions: what each side does alone, both over streams that break, and slots against a model of the server.

mod alone;
mod both;
mod slots;

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_core::id::{Epoch, Incarnation, SessionId};
use orlop_core::spec::job::JobSpec;

use super::super::frame::Spec;
use super::super::worker::{Limits, Registered};
use super::*;

pub(in super::super) fn registered(session: u8, epoch: u64) -> Registered {
    Registered {
        worker: "w".parse().unwrap(),
        incarnation: Incarnation::FIRST,
        session: SessionId::from_bytes([session; 16]),
        epoch: Epoch(epoch),
        protocol: 1,
        features: BTreeSet::new(),
        heartbeat_ms: 5000,
        lease_ms: 20_000,
        limits: Limits::OURS,
        certificate: Vec::new(),
        ca: Vec::new(),
        status: None,
    }
}

pub(super) fn pair() -> (AgentSession, ServerSession) {
    let registered = registered(1, 1);
    let server = ServerSession::new(registered.session, registered.epoch, registered.lease_ms);
    (AgentSession::new(&registered, 0), server)
}

/// Opens a stream between the two: what the agent gets of it.
pub(super) fn open(agent: &mut AgentSession, server: &mut ServerSession, now: u64) -> Receipt {
    let hello = agent.hello(now, Vec::new()).hello.unwrap();
    let welcome = server.welcome(&hello, Default::default()).unwrap();
    agent.receive(welcome).unwrap()
}

pub(super) fn spec(number: u64) -> Arc<Spec> {
    Arc::new(Spec::new(number, &JobSpec::default()))
}
