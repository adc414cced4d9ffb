//! Lines of the audit trail: written with what is written anyway, or soon, or at the latest when the server ends.

use orlop_core::ports::fleet_store::{AuditEntry, AuditFilter, FleetReads as _, Page};
use orlop_core::time::Time;
use serde_json::json;

use super::fixture::{Fixture, until};

fn entry(target: &str) -> AuditEntry {
    AuditEntry {
        number: 0,
        time: Time::from_millis(1),
        actor: "somebody".to_owned(),
        tenant: None,
        action: "jobs.submit".into(),
        target: target.to_owned(),
        outcome: "ok".into(),
        request_id: None,
    }
}

async fn targets(fixture: &Fixture) -> Vec<String> {
    let found = fixture.store.audit(&AuditFilter::default(), &Page::first(100)).await.unwrap().items;
    found.into_iter().map(|entry| entry.target).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_the_audit_trail_goes_along_with_the_next_batch() {
    let fixture = Fixture::new().await;
    let mut expected = Vec::new();
    for number in 0..20 {
        fixture.handle().note(entry(&number.to_string())).await;
        expected.push(number.to_string());
        fixture.submit(&[json!({})]).await;
        assert_eq!(targets(&fixture).await, expected, "what is answered is committed, and the line with it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_the_audit_trail_that_nothing_goes_along_with_is_written_soon() {
    let fixture = Fixture::new().await;
    for number in 0..3 {
        fixture.handle().note(entry("alone")).await;
        until("the line", async || (targets(&fixture).await.len() > number).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_lines_of_the_audit_trail_than_may_wait_are_written_all_the_same() {
    let fixture = Fixture::new().await;
    for number in 0..5000 {
        fixture.handle().note(entry(&number.to_string())).await;
    }
    let count = async || {
        let (mut count, mut page) = (0, Page::first(10_000));
        loop {
            let found = fixture.store.audit(&AuditFilter::default(), &page).await.unwrap();
            count += found.items.len();
            let Some(next) = found.next else { return count };
            page = Page::after(next, 10_000);
        }
    };
    until("all lines", async || (count().await == 5000).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_the_audit_trail_is_written_when_the_server_ends() {
    let mut fixture = Fixture::new().await;
    fixture.handle().note(entry("the last")).await;
    fixture.stop().await;
    assert_eq!(targets(&fixture).await, ["the last"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_held_up_by_lines_that_cannot_be_written() {
    let mut fixture = Fixture::new().await;
    let handle = fixture.handle();
    fixture.stop().await;
    for _ in 0..5000 {
        handle.note(entry("too late")).await;
    }
    assert_eq!(targets(&fixture).await, [] as [&str; 0]);
}
