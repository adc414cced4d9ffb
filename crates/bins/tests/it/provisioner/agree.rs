//! The question on a terminal: who is asked, with what before their eyes, and what each answer leads to.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use std::os::fd::AsFd as _;

use super::cloud::Site;

/// A run of the program on a terminal, and the other side of it.
struct Seated {
    child: Child,
    screen: File,
    seen: String,
}

impl Seated {
    /// A deployment whose standard input and error are a terminal that is its own, so that keys can be signals.
    fn start(site: &Site, more: &[&str]) -> Self {
        let size = Winsize { ws_row: 50, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let inner = site.command(&Site::demo(more));
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args());
        command.env_clear().envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.env("TERM", "xterm").env("NO_COLOR", "1").current_dir(site.bench.dir.path());
        command.stdin(Stdio::from(pty.slave.try_clone().expect("a second end"))).stderr(Stdio::from(pty.slave));
        let child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        Self { child, screen: File::from(pty.master), seen: String::new() }
    }

    /// What is on the screen, once something is written there; no more when nobody has the terminal open.
    fn look(&mut self) -> bool {
        let began = Instant::now();
        loop {
            let mut ready = [PollFd::new(self.screen.as_fd(), PollFlags::POLLIN)];
            if poll(&mut ready, PollTimeout::from(200_u8)).expect("the terminal can be waited for") > 0 {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "nothing comes after: {}", self.seen);
        }
        let mut piece = [0; 4096];
        let count = self.screen.read(&mut piece).unwrap_or(0);
        self.seen.push_str(&String::from_utf8_lossy(piece.get(..count).unwrap_or_default()));
        count > 0
    }

    fn until(&mut self, words: &str) {
        while !self.seen.contains(words) {
            assert!(self.look(), "never `{words}`: {}", self.seen);
        }
    }

    fn types(&mut self, keys: &[u8]) {
        self.screen.write_all(keys).expect("the terminal takes keys");
    }

    fn ended(mut self) -> (i32, String) {
        while self.look() {}
        let code = self.child.wait().expect("the program ends").code().unwrap_or(-1);
        (code, self.seen)
    }
}

const QUESTION: &str = "lease this for 24 SU? [y/N] ";

#[test]
fn who_agrees_on_a_terminal_saw_the_plan_and_gets_the_server() {
    for answer in ["y\n", "YES\n"] {
        let site = Site::new();
        let mut seated = Seated::start(&site, &["--max-su", "100"]);
        seated.until(QUESTION);
        let before = seated.seen.clone();
        for words in ["compute_haswell", "CC-Ubuntu22.04", "24 SU", "offered for 24 h", "cpu_cores"] {
            assert!(before.contains(words), "{words}: {before}");
        }
        let made =
            site.cloud.faults().calls().iter().filter(|call| call.contains("POST") && !call.contains("tokens")).count();
        assert_eq!((site.counts(), made), ([0; 4], 0), "asked before anything is made, within the budget too");
        seated.types(answer.as_bytes());
        let (code, seen) = seated.ended();
        assert_eq!((code, site.counts()), (0, [1; 4]), "{answer:?}: {seen}");
    }
}

#[test]
fn any_other_answer_and_the_end_of_input_make_nothing() {
    for answer in [&b"n\n"[..], b"\n", b"yeah\n", b"\x04"] {
        let site = Site::new();
        let mut seated = Seated::start(&site, &[]);
        seated.until(QUESTION);
        seated.types(answer);
        let (code, seen) = seated.ended();
        assert_eq!(code, 14, "{answer:?}: {seen}");
        assert!(seen.contains("error: declined; nothing was created"), "{answer:?}: {seen}");
        assert_not_begun(&site);
    }
}

#[test]
fn control_c_at_the_question_ends_it_and_makes_nothing() {
    let site = Site::new();
    let mut seated = Seated::start(&site, &[]);
    seated.until(QUESTION);
    seated.types(b"\x03");
    let (code, seen) = seated.ended();
    assert_eq!(code, 130, "{seen}");
    assert!(seen.contains("interrupted; nothing was created"), "{seen}");
    assert_not_begun(&site);
}

#[test]
fn who_agreed_beforehand_is_not_asked() {
    let site = Site::new();
    let (code, seen) = Seated::start(&site, &["--yes"]).ended();
    assert_eq!((code, seen.contains("[y/N]")), (0, false), "{seen}");
}

fn assert_not_begun(site: &Site) {
    site.assert_nothing("nobody agreed");
    assert!(!site.bench.path("demo_info.json").exists());
    assert_eq!(site.run(&["list", "--output", "json"]).json()["data"]["deployments"], serde_json::json!([]));
    // The name is free: nothing holds it.
    assert_eq!(site.apply(&["--yes"]).code, 0);
}
