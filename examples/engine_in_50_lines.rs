//! The flow engine without a runtime: a loop, a queue of events by time, and a world in which every attempt takes two
//! seconds and succeeds. Nothing here waits: the time is whatever the next event says.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::time::Time;
use orlop_dag::engine::{FlowMeta, apply, init, next_deadline};
use orlop_dag::manifest::{Limits, Options, read};
use orlop_dag::plan::Plan;

fn main() -> Result<()> {
    let manifest = read("diamond.yaml", include_str!("flows/diamond.yaml"), &Options::new(Limits::elsewhere()))?;
    let flow = manifest.manifests.first().context("the file holds a flow")?.flow.clone();
    let plan = Plan::build(Arc::new(flow.spec))?;
    let meta = FlowMeta { uid: "example".into(), name: flow.metadata.name, ..FlowMeta::default() };

    let (mut effects, mut number) = (Vec::new(), 0);
    let mut state = init(&plan, &meta, Time::from_millis(0), &mut effects);
    let mut coming = BTreeMap::from([((Time::from_millis(0), number), FlowEvent::Admit)]);
    while !state.phase().is_terminal() {
        let next = coming.pop_first().map(|((at, _), event)| (at, event));
        let (now, event) = next
            .or_else(|| next_deadline(&state).map(|at| (at, FlowEvent::Tick)))
            .context("the flow waits for an event that never comes")?;
        apply(&plan, &mut state, &event, now, &mut effects);
        for effect in effects.drain(..) {
            for (after, event) in carry_out(&plan, effect, now) {
                number += 1;
                coming.insert((now.plus(after), number), event);
            }
        }
    }
    println!("{}", state.phase());
    Ok(())
}

/// The whole adapter: what the world answers to an effect, and after how long.
fn carry_out(plan: &Plan, effect: FlowEffect, now: Time) -> Vec<(Duration, FlowEvent)> {
    let (at_once, two_seconds) = (Duration::ZERO, Duration::from_secs(2));
    match effect {
        FlowEffect::EnsureResources => vec![(at_once, FlowEvent::ResourcesReady { refs: Vec::new() })],
        FlowEffect::StartAttempt { at, attempt, .. } => {
            println!("{now}  {} starts", plan.instance_name(at));
            let (result, ended_at) = (Box::default(), now.plus(two_seconds));
            vec![
                (at_once, FlowEvent::AttemptAccepted { at, attempt, reference: ObjectReference::default() }),
                (two_seconds, FlowEvent::AttemptSucceeded { at, attempt, result, ended_at }),
            ]
        }
        _ => Vec::new(),
    }
}
