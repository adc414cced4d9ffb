//! The exchange with endpoints that answer, fail, lie, and say nothing; the record; the points of a run.

mod endpoint;
mod exchange;
mod runs;

use std::time::Duration;

use super::*;

/// Settings of an endpoint on this machine.
fn settings(port: u16) -> Settings {
    let url = format!("http://127.0.0.1:{port}/v1");
    Settings::read(|name| match name {
        "OPENAI_BASE_URL" => Some(url.clone()),
        "OPENAI_API_KEY" => Some("planted-key-of-the-endpoint".to_owned()),
        _ => None,
    })
    .unwrap()
}

/// A client that waits so long for an answer.
fn client_with(port: u16, timeout: Duration) -> Client {
    let mut client = Client::new(Settings { timeout, ..settings(port) }).unwrap();
    client.pause = Duration::from_millis(5);
    client
}

/// A client that gives nobody up who is only late.
fn client(port: u16) -> Client {
    client_with(port, Duration::from_secs(20))
}
