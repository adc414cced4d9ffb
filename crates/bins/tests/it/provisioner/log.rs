//! What the program says of requests to a cloud: each of them in its log, failures in plain words, and no secret in either.

use super::bench::Bench;
use super::cloud::Site;

const PLAN: [&str; 6] = ["plan", "--repo", "repo", "--allow-local", "--output", "json"];

#[test]
fn s10_5_what_the_program_says_of_tokens_stays_readable() {
    let site = Site::new();
    let with = |name: &str, value: &str| {
        let mut command = site.command(&PLAN);
        command.env(name, value);
        Bench::gives(command).json()["error"]["message"].as_str().expect("words").to_owned()
    };
    let region = with("OS_REGION_NAME", "mars");
    assert!(region.starts_with("identity POST /auth/tokens: ") && region.contains("`mars`"), "{region}");
    let nobody = with("OS_AUTH_URL", "http://127.0.0.1:9/v3");
    assert!(nobody.ends_with("identity POST /auth/tokens: cannot be reached"), "{nobody}");
}
