//! What newcomers write, and what they are told: keys as they have them, folders and names that are not there, types of several
//! sites, a cloud by another address.

use super::bench::{Bench, Gave};

fn analyze(bench: &Bench, args: &[&str]) -> Gave {
    Bench::gives(bench.command(&[&["analyze", "--allow-local"], args].concat()))
}

#[test]
fn a_folder_that_is_not_there_is_reported_as_such_and_no_ref() {
    let bench = Bench::new();
    bench.file("repo/requirements.txt", "flask\n");
    let gave = analyze(&bench, &["--repo", "nowhere"]);
    assert_eq!(gave.code, 4, "{gave:?}");
    assert!(gave.err.contains("error: there is no folder "), "{gave:?}");
    assert!(gave.err.contains("nowhere") && !gave.err.contains("--ref"), "{gave:?}");
    let gave = analyze(&bench, &["--repo", "repo/requirements.txt"]);
    assert!(gave.code == 4 && gave.err.contains("requirements.txt is not a folder"), "{gave:?}");
    let gave = analyze(&bench, &["--repo", "repo", "--subdir", "src"]);
    assert_eq!(gave.code, 4, "{gave:?}");
    assert!(gave.err.contains("src is not in the repository\n  check --subdir"), "{gave:?}");
}

#[test]
fn results_for_programs_are_asked_for_by_one_letter_too() {
    let bench = Bench::new();
    bench.file("repo/requirements.txt", "flask\n");
    assert_eq!(bench.run("analyze", &["-o", "json"]).json()["ok"], true);
}

#[test]
fn a_bad_name_of_a_server_is_refused_by_the_plan_already() {
    let bench = Bench::new();
    bench.file("repo/requirements.txt", "flask\n");
    for bad in ["Demo", "a_b", "", "-x", &"x".repeat(64)] {
        let gave = bench.run("plan", &[&format!("--server-name={bad}")]);
        assert!(gave.code == 2 && gave.err.contains("--server-name: "), "{bad}: {gave:?}");
    }
    assert_eq!(bench.run("plan", &["--server-name", "demo-1"]).code, 0);
}

#[test]
fn a_type_that_is_nowhere_is_reported_with_the_types_of_all_sites_that_were_named() {
    let bench = Bench::new();
    bench.file("repo/requirements.txt", "flask\n");
    let gave = bench.run("plan", &["--site", "uc,tacc", "--node-type", "typo"]);
    assert_eq!(gave.code, 2, "{gave:?}");
    assert!(gave.err.contains("node type `typo` is unknown; there are: "), "{gave:?}");
    assert!(gave.err.contains("gpu_v100") && gave.err.contains("gpu_h100"), "of uc and of tacc: {gave:?}");
    let gave = bench.run("plan", &["--site", "uc,tacc", "--node-type", "gpu_h100"]);
    assert!(gave.code == 2 && gave.err.contains("gpu_h100 is at tacc"), "{gave:?}");
    let gave =
        bench.run("plan", &["--site", "uc,tacc", "--node-type", "gpu_h100", "--fallback", "sites", "-o", "json"]);
    assert_eq!((gave.code, &gave.json()["data"]["offerings"][0]["site"]), (0, &"tacc".into()), "{gave:?}");
}

#[cfg(feature = "testing")]
mod live {
    use super::super::cloud::{PASSWORD, QUICK, Site};
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqzLuUFJzOmYPLp2UjD8NJqhNPJ3k4Q8XSvBv0wSgx7";

    fn applied(site: &Site, settings: &str, more: &[&str]) -> Gave {
        site.bench.file(".env", settings);
        let front = ["apply", "--repo", "repo", "--allow-local", "--server-name", "demo", "-o", "json"];
        site.run(&[&front[..], &QUICK, more].concat())
    }

    #[test]
    fn a_tilde_in_settings_is_the_home() {
        let site = Site::new();
        site.bench.file("home/.ssh/id_x.pub", &format!("{KEY} me\n"));
        let gave = applied(&site, "DEFAULT_KEY_PATH=~/.ssh/id_x.pub\n", &[]);
        assert_eq!((gave.code, site.counts()), (0, [1, 1, 1, 1]), "{gave:?}");
        let auth = format!(
            "OS_AUTH_URL={}\nOS_USERNAME=tester\nOS_PASSWORD={PASSWORD}\nOS_PROJECT_ID=project\nOS_REGION_NAME=test\n",
            site.url()
        );
        site.bench.file("home/openrc", &auth);
        site.bench.file(".env", "OPENRC_PATH=~/openrc\nORLOP_STATE_DIR=~/state\n");
        let gave = Bench::gives(site.bench.command(&["list", "--remote"]));
        assert_eq!(gave.code, 0, "{gave:?}");
        assert!(site.bench.path("home/state").is_dir());
        let clouds = "clouds: {lab: {cacert: ~/ca.pem, auth: {auth_url: \"https://127.0.0.1:1\", username: u, password: p, project_id: p}}}\n";
        site.bench.file("clouds.yaml", clouds);
        let gave = Bench::gives(site.bench.command(&["list", "--remote", "--site", "lab"]));
        assert!(gave.code == 2 && gave.err.contains("home/ca.pem"), "{gave:?}");
    }

    #[test]
    fn a_public_key_may_have_a_mark_of_its_bytes_options_and_company() {
        for (text, warns) in [
            (format!("\u{feff}{KEY} me\r\n"), false),
            (format!("# mine\n\n{KEY} me\nssh-rsa AAAA other\n"), false),
            (format!("from=\"10.0.0.0/8,ssh-rsa x\",no-pty {KEY} me\n"), true),
        ] {
            let site = Site::new();
            site.bench.file("own.pub", &text);
            let gave = applied(&site, "", &["--key-path", "own.pub"]);
            assert_eq!((gave.code, site.counts()), (0, [1, 1, 1, 1]), "{text}: {gave:?}");
            let warnings = gave.json()["warnings"].to_string();
            assert_eq!(warnings.contains("options"), warns, "{text}: {warnings}");
            let keys = site.cloud.world().public_keys();
            assert!(keys.iter().all(|key| key.contains(KEY) && !key.contains("from=")), "{keys:?}");
        }
        let site = Site::new();
        for bad in ["", "no key\n", "ssh-ed25519\n", "from=\"x ssh-ed25519 AAAA\n"] {
            site.bench.file("own.pub", bad);
            let gave = applied(&site, "", &["--key-path", "own.pub"]);
            assert!(gave.code == 2 && gave.out.contains("it holds no public key of SSH"), "{bad}: {gave:?}");
        }
    }

    #[test]
    fn a_cloud_by_another_address_is_named_with_what_removes_the_deployment() {
        let site = Site::new();
        let entry = |host: &str| {
            let url = site.url().replace("127.0.0.1", host);
            let auth = format!("auth_url: \"{url}\", username: tester, password: {PASSWORD}, project_id: project");
            format!("clouds: {{test: {{auth: {{{auth}}}, region_name: test}}}}\n")
        };
        let run = |args: &[&str]| Bench::gives(site.bench.command(&[args, &["--output", "json"]].concat()));
        site.bench.file("clouds.yaml", &entry("127.0.0.1"));
        let mut apply = site.bench.command(&Site::demo(&["--output", "json"]));
        let made = Bench::gives({
            apply.env("ORLOP_LEASE_POLL_S", "1").env("ORLOP_SERVER_POLL_S", "1");
            apply
        });
        let id = made.json()["data"]["deployment_id"].as_str().expect("an id").to_owned();
        site.bench.file("clouds.yaml", &entry("localhost"));
        for args in [&["status", "demo"][..], &["destroy", "demo"], &["extend", "demo", "--hours", "1"]] {
            let gave = run(args);
            assert_eq!(gave.code, 2, "{gave:?}");
            let hint = gave.json()["error"]["hint"].to_string();
            assert!(hint.contains(&format!("orlop provisioner destroy --id {id}")), "{gave:?}");
        }
        // Somebody else's cloud may have a project of the same name, and nothing of this deployment.
        let other = Site::new();
        let url = other.url().to_owned();
        site.bench.file("clouds.yaml", &entry("127.0.0.1").replace(site.url(), &url));
        assert_eq!(run(&["destroy", "--id", &id]).code, 2);
        assert_eq!(site.counts(), [1, 1, 1, 1]);
        site.bench.file("clouds.yaml", &entry("localhost"));
        let gave = run(&["destroy", "--id", &id]);
        assert_eq!(gave.code, 0, "{gave:?}");
        site.assert_nothing("destroyed");
    }
}
