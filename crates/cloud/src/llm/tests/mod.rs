//! The exchange with endpoints that answer, fail, lie, and say nothing; the record; the points of a run.

mod endpoint;
mod exchange;
mod runs;

use std::time::Duration;

use super::*;

/// Settings of an endpoint on this machine.
fn settings(port: u16) -> Settings {
    let url = format!("http://127.0.0.1:{port}/v1");
    let mut settings = Settings::read(|name| match name {
        "OPENAI_BASE_URL" => Some(url.clone()),
        "OPENAI_API_KEY" => Some("planted-key-of-the-endpoint".to_owned()),
        _ => None,
    })
    .unwrap();
    settings.timeout = Duration::from_millis(600);
    settings
}

fn client(port: u16) -> Client {
    let mut client = Client::new(settings(port)).unwrap();
    client.pause = Duration::from_millis(5);
    client
}
