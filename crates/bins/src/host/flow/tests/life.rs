//! Flows from their beginning to their end.

use std::time::Duration;

use orlop_core::error::Class;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::Decision;
use orlop_core::testing::substrate::{Play, When};
use serde_json::json;

use super::bench::{Bench, UID, flow, outcome};
use crate::host::flow::{FlowCommand, FlowHost, HostParts, Keep, Left, Submission};

#[tokio::test(start_paused = true)]
async fn a_chain_runs_in_order() {
    let bench = Bench::new();
    let status = bench
        .run(json!({"steps": [
            {"name": "c", "dependencies": ["b"]},
            {"name": "a"},
            {"name": "b", "dependencies": ["a"]},
        ]}))
        .await;
    insta::assert_snapshot!(outcome(&status), @"
    Succeeded
    c Succeeded 1
    a Succeeded 1
    b Succeeded 1
    ");
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    start b/1
    start c/1
    ");
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_is_tried_again_after_its_delay() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a").attempt(1), Play::exit(3));
    bench.substrate.script(When::step("a").attempt(2), Play::lost());
    let status = bench.run(json!({"steps": [{"name": "a", "retryPolicy": {"limit": 1}}]})).await;
    insta::assert_snapshot!(outcome(&status), @"
    Succeeded
    a Succeeded 3
    ");
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    start a/2
    start a/3
    ");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_and_waits_for_the_end() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a"), Play::forever());
    let status =
        bench.run(json!({"steps": [{"name": "a", "timeoutSeconds": 5}, {"name": "b", "dependencies": ["a"]}]})).await;
    insta::assert_snapshot!(outcome(&status), @"
    Failed
    a Failed/Timeout 1
    b Skipped/DependencyFailed 0
    ");
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    cancel a/1
    ");
}

#[tokio::test(start_paused = true)]
async fn instances_run_and_their_outputs_are_collected() {
    let bench = Bench::new();
    bench.substrate.script(When::step("list"), Play::success().file("items", r#"["x",{"n":2}]"#));
    let output = json!({"parameters": [{"name": "items", "valueFrom": {"path": "/o"}}]});
    let command = json!({"command": ["echo", "${parameters.item}", "${parameters.index}"]});
    let status = bench
        .run(json!({"steps": [
            {"name": "list", "outputs": output},
            {"name": "each", "withParam": "list:$.outputs.items", "outputs": output, "template": super::bench::job(command)},
        ]}))
        .await;
    insta::assert_snapshot!(outcome(&status), @"
    Succeeded
    list Succeeded 1
    each Succeeded 0
    each-i0 Succeeded 1
    each-i1 Succeeded 1
    ");
    let each = status.steps[1].outputs.clone().unwrap();
    assert_eq!(each.parameter("items").unwrap(), r#"["each/items","each/items"]"#);
    let key = bench.substrate.calls().last().unwrap().key().unwrap().clone();
    let spec = bench.substrate.spec(&key).unwrap();
    assert_eq!(
        spec.template.pointer("/spec/template/spec/containers/0/command").unwrap(),
        &json!(["echo", r#"{"n":2}"#, "1"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_decision_lets_a_paused_flow_go_on() {
    let bench = Bench::new();
    let mut host =
        bench.submit(json!({"steps": [{"name": "ok", "type": "Manual"}, {"name": "a", "dependencies": ["ok"]}]})).await;
    let handle = host.handle();
    let decide = |step: &str, decision| FlowCommand::Decide {
        step: step.into(),
        decision,
        by: Some("ann".into()),
        reason: None,
        verified: false,
    };
    let person = async {
        handle.status().wait_for(|view| view.status.phase.to_string() == "Paused").await.unwrap();
        let missing = handle.order(decide("nix", Decision::Approved)).await.unwrap_err();
        insta::assert_snapshot!(missing, @"flow `etl` has no step `nix`; its Manual steps are ok");
        let job = handle.order(decide("a", Decision::Approved)).await.unwrap_err();
        assert_eq!(job.class, Class::Conflict);
        handle.order(decide("ok", Decision::Approved)).await.unwrap();
    };
    let (left, ()) = tokio::join!(host.run(), person);
    assert_eq!(left.unwrap(), Left::Ended);
    insta::assert_snapshot!(outcome(&host.status()), @"
    Succeeded
    ok Succeeded 0
    a Succeeded 1
    ");
    assert_eq!(host.status().steps[0].approval.as_ref().unwrap().by.as_deref(), Some("ann"));
    let late = crate::host::flow::event(host.plan(), host.state(), &FlowCommand::Resume, orlop_core::time::Time::EPOCH);
    insta::assert_snapshot!(late.unwrap_err(), @"flow `etl` has ended: it is Succeeded; nothing can change it");
}

#[tokio::test(start_paused = true)]
async fn of_two_orders_given_at_once_the_second_is_checked_against_the_first() {
    let bench = Bench::new();
    let mut host =
        bench.submit(json!({"steps": [{"name": "ok", "type": "Manual"}, {"name": "a", "dependencies": ["ok"]}]})).await;
    let handle = host.handle();
    let decide =
        |decision| FlowCommand::Decide { step: "ok".into(), decision, by: None, reason: None, verified: false };
    let people = async {
        handle.status().wait_for(|view| view.status.phase.to_string() == "Paused").await.unwrap();
        tokio::join!(handle.order(decide(Decision::Approved)), handle.order(decide(Decision::Rejected)))
    };
    let (left, (yes, no)) = tokio::join!(host.run(), people);
    left.unwrap();
    assert_eq!(yes, Ok(true));
    assert_eq!(no.unwrap_err().class, Class::Conflict);
    let bench = Bench::new();
    let mut host = bench.submit(json!({"steps": [{"name": "a"}], "suspend": true})).await;
    let handle = host.handle();
    let people = async { tokio::join!(handle.order(FlowCommand::Resume), handle.order(FlowCommand::Resume)) };
    let (left, (first, second)) = tokio::join!(host.run(), people);
    left.unwrap();
    assert_eq!(first, Ok(true));
    assert_eq!(second.unwrap_err().class, Class::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_host_told_not_to_wait_for_people_leaves() {
    let bench = Bench::new();
    let parts = HostParts { leave_when_paused: true, ..bench.parts() };
    let flow = super::bench::flow(json!({"steps": [{"name": "ok", "type": "Manual"}, {"name": "a"}]}));
    let submission = crate::host::flow::Submission::new(flow, super::bench::UID);
    let mut host = crate::host::flow::FlowHost::submit(parts, submission, Vec::new()).await.unwrap();
    assert_eq!(host.run().await.unwrap(), Left::Paused);
    insta::assert_snapshot!(outcome(&host.status()), @"
    Paused
    ok PendingApproval 0
    a Succeeded 1
    ");
}

#[tokio::test(start_paused = true)]
async fn suspension_stops_the_clocks_of_attempts_and_resume_lets_them_go() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a"), Play::forever());
    let mut host = bench.submit(json!({"steps": [{"name": "a", "timeoutSeconds": 60}]})).await;
    let handle = host.handle();
    let mut status = handle.status();
    let person = async {
        status.wait_for(|view| view.status.progress.running_steps == 1).await.unwrap();
        handle.order(FlowCommand::Suspend { mode: Some(SuspendMode::Suspend) }).await.unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        handle.order(FlowCommand::Resume).await.unwrap();
        assert_eq!(handle.order(FlowCommand::Resume).await.unwrap_err().class, Class::Conflict);
    };
    let (left, ()) = tokio::join!(host.run(), person);
    left.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Failed
    a Failed/Timeout 1
    ");
    let took = host.status().completion_time.unwrap().since(host.status().start_time.unwrap());
    assert!((660..662).contains(&took.as_secs()), "{took:?}");
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    suspend a/1
    resume a/1
    cancel a/1
    ");
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_lets_attempts_finish_and_a_second_one_ends_them() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a"), Play::forever());
    let mut host = bench
        .submit(json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}], "finally": [{"name": "f"}]}))
        .await;
    let handle = host.handle();
    let mut status = handle.status();
    let person = async {
        status.wait_for(|view| view.status.progress.running_steps == 1).await.unwrap();
        handle.order(FlowCommand::Stop { mode: StopMode::Graceful }).await.unwrap();
        handle.order(FlowCommand::Stop { mode: StopMode::Terminate }).await.unwrap();
    };
    let (left, ()) = tokio::join!(host.run(), person);
    left.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Failed
    a Failed/Terminated 1
    b Skipped/Stopped 0
    f Skipped/Terminated 0
    ");
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_never_began_can_be_stopped() {
    let bench = Bench::new();
    let mut host = bench.submit(json!({"steps": [{"name": "a"}], "suspend": true})).await;
    let handle = host.handle();
    let person = handle.order(FlowCommand::Stop { mode: StopMode::Terminate });
    let (left, _) = tokio::join!(host.run(), person);
    left.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Failed
    a Skipped/Terminated 0
    ");
    assert_eq!(bench.calls(), "");
}

#[tokio::test(start_paused = true)]
async fn settled_jobs_are_forgotten_where_the_flow_says_so() {
    let bench = Bench::new();
    bench.substrate.script(When::step("b"), Play::exit(1));
    bench
        .run(json!({"executionPolicy": {"jobRetention": "Failed"}, "steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}))
        .await;
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    forget a/1
    start b/1
    ");
}

#[tokio::test(start_paused = true)]
async fn the_ttl_of_a_template_is_kept_while_a_host_is_there_and_ends_with_it() {
    let bench = Bench::new();
    let template = |ttl: u64| json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"ttlSecondsAfterFinished": ttl, "template": {"spec": {"containers": [{"name": "main", "image": "i", "command": ["c"]}]}}}});
    bench.substrate.script(When::step("b").attempt(1), Play::exit(1));
    let retry = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1m"}});
    bench
        .run(json!({"steps": [
            {"name": "a", "template": template(30)},
            {"name": "b", "dependencies": ["a"], "retryPolicy": retry},
            {"name": "c", "dependencies": ["b"], "template": template(3600)},
        ]}))
        .await;
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    start b/1
    forget a/1
    start b/2
    start c/1
    forget c/1
    ");
}

#[tokio::test(start_paused = true)]
async fn starts_are_bounded() {
    let bench = Bench::new();
    let steps: Vec<_> = (0..50).map(|n| json!({"name": format!("s{n}")})).collect();
    let parts = HostParts { starts: 3, ..bench.parts() };
    let submission = crate::host::flow::Submission::new(super::bench::flow(json!({"steps": steps})), super::bench::UID);
    let mut host = crate::host::flow::FlowHost::submit(parts, submission, Vec::new()).await.unwrap();
    host.run().await.unwrap();
    assert_eq!(host.status().progress.summary, "50/50");
    assert!(bench.substrate.repeated().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_an_attempt_goes_once_its_end_is_written_down_also_under_the_next_host() {
    let bench = Bench::new();
    let spec = json!({"steps": [{"name": "a"}, {"name": "m", "type": "Manual", "dependencies": ["a"]}]});
    let parts = HostParts { leave_when_paused: true, keep: Keep::Everything, ..bench.parts() };
    let mut host = FlowHost::submit(parts, Submission::new(flow(spec), UID), Vec::new()).await.unwrap();
    assert_eq!(host.run().await.unwrap(), Left::Paused);
    drop(host);
    insta::assert_snapshot!(bench.calls(), @"start a/1");
    // The host died before it came to it.
    let parts = HostParts { leave_when_paused: true, keep: Keep::Nothing, ..bench.next_parts() };
    let mut host = FlowHost::resume(parts, UID).await.unwrap();
    assert_eq!(host.run().await.unwrap(), Left::Paused);
    insta::assert_snapshot!(bench.calls(), @"
    list 0123abcd-0000-4000-8000-000000000000
    forget a/1
    ");
    // Whatever the flow says of its Jobs.
    let bench = Bench::new();
    let spec =
        json!({"steps": [{"name": "a", "retryPolicy": {"limit": 1}}], "executionPolicy": {"jobRetention": "All"}});
    bench.substrate.script(When::step("a").attempt(1), Play::exit(3));
    let parts = HostParts { keep: Keep::Nothing, ..bench.parts() };
    let mut host = FlowHost::submit(parts, Submission::new(flow(spec), UID), Vec::new()).await.unwrap();
    assert_eq!(host.run().await.unwrap(), Left::Ended);
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    forget a/1
    start a/2
    forget a/2
    ");
}
