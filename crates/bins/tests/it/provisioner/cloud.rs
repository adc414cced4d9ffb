//! A cloud on this machine, in the time of this machine, and a home with credentials for it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::port::Clock as _;
use orlop_cloud::testing::openstack::{MemoryCloud, MemoryServer, Remains, VirtualClock};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::bench::{Bench, Gave};
use crate::ongoing::Ongoing;

/// What the double takes as password.
pub(super) const PASSWORD: &str = "secret-of-the-double";
/// What most runs need besides: nobody is behind the addresses of the double, and leases begin now.
pub(super) const QUICK: [&str; 4] = ["--verify", "none", "--start-delay-minutes", "0"];

pub(super) struct Site {
    pub(super) bench: Bench,
    pub(super) cloud: MemoryCloud,
    url: String,
    /// The file of the token of the fleet that machines join.
    pub(super) fleet_token: Option<std::path::PathBuf>,
    _server: MemoryServer,
    _runtime: Runtime,
}

impl Site {
    pub(super) fn new() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let clock = VirtualClock::new(SystemClock.now());
        let cloud = MemoryCloud::new(clock.clone());
        {
            let mut world = cloud.world();
            world.tick = Duration::from_millis(50);
            world.build.takes = Duration::from_millis(50);
        }
        let server = runtime.block_on(MemoryServer::start(cloud.clone())).expect("a port");
        let url = server.auth_url();
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                clock.pass(SystemClock.now().since(clock.now()));
            }
        });
        let bench = Bench::new();
        bench.file("repo/requirements.txt", "flask\n");
        bench.file("key.pub", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqzLuUFJzOmYPLp2UjD8NJqhNPJ3k4Q8XSvBv0wSgx7 me\n");
        bench.file("key", "the private half\n");
        Self { bench, cloud, url, fleet_token: None, _server: server, _runtime: runtime }
    }

    /// The program with credentials for the cloud.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bench.command(args);
        command.env("OS_AUTH_URL", &self.url).env("OS_REGION_NAME", "test");
        command.env("OS_USERNAME", "tester").env("OS_PASSWORD", PASSWORD).env("OS_PROJECT_ID", "project");
        if let Some(token) = &self.fleet_token {
            command.env("ORLOP_TOKEN_FILE", token);
        }
        command.env("ORLOP_LEASE_POLL_S", "1").env("ORLOP_SERVER_POLL_S", "1");
        command
    }

    /// Where one signs in.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// A command in whose time so many seconds pass once `later` was called.
    pub(super) fn with_own_time(&self, mut command: Command) -> Command {
        command.env("ORLOP_TESTING_CLOCK", self.bench.path("shift"));
        command
    }

    /// Lets time pass for commands with a time of their own.
    pub(super) fn later(&self, by: Duration) {
        self.bench.file("shift", &by.as_millis().to_string());
    }

    pub(super) fn run(&self, args: &[&str]) -> Gave {
        Bench::gives(self.command(args))
    }

    /// The arguments of a quick deployment named `demo`.
    pub(super) fn demo<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let front = ["apply", "--repo", "repo", "--allow-local", "--server-name", "demo", "--key-path", "key.pub"];
        [&front[..], &QUICK, more].concat()
    }

    pub(super) fn apply(&self, more: &[&str]) -> Gave {
        self.run(&Self::demo(more))
    }

    /// Begins something that goes on while the test does something else.
    pub(super) fn spawn(&self, args: &[&str]) -> Ongoing {
        Self::begun(self.command(args))
    }

    pub(super) fn begun(mut command: Command) -> Ongoing {
        Ongoing::begin(&mut command)
    }

    pub(super) fn waited(child: Ongoing) -> Gave {
        let output = child.output();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Gave { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The state file of `demo`.
    pub(super) fn info(&self) -> Value {
        let text = std::fs::read_to_string(self.bench.path("demo_info.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Waits until the state file tells a status.
    pub(super) fn until(&self, status: &str) {
        let began = Instant::now();
        while self.info()["status"] != status {
            assert!(began.elapsed() < Duration::from_secs(60), "never {status}: {}", self.info());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn remains(&self) -> Remains {
        self.cloud.world().remains()
    }

    pub(super) fn assert_nothing(&self, what: &str) {
        assert_eq!(self.remains(), Remains::default(), "{what}");
    }

    /// How many of each there are: leases, servers, addresses, keys.
    pub(super) fn counts(&self) -> [usize; 4] {
        let left = self.remains();
        [left.leases.len(), left.servers.len(), left.addresses.len(), left.keypairs.len()]
    }

    /// Asserts that a secret is in no file that the program wrote, and in nothing that it said, neither as it is nor within what
    /// a machine is given: in base64, once and twice.
    pub(super) fn assert_no_secret(&self, said: &[&Gave], secrets: &[&str]) {
        let mut texts: Vec<(PathBuf, String)> = Vec::new();
        let mut folders = vec![self.bench.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_none_or(|end| end != "pem") {
                    let bytes = std::fs::read(&path).expect("a file");
                    texts.push((path, String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
        }
        assert!(texts.iter().any(|(path, _)| path.ends_with("journal.jsonl")), "{texts:?}");
        for gave in said {
            texts.push((PathBuf::from("output"), format!("{}{}", gave.out, gave.err)));
        }
        for secret in secrets {
            let once = within_base64(secret);
            let twice: Vec<String> = once.iter().flat_map(|form| within_base64(form)).collect();
            let forms = std::iter::once((*secret).to_owned()).chain(once).chain(twice);
            for form in forms.filter(|form| form.len() > 5) {
                for (path, text) in &texts {
                    assert!(!text.contains(&form), "{secret} as {form} in {}", path.display());
                }
            }
        }
    }
}

/// What a text is within something in base64, wherever it begins there: the letters that only its own bytes decide.
fn within_base64(text: &str) -> Vec<String> {
    use base64::Engine as _;
    let of = |before: usize| {
        let bytes = [&vec![0; before][..], text.as_bytes()].concat();
        let letters = base64::engine::general_purpose::STANDARD.encode(&bytes);
        letters.get((before * 8).div_ceil(6)..bytes.len() * 8 / 6).unwrap_or_default().to_owned()
    };
    (0..3).map(of).collect()
}

#[test]
fn a_text_is_found_within_base64_wherever_it_begins() {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    for before in ["", "a", "ab", "abc"] {
        let once = encode(&format!("{before}the secret itself, and more"));
        assert!(within_base64("the secret itself").iter().any(|form| once.contains(form)), "{once}");
        let twice = encode(&format!("x{once}"));
        let forms = within_base64("the secret itself").into_iter().flat_map(|form| within_base64(&form));
        assert!(forms.into_iter().any(|form| twice.contains(&form)), "{twice}");
    }
}

/// What changes from run to run, for snapshots.
pub(super) fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z", "TIME");
    settings.add_filter(r"\b(lease|server|fip|reservation)-\d{4}\b", "$1-ID");
    settings.add_filter(r"\b[a-z2-7]{10}-a1\b", "ID-a1");
    settings.add_filter(r"(deployment\S* +|/|: )[a-z2-7]{10}\b", "${1}DEPLOYMENT");
    settings.add_filter(r"\d+\.\d s\b", "SECONDS s");
    settings.add_filter(r"192\.5\.87\.\d+", "ADDRESS");
    settings.add_filter(r"10\.\d+\.\d+\.\d+", "INSIDE");
    settings.add_filter(r"/\S*/(key|demo_info\.json|journal\.jsonl)\b", "FOLDER/$1");
    settings
}
