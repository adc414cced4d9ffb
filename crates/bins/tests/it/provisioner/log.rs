//! What the program says of requests to a cloud: each of them in its log, failures in plain words, and no secret in either.

use std::os::unix::fs::PermissionsExt as _;

use super::bench::Bench;
use super::cloud::{PASSWORD, Site};

const PLAN: [&str; 6] = ["plan", "--repo", "repo", "--allow-local", "--output", "json"];

#[test]
fn the_log_names_each_request_and_no_secret() {
    let site = Site::new();
    let of = |more: &[&str]| site.run(&[&PLAN[..], more].concat());
    let quiet = of(&[]);
    assert_eq!((quiet.code, quiet.err.contains(" answered ")), (0, false), "{quiet:?}");
    let (verbose, filed) = (of(&["-v"]), of(&["--log-file", "log"]));
    let path = site.bench.path("log");
    let log = std::fs::read_to_string(&path).expect("a log");
    for (gave, text) in [(&verbose, &verbose.err), (&filed, &log)] {
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" answered ")).collect();
        assert_eq!(gave.json()["metrics"]["api_calls"], lines.len(), "each request once: {text}");
        for asked in ["identity POST /auth/tokens answered 201 in ", "reservation GET /os-hosts answered 200 in "] {
            assert!(lines.iter().any(|line| line.contains(asked)), "{asked}: {text}");
        }
        assert!(lines.iter().all(|line| line.contains(" ms as req-")), "{text}");
        for secret in [PASSWORD, "token-"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    assert_eq!(std::fs::metadata(&path).expect("a log").permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_the_program_says_of_tokens_stays_readable() {
    let site = Site::new();
    let with = |name: &str, value: &str| {
        let mut command = site.command(&PLAN);
        command.env(name, value);
        let gave = Bench::gives(command);
        let asked_again = gave.err.matches("identity POST /auth/tokens failed (").count();
        (gave.json()["error"]["message"].as_str().expect("words").to_owned(), asked_again, gave.err)
    };
    let (region, ..) = with("OS_REGION_NAME", "mars");
    assert!(region.starts_with("identity POST /auth/tokens: ") && region.contains("`mars`"), "{region}");
    let (nobody, asked_again, err) = with("OS_AUTH_URL", "http://127.0.0.1:9/v3");
    // Whoever waits is told what for, from the second time on.
    assert_eq!(asked_again, 4, "{err}");
    assert!(err.contains("identity POST /auth/tokens failed (cannot be reached: Connection refused"), "{err}");
    let why = "identity POST /auth/tokens: cannot be reached: Connection refused (os error 111)";
    assert!(nobody.ends_with(why), "{nobody}");
}
