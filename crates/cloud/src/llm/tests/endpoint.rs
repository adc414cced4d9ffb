//! An endpoint on this machine that follows a script, one step a request, and keeps what it was asked.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it does with a request.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Answers with a status, header lines and a body.
    Says(u16, &'static str, String),
    /// Never answers.
    Silence,
    /// Sends a body without end.
    Endless,
    /// Sends half of what it announces.
    BreaksOff,
    /// Sends a byte now and then.
    Drips,
}

/// The words of a model in the form of the endpoint.
pub(super) fn words(text: &str) -> Act {
    let body =
        json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": {"total_tokens": 10}});
    Act::Says(200, "", body.to_string())
}

pub(super) fn status(status: u16) -> Act {
    Act::Says(status, "", "{}".to_owned())
}

pub(super) struct Endpoint {
    pub(super) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Endpoint {
    /// Does these things; the last one again and again.
    pub(super) async fn new(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let act = acts.get(number.min(acts.len() - 1)).cloned().unwrap();
                number += 1;
                tokio::spawn(serve(stream, act, Arc::clone(&log)));
            }
        });
        Self { port, asked, task }
    }

    /// Whole requests so far, heads included.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, act: Act, log: Arc<Mutex<Vec<String>>>) {
    let Some(request) = request(&mut stream).await else { return };
    log.lock().unwrap().push(request);
    let head = |length: usize, more: &str, status: u16| {
        format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n")
    };
    match act {
        Act::Says(status, more, body) => {
            let all = head(body.len(), more, status) + &body;
            drop(stream.write_all(all.as_bytes()).await);
        }
        Act::Silence => std::future::pending().await,
        Act::Endless => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await);
            while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
        }
        Act::BreaksOff => drop(stream.write_all((head(1000, "", 200) + "{\"choices\"").as_bytes()).await),
        Act::Drips => {
            drop(stream.write_all(head(1_000_000, "", 200).as_bytes()).await);
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
    drop(stream.shutdown().await);
}

async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(text.into_owned());
        }
    }
}
