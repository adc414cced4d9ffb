//! A server of its own for every test, on a port the system chooses, and the program as its client.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How long anything may take before a test fails. A worker that lost its server waits for up to a minute before it asks again, and may
/// ask the one of two that is gone.
pub(super) const PATIENCE: Duration = Duration::from_secs(150);

/// The files of the client tokens of servers that tests know by addresses which are not the servers' own: those of lines to them, and
/// of servers in namespaces of their own.
static TOKENS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

fn plain(server: &str) -> &str {
    server.trim_start_matches("http://")
}

/// From now on a client knows the token of a server by its address.
pub(super) fn knows(server: &str, token: &Path) {
    TOKENS.lock().expect("the tokens").insert(plain(server).to_owned(), token.to_owned());
}

/// From now on a client calls by another address as by the first.
pub(super) fn alias(server: &str, other: &str) {
    let mut tokens = TOKENS.lock().expect("the tokens");
    if let Some(token) = tokens.get(plain(server)).cloned() {
        tokens.insert(plain(other).to_owned(), token);
    }
}

/// The header with which a client of this user calls a server of this machine; nothing where no such server is.
pub(super) fn bearer(server: &str) -> String {
    let known = TOKENS.lock().expect("the tokens").get(plain(server)).cloned();
    if let Some(text) = known.and_then(|file| std::fs::read_to_string(file).ok()) {
        return format!("Authorization: Bearer {}\r\n", text.trim());
    }
    let found = server
        .trim_start_matches("http://")
        .rsplit_once(':')
        .and_then(|(host, port)| orlop::host::client_token::find(host, port.parse().ok()?));
    found.map(|found| format!("Authorization: Bearer {}\r\n", found.token)).unwrap_or_default()
}

/// The same, unless one is among these headers.
pub(super) fn bearer_beside(server: &str, headers: &str) -> String {
    if headers.to_ascii_lowercase().contains("authorization:") { String::new() } else { bearer(server) }
}

/// What a command gave.
#[derive(Debug)]
pub(super) struct Gave {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Gave {
    pub(super) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(super) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

pub(super) struct Bench {
    dir: tempfile::TempDir,
    server: Option<(Child, String)>,
    token: Option<String>,
}

impl Bench {
    /// A server with its data in a directory of its own.
    pub(super) fn up(options: &[&str]) -> Self {
        let mut bench = Self::nowhere();
        bench.start(options);
        bench
    }

    /// A directory without a server, for verbs that ask another.
    pub(super) fn nowhere() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory"), server: None, token: None }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn program(&self) -> Command {
        let mut command = crate::role::program();
        command.env("ORLOP_HOME", self.place("home"));
        super::on_any_disk(&mut command);
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Starts the server, and reads where it listens.
    pub(super) fn start(&mut self, options: &[&str]) {
        self.start_at("127.0.0.1:0", options);
    }

    /// Starts the server at an address, such as that of one that has ended.
    pub(super) fn start_at(&mut self, address: &str, options: &[&str]) {
        let mut command = self.program();
        let address = address.trim_start_matches("http://");
        command.args(["up", "--listen", address, "--grpc-listen", "127.0.0.1:0"]).args(options);
        if !options.contains(&"--memory-store") {
            command.arg("--data").arg(self.data());
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let address = loop {
            let line = lines.next().expect("it says where it listens").expect("a line");
            if let Some(rest) = line.trim().strip_prefix("REST") {
                break rest.trim().trim_end_matches("/api/v1").to_owned();
            }
        };
        // The rest is read away, so that the program never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        self.server = Some((child, address));
    }

    /// The id of the server's process.
    pub(super) fn pid(&self) -> u32 {
        self.server.as_ref().expect("a server").0.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        let (child, _) = self.server.as_ref().expect("a server");
        kill(Pid::from_raw(i32::try_from(child.id()).expect("a process id")), signal).expect("the signal is sent");
    }

    /// Waits for the end of the server, and gives its exit code.
    pub(super) fn end(&mut self) -> Option<i32> {
        let (mut child, _) = self.server.take().expect("a server");
        let since = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("it is a child") {
                return status.code();
            }
            assert!(since.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a verb.
    pub(super) fn orlop(&self, args: &[&str]) -> Gave {
        let (_, address) = self.server.as_ref().expect("a server");
        self.orlop_at(address, args)
    }

    /// Runs a verb in a directory.
    pub(super) fn orlop_in(&self, dir: &Path, args: &[&str]) -> Gave {
        let mut command = self.program();
        command.current_dir(dir).args(args).env("ORLOP_SERVER", self.address());
        Gave::of(command.output().expect("the program runs"))
    }

    pub(super) fn orlop_at(&self, address: &str, args: &[&str]) -> Gave {
        let mut command = self.program();
        command.args(args).env("ORLOP_SERVER", address);
        if let Some(token) = &self.token {
            command.env("ORLOP_TOKEN", token);
        }
        Gave::of(command.output().expect("the program runs"))
    }

    /// Starts a verb, and gives it with its output.
    pub(super) fn begin(&self, args: &[&str]) -> Child {
        self.begin_at(&self.address(), args)
    }

    pub(super) fn begin_at(&self, address: &str, args: &[&str]) -> Child {
        let mut command = self.program();
        command.args(args).env("ORLOP_SERVER", address);
        if let Some(token) = &self.token {
            command.env("ORLOP_TOKEN", token);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// Runs a verb that reads from standard input.
    pub(super) fn orlop_with(&self, args: &[&str], input: &[u8]) -> Gave {
        use std::io::Write as _;
        let mut command = self.program();
        command.args(args).env("ORLOP_SERVER", self.address());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        // It may have ended without reading.
        drop(child.stdin.take().expect("its input").write_all(input));
        Gave::of(child.wait_with_output().expect("the program runs"))
    }

    /// From now on verbs run with this token.
    pub(super) fn use_token(&mut self, token: &str) {
        self.token = Some(token.to_owned());
    }

    /// A path in the directory of the test.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Gets something as any client would: head and body as they come, until the server ends them.
    pub(super) fn get(&self, path: &str, headers: &str) -> String {
        self.raw("GET", path, headers, b"")
    }

    /// Asks as any client would.
    pub(super) fn raw(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> String {
        use std::io::{Read as _, Write as _};
        let address = self.address();
        let host = address.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(host).expect("the server is there");
        let length = body.len();
        let bearer = bearer_beside(host, headers);
        let head = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\
             {bearer}{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        stream.write_all(body).expect("it is sent");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("it is answered");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Posts JSON as any client would, and gives the JSON of the answer.
    pub(super) fn post(&self, path: &str, token: Option<&str>, body: &Value) -> Value {
        use std::io::{Read as _, Write as _};
        let address = self.address();
        let host = address.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(host).expect("the server is there");
        let body = body.to_string();
        let token = token.map_or_else(|| bearer(host), |token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "POST /api/v1{path} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len(),
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it is answered");
        let (_, json) = text.split_once("\r\n\r\n").expect("a head and a body");
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Runs a verb that must succeed, and gives what it printed.
    pub(super) fn good(&self, args: &[&str]) -> String {
        let gave = self.orlop(args);
        assert_eq!(gave.code, 0, "{args:?}: {gave:?}");
        gave.out
    }

    /// The address of the server.
    pub(super) fn address(&self) -> String {
        self.server.as_ref().expect("a server").1.clone()
    }

    /// Writes a job that starts nothing, with lines on top, and gives its file.
    pub(super) fn noop(&self, name: &str, more: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, format!("runtime: noop\n{more}")).expect("a file is written");
        path.display().to_string()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some((mut child, _)) = self.server.take() {
            drop(child.kill());
            drop(child.wait());
        }
        #[cfg(all(feature = "run", target_os = "linux"))]
        super::programs::end_all_below(self.dir.path());
    }
}
