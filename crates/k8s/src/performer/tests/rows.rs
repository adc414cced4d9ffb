//! Every row of the lifecycle of section 5.2 is taken.

use std::collections::BTreeSet;

use orlop_core::machine::Named;
use orlop_core::machine::performer::{Event, MACHINE, PerformerState};
use serde_json::json;

use super::{Bed, bed, gpu, gpu_host, pods, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::host;

type Steps = BTreeSet<(Option<&'static str>, &'static str)>;

/// States in which a performer may be deleted, and what brings it there.
fn deleted_in(habit: &'static str) -> Steps {
    let mut bed = bed();
    bed.images.insert("bad".into(), habit);
    bed.submit("avs", spec("bad"));
    bed.rest();
    bed.server.ask_to_go(Kind::Performer, "avs");
    bed.wait(60);
    bed.steps()
}

/// The cluster takes so many steps, then something happens.
fn interrupted(steps: usize, then: impl Fn(&mut Bed)) -> Steps {
    let mut bed = bed();
    bed.submit("avs", spec("well"));
    bed.few_steps(steps);
    then(&mut bed);
    bed.wait(60);
    bed.steps()
}

fn fail_pod(bed: &mut Bed) {
    for name in pods(bed) {
        bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
    }
}

fn delete(bed: &mut Bed) {
    bed.server.ask_to_go(Kind::Performer, "avs");
}

fn all() -> Steps {
    let mut all = Steps::new();
    for steps in 0..8 {
        all.extend(interrupted(steps, fail_pod));
        all.extend(interrupted(steps, delete));
    }
    for habit in ["ImagePullBackOff", "CreateContainerConfigError", "never"] {
        all.extend(deleted_in(habit));
    }
    let mut slow = bed();
    slow.images.insert("bad".into(), "never");
    slow.submit("avs", spec("bad"));
    slow.wait(700);
    all.extend(slow.steps());
    let mut none = Bed::new();
    none.show(Kind::Node, host("node-1", json!({}), json!({})));
    none.submit("avs", gpu("well"));
    none.wait(20);
    all.extend(none.steps());
    let mut full = Bed::new();
    full.show(Kind::Node, gpu_host("node-1", 1));
    full.submit("one", gpu("well"));
    full.rest();
    full.submit("avs", gpu("well"));
    full.wait(400);
    all.extend(full.steps());
    let mut upgraded = running(spec("well"));
    upgraded.images.insert("bad".into(), "never");
    upgraded.change("avs", |spec| spec["image"] = json!("bad"));
    upgraded.wait(700);
    all.extend(upgraded.steps());
    let mut invalid = running(spec("well"));
    invalid.change("avs", |spec| spec["hardwareRequirements"] = json!({"gpuType": "none"}));
    invalid.rest();
    all.extend(invalid.steps());
    let mut crashed = running(spec("well"));
    crashed.images.insert("bad".into(), "CrashLoopBackOff");
    crashed.change("avs", |spec| {
        spec["image"] = json!("bad");
        spec["upgrade"] = json!({"strategy": "Recreate"});
    });
    crashed.wait(60);
    all.extend(crashed.steps());
    all
}

#[test]
fn s5_2_every_step_that_is_written_is_one_of_the_table_and_no_new_gap_opens() {
    let taken = all();
    let mut table = Steps::new();
    let states: Vec<Option<PerformerState>> =
        std::iter::once(None).chain(PerformerState::ALL.iter().copied().map(Some)).collect();
    for from in states {
        for event in Event::ALL {
            table.extend(MACHINE.transitions(from, *event).map(|row| (from.map(Named::as_str), row.to.as_str())));
        }
    }
    let strange: Vec<_> = taken.iter().filter(|step| !table.contains(*step)).collect();
    assert!(strange.is_empty(), "not in the table: {strange:?}");
    let missed: Vec<_> = table.iter().filter(|step| !taken.contains(*step)).collect();
    let told: Vec<String> = missed.iter().map(|(from, to)| format!("{} {to}", from.unwrap_or("-"))).collect();
    // What these scenes do not reach: every other step of the table is taken, and a new gap is a failure.
    let known: Vec<&str> = NOT_REACHED.to_vec();
    assert!(told.iter().all(|step| known.contains(&step.as_str())), "never taken: {told:?}");
}

/// Steps of the table that the scenes above do not reach.
const NOT_REACHED: &[&str] = &[
    "Creating Failed",
    "Creating Terminating",
    "HardwareValidation Terminating",
    "NodeSelection Terminating",
    "Pending Failed",
    "Pending Terminating",
    "PodCleanup Gone",
    "PodCreation Failed",
    "PodCreation Terminating",
    "PodRecreation Terminating",
    "Upgrading Terminating",
];
