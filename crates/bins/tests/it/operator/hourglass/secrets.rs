//! K6 on the real program: what is planted as a secret is found in a Secret, in the object that somebody wrote it into, and
//! nowhere else.

use orlop::k8s::testing::{Fault, Match, Verb, What};
use serde_json::{Value, json};

use super::fixture::{Fixture, example};

/// A key of an operator, credentials in an address, and a token in a path.
const PLANTED: [&str; 3] = ["Planted-Key-6d5f1c9b7a", "planted-password-41", "planted0token0in0a0path0"];

/// Every kind of object that a program may write.
const KINDS: [&str; 13] = [
    "configmaps",
    "pods",
    "services",
    "serviceaccounts",
    "deployments.apps",
    "controllerrevisions.apps",
    "poddisruptionbudgets.policy",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "performers.hourglass.eigenlayer.io",
    "hourglassexecutors.hourglass.eigenlayer.io",
    "nodes",
];

fn planted() -> Value {
    let mut executor = example("executor-basic");
    let config = &mut executor["spec"]["config"];
    config.as_object_mut().unwrap().remove("operatorKeysSecretRef");
    config["operatorKeys"] = json!({"ecdsa": PLANTED[0]});
    config["aggregatorEndpoint"] = json!(format!("https://user:{}@aggregator.example:9000", PLANTED[1]));
    config["chains"][0]["rpc"] = json!(format!("https://ethereum.example/v2/{}", PLANTED[2]));
    executor
}

/// What must not hold a secret: all objects without what somebody wrote into them, the log, and the metrics.
fn places(fixture: &Fixture, log: String, metrics: String) -> Vec<(String, String)> {
    let mut all = vec![("the log".to_owned(), log), ("the metrics".to_owned(), metrics)];
    for kind in KINDS {
        for mut object in fixture.server.look_all(kind) {
            if kind.contains("hourglass") {
                object.as_object_mut().unwrap().remove("spec");
                // Who has written which field says its path, not its value.
                object["metadata"].as_object_mut().unwrap().remove("managedFields");
            }
            all.push((format!("{kind} {}", object["metadata"]["name"]), object.to_string()));
        }
    }
    all
}

#[test]
fn secrets_are_in_the_secret_and_nowhere_else() {
    let fixture = Fixture::everywhere();
    // A server that quotes what it refuses, and what it cannot read.
    let reads = Match { resource: Some("secrets".into()), verb: Some(Verb::Get), ..Match::any() };
    fixture.server.faults().push(Fault { when: reads, what: What::RefuseWith(500, PLANTED.join(" ")) });
    for (resource, code) in [("secrets", 422), ("secrets", 500), ("deployments", 422)] {
        let when = Match { resource: Some(resource.into()), ..Match::write() };
        let words = format!("{resource} is invalid: {}", PLANTED.join(" "));
        fixture.server.faults().push(Fault { when, what: What::RefuseWith(code, words) });
    }
    // And one that quotes them when it is asked for all, or for what changes.
    for (verb, resource, code) in
        [(Verb::List, "hourglassexecutors", 500), (Verb::List, "performers", 403), (Verb::Watch, "services", 503)]
    {
        let when = Match::of(verb, resource).times(2);
        fixture.server.faults().push(Fault { when, what: What::RefuseWith(code, PLANTED.join(" ").repeat(99)) });
    }
    let lease = Match::of(Verb::Get, "leases").times(2);
    fixture.server.faults().push(Fault { when: lease, what: What::RefuseWith(500, PLANTED.join(" ")) });
    let operator = fixture.start("operator", &["--log-level=trace", "--resync=2s"]);
    fixture.waits("word of the lease", || operator.log().contains("the lease cannot be asked for"));
    fixture.waits("word of what cannot be watched", || operator.log().contains("may not watch performers"));
    let (_, readiness) = operator.get("/readyz?verbose");
    fixture.submit(&planted());
    fixture.waits("the refusal", || {
        fixture.condition("HourglassExecutor", "basic", "Degraded") == "True/AdmissionRefused"
            || fixture.names("secrets").len() == 1
    });
    // Another spec is tried again.
    fixture.patch("HourglassExecutor", "basic", &json!({"spec": {"config": {"logLevel": "debug"}}}));
    fixture.waits("the Secret", || fixture.names("secrets") == ["basic-secrets"]);
    let mut levels = ["warn", "error", "info", "debug"].into_iter().cycle();
    fixture.waits("the executor in Running, whatever is refused on the way", || {
        let status = fixture.status("HourglassExecutor", "basic");
        let is_told = status["observedGeneration"] == fixture.generation("HourglassExecutor", "basic");
        if is_told && fixture.condition("HourglassExecutor", "basic", "Degraded") == "True/AdmissionRefused" {
            fixture.patch("HourglassExecutor", "basic", &json!({"spec": {"config": {"logLevel": levels.next()}}}));
        }
        is_told && status["phase"] == "Running"
    });
    assert!(fixture.server.faults().struck() >= 10, "the server has quoted them");
    let secret = fixture.server.look("secrets", "default", "basic-secrets").unwrap();
    let shown: String = secret["data"].as_object().unwrap().values().map(decoded).collect();
    for word in PLANTED {
        assert!(shown.contains(word), "{word} is in the Secret");
    }
    let config = fixture.server.look("configmaps", "default", "basic-config").unwrap();
    assert!(config["data"]["executor-config.yaml"].as_str().unwrap().contains("__redacted__"));
    let (_, metrics) = operator.get("/metrics");
    let mut all = places(&fixture, operator.log(), metrics);
    all.push(("readiness".to_owned(), readiness));
    assert!(all.len() > 10 && all[0].1.len() > 1000, "there is something to look at");
    for (place, text) in all {
        for word in PLANTED {
            let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, word);
            assert!(!text.contains(word) && !text.contains(&encoded), "{word} is in {place}: {text}");
        }
    }
}

fn decoded(value: &Value) -> String {
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, value.as_str().unwrap()).unwrap();
    String::from_utf8(bytes).unwrap()
}
