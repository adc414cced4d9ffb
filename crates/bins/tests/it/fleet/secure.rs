//! A fleet that can be reached from outside: TLS on both interfaces, tokens for people, join tokens and certificates for
//! workers.

use std::os::unix::fs::PermissionsExt as _;

use orlop::wire::identity::Authority;

use super::bench::Gave;
use super::programs::{Programs, until};

/// Options of a scheduler whose two listeners speak TLS with the fleet's own authority.
const SECURE: [&str; 6] = [
    "--tls-mode=always",
    "--tls-directory=tls",
    "--auth-first-token-file=admin.token",
    "--log-level",
    "info",
    "--server-seed=1",
];

/// A token whose file goes once it was used: the same command starts the worker again without it.
fn a_token_whose_file_goes(programs: &Programs, grpc: &str, orlop: impl Fn(&[&str]) -> Gave) {
    assert_eq!(orlop(&["workers", "token", "create", "--write", "third.token"]).code, 0);
    let going = ["--join-token-file", "third.token", "--delete-join-token", "--label", "only=w4"];
    let file = programs.path("third.token");
    let w4 = programs.worker("w4", &[grpc], &going);
    until("the file of the token to go", || (!file.exists()).then_some(()));
    drop(w4);
    let _again = programs.worker("w4", &[grpc], &going);
    let done = orlop(&["submit", "--cpu", "100m", "--memory", "1Mi", "--require", "only=w4", "--wait", "--", "true"]);
    assert_eq!(done.code, 0, "{done:?}\n{}", programs.log("w4"));
}

#[test]
fn s4_a_worker_joins_with_a_token_and_comes_back_with_its_certificate() {
    let programs = Programs::new();
    let scheduler = programs.scheduler("s1", &SECURE);
    assert!(scheduler.rest.starts_with("https://") && scheduler.grpc.starts_with("https://"));
    let file = programs.path("admin.token");
    until("the first token", || file.exists().then_some(()));
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let (token, ca) = (file.display().to_string(), programs.path("tls/authority.pem").display().to_string());
    let admin = until("the whole token", || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
    let access = [("ORLOP_TOKEN", admin.trim()), ("ORLOP_CA_FILE", ca.as_str())];
    let orlop = |args: &[&str]| programs.orlop_with(&scheduler.rest, &access, args);
    until("the token to be good", || (orlop(&["jobs"]).code == 0).then_some(()));
    for verb in [&["flow", "list", "--target", "fleet"][..], &["jobs"]] {
        let named = programs.orlop(&scheduler.rest, &[verb, &["--ca-file", &ca, "--token-file", &token]].concat());
        assert_eq!(named.code, 0, "{named:?}");
    }
    let stranger = programs.orlop(&scheduler.rest, &["jobs", "--ca-file", &ca]);
    assert!(stranger.code == 6 && stranger.err.contains("--token-file FILE"), "{stranger:?}");
    let unknown = programs.orlop(&scheduler.rest, &["jobs", "--token-file", &token]);
    assert_eq!(unknown.code, 7, "the system does not know the fleet's authority: {unknown:?}");
    assert!(unknown.err.contains("--ca-file FILE"), "{unknown:?}");

    let made = orlop(&["workers", "token", "create", "--uses", "1", "--label", "zone=a"]);
    assert!(
        made.code == 0 && made.out.contains("--join-token-file FILE") && made.out.contains(&scheduler.grpc),
        "{made:?}"
    );
    let join = made.out.lines().next().expect("a token").to_owned();
    std::fs::write(programs.path("join.token"), &join).expect("it is written");
    // A label that the token does not allow.
    let foreign = programs.worker("w0", &[&scheduler.grpc], &["--join-token-file", "join.token", "--label", "zone=b"]);
    until("the refusal of a label", || programs.log("w0").contains("does not allow the label").then_some(()));
    drop(foreign);
    let args = ["--join-token-file", "join.token", "--label", "zone=a"];
    let worker = programs.worker("w1", &[&scheduler.grpc], &args);
    let submit = ["submit", "--cpu", "100m", "--memory", "1Mi", "--require", "zone=a", "--wait", "--", "true"];
    let done = orlop(&submit);
    assert_eq!(done.code, 0, "{done:?}\n{}\n{}", programs.log("s1"), programs.log("w1"));
    // The token is used up: another machine does not join with it, the first one comes back with its certificate.
    let late = programs.worker("w2", &[&scheduler.grpc], &args);
    until("the refusal of a used token", || programs.log("w2").contains("is used up").then_some(()));
    drop((late, worker));
    let again = programs.worker("w1", &[&scheduler.grpc], &["--label", "zone=a"]);
    let done = orlop(&submit);
    assert_eq!(done.code, 0, "{done:?}\n{}", programs.log("w1"));
    drop(again);

    let listed = orlop(&["workers", "token", "list", "-o", "json"]).json();
    assert_eq!(listed["items"][0]["uses_left"], 0);
    assert!(listed["items"][0]["token"].is_null());
    // A token that nobody sees: it goes to a file.
    let written = orlop(&["workers", "token", "create", "--write", "second.token"]);
    assert!(written.code == 0 && written.out.is_empty(), "{written:?}");
    let file = programs.path("second.token");
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let second = std::fs::read_to_string(&file).expect("it is read").trim().to_owned();
    assert!(!written.err.contains(&second), "{written:?}");
    let id = second.split('.').nth(1).expect("its id");
    assert_eq!(orlop(&["workers", "token", "revoke", id]).code, 0);
    let revoked = programs.worker("w3", &[&scheduler.grpc], &["--join-token-file", "second.token"]);
    until("the refusal of a revoked token", || programs.log("w3").contains("was revoked").then_some(()));
    drop(revoked);
    a_token_whose_file_goes(&programs, &scheduler.grpc, orlop);
    assert!(programs.path("join.token").exists(), "a file that nobody gave away stays");
    for log in ["s1", "w1"].map(|name| programs.log(name)) {
        let secret = join.split('.').nth(2).expect("its secret");
        assert!(!log.contains(secret) && !log.contains("PRIVATE KEY"), "a secret is in a log");
    }
}

#[test]
fn s4_a_server_with_the_certificate_of_an_outside_authority() {
    let programs = Programs::new();
    let now = orlop::cloud::runtime::logs::now();
    let (authority, _) = Authority::create(now).expect("an authority");
    let server = authority.server(&["127.0.0.1".to_owned()], now).expect("a certificate");
    for (name, text) in [("ca.pem", authority.pem()), ("server.pem", &server.chain), ("server.key", &server.key)] {
        std::fs::write(programs.path(name), text).expect("it is written");
    }
    let tls = ["--tls-mode=always", "--tls-certificate=server.pem", "--tls-key=server.key", "--tls-authority=ca.pem"];
    let scheduler = programs.scheduler("s1", &tls);
    assert!(!programs.path("orlop-tls").exists(), "no authority of its own is made");
    let ca = programs.path("ca.pem").display().to_string();
    until("an answer", || (programs.orlop(&scheduler.rest, &["jobs", "--ca-file", &ca]).code == 0).then_some(()));
    assert_eq!(programs.orlop(&scheduler.rest, &["jobs"]).code, 7, "the system does not know that authority");
    // Half of it is a mistake, which is told before anything is served.
    let half = programs.spawn_scheduler("s2", &["--tls-mode=always", "--tls-certificate=server.pem"]);
    assert_eq!(half.end(), Some(2), "{}", programs.log("s2"));
    let gone = [tls[0], "--tls-certificate=gone.pem", tls[2], tls[3], "--store-path=other.db"];
    assert_eq!(programs.spawn_scheduler("s3", &gone).end(), Some(1));
    assert!(programs.log("s3").contains("gone.pem"), "{}", programs.log("s3"));
}

#[test]
fn s5_5_what_can_be_reached_from_outside_does_not_start_without_tokens() {
    let programs = Programs::new();
    let process = programs.spawn_scheduler("s1", &["--server-grpc-listen=0.0.0.0:0", "--tls-directory=tls"]);
    assert_eq!(process.end(), Some(1));
    assert!(programs.log("s1").contains("needs TLS and tokens"), "{}", programs.log("s1"));
}
