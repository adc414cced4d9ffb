//! Malformed and random requests to every route of the document: none is answered by a fault of the server.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use super::fixture::{Ask, Fixture};
use crate::api::document;

/// Every operation of the document: method, path, names of its query, names of the fields of its body.
fn operations() -> Vec<(String, String, Vec<String>, Vec<String>)> {
    let json = document();
    let schema = |reference: &str| &json["components"]["schemas"][reference.rsplit('/').next().unwrap()];
    let mut all = Vec::new();
    for (path, item) in json["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let named = |place: &str| -> Vec<String> {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let here = parameters.filter(|parameter| parameter["in"] == place);
                here.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
            };
            let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let mut fields: Vec<String> = vec!["jobs".into()];
            for name in body.as_str().into_iter().chain(["#/components/schemas/JobSpec"]) {
                fields
                    .extend(schema(name)["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
            }
            let path = path.trim_start_matches("/api/v1").to_owned();
            // Good answers of a stream have no end; they have a test of their own.
            if path == "/events" || path == "/live" {
                continue;
            }
            all.push((method.to_uppercase(), path, named("query"), fields));
        }
    }
    all
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "1Gi",
            "-1",
            "0-99",
            "{{index}}",
            "*",
            "9e999",
            "noop",
            "2026-11-21T00:00:00Z",
            "10m"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{1,8}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// A request of an operation, with parts that are more or less what they should be.
fn request(known_job: String) -> impl Strategy<Value = Ask> {
    let parts =
        vec![known_job, "default".to_owned(), "x".to_owned(), "%00".to_owned(), "%F0%9F".to_owned(), "..".to_owned()];
    prop::sample::select(operations()).prop_flat_map(move |(method, path, query, fields)| {
        let pairs = prop::collection::vec(
            (prop::sample::select([query.clone(), vec!["q".into()]].concat()), "[!-~]{0,10}"),
            0..3,
        );
        let body = prop_oneof![
            3 => prop::collection::vec((prop::sample::select(fields), value()), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>()).to_string().into_bytes()),
            1 => value().prop_map(|value| value.to_string().into_bytes()),
            1 => prop::collection::vec(any::<u8>(), 0..64),
        ];
        let headers = prop::collection::vec(
            (prop::sample::select(vec!["idempotency-key", "if-match", "x-request-id", "traceparent"]), "[ -~]{0,12}"),
            0..3,
        );
        let inputs = (prop::sample::select(parts.clone()), pairs, prop::option::of(body), headers);
        inputs.prop_map(move |(part, pairs, body, headers)| {
            let path = path.replace("{id}", &part).replace("{name}", &part).replace("{sha256}", &part);
            let escaped =
                |text: &str| text.replace(['#', '%', ' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'], "%20");
            let query: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
            let waits = query.iter().any(|pair| pair.starts_with("wait") || pair.starts_with("follow"));
            let query = if query.is_empty() || waits { String::new() } else { format!("?{}", query.join("&")) };
            let mut ask = Ask::new(&method, &format!("{path}{query}"));
            for (name, value) in headers {
                ask = ask.with(name, &value);
            }
            match body {
                Some(body) => ask.raw(body).with("content-type", "application/json"),
                None => ask,
            }
        })
    })
}

#[test]
fn no_request_makes_the_server_fail() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let fixture = runtime.block_on(Fixture::new());
    let job = runtime.block_on(fixture.submit(&json!({ "array": { "count": 5 } })));
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let mut kinds = std::collections::BTreeSet::new();
    let codes = std::cell::RefCell::new(&mut kinds);
    runner
        .run(&request(job), |ask| {
            let shown = format!("{ask:?}");
            let Some(answer) = runtime.block_on(fixture.try_ask(ask)) else { return Ok(()) };
            codes.borrow_mut().insert(answer.status);
            prop_assert!(answer.status < 500, "{} {}: {}", answer.status, shown, answer.text);
            if answer.status >= 400 {
                prop_assert_eq!(&answer.body()["status"], &json!(answer.status));
            }
            prop_assert!(!answer.header("x-request-id").is_empty());
            Ok(())
        })
        .unwrap();
    assert!(kinds.contains(&200) && kinds.contains(&400) && kinds.contains(&404), "{kinds:?}");
}
