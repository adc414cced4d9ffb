//! Secrets on the real programs: stored, handed to jobs, masked, and found nowhere afterwards.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use super::bench::Bench;

/// A value with characters that encodings change.
const PLANTED: &str = "hunter/22?\"plänted+secret";

/// What must be found nowhere.
fn needles() -> Vec<Vec<u8>> {
    let json = serde_json::Value::from(PLANTED).to_string();
    let all = [PLANTED, json.trim_matches('"'), &STANDARD.encode(PLANTED), &URL_SAFE_NO_PAD.encode(PLANTED)];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

fn is_clean(what: &str, bytes: &[u8]) {
    for needle in needles() {
        let found = bytes.windows(needle.len()).any(|part| part == needle);
        assert!(!found, "{what} holds the secret as {}", String::from_utf8_lossy(&needle));
    }
}

/// Looks through every file below a folder; gives how many there were.
fn scan(folder: &Path) -> usize {
    let mut count = 0;
    // What a job leaves may go while this looks.
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return 0,
        entries => entries.expect("a folder"),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type().expect("a kind") {
            kind if kind.is_dir() => count += scan(&path),
            kind if kind.is_file() => {
                count += 1;
                is_clean(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
            }
            _ => {}
        }
    }
    count
}

fn job(bench: &Bench, name: &str, script: &str, more: serde_json::Value) -> String {
    let mut spec = json!({
        "script": script,
        "resources": { "cpu_m": 100, "memory_bytes": 16 << 20 },
        "secret_refs": [
            { "name": "db", "as": "env", "target": "DB_PASSWORD" },
            { "name": "db", "as": "file", "target": "keys/db" },
        ],
    });
    for (key, value) in more.as_object().expect("fields") {
        spec[key] = value.clone();
    }
    let path = bench.place(name);
    std::fs::write(&path, spec.to_string()).expect("a file is written");
    path.display().to_string()
}

#[test]
fn planted_secrets_reach_the_job_and_nothing_else() {
    let bench = Bench::up(&[]);
    let set = bench.orlop_with(&["secret", "set", "db"], PLANTED.as_bytes());
    assert_eq!((set.code, set.out.as_str(), set.err.as_str()), (0, "", ""), "{set:?}");
    let place = bench.place("found");
    // What it got is shown by a digest, outside of everything the fleet keeps.
    let script = format!(
        "printf %s \"$DB_PASSWORD\" | sha256sum > {found}; sha256sum < $ORLOP_SECRETS_DIR/keys/db >> {found}; \
         stat -c %a $ORLOP_SECRETS_DIR $ORLOP_SECRETS_DIR/keys/db >> {found}; stat -f -c %T $ORLOP_SECRETS_DIR >> {found}; \
         echo $ORLOP_SECRETS_DIR >> {found}; \
         echo \"env $DB_PASSWORD\"; cat $ORLOP_SECRETS_DIR/keys/db; echo; printf %s \"$DB_PASSWORD\" | base64 -w0; echo; \
         echo \"password=$DB_PASSWORD\" >> $ORLOP_OUTPUT; printf '%s' \"half ${{DB_PASSWORD%%plänted*}}\"; sleep 0.5; \
         echo \"plänted+secret\"; echo \"$DB_PASSWORD\" >&2; sleep 0.5; exit 3",
        found = place.display()
    );
    for more in [json!({}), json!({ "survive_agent": false }), json!({ "overlap": "forbid" })] {
        let file = job(&bench, "job.json", &script, more.clone());
        let ran = bench.orlop(&["submit", "-f", &file, "--exit-code"]);
        assert_eq!(ran.code, 3, "{more}: {ran:?}");
        let found = std::fs::read_to_string(&place).expect("what it got");
        let lines: Vec<&str> = found.lines().collect();
        let digest = |line: &str| line.split(' ').next().map(str::to_owned);
        assert_eq!(digest(lines[0]), digest(lines[1]), "{found}");
        assert_eq!((lines[2], lines[3], lines[4]), ("700", "400", "tmpfs"), "{found}");
        assert!(!Path::new(lines[5]).exists(), "the folder of secrets is gone");
        let id = ran.out.trim().to_owned();
        let log = bench.good(&["logs", &id]);
        assert!(log.contains("env ***\n***\n***\n") && log.contains("half ***\n"), "{log}");
        for answer in [
            log,
            format!("{ran:?}"),
            bench.good(&["job", "get", &id, "-o", "json"]),
            bench.get(&format!("/jobs/{id}/attempts"), ""),
            bench.get(&format!("/jobs/{id}/logs"), "Accept: text/event-stream\r\n"),
        ] {
            is_clean("an answer", answer.as_bytes());
        }
    }
    // A log that is so short that it comes with the result, and a command that cannot be found.
    let file = job(&bench, "short.json", "echo $DB_PASSWORD", json!({}));
    let short = bench.orlop(&["submit", "-f", &file, "--follow"]);
    assert_eq!((short.code, short.out.as_str()), (0, "***\n"), "{short:?}");
    let file = job(&bench, "wrong.json", "\"no-such-program-$DB_PASSWORD\"", json!({}));
    let wrong = bench.orlop(&["submit", "-f", &file, "--follow"]);
    let said = format!("{}{}", wrong.out, wrong.err);
    assert!(wrong.code == 1 && said.contains("no-such-program-***") && said.contains("not found"), "{wrong:?}");
    is_clean("an answer", said.as_bytes());
    let none = json!({ "script": null, "command": ["no-such-program-anywhere"] });
    let file = job(&bench, "none.json", "", none);
    let spec: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    let mut spec = spec.as_object().expect("fields").clone();
    spec.remove("script");
    std::fs::write(&file, serde_json::Value::from(spec).to_string()).expect("a file is written");
    let none = bench.orlop(&["submit", "-f", &file, "--wait", "-o", "json"]);
    assert!(none.code == 1 && none.out.contains("no-such-program-anywhere"), "{none:?}");
    is_clean("an answer", format!("{none:?}").as_bytes());
    for answer in
        [bench.get("/secrets", ""), bench.get("/jobs", ""), bench.get("/workers", ""), bench.get("/metrics", "")]
    {
        is_clean("an answer", answer.as_bytes());
    }
    assert!(scan(&bench.data()) > 3, "store, logs and spool are there");
}

#[test]
fn secrets_are_named_replaced_and_deleted_and_never_shown() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let set = |name: &str, value: &[u8]| bench.orlop_with(&["secret", "set", name], value);
    assert_eq!((set("b", b"one").code, set("a", b"two").code, set("b", b"three").code), (0, 0, 0));
    assert_eq!(bench.good(&["secret", "list"]), "a\nb\n");
    let (short, enough) = (set("b", b"abc\n"), set("b", b"four"));
    assert!(short.code == 0 && short.err.contains("has fewer than 4 bytes; it appears in logs"), "{short:?}");
    assert_eq!((enough.code, enough.err.as_str()), (0, ""));
    assert_eq!(bench.good(&["secret", "list", "--tenant", "other"]), "");
    assert_eq!(bench.good(&["secret", "delete", "a"]), "");
    assert_eq!(bench.good(&["secret", "list", "-o", "name"]), "b\n");
    assert_eq!((bench.orlop(&["secret", "delete", "a"]).code, set("a/b", b"x").code), (4, 3));
    assert_eq!((set("long", &[b'x'; 70_000]).code, set("bytes", &[0xff, 0xfe]).code), (2, 2));
    assert!(bench.get("/secrets/b", "").starts_with("HTTP/1.1 405"), "there is no way to read one");
}

#[test]
fn a_missing_secret_fails_the_attempt_and_says_which() {
    let bench = Bench::up(&["--memory-store"]);
    let file = job(&bench, "job.json", "true", json!({ "retries": 3 }));
    let ran = bench.orlop(&["submit", "-f", &file, "--wait", "-o", "json"]);
    let job: serde_json::Value = serde_json::from_str(&ran.out).expect("a job");
    assert_eq!(job["state"], "Failed", "{job}");
    let reason = job["reason"].as_str().expect("a reason");
    assert_eq!(reason, "secret: tenant `default` has no secret `db`; store it first");
    assert_eq!(job["attempt"], 1, "another try cannot help");
}
