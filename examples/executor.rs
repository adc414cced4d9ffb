//! A stand-in for an executor: it reads the file that the operator renders, serves its probes, and holds one connection to a
//! performer through the performer's stable name.
//!
//! `executor --config=FILE --performer=HOST:PORT [--health-addr=HOST:PORT]`
//!
//! Whenever the connection ends, because the pod behind it was drained, the next call makes another through the same name; the
//! name then stands for the pod that took over. Each change of what a call gives is a line.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// How often the performer is asked.
const PACE: Duration = Duration::from_millis(100);

/// The value of a flag.
fn flag(name: &str) -> Option<String> {
    std::env::args().find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let file = flag("--config").unwrap_or_else(|| "/etc/hourglass/executor-config.yaml".to_owned());
    let text = std::fs::read_to_string(&file).with_context(|| format!("{file} cannot be read"))?;
    let config: Value = serde_saphyr::from_str(&text).with_context(|| format!("{file} is not valid YAML"))?;
    let Some(chains) = config["chains"].as_array().filter(|chains| !chains.is_empty()) else {
        bail!("{file} names no chain");
    };
    for chain in chains {
        println!("watches chain {} ({})", chain["name"].as_str().unwrap_or_default(), chain["chain_id"]);
    }
    let performer = flag("--performer").context("--performer=HOST:PORT is missing")?;
    let ready = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind(flag("--health-addr").unwrap_or_else(|| "0.0.0.0:8080".to_owned())).await?;
    println!("health on {}", listener.local_addr()?);
    tokio::spawn(probes(listener, Arc::clone(&ready)));
    work(&performer, &ready).await
}

/// Asks the performer again and again over one connection.
async fn work(performer: &str, ready: &AtomicBool) -> anyhow::Result<()> {
    let channel = Endpoint::from_shared(format!("http://{performer}"))?.connect_lazy();
    let mut health = HealthClient::new(channel);
    let mut calls = 0_u64;
    loop {
        calls += 1;
        match health.check(HealthCheckRequest::default()).await {
            Ok(_) => {
                if !ready.swap(true, Ordering::Relaxed) {
                    println!("call {calls}: the performer answers");
                }
            }
            Err(status) => {
                ready.store(false, Ordering::Relaxed);
                println!("call {calls} failed: {status}");
            }
        }
        tokio::time::sleep(PACE).await;
    }
}

/// `/healthz` while it lives, `/readyz` while the performer answers.
async fn probes(listener: TcpListener, ready: Arc<AtomicBool>) {
    while let Ok((stream, _)) = listener.accept().await {
        let good = Arc::clone(&ready);
        tokio::spawn(async move { answer(stream, good.load(Ordering::Relaxed)).await });
    }
}

async fn answer(mut stream: TcpStream, ready: bool) -> std::io::Result<()> {
    let mut head = [0; 1024];
    let length = stream.read(&mut head).await?;
    let asked = head.get(..length).unwrap_or_default();
    let good = asked.starts_with(b"GET /healthz") || ready && asked.starts_with(b"GET /readyz");
    let line = if good { "200 OK" } else { "503 Service Unavailable" };
    stream.write_all(format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes()).await
}
