//! The controller dies at every write, before it arrives, after it, and after it without an answer.

use orlop_k8s::testing::{Fault, Match, What};

use super::bed::Bed;
use super::life::spec;

async fn run(fault: Option<Fault>) -> Bed {
    let mut bed = Bed::new();
    if let Some(fault) = fault {
        bed.server.faults().push(fault);
    }
    bed.submit("etl", spec());
    bed.run().await;
    bed
}

#[tokio::test]
async fn every_write_may_be_the_last_of_a_controller() {
    let whole = run(None).await;
    let (want, writes) = (whole.outcome("etl"), whole.writes().len());
    let faults = [What::StopBefore, What::StopAfter, What::StopBeforeAnswer, What::DropAnswer, What::TimeoutAfter];
    // Two of them at each write; all of them are tried in a longer run.
    let all = std::env::var("ORLOP_TEST_CRASHES").is_ok_and(|which| which == "all");
    let each = if all { faults.len() } else { 2 };
    let mut plans = 0;
    for at in 0..writes {
        for what in faults.iter().cycle().skip(2 * at).take(each) {
            let told = format!("{what:?} at {:?}", whole.writes()[at]);
            let when = Match::write().nth(at as u64 + 1);
            let bed = run(Some(Fault { when, what: what.clone() })).await;
            assert_eq!(bed.outcome("etl"), want, "{told}");
            bed.check_jobs_once();
            plans += 1;
        }
    }
    assert_eq!(plans, writes * each);
    println!("{plans} faults, each at one of {writes} writes");
}
