//! The examples in `deploy/examples` are taken by the server, and the controllers can render every one of them.

use std::collections::BTreeSet;
use std::path::Path;

use orlop_k8s::testing::ApiServer;
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples");

fn documents() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(Path::new(FOLDER)).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a file");
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        all.extend(read.into_iter().map(|document| (name.clone(), document)));
    }
    all
}

#[test]
fn every_example_is_taken_and_nothing_of_it_is_lost() {
    let server = ApiServer::new();
    for (_, definition) in orlop_k8s::crd::all() {
        server.install(&definition).expect("the server takes the definition");
    }
    let mut names = BTreeSet::new();
    for (file, document) in documents() {
        let plural = match document["kind"].as_str() {
            Some("Performer") => "performers",
            Some("HourglassExecutor") => "hourglassexecutors",
            _ => continue,
        };
        let taken = server.create("hourglass.eigenlayer.io", plural, "default", &document);
        let taken = taken.unwrap_or_else(|error| panic!("{file}: {error}"));
        contains(&taken["spec"], &document["spec"], &file);
        names.insert(file);
    }
    assert!(names.len() >= 11, "{names:?}");
}

fn contains(taken: &Value, written: &Value, place: &str) {
    match written {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| contains(&taken[name], value, &format!("{place}.{name}")));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| contains(&taken[at], value, &format!("{place}[{at}]")));
        }
        other => assert_eq!(taken, other, "{place}"),
    }
}
