//! Deployments by the real program on a cloud of this machine: results in three forms, every exit that needs no signal.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::Bench;
use super::cloud::{PASSWORD, Site, settings};

#[test]
fn a_repository_becomes_a_server_is_extended_and_removed_with_nothing_left() {
    let site = Site::new();
    let gave = site.apply(&[]);
    assert_eq!(gave.code, 0, "{gave:?}");
    settings().bind(|| insta::assert_snapshot!(gave.out));
    let last = gave.out.lines().last().expect("a line").to_owned();
    assert!(last.starts_with("ssh -i ") && last.contains("/key cc@192.5.87."), "{last}");
    let steps: Vec<&str> = gave.err.lines().filter(|line| line.contains(": done in")).collect();
    assert_eq!(steps.len(), 9, "all steps but the one that is not done: {}", gave.err);
    assert_eq!(site.counts(), [1, 1, 1, 1]);
    let info = site.info();
    assert_eq!(
        (&info["status"], &info["node_type"], &info["ssh_command"]),
        (&"Ready".into(), &"compute_haswell".into(), &last.into())
    );
    assert_eq!(info["requirements"]["ram_gb"]["target"], 8);
    let mode = std::fs::metadata(site.bench.path("demo_info.json")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = site.apply(&["--output", "json"]);
    assert_eq!((again.code, &again.json()["data"]["server_id"]), (0, &info["server_id"]), "zero creates");
    assert_eq!(site.counts(), [1, 1, 1, 1]);
    std::fs::remove_file(site.bench.path("demo_info.json")).expect("a file");
    let status = site.run(&["status", "demo", "--output", "json"]);
    assert_eq!(site.info()["server_id"], info["server_id"], "the state file is there again");
    assert_eq!((status.code, &status.json()["data"]["live"]["server"]["status"]), (0, &"ACTIVE".into()), "{status:?}");
    let extended = site.run(&["extend", "demo", "--hours", "12", "--output", "json"]);
    assert_eq!(extended.code, 0, "{extended:?}");
    assert_ne!(extended.json()["data"]["lease_end"], info["lease_end"]);
    assert_eq!(site.info()["lease_end"], extended.json()["data"]["lease_end"]);
    assert_eq!(site.run(&["extend", "demo", "--until", "2020-01-01T00:00:00Z"]).code, 2);
    assert_eq!(site.run(&["extend", "demo", "--hours", "168"]).code, 6);
    let dry = site.run(&["destroy", "demo", "--dry-run", "--output", "json"]);
    assert_eq!(dry.json()["data"]["would_remove"].as_array().map(Vec::len), Some(4), "{dry:?}");
    assert_eq!(site.counts(), [1, 1, 1, 1]);
    let destroyed = site.run(&["destroy", "demo"]);
    assert_eq!(
        (destroyed.code, destroyed.out.as_str()),
        (0, "demo is removed; nothing of it is left\n"),
        "{destroyed:?}"
    );
    site.assert_nothing("destroyed");
    assert_eq!(site.run(&["destroy", "demo"]).code, 0, "a second time there is nothing to do");
    assert_eq!(site.info()["status"], "Destroyed");
    let list = site.run(&["list", "--output", "json"]).json();
    assert_eq!(list["data"]["deployments"][0]["status"], "Destroyed");
    site.assert_no_secret(&[&gave, &again, &status, &extended, &dry, &destroyed], &[PASSWORD, "token-"]);
}

#[test]
fn json_is_one_document_and_jsonl_ends_with_it() {
    let site = Site::new();
    let gave = site.apply(&["--output", "jsonl", "--no-floating-ip"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let lines: Vec<Value> = gave.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let states: Vec<String> = lines
        .iter()
        .filter(|line| line["state"] != "waiting")
        .filter_map(|line| Some(format!("{}:{}", line.get("step")?, line["state"].as_str()?)))
        .collect();
    let each = |number: usize| [format!("{number}:running"), format!("{number}:done")];
    assert_eq!(states, [0, 1, 2, 3, 4, 5, 6, 9].map(each).concat());
    let last = lines.last().expect("a line");
    let keys: Vec<&str> = last.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["data", "exit_code", "metrics", "ok", "schema", "verb", "version", "warnings"]);
    assert_eq!(
        (&last["verb"], &last["data"]["status"], &last["data"]["floating_ip"]),
        (&"apply".into(), &"Ready".into(), &Value::Null)
    );
    assert!(last["metrics"]["api_calls"].as_u64().is_some_and(|calls| calls > 10), "{last}");
    let mut data = last["data"].clone();
    data["requirements"] = json!("…");
    data["plan_digest"] = json!("…");
    data["deployment_id"] = json!("…");
    settings().bind(|| insta::assert_snapshot!(serde_json::to_string_pretty(&data).expect("JSON")));
}

#[test]
fn without_a_terminal_what_costs_much_needs_an_agreement() {
    let site = Site::new();
    for host in &mut site.cloud.world().hosts {
        host.document["su_factor"] = json!("10.0");
    }
    let gave = site.apply(&["--output", "json"]);
    assert_eq!((gave.code, &gave.json()["error"]["code"]), (14, &"confirmation".into()), "{gave:?}");
    assert_eq!(site.apply(&["--max-su", "100"]).code, 11, "a budget is a budget");
    assert_eq!(site.apply(&["--max-su", "100", "--yes"]).code, 11, "agreeing does not lift it");
    site.assert_nothing("nobody agreed");
    assert!(!site.bench.path("demo_info.json").exists());
    assert_eq!(site.apply(&["--max-su", "240"]).code, 0);
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    let mut command = site.command(&Site::demo(&[]));
    command.env("ORLOP_AUTO_APPROVE_SU", "240");
    assert_eq!(Bench::gives(command).code, 0);
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    assert_eq!(site.apply(&["--yes"]).code, 0);
}

#[test]
fn credentials_are_distinguished_before_anything_is_made() {
    let site = Site::new();
    let with = |change: &dyn Fn(&mut std::process::Command)| {
        let mut command = site.command(&Site::demo(&["--output", "json"]));
        change(&mut command);
        Bench::gives(command)
    };
    let wrong = with(&|command| {
        command.env("OS_PASSWORD", "planted-wrong-password");
    });
    assert_eq!((wrong.code, &wrong.json()["error"]["status"]), (6, &401.into()), "{wrong:?}");
    let credential = |command: &mut std::process::Command, id: &str, secret: &str| {
        command.env_remove("OS_USERNAME").env_remove("OS_PASSWORD").env_remove("OS_PROJECT_ID");
        command.env("OS_APPLICATION_CREDENTIAL_ID", id).env("OS_APPLICATION_CREDENTIAL_SECRET", secret);
    };
    assert_eq!(with(&|command| credential(command, "other", PASSWORD)).code, 6);
    site.cloud.world().restricted = true;
    let restricted = with(&|command| credential(command, "credential", PASSWORD));
    assert_eq!(restricted.code, 6, "{restricted:?}");
    assert!(restricted.json()["error"]["hint"].as_str().is_some_and(|hint| hint.contains("unrestricted")));
    site.cloud.world().restricted = false;
    let other_region = with(&|command| {
        command.env("OS_REGION_NAME", "mars");
    });
    assert_eq!(other_region.code, 2, "{other_region:?}");
    let nothing = with(&|command| {
        command.env_remove("OS_PASSWORD");
    });
    assert_eq!(nothing.code, 2, "no model is available");
    let elsewhere = with(&|command| {
        command.args(["--site", "tacc"]);
    });
    assert_eq!(elsewhere.code, 2, "a site that contradicts the address: {elsewhere:?}");
    site.assert_nothing("refused");
    let good = with(&|command| credential(command, "credential", PASSWORD));
    assert_eq!(good.code, 0, "{good:?}");
    site.assert_no_secret(&[&wrong, &restricted, &good], &[PASSWORD, "planted-wrong-password"]);
}

#[test]
fn an_identity_provider_elsewhere_signs_one_in() {
    let site = Site::new();
    let with = |password: &str| {
        let mut command = site.command(&Site::demo(&["--output", "json"]));
        let url = command.get_envs().find(|(key, _)| *key == "OS_AUTH_URL").and_then(|(_, url)| url);
        let discovery = format!("{}/oidc/.well-known/openid-configuration", url.expect("a url").to_string_lossy());
        command
            .env("OS_AUTH_TYPE", "v3oidcpassword")
            .env("OS_IDENTITY_PROVIDER", "campus")
            .env("OS_PROTOCOL", "openid");
        command.env("OS_DISCOVERY_ENDPOINT", discovery).env("OS_CLIENT_ID", "client-of-the-double");
        command.env("OS_PASSWORD", password);
        Bench::gives(command)
    };
    let wrong = with("planted & wrong");
    assert_eq!(wrong.code, 6, "{wrong:?}");
    site.assert_nothing("refused");
    let good = with(PASSWORD);
    assert_eq!(good.code, 0, "{good:?}");
    site.assert_no_secret(&[&wrong, &good], &[PASSWORD, "planted & wrong", "access-token-of-the-double"]);
}

#[test]
fn clouds_yaml_and_openrc_are_sources_too() {
    let site = Site::new();
    let base = site.command(&[]);
    let url = base
        .get_envs()
        .find(|(key, _)| *key == "OS_AUTH_URL")
        .and_then(|(_, url)| url?.to_str().map(str::to_owned))
        .expect("a url");
    site.bench.file("clouds.yaml", &format!("clouds:\n  mine:\n    auth: {{auth_url: \"{url}\", username: tester, project_id: project}}\n    region_name: test\n"));
    site.bench.file("secure.yaml", &format!("clouds: {{mine: {{auth: {{password: {PASSWORD}}}}}}}\n"));
    site.bench.file("openrc", &format!("export OS_AUTH_URL={url}\nexport OS_USERNAME=tester\nOS_PASSWORD='{PASSWORD}'\nOS_PROJECT_ID=project\nOS_REGION_NAME=test\nread -s x\n"));
    let plan = |args: &[&str]| {
        let args = [&["plan", "--repo", "repo", "--allow-local", "--output", "json"], args].concat();
        let gave = Bench::gives(site.bench.command(&args));
        (gave.code, gave.json()["data"]["source"].clone(), gave.json()["data"]["offerings"][0]["site"].clone())
    };
    assert_eq!(plan(&["--cloud", "mine"]), (0, "live".into(), "mine".into()));
    assert_eq!(plan(&[]), (0, "live".into(), "mine".into()), "the one configured cloud");
    assert_eq!(plan(&["--site", "uc"]).1, "embedded", "known without credentials");
    assert_eq!(plan(&["--cloud", "other"]).0, 2);
    std::fs::remove_file(site.bench.path("secure.yaml")).expect("a file");
    std::fs::create_dir(site.bench.path("secure.yaml")).expect("a folder");
    assert_eq!(plan(&[]).0, 2, "secrets that cannot be read are not left out");
    std::fs::remove_file(site.bench.path("clouds.yaml")).expect("a file");
    assert_eq!(plan(&["--openrc", "openrc"]), (0, "live".into(), "test".into()));
    assert_eq!(plan(&["--openrc", "missing"]).0, 2);
}

#[test]
fn a_saved_plan_is_carried_out_until_it_goes_stale() {
    let site = Site::new();
    let planned = site.run(&[
        "plan",
        "--repo",
        "repo",
        "--allow-local",
        "--out",
        "plan.json",
        "--lease-duration",
        "10",
        "--start-delay-minutes",
        "0",
    ]);
    assert_eq!(planned.code, 0, "{planned:?}");
    let apply = ["apply", "--plan", "plan.json", "--server-name", "demo", "--key-path", "key.pub", "--verify", "none"];
    for host in &mut site.cloud.world().hosts {
        host.document["su_factor"] = json!("2.0");
    }
    let stale = site.run(&apply);
    assert_eq!(stale.code, 5, "{stale:?}");
    assert!(stale.err.contains("costs 20 SU instead of 10 SU"), "{stale:?}");
    for host in &mut site.cloud.world().hosts {
        host.document["su_factor"] = json!("1.0");
    }
    let images = std::mem::take(&mut site.cloud.world().images);
    assert_eq!(site.run(&apply).code, 5, "the image is gone");
    site.cloud.world().images = images;
    site.bench.file("bad.json", "{}");
    assert_eq!(site.run(&["apply", "--plan", "bad.json"]).code, 2);
    assert_eq!(site.run(&["apply"]).code, 2, "neither repository nor plan");
    site.assert_nothing("stale");
    let gave = site.run(&[&apply[..], &["--output", "json"]].concat());
    assert_eq!((gave.code, &gave.json()["data"]["su_estimate"]), (0, &"10 SU".into()), "{gave:?}");
}

#[test]
fn two_runs_of_one_deployment_and_names_that_are_taken() {
    let site = Site::new();
    // As long as the others need.
    site.cloud.world().build.takes = Duration::from_secs(600);
    let first = site.spawn(&Site::demo(&["-q"]));
    site.until("ServerWait");
    let second = site.apply(&["--output", "json"]);
    assert_eq!((second.code, &second.json()["error"]["code"]), (5, &"locked".into()), "{second:?}");
    assert_eq!(site.run(&["destroy", "demo"]).code, 5);
    let status = site.run(&["status", "demo", "--output", "json"]).json();
    assert_eq!((&status["data"]["working"], &status["data"]["status"]), (&true.into(), &"ServerWait".into()));
    site.cloud.world().build.takes = Duration::from_millis(50);
    site.cloud.world().finish_servers();
    let first = Site::waited(first);
    assert_eq!((first.code, first.err.as_str()), (0, ""), "{first:?}");
    assert_eq!(site.counts(), [1, 1, 1, 1]);
    let other_home = site.run(&[&Site::demo(&["--output", "json"])[..], &["--state-dir", "other"]].concat());
    assert_eq!((other_home.code, &other_home.json()["error"]["code"]), (5, &"name_taken".into()), "{other_home:?}");
    let new = site.apply(&["--new", "--output", "json"]);
    assert_eq!((new.code, &new.json()["data"]["server_name"]), (0, &"demo-2".into()), "{new:?}");
    assert_eq!(site.counts(), [2, 2, 2, 1]);
    let changed = site.apply(&["--lease-duration", "5", "--output", "json"]);
    assert!(
        changed.json()["warnings"].to_string().contains("hours none (asked for now: 5)"),
        "shown and not applied: {changed:?}"
    );
    assert_eq!(site.run(&["status", "nothing"]).code, 4);
    assert_eq!(site.run(&["destroy", "nothing"]).code, 4);
}

#[test]
fn what_is_missing_is_reported_before_anything_is_made() {
    let site = Site::new();
    let code = |args: &[&str]| {
        let gave = site.apply(&[&["--output", "json"], args].concat());
        format!("{} {}", gave.code, gave.json()["error"]["code"].as_str().unwrap_or("-"))
    };
    assert_eq!(code(&["--network", "nowhere"]), "2 network_missing");
    assert_eq!(code(&["--external-network", "nowhere"]), "2 network_missing");
    assert_eq!(code(&["--flavor", "nothing"]), "2 flavor_missing");
    assert_eq!(code(&["--image", "nothing"]), "2 usage");
    let image = site.apply(&["--output", "json", "--image", "nothing"]).json()["error"]["message"].clone();
    let known = "CC-Ubuntu22.04, CC-Ubuntu22.04-CUDA, CC-Ubuntu24.04";
    assert_eq!(image, format!("image `nothing` is not available at test; there are: {known}"));
    assert_eq!(code(&["--node-type", "gpu_h200"]), "2 unknown_type");
    assert_eq!(code(&["--vram", "80"]), "11 nothing_fits");
    assert_eq!(code(&["--key-name", "a b"]), "2 usage");
    assert_eq!(code(&["--max-lifetime", "2h", "--lease-duration", "5"]), "6 policy");
    site.cloud.world().quota = (50, 0);
    assert_eq!(code(&[]), "11 quota");
    site.assert_nothing("nothing was made");
    assert!(!site.bench.path("demo_info.json").exists());
}

#[test]
fn without_floating_ips_it_is_degraded_and_done() {
    let site = Site::new();
    site.cloud.world().pool = 0;
    let gave = site.apply(&["--output", "json"]);
    assert_eq!((gave.code, &gave.json()["data"]["degraded"]), (0, &true.into()), "{gave:?}");
    assert!(gave.json()["warnings"].to_string().contains("no floating IP available"), "{gave:?}");
}

#[test]
fn a_server_that_fails_is_undone_and_its_console_kept() {
    let site = Site::new();
    site.cloud.world().build.fails = Some(("No valid host was found".to_owned(), 10));
    let gave = site.apply(&["--fallback", "none", "--output", "json"]);
    assert_eq!((gave.code, &gave.json()["data"]["status"]), (1, &"Failed".into()), "{gave:?}");
    site.assert_nothing("undone");
    site.cloud.world().build.fails = None;
    let again = site.apply(&["--output", "json"]);
    assert_eq!(
        (again.code, &again.json()["data"]["node_type"]),
        (0, &"gpu_rtx_6000".into()),
        "tried lately: {again:?}"
    );
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    site.cloud.world().build.fails = Some(("No valid host was found".to_owned(), 10));
    let kept = site.apply(&["--keep-on-failure", "--fallback", "none"]);
    assert_eq!(kept.code, 1, "{kept:?}");
    assert!(kept.out.contains("orlop provisioner destroy demo") && kept.err.contains("; kept"), "{kept:?}");
    assert_eq!(site.counts(), [1, 1, 0, 1]);
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    site.assert_nothing("destroyed");
}

/// Somebody who says that they speak SSH at port 22 of all addresses that the cloud gives, which are nobody else's meanwhile;
/// nothing where this user may not.
pub(super) fn answers_at_22(site: &Site) -> Option<()> {
    let (front, first) = (1..250)
        .find_map(|part| {
            let front = format!("127.9.{part}.");
            match std::net::TcpListener::bind(format!("{front}1:22")) {
                Ok(listener) => Some(Ok((front, listener))),
                // Another test has these.
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => None,
                Err(error) => Some(Err(error)),
            }
        })?
        .map_err(|error| println!("skipped: nobody can listen at port 22: {error}"))
        .ok()?;
    let more = (2..60).map(|last| std::net::TcpListener::bind(format!("{front}{last}:22")).expect("it is nobody's"));
    for listener in std::iter::once(first).chain(more) {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // One who has gone does not want to know.
                drop(std::io::Write::write_all(&mut stream, b"SSH-2.0-made-up\r\n"));
            }
        });
    }
    site.cloud.world().address_front = front;
    Some(())
}

#[test]
fn a_machine_has_to_answer_and_to_be_as_planned() {
    let site = Site::new();
    if answers_at_22(&site).is_none() {
        return;
    }
    let args = |verify: &'static str, name: &'static str| {
        let front = ["apply", "--repo", "repo", "--allow-local", "--key-path", "key.pub", "--start-delay-minutes", "0"];
        [&front[..], &["--output", "json", "--verify", verify, "--server-name", name]].concat()
    };
    let port = site.run(&args("port", "port"));
    assert_eq!((port.code, &port.json()["data"]["status"]), (0, &"Ready".into()), "{port:?}");
    let login = |name: &'static str, answer: &str| {
        site.bench
            .file("bin/ssh", &format!("#!/bin/sh\necho \"$@\" >> {}\n{answer}\n", site.bench.path("asked").display()));
        std::fs::set_permissions(site.bench.path("bin/ssh"), std::fs::Permissions::from_mode(0o700))
            .expect("a program");
        let mut command = site.command(&args("login", name));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", site.bench.path("bin").display()));
        Bench::gives(command)
    };
    let good = login("good", "echo threads 48; echo memory_kib 131000000; echo gpus 0");
    assert_eq!(good.code, 0, "{good:?}");
    let asked = std::fs::read_to_string(site.bench.path("asked")).expect("it was asked");
    assert!(
        asked.contains("BatchMode=yes") && asked.contains("/known_hosts") && asked.contains("-l cc -- 127.9."),
        "{asked}"
    );
    assert_eq!(site.run(&["destroy", "good"]).code, 0);
    let less = login("less", "echo threads 24; echo memory_kib 131000000; echo gpus 0");
    assert_eq!((less.code, &less.json()["data"]["status"]), (13, &"Mismatch".into()), "{less:?}");
    assert_eq!(less.json()["error"]["message"], "planned 48 threads, found 24");
    // The console shows another host key than the one that answers.
    site.cloud.world().console =
        "-----BEGIN SSH HOST KEY KEYS-----\r\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFFhJ1Zo root@h\r\n\
                                  -----END SSH HOST KEY KEYS-----\r\n"
            .to_owned();
    let other = login("other", "echo 'Host key verification failed.' >&2; exit 255");
    assert_eq!((other.code, &other.json()["error"]["code"]), (13, &"host_key".into()), "{other:?}");
    assert_eq!(other.json()["data"]["status"], "Mismatch");
    let asked = std::fs::read_to_string(site.bench.path("asked")).expect("it was asked");
    assert!(asked.lines().last().is_some_and(|line| line.contains("StrictHostKeyChecking=yes")), "{asked}");
    for name in ["less", "port", "other"] {
        assert_eq!(site.run(&["destroy", name]).code, 0);
    }
    site.assert_nothing("destroyed");
}

#[test]
fn a_site_that_lists_no_hosts_has_no_capacity_and_nothing_is_made() {
    let site = Site::new();
    site.cloud.world().hosts.clear();
    let gave = site.apply(&["--output", "json"]);
    assert_eq!((gave.code, &gave.json()["error"]["code"]), (11, &"nothing_fits".into()), "{gave:?}");
    site.assert_nothing("nothing was made");
}

#[test]
fn a_clock_that_is_off_is_reported_and_dates_are_those_of_the_cloud() {
    let site = Site::new();
    site.cloud.world().clock_ahead = 7200;
    let gave = site.apply(&["--output", "json", "--lease-duration", "5"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(gave.json()["warnings"].to_string().contains("local clock is 7"), "{gave:?}");
    let end: orlop_core::time::Time =
        gave.json()["data"]["lease_end"].as_str().and_then(|end| end.parse().ok()).expect("a time");
    let left = end.since(orlop_cloud::openstack::port::Clock::now(&orlop_cloud::openstack::client::SystemClock));
    assert!((left.as_secs() / 60).abs_diff(7 * 60) < 3, "two hours ahead and five long: {left:?}");
}

#[test]
fn notes_that_are_damaged_lead_to_no_second_deployment_and_hide_nothing_from_destroy() {
    let site = Site::new();
    assert_eq!(site.apply(&[]).code, 0);
    let known = site.run(&["list", "--output", "json"]).json();
    let id = known["data"]["deployments"][0]["deployment_id"].as_str().expect("an id").to_owned();
    let found = std::process::Command::new("find")
        .arg(site.bench.dir.path())
        .args(["-path", &format!("*{id}/deployment.json")])
        .output();
    let path = String::from_utf8(found.expect("find runs").stdout).expect("a path");
    std::fs::write(path.trim(), "{\"site\": ").expect("a file");
    let again = site.apply(&["--output", "json"]);
    assert_eq!((again.code, &again.json()["data"]["deployment_id"]), (0, &id.as_str().into()), "{again:?}");
    assert!(again.json()["warnings"].to_string().contains("deployment.json"), "{again:?}");
    assert_eq!(site.counts(), [1, 1, 1, 1], "no second one");
    let gave = site.run(&["destroy", "demo"]);
    assert!(gave.code == 0 && gave.err.contains("deployment.json"), "{gave:?}");
    site.assert_nothing("destroyed");
}
