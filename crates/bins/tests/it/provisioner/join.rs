//! A machine that joins a fleet: what the real program tells it, that its token is nowhere else, and what is refused before a
//! cloud is asked.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::bench::Bench;
use super::cloud::{PASSWORD, Site};

const SUM: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
pub(super) const FLEET: [&str; 6] = [
    "--join",
    "https://fleet.example:7071",
    "--worker-url",
    "https://get.example/orlop-worker",
    "--worker-sha256",
    SUM,
];

/// A token in a file of a folder of its own, for nothing of the program's may hold it.
pub(super) struct Token {
    home: Bench,
    pub(super) secret: String,
}

impl Token {
    pub(super) fn new() -> Self {
        let home = Bench::new();
        let secret = format!("{}7", "6e".repeat(31).as_str().to_owned() + "6");
        home.file("join.token", &format!("orlopj.k1.{secret}.{}\n", "cd".repeat(32)));
        Self { home, secret }
    }

    pub(super) fn file(&self) -> String {
        self.home.path("join.token").display().to_string()
    }
}

/// What the last server was to run first: its files by their path.
fn files(site: &Site) -> Vec<(String, String)> {
    let encoded = site.cloud.world().user_data.last().cloned().expect("user data");
    let text = String::from_utf8(STANDARD.decode(encoded).expect("base64")).expect("text");
    let json = text.split_once("#cloud-config\n").expect("a cloud-config").1.lines().next().expect("a line").to_owned();
    let config: Value = serde_json::from_str(&json).expect("JSON");
    let text = |file: &Value, key: &str| file[key].as_str().expect("a text").to_owned();
    let content =
        |file: &Value| String::from_utf8(STANDARD.decode(text(file, "content")).expect("base64")).expect("text");
    let all = config["write_files"].as_array().expect("files");
    all.iter().map(|file| (text(file, "path"), content(file))).collect()
}

/// The words with which the unit starts a worker.
pub(super) fn started(site: &Site) -> Vec<String> {
    let files = files(site);
    let unit = &files.iter().find(|(path, _)| path.ends_with(".service")).expect("a unit").1;
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    line.split(' ').map(|word| word.trim_matches('"').to_owned()).collect()
}

#[test]
fn a_plan_tells_the_id_and_the_command_and_the_machine_joins_as_that_deployment() {
    let (site, token) = (Site::new(), Token::new());
    let plan = ["plan", "--repo", "repo", "--allow-local", "--server-name", "demo", "--out", "plan.json"];
    let planned = site.run(&[&plan[..], &FLEET, &["--idle-stop", "1h", "--start-delay-minutes", "0"]].concat());
    assert_eq!(planned.code, 0, "{planned:?}");
    let text = std::fs::read_to_string(site.bench.path("plan.json")).expect("a plan");
    let data: Value = serde_json::from_str(&text).expect("JSON");
    let id = data["deployment"]["id"].as_str().expect("an id").to_owned();
    let command = format!(
        "orlop workers token create --uses 1 --ttl 135m --label deployment={id} --label site --label node-type \
         --label gpu-model --label gpu-count --write join.token"
    );
    assert_eq!(data["deployment"]["join_command"], command.as_str());
    assert!(planned.out.contains(&id) && planned.out.contains(&command), "{planned:?}");

    let apply = ["apply", "--plan", "plan.json", "--key-path", "key.pub", "--verify", "none", "--output", "json"];
    let without = site.run(&apply);
    assert_eq!(without.code, 2, "a plan that joins needs a token: {without:?}");
    let gave = site.run(&[&apply[..], &["--join-token-file", &token.file(), "--user-data", "key.pub"]].concat());
    assert_eq!((gave.code, gave.json()["data"]["deployment_id"].as_str()), (0, Some(id.as_str())), "{gave:?}");
    let info = site.info();
    assert_eq!((&info["join"], &info["idle_stop_s"]), (&"https://fleet.example:7071".into(), &3600.into()));
    assert!(files(&site).iter().any(|(path, text)| path == "/run/orlop/join-token" && text.contains(&token.secret)));
    // The real worker takes what the unit gives it.
    let words = started(&site);
    let mut worker = crate::role::command("worker");
    let shown = Bench::gives({
        worker.env_clear().args(words.get(1..).expect("flags")).arg("--print-config");
        worker
    });
    assert_eq!(shown.code, 0, "{shown:?}");
    for setting in [format!("deployment: {id}"), "node-type: compute_haswell".into(), "delete_join_token: true".into()]
    {
        assert!(shown.out.contains(&setting), "{setting}: {shown:?}");
    }
    let status = site.run(&["status", "demo", "--output", "json"]);
    // Whoever goes on with a server that is there needs no token.
    let gone = site.run(&[&apply[..], &["--join-token-file", "used-up-and-deleted"]].concat());
    assert_eq!((gone.code, &gone.json()["data"]["status"]), (0, &"Ready".into()), "{gone:?}");
    let again = site.run(&[&apply[..], &["--join-token-file", &token.file(), "--new"]].concat());
    assert_eq!((again.code, &again.json()["error"]["code"]), (5, &"stale_plan".into()), "{again:?}");
    let destroyed = site.run(&["destroy", "demo"]);
    assert_eq!(destroyed.code, 0, "{destroyed:?}");
    let used = site.run(&[&apply[..], &["--join-token-file", &token.file()]].concat());
    assert!(used.code == 5 && used.out.contains("was made already"), "{used:?}");
    assert_eq!(site.run(&["status", "demo", "--output", "json"]).json()["data"]["status"], "Destroyed");
    site.assert_no_secret(&[&planned, &gave, &status, &again, &destroyed], &[&token.secret, PASSWORD]);
}

#[test]
fn what_cannot_join_is_refused_before_a_cloud_is_asked() {
    let (site, token) = (Site::new(), Token::new());
    site.bench.file("long", &"x".repeat(47 * 1024));
    site.bench.file("bad.token", "planted-no-token");
    let file = token.file();
    let named = ["--join-token-file", &file];
    let refused = |args: &[&str]| {
        let gave = site.apply(&[&["--output", "json"], args].concat());
        let json = if gave.out.is_empty() { Value::Null } else { gave.json() };
        assert_eq!(gave.code, 2, "{args:?}: {gave:?}");
        assert!(json.is_null() || json["metrics"]["api_calls"] == 0, "{args:?}: {gave:?}");
        assert!(!format!("{gave:?}").contains("planted-no-token"), "{gave:?}");
        gave
    };
    refused(&FLEET);
    refused(&named);
    refused(&[&FLEET[..2], &named].concat());
    refused(&[&FLEET[..], &["--join-token-file", "missing"]].concat());
    refused(&[&FLEET[..], &["--join-token-file", "bad.token"]].concat());
    refused(&[&["--join", "http://fleet.example:7071"], &FLEET[2..], &named].concat());
    refused(&[&FLEET[..2], &["--worker-url", "http://get.example/w", "--worker-sha256", SUM], &named].concat());
    let long = refused(&[&FLEET[..], &named, &["--user-data", "long"]].concat());
    assert!(long.out.contains("longer than 64 KiB"), "{long:?}");
    assert_eq!(site.apply(&["--user-data", "long"]).code, 0, "alone it has room");
    let mut command = site.command(&Site::demo(&["--new", "--join", FLEET[1], "--join-token-file", &file]));
    command.env("ORLOP_JOIN_WORKER_URL", FLEET[3]).env("ORLOP_JOIN_WORKER_SHA256", SUM);
    assert_eq!(Bench::gives(command).code, 0, "settings name the program too");
}

#[test]
fn whoever_goes_on_reads_the_token_again_and_without_it_nothing_stays() {
    for is_there in [true, false] {
        let (site, token) = (Site::new(), Token::new());
        site.cloud.world().tick = Duration::from_secs(3);
        let mut first = site.spawn(&Site::demo(&[&FLEET[..], &["--join-token-file", &token.file()]].concat()));
        site.until("LeaseWait");
        first.kill().expect("it is killed");
        first.wait().expect("it ends");
        if !is_there {
            std::fs::remove_file(Path::new(&token.file())).expect("it is removed");
        }
        let gave = site.run(&["resume", "demo", "--output", "json"]);
        if is_there {
            assert_eq!(gave.code, 0, "{gave:?}");
            assert!(files(&site).iter().any(|(_, text)| text.contains(&token.secret)));
        } else {
            assert!(gave.code == 2 && gave.out.contains("cannot read"), "{gave:?}");
            site.assert_nothing("without a token");
        }
        site.assert_no_secret(&[&gave], &[&token.secret]);
    }
}
