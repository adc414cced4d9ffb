//! Entries of `clouds.yaml` as labs have them: an address of http, keys that are not used, and profiles.

use std::process::Command;

use super::bench::Bench;
use super::cloud::{PASSWORD, Site};

const LIST: [&str; 7] = ["list", "--remote", "--site", "lab", "--output", "json", "-q"];

fn auth(site: &Site, host: &str) -> String {
    let url = site.url().replace("127.0.0.1", host);
    format!("auth_url: \"{url}\", username: tester, password: {PASSWORD}, project_id: project")
}

/// The program without any settings but `clouds.yaml`.
fn command(site: &Site, args: &[&str]) -> Command {
    site.bench.command(args)
}

#[test]
fn an_address_of_http_that_an_entry_names_is_used_with_a_warning() {
    let site = Site::new();
    // It leads to this machine, and no program knows that by its looks.
    let auth = auth(&site, "0.0.0.0");
    site.bench.file("clouds.yaml", &format!("clouds: {{lab: {{auth: {{{auth}}}, region_name: test}}}}\n"));
    let gave = Bench::gives(command(&site, &LIST));
    assert_eq!(gave.code, 0, "{gave:?}");
    let warnings = gave.json()["warnings"].to_string();
    assert!(warnings.contains("is not encrypted: the password and all tokens can be read on the network"), "{gave:?}");
    let mut named = site.command(&["list", "--remote", "--site", "test", "--output", "json"]);
    named.env("OS_AUTH_URL", site.url().replace("127.0.0.1", "0.0.0.0"));
    let gave = Bench::gives(named);
    assert_eq!(gave.code, 2, "{gave:?}");
    assert!(gave.out.contains("or name the address in an entry of clouds.yaml"), "{gave:?}");
}

#[test]
fn keys_of_an_entry_that_are_not_used_are_reported_once_each() {
    let site = Site::new();
    let auth = auth(&site, "127.0.0.1");
    let entry =
        format!("{{auth: {{{auth}}}, region_name: test, verify: false, compute_endpoint_override: \"https://x\"}}");
    site.bench.file("clouds.yaml", &format!("clouds: {{lab: {entry}}}\n"));
    let gave = Bench::gives(command(&site, &LIST));
    assert_eq!(gave.code, 0, "{gave:?}");
    let warnings = gave.json()["warnings"].as_array().cloned().unwrap_or_default();
    let count = |key: &str| warnings.iter().filter(|one| one.to_string().contains(key)).count();
    assert_eq!((warnings.len(), count("`verify`"), count("`compute_endpoint_override`")), (2, 1, 1), "{gave:?}");
}

#[test]
fn a_profile_is_read_from_its_file_and_named_where_it_is_missing() {
    let site = Site::new();
    let auth = format!("username: tester, password: {PASSWORD}, project_id: project");
    site.bench.file("clouds.yaml", &format!("clouds: {{lab: {{profile: vendor, auth: {{{auth}}}}}}}\n"));
    let gave = Bench::gives(command(&site, &LIST));
    assert_eq!(gave.code, 2, "{gave:?}");
    assert!(gave.out.contains("the profile `vendor`, which is in no clouds-public.yaml"), "{gave:?}");
    let url = site.url();
    let public = format!("public-clouds: {{vendor: {{auth: {{auth_url: \"{url}\"}}, region_name: test}}}}\n");
    site.bench.file("clouds-public.yaml", &public);
    let gave = Bench::gives(command(&site, &LIST));
    assert_eq!((gave.code, gave.json()["warnings"].as_array().map(Vec::len)), (0, Some(0)), "{gave:?}");
}
