//! A performer, as small as it can be: a gRPC server with the standard health service. `performer [HOST:PORT]`
//!
//! A pod of it is probed with `grpc`, so it needs nothing but its port. Told to go, it says that it does not serve any more,
//! answers what is under way, and ends: connections that were drained lose nothing.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address: SocketAddr = match std::env::args().nth(1) {
        Some(text) => text.parse().with_context(|| format!("`{text}` is not an address; write HOST:PORT"))?,
        None => SocketAddr::from(([0, 0, 0, 0], 9090)),
    };
    let incoming = TcpIncoming::bind(address).with_context(|| format!("{address} cannot be listened on"))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("", ServingStatus::Serving).await;
    println!("serves on {}", incoming.local_addr()?);
    let reported = async move {
        terminate.recv().await;
        reporter.set_service_status("", ServingStatus::NotServing).await;
    };
    Server::builder().add_service(health).serve_with_incoming_shutdown(incoming, reported).await?;
    println!("answered all");
    Ok(())
}
