//! Counters of workers on the real programs: an attempt finds out which units it holds, and no other has them meanwhile.

use super::programs::{Programs, Running, Scheduler, json, until};

const SMALL: [&str; 5] = ["submit", "--cpu", "100m", "--memory", "1Mi"];

fn worker(programs: &Programs, server: &Scheduler) -> Running {
    let worker = programs.worker("w1", &[&server.grpc], &["--extra", "fpga=2", "--extra", "scratch=1000000"]);
    let connected = |worker: &serde_json::Value| worker["connected"] == true;
    until("the worker", || json(&server.rest, "/workers/w1").filter(connected));
    worker
}

#[test]
fn attempts_hold_units_of_extras_that_no_other_has_also_after_a_restart_of_the_agent() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let mut agent = worker(&programs, &server);
    let submit = |more: &[&str]| {
        let gave = programs.orlop(&server.rest, &[&SMALL, more].concat());
        assert_eq!(gave.code, 0, "{gave:?}");
        gave.out.trim().to_owned()
    };
    let place = programs.path("units");
    std::fs::create_dir(&place).expect("a folder");
    let hold = format!(
        "set -e; test \"$ORLOP_EXTRA_FPGA\" = 1; cd '{}'; mkdir $ORLOP_EXTRA_FPGA_UNITS; sleep 0.05; \
         rmdir $ORLOP_EXTRA_FPGA_UNITS; echo unit $ORLOP_EXTRA_FPGA_UNITS",
        place.display()
    );
    let array = submit(&["--extra", "fpga=1", "--array", "0-9", "--wait", "--", "sh", "-c", &hold]);
    let log = programs.good(&server.rest, &["logs", &array]);
    assert!(log.contains("unit 0") && log.contains("unit 1") && !log.contains("unit 2"), "{log}");
    // One goes on while its agent does not.
    let long = submit(&["--extra", "fpga=1", "--", "sleep", "600"]);
    until("it runs", || json(&server.rest, &format!("/jobs/{long}")).filter(|job| job["state"] == "Running"));
    agent.kill();
    let _agent = worker(&programs, &server);
    let show = "echo $ORLOP_EXTRA_FPGA $ORLOP_EXTRA_FPGA_UNITS $ORLOP_EXTRA_SCRATCH $ORLOP_EXTRA_SCRATCH_UNITS";
    let next = submit(&["--extra", "fpga=1", "--extra", "scratch=500000", "--wait", "--", "sh", "-c", show]);
    assert_eq!(programs.good(&server.rest, &["logs", &next]), "1 1 500000\n");
    let fpga = serde_json::json!({ "name": "extra:fpga", "allocated": 1, "total": 2 });
    let holds =
        |worker: &serde_json::Value| worker["further"].as_array().is_some_and(|further| further.contains(&fpga));
    until("what the worker has", || json(&server.rest, "/workers/w1").filter(holds));
    let page = programs.good(&server.rest, &["workers", "get", "w1"]);
    assert!(page.contains("extra       fpga 1 of 2"), "{page}");
    programs.good(&server.rest, &["cancel", &long]);
}
