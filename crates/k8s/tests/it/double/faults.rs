//! What goes wrong on purpose.

use kube::api::{ListParams, PostParams};
use orlop_k8s::testing::{ApiServer, Fault, Match, Verb, What};

use super::{config_map, config_maps, refusal};

#[tokio::test]
async fn faults_strike_the_request_they_wait_for() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let cases = [
        (What::Refuse(429), 429, false),
        (What::Refuse(500), 500, false),
        (What::RefuseWith(403, "no".to_owned()), 403, false),
        (What::Conflict, 409, false),
        (What::Timeout, 504, false),
        (What::TimeoutAfter, 504, true),
    ];
    for (index, (what, code, stored)) in cases.into_iter().enumerate() {
        server.faults().push(Fault { when: Match::of(Verb::Create, "configmaps"), what });
        let name = format!("m{index}");
        assert_eq!(refusal(maps.create(&PostParams::default(), &config_map(&name, "1")).await).0, code);
        assert_eq!(maps.get_opt(&name).await.expect("an answer").is_some(), stored, "{code}");
    }
    assert_eq!((server.faults().waiting(), server.faults().struck()), (0, 6));
}

#[tokio::test]
async fn lost_answers_leave_the_outcome_open() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    for (what, stored) in [(What::DropAnswer, true), (What::Unreachable, false)] {
        server.faults().push(Fault { when: Match::write(), what });
        let name = format!("m-{stored}");
        let error = maps.create(&PostParams::default(), &config_map(&name, "1")).await.expect_err("no answer");
        assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
        assert_eq!(maps.get_opt(&name).await.expect("an answer").is_some(), stored);
    }
    assert_eq!(
        server.writes().iter().map(|write| (write.number, write.changed)).collect::<Vec<_>>(),
        [(1, true), (2, false)]
    );
}

#[tokio::test]
async fn a_client_stops_at_a_write_and_others_go_on() {
    for (what, answered, stored) in
        [(What::StopAfter, true, true), (What::StopBeforeAnswer, false, true), (What::StopBefore, false, false)]
    {
        let server = ApiServer::new();
        server.faults().push(Fault { when: Match::write().by("operator").nth(2), what });
        let (operator, other) = (config_maps(server.client_named("operator")), config_maps(server.client()));
        operator.create(&PostParams::default(), &config_map("a", "1")).await.expect("the first write passes");
        other.create(&PostParams::default(), &config_map("x", "1")).await.expect("others do not count");
        assert_eq!(operator.create(&PostParams::default(), &config_map("b", "1")).await.is_ok(), answered);
        server.faults().stopped("operator").await;
        operator.get("a").await.expect_err("nothing works any more");
        assert_eq!(other.get_opt("b").await.expect("an answer").is_some(), stored);
        server.faults().restart("operator");
        operator.get("a").await.expect("it is back");
    }
}

#[tokio::test]
async fn lists_can_be_old() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, "1")).await.expect("created");
    }
    server.faults().push(Fault { when: Match::of(Verb::List, "configmaps"), what: What::StaleList(2) });
    let old = maps.list(&ListParams::default()).await.expect("a list");
    assert_eq!(old.items.len(), 1);
    assert_eq!(maps.list(&ListParams::default()).await.expect("a list").items.len(), 3);
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let server = ApiServer::new();
    config_maps(server.client()).create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    let fork = server.fork();
    config_maps(fork.client()).create(&PostParams::default(), &config_map("b", "1")).await.expect("created");
    assert_eq!((server.look_all("configmaps").len(), fork.look_all("configmaps").len()), (1, 2));
}
