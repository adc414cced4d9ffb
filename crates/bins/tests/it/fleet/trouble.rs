//! What goes wrong: refusals, nobody there, tokens, a server that is killed.

use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::Bench;
use super::programs::{Programs, Running, until};

#[test]
fn exit_codes_of_usage_refusals_missing_jobs_and_no_server() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    assert_eq!(bench.orlop(&["submit"]).code, 2);
    assert_eq!(bench.orlop(&["submit", "--priority", "12", "--", "true"]).code, 2);
    let bad = bench.noop("bad.yaml", "comand: [x]\nretries: 1000\n");
    let refused = bench.orlop(&["submit", "-f", &bad]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("comand: unknown field") && refused.err.contains("retries"), "{}", refused.err);
    assert_eq!(bench.orlop(&["job", "get", "j0000000000009"]).code, 4);
    let nobody = bench.orlop_at("http://127.0.0.1:9", &["jobs"]);
    assert_eq!(nobody.code, 7, "{nobody:?}");
    assert!(nobody.err.contains("is `orlop up` running there?"), "{}", nobody.err);
    assert_eq!(bench.orlop_at(&format!("http://127.0.0.1:9,{}", bench.address()), &["jobs"]).code, 0);
}

#[test]
fn a_server_that_others_reach_runs_no_jobs_as_its_own_user_unless_that_is_said() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    for exposed in ["--listen", "--grpc-listen"] {
        let open = bench.orlop(&["up", exposed, "0.0.0.0:0", "--memory-store"]);
        assert_eq!(open.code, 2);
        assert!(open.err.contains("--no-worker") && open.err.contains("--trust-submitters"), "{}", open.err);
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let mut bench = Bench::up(&["--no-worker"]);
    let file = bench.noop("job.yaml", "");
    let mut ids: Vec<String> = (0..5).map(|_| bench.good(&["submit", "-f", &file, "--cpu", "100000"])).collect();
    bench.signal(Signal::SIGKILL);
    bench.end();
    bench.start(&["--no-worker"]);
    let mut listed: Vec<String> = bench.good(&["jobs", "-o", "name"]).lines().map(|id| format!("{id}\n")).collect();
    ids.sort();
    listed.sort();
    assert_eq!(listed, ids);
    let top = bench.orlop(&["top", "-o", "json"]).json();
    assert_eq!((&top["epoch"], &top["jobs"]), (&json!(2), &json!(5)));
    bench.signal(Signal::SIGINT);
    assert_eq!(bench.end(), Some(0), "it ends in good order");
}

#[test]
fn a_second_server_on_the_same_data_says_why_it_does_not_start() {
    let bench = Bench::up(&["--no-worker"]);
    let data = bench.data().display().to_string();
    let second = bench.orlop(&["up", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data", &data]);
    assert_eq!(second.code, 5, "{second:?}");
}

#[test]
fn tokens_decide_who_may_what() {
    let mut bench = Bench::up(&["--memory-store", "--no-worker"]);
    let id = bench.good(&["submit", "--", "true"]);
    let made = |bench: &Bench, by: Option<&str>, body| {
        bench.post("/tokens", by, &body)["token"].as_str().expect("a token").to_owned()
    };
    let admin = made(&bench, None, json!({ "role": "admin", "tenants": ["*"] }));
    bench.use_token(&admin.replace('_', "-"));
    let stranger = bench.orlop(&["jobs"]);
    assert_eq!((stranger.code, stranger.err.contains("malformed token")), (6, true), "{stranger:?}");
    let viewer = made(&bench, Some(&admin), json!({ "role": "viewer", "tenants": ["physics"] }));
    bench.use_token(&viewer);
    let refused = bench.orlop(&["submit", "--", "true"]);
    assert_eq!((refused.code, refused.err.contains("needs the role submitter")), (6, true), "{refused:?}");
    let foreign = bench.orlop(&["job", "get", id.trim()]);
    assert_eq!((foreign.code, foreign.err.contains("is not known")), (4, true), "{foreign:?}");
    assert_eq!(bench.good(&["jobs", "-o", "name"]), "");
    bench.use_token(&admin);
    assert_eq!(bench.good(&["jobs", "-o", "name"]), id);
}

/// Others of the same machine look into what a server keeps neither when it is made nor when it was open before.
#[test]
fn what_a_server_keeps_is_for_its_user_alone_and_what_jobs_write_is_not() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut bench = Bench::nowhere();
    let data = bench.data();
    std::fs::create_dir(&data).expect("a directory");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    bench.start(&[]);
    let mode = |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700, "it was empty and open");
    // With a short time limit it ends with its agent, else it has a supervisor.
    for limit in [["--timeout", "5s"].as_slice(), &[]] {
        let submit = ["submit", "--cpu", "100m", "--memory", "1Mi", "--follow"];
        let said = bench.orlop(&[&submit, limit, &["--", "sh", "-c", "umask; pwd"]].concat());
        assert!(said.code == 0 && said.out.contains("0022\n"), "{limit:?}: {said:?}");
    }
    for entry in std::fs::read_dir(&data).expect("its files").map(|entry| entry.expect("a file").path()) {
        assert_eq!(mode(&entry) & 0o077, 0, "{}", entry.display());
    }
    bench.signal(Signal::SIGINT);
    assert_eq!(bench.end(), Some(0));
    // With something else in it, somebody may want it open.
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    std::fs::write(data.join("letter"), "dear").expect("it is written");
    let shown = data.display().to_string();
    let refused =
        bench.orlop_at("", &["up", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data", &shown]);
    assert!(refused.code == 2 && refused.err.contains("`letter`"), "{refused:?}");
}

/// A server that was killed left its entry: whoever has its port now is somebody else, and hears nothing: no token, no request, no worker.
#[cfg(all(feature = "run", target_os = "linux"))]
#[test]
fn nothing_is_sent_to_who_took_the_port_of_a_server_that_ended() {
    use std::io::Read as _;
    let mut bench = Bench::up(&["--no-worker"]);
    bench.good(&["jobs"]);
    let address = bench.address();
    bench.signal(Signal::SIGKILL);
    bench.end();
    let thief = std::net::TcpListener::bind(address.trim_start_matches("http://")).expect("the port is free");
    let heard = std::thread::spawn(move || {
        let mut heard = Vec::new();
        for stream in thief.incoming().take(2) {
            let mut stream = stream.expect("a client");
            stream.set_read_timeout(Some(std::time::Duration::from_secs(2))).expect("it is set");
            drop(stream.read_to_end(&mut heard));
        }
        heard
    });
    for verb in [&["jobs"][..], &["submit", "--", "true"]] {
        let refused = bench.orlop_at(&address, verb);
        assert!(refused.code == 6 && refused.err.contains("no server of this user"), "{refused:?}");
    }
    assert_eq!(heard.join().expect("it ends"), Vec::<u8>::new());
    // A worker of the same user does not work for it either.
    let thief = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = format!("http://{}", thief.local_addr().expect("its address"));
    let programs = super::programs::Programs::new();
    let _worker = programs.worker("w1", &[&at], &[]);
    super::programs::until("the refusal", || programs.log("w1").contains("no server of this user").then_some(()));
    thief.set_nonblocking(true).expect("it can be");
    assert_eq!(thief.accept().map(drop).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody has connected");
}

/// The advice of the messages, followed to the letter, ends with a fleet that works.
#[cfg(all(feature = "run", target_os = "linux"))]
#[test]
fn a_store_that_was_emptied_or_damaged_is_never_taken_for_a_new_one() {
    let mut bench = Bench::up(&[]);
    let token = bench.orlop(&["token", "create", "--role", "viewer", "--for-tenant", "a", "-o", "name"]);
    assert_eq!(token.code, 0, "{token:?}");
    bench.signal(Signal::SIGKILL);
    bench.end();
    bench.start(&[]);
    bench.signal(Signal::SIGINT);
    assert_eq!(bench.end(), Some(0));
    let (store, shown) = (bench.data().join("fleet.db"), bench.data().display().to_string());
    let up = ["up", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data", shown.as_str()];
    let whole = std::fs::read(&store).expect("the store");
    std::fs::write(&store, "").expect("it is emptied");
    let emptied = bench.orlop_at("", &up);
    assert!(
        emptied.code == 3 && emptied.err.contains("is empty") && emptied.err.contains("--accept-store"),
        "{emptied:?}"
    );
    // Damaged: its text says to move it away.
    let mut damaged = whole.clone();
    damaged[100..4000].fill(0xee);
    std::fs::write(&store, damaged).expect("it is damaged");
    let reported = bench.orlop_at("", &up);
    assert!(reported.code != 0 && reported.err.contains("move it away"), "{reported:?}");
    // As `mv fleet.db* elsewhere` does.
    for entry in std::fs::read_dir(bench.data()).expect("its data").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("a name");
        if name.starts_with("fleet.db") {
            std::fs::rename(entry.path(), bench.place(&format!("damaged-{name}"))).expect("it is moved away");
        }
    }
    let gone = bench.orlop_at("", &up);
    assert!(gone.code == 3 && gone.err.contains("--accept-store"), "{gone:?}");
    bench.start(&["--accept-store"]);
    assert_eq!(bench.good(&["submit", "--cpu", "100m", "--memory", "1Mi", "--wait", "--", "true"]).lines().count(), 1);
}

/// Nothing is acknowledged that is written into a file that nobody finds again.
#[test]
fn a_server_whose_store_is_removed_takes_nothing_more() {
    let bench = Bench::up(&["--no-worker"]);
    bench.good(&["submit", "--", "true"]);
    for name in ["fleet.db", "fleet.db-wal", "fleet.db-shm"] {
        drop(std::fs::remove_file(bench.data().join(name)));
    }
    let refused = bench.orlop(&["submit", "--", "true"]);
    assert_eq!(refused.code, 7, "{refused:?}");
    let ready = bench.orlop(&["health"]);
    assert_ne!(ready.code, 0, "{ready:?}");
}

#[test]
fn programs_whose_log_nobody_reads_any_more_go_on() {
    let programs = Programs::new();
    let address = programs.path("address");
    let mut command = programs.scheduler_command();
    command.args(["--server-listen", "127.0.0.1:0", "--server-grpc-listen", "127.0.0.1:0", "--store-reserve=0"]);
    command.arg("--auth-client-token-file").arg(programs.client_token()).arg("--server-address-file").arg(&address);
    command.env("XDG_RUNTIME_DIR", programs.path("run")).stderr(std::process::Stdio::piped());
    std::fs::create_dir(programs.path("run")).expect("a folder");
    let mut child = command.spawn().expect("it starts");
    let log = child.stderr.take();
    let server = Running::of(child);
    until("its address", || std::fs::read_to_string(&address).ok());
    drop(log);
    // Each says what it has loaded.
    for _ in 0..2 {
        server.signal(Signal::SIGHUP);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    server.signal(Signal::SIGTERM);
    assert_eq!(server.end(), Some(0), "it panics where it cannot write a line");
}
