//! The store goes wrong: its disk is full, its file is damaged or newer, its database is stopped, started and slow.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::super::bench::knows;
use super::super::programs::{Programs, Running, Scheduler, ask, until};
use super::proxy::Proxy;
use super::{FAST, attempts, fill, job, job_in, only_final, submit, touch, waits_for, worker_in};

/// A scheduler whose files are on a small disk of its own; none where the system allows no mounts.
fn on_a_small_disk(programs: &Programs, mebi: u32, args: &[&str]) -> Option<(Scheduler, PathBuf)> {
    let namespaces = ["--user", "--map-root-user", "--mount"];
    if !Command::new("unshare").args(namespaces).arg("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: this system allows no mounts");
        return None;
    }
    let disk = programs.path("disk");
    std::fs::create_dir_all(&disk).expect("a folder");
    let file = programs.path("s1.address");
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=$1m none \"$2\" && shift 2 && exec \"$@\"";
    command.args(namespaces).args(["sh", "-c", script, "sh", &mebi.to_string()]).arg(&disk);
    command.arg(crate::role::PROGRAM).arg("scheduler");
    command.args(["--server-listen", "127.0.0.1:0", "--server-grpc-listen", "127.0.0.1:0", "--server-address-file"]);
    command.arg(&file).current_dir(programs.path("")).stdin(Stdio::null());
    for (flag, name) in [("path", "fleet.db"), ("logs", "logs"), ("artifacts", "artifacts")] {
        command.arg(format!("--store-{flag}")).arg(disk.join(name));
    }
    command.arg("--auth-client-token-file").arg(programs.client_token());
    command.args(args);
    let process = programs.spawn("s1", command);
    let text = until("its address", || std::fs::read_to_string(&file).ok());
    let mut lines = text.lines().map(str::to_owned);
    let mut line = || lines.next().expect("two addresses");
    // The disk as the scheduler sees it: `unshare` and the shell have become the program.
    let seen = format!("/proc/{}/root{}", process.pid(), disk.display());
    let scheduler = Scheduler { process, rest: line(), grpc: line() };
    knows(&scheduler.rest, &programs.client_token());
    until("a server that leads", || scheduler.leads().then_some(()));
    Some((scheduler, PathBuf::from(seen)))
}

#[test]
fn a_full_disk_refuses_work_and_loses_nothing_that_was_acknowledged() {
    let programs = Programs::new();
    let args = [&FAST[..], &["--store-min-free=8388608", "--store-reserve=4194304"]].concat();
    let Some((server, disk)) = on_a_small_disk(&programs, 48, &args) else { return };
    let _worker = programs.worker("w1", &[&server.grpc], &[]);
    let first = submit(&server, &waits_for(&programs.path("go")), json!({}));
    let second = submit(&server, &waits_for(&programs.path("go2")), json!({}));
    for id in [&first, &second] {
        job_in(&server, id, "Running");
    }
    until("the reserve", || disk.join(".orlop-reserve").exists().then_some(()));
    // Little room: work is refused, results are taken.
    fill(&disk, 6 << 20);
    until("the word on it", || programs.log("s1").contains("the disk is nearly full").then_some(()));
    let refused = programs.orlop(&server.rest, &["submit", "--", "true"]);
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(refused.err.contains("no new work is taken: the disk of the store has"), "{refused:?}");
    touch(&programs, "go");
    assert_eq!(job_in(&server, &first, "Completed")["attempt"], 1);
    // None at all: the reserve is let go, so that results go on being taken.
    fill(&disk, 0);
    let held = fill_again(&disk);
    touch(&programs, "go2");
    until("the end of the reserve", || (!disk.join(".orlop-reserve").exists()).then_some(()));
    assert_eq!(job_in(&server, &second, "Completed")["attempt"], 1);
    // Room again.
    for file in held.iter().chain([&disk.join("ballast")]) {
        std::fs::remove_file(file).expect("it goes");
    }
    until("work to be taken again", || {
        let gave = programs.orlop(&server.rest, &["submit", "--cpu", "10m", "--memory", "1Mi", "--wait", "--", "true"]);
        (gave.code == 0).then_some(())
    });
    for id in [&first, &second] {
        assert_eq!((only_final(&server, id), attempts(&server, id).len()), (1, 1));
    }
}

/// Takes what little a full disk still has.
fn fill_again(disk: &Path) -> Vec<PathBuf> {
    let place = disk.join("crumbs");
    let mut file = std::fs::File::create(&place).expect("a file");
    while file.write_all(&[1; 4096]).is_ok() {}
    vec![place]
}

#[test]
fn a_store_that_is_damaged_or_newer_is_left_alone_and_named() {
    let programs = Programs::new();
    let path = programs.path("orlop-fleet.db");
    std::fs::write(&path, b"this is no database at all, but somebody's file\n".repeat(100)).expect("a file is written");
    let before = std::fs::read(&path).expect("a file");
    assert_eq!(programs.spawn_scheduler("s1", &[]).end(), Some(1));
    assert!(programs.log("s1").contains("orlop-fleet.db"), "{}", programs.log("s1"));
    assert_eq!(std::fs::read(&path).expect("a file"), before, "nothing is overwritten");
    std::fs::remove_file(&path).expect("it goes");
    let mut server = programs.scheduler("s2", &[]);
    server.process.kill();
    let store = rusqlite::Connection::open(&path).expect("a store");
    store.pragma_update(None, "user_version", 999).expect("a newer version");
    drop(store);
    assert_eq!(programs.spawn_scheduler("s3", &[]).end(), Some(1));
    assert!(programs.log("s3").contains("newer"), "{}", programs.log("s3"));
}

/// A PostgreSQL server of the test's own.
struct Postgres {
    place: PathBuf,
    programs: PathBuf,
    port: u16,
    server: Option<Running>,
    _dir: tempfile::TempDir,
}

/// As whom PostgreSQL runs: it refuses root.
fn nobody(program: &Path) -> Command {
    if !nix::unistd::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command
}

impl Postgres {
    fn new() -> Option<Self> {
        let folders = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let folders = folders.map(|entry| entry.path().join("bin")).chain(["/usr/local/bin".into(), "/usr/bin".into()]);
        let Some(programs) = folders.into_iter().find(|folder| folder.join("initdb").exists()) else {
            println!("skipped: PostgreSQL is not installed");
            return None;
        };
        let dir = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").expect("a folder");
        let place = dir.path().join("data");
        std::fs::create_dir(&place).expect("a folder");
        if nix::unistd::geteuid().is_root() {
            let id = (Some(nix::unistd::Uid::from_raw(65534)), Some(nix::unistd::Gid::from_raw(65534)));
            for path in [dir.path(), &place] {
                nix::unistd::chown(path, id.0, id.1).expect("it is given away");
            }
        }
        let mut command = nobody(&programs.join("initdb"));
        command.arg("-D").arg(&place).args(["-U", "orlop", "--auth=trust", "--no-sync", "--locale=C"]);
        let made = command.current_dir("/").stdin(Stdio::null()).output().expect("it runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
        let port = socket.local_addr().expect("its address").port();
        drop(socket);
        let mut postgres = Self { place, programs, port, server: None, _dir: dir };
        postgres.start();
        Some(postgres)
    }

    fn start(&mut self) {
        let mut command = nobody(&self.programs.join("postgres"));
        command.arg("-D").arg(&self.place).args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        command.args(["-c", &format!("port={}", self.port)]).current_dir("/");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.server = Some(Running::of(child.expect("it starts")));
        until("PostgreSQL", || std::net::TcpStream::connect(("127.0.0.1", self.port)).ok().map(drop));
    }

    /// Ends it without ceremony; what was committed is found again at the next start.
    fn stop(&mut self) {
        let server = self.server.take().expect("it runs");
        server.signal(nix::sys::signal::Signal::SIGQUIT);
        server.end();
    }
}

#[test]
fn a_database_that_is_away_or_hangs_acknowledges_nothing_and_loses_nothing() {
    let Some(mut postgres) = Postgres::new() else { return };
    let programs = Programs::new();
    let line = Proxy::to(&format!("127.0.0.1:{}", postgres.port));
    let url = format!("--store-url=postgres://orlop@{}/postgres", line.url().trim_start_matches("http://"));
    let server = programs.scheduler("s1", &[&FAST[..], &[url.as_str()]].concat());
    until("leadership", || (super::read(&server.rest, "/stats")?["status"] == "leading").then_some(()));
    let _worker = programs.worker("w1", &[&server.grpc], &[]);
    let key = "Idempotency-Key: k1\r\n";
    let body = json!({ "runtime": "noop", "resources": { "cpu_m": 10, "memory_bytes": 0 } }).to_string();
    for (number, hangs) in [false, true].into_iter().enumerate() {
        let go = format!("go{number}");
        let id = submit(&server, &waits_for(&programs.path(&go)), json!({}));
        job_in(&server, &id, "Running");
        if hangs {
            line.quiet(true, true);
        } else {
            postgres.stop();
        }
        touch(&programs, &go);
        // It says that nothing can be written, or it says nothing: in no case that it was taken.
        let refused = until("a refusal", || {
            let answer = ask(&server.rest, "POST", "/jobs", &key.replace("k1", &format!("k{number}")), &body);
            answer.filter(|(status, _)| *status != 202)
        });
        assert_eq!(refused.0, 503, "{refused:?}");
        if hangs {
            line.quiet(false, false);
        } else {
            postgres.start();
        }
        let done = job_in(&server, &id, "Completed");
        assert_eq!((&done["attempt"], only_final(&server, &id)), (&json!(1), 1), "{}", programs.log("s1"));
        let taken = until("an acknowledgement", || {
            let answer = ask(&server.rest, "POST", "/jobs", &key.replace("k1", &format!("k{number}")), &body);
            answer.filter(|(status, _)| *status == 202)
        });
        assert!(taken.1.contains("ids"), "{taken:?}");
        worker_in(&server, "w1", &["Available", "Running"]);
        assert!(job(&server, &id).is_some());
    }
    // Two of each kind, whatever the answers were.
    let jobs = super::read(&server.rest, "/jobs").expect("an answer");
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(4), "{jobs}");
}
