//! A home of its own for every test, repositories in it, and an endpoint that answers as a model would.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub(super) struct Bench {
    pub(super) dir: tempfile::TempDir,
}

/// What a command gave.
#[derive(Debug)]
pub(super) struct Gave {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Gave {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
        std::fs::write(path, text).expect("a file is written");
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = crate::role::command("provisioner");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // Nobody outside this machine is asked for the hardware of a site.
        command.env("ORLOP_REFERENCE_API", "off");
        command.env("HOME", self.path("home")).current_dir(self.dir.path()).stdin(Stdio::null()).args(args);
        command
    }

    pub(super) fn gives(mut command: Command) -> Gave {
        let Output { status, stdout, stderr } = command.output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Gave { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
    }

    /// Runs a verb on the repository in the folder `repo`.
    pub(super) fn run(&self, verb: &str, args: &[&str]) -> Gave {
        Self::gives(self.command(&[&[verb, "--repo", "repo", "--allow-local"], args].concat()))
    }
}

/// An endpoint that gives the same answer to each question of a name, and keeps what it was asked.
pub(super) struct Endpoint {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    /// `answer` gives the model's words to a question of a name; nothing is silence.
    pub(super) fn new(answer: fn(&str) -> Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let Some(request) = request(&mut stream) else { continue };
                let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                let body: Value = serde_json::from_str(body).unwrap_or_default();
                let name =
                    body.pointer("/response_format/json_schema/name").and_then(Value::as_str).unwrap_or_default();
                let words = answer(name);
                log.lock().expect("a log").push(request);
                let Some(words) = words else {
                    silent.push(stream);
                    continue;
                };
                let choice = json!({"message": {"content": words}, "finish_reason": "stop"});
                let body = json!({"choices": [choice], "usage": {"total_tokens": 5}}).to_string();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                drop(stream.write_all((head + &body).as_bytes()));
            }
        });
        Self { url, asked }
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("a log").clone()
    }
}

fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 65536];
    loop {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(part.get(..count)?);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().filter_map(|line| line.split_once(':'));
        let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = length.filter_map(|(_, value)| value.trim().parse().ok()).next().unwrap_or(0);
        if body.len() >= length {
            return Some(text.into_owned());
        }
    }
}
