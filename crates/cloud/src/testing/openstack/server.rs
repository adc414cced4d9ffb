//! The double as an HTTP server on this machine, so that the adapter meets real bytes, connections and time-outs. Owns just enough
//! of HTTP/1.1 for that: one request a connection.

use std::io;

use orlop_core::error::{Class, Problem};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::MemoryCloud;
use crate::openstack::classify::{Call, Service};
use crate::openstack::wire::{Method, Request, Response, Sent, Transport as _};

/// Bytes of a request that are read.
const MAX_REQUEST: usize = 1 << 20;

/// The double as an HTTP server. It ends when this is dropped.
#[derive(Debug)]
pub struct MemoryServer {
    address: String,
    task: JoinHandle<()>,
}

impl Drop for MemoryServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MemoryServer {
    /// Serves a cloud on a port of this machine that was free.
    ///
    /// # Errors
    /// There is no such port.
    pub async fn start(cloud: MemoryCloud) -> Result<Self, Problem> {
        let failed = |error: io::Error| Problem::new(Class::Fatal, "the double finds no port").because(error);
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = format!("http://{}", listener.local_addr().map_err(failed)?);
        cloud.world().address.clone_from(&address);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let cloud = cloud.clone();
                tokio::spawn(async move {
                    // A connection that breaks off is the client's matter.
                    if let Err(error) = answer(&cloud, stream).await {
                        tracing::debug!(%error, "a connection to the double broke off");
                    }
                });
            }
        });
        Ok(Self { address, task })
    }

    /// Where it signs people in.
    #[must_use]
    pub fn auth_url(&self) -> String {
        format!("{}/identity/v3", self.address)
    }
}

async fn answer(cloud: &MemoryCloud, mut stream: TcpStream) -> io::Result<()> {
    let Some(sent) = request(&mut stream).await? else { return Ok(()) };
    // One who gets no answer sees the connection end.
    let Ok(response) = cloud.send(&sent).await else { return Ok(()) };
    stream.write_all(encode(&response).as_bytes()).await?;
    stream.shutdown().await
}

fn encode(response: &Response) -> String {
    let mut text = format!("HTTP/1.1 {} Made Up\r\nConnection: close\r\n", response.status);
    let mut header = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    };
    let date = response.date.and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    let date = date.map(|at| at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    header("Date", date.as_deref());
    header("X-Openstack-Request-Id", response.request_id.as_deref());
    header("X-Subject-Token", response.subject_token.as_ref().map(|token| token.0.as_str()));
    header("Retry-After", response.retry_after.map(|wait| wait.to_string()).as_deref());
    if response.status != 204 {
        header("Content-Length", Some(&response.body.len().to_string()));
    }
    text + "\r\n" + &response.body
}

async fn request(stream: &mut TcpStream) -> io::Result<Option<Sent>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > MAX_REQUEST || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
    let header = |name: &str| {
        head.lines().skip(1).filter_map(|line| line.split_once(':')).find(|(key, _)| key.eq_ignore_ascii_case(name))
    };
    let length: usize = header("content-length").and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < end + 4 + length && bytes.len() <= MAX_REQUEST {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    let body = bytes.get(end + 4..).unwrap_or_default();
    let form = header("content-type").is_some_and(|(_, kind)| kind.contains("x-www-form-urlencoded"));
    let body: Option<Value> =
        if form { Some(url::form_urlencoded::parse(body).collect()) } else { serde_json::from_slice(body).ok() };
    let kept = |name: &'static str| header(name).map(|(_, value)| (name, value.trim().to_owned()));
    let headers = ["x-auth-token", "authorization", "openstack-api-version"].into_iter().filter_map(kept).collect();
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let sent = routed(method, target, body).map(|request| Sent { url: target.to_owned(), request, headers });
    Ok(sent)
}

fn routed(method: &str, target: &str, body: Option<Value>) -> Option<Request> {
    let method =
        [Method::Get, Method::Post, Method::Put, Method::Delete].into_iter().find(|one| one.as_str() == method)?;
    let target = target.strip_prefix('/')?;
    let (kind, rest) = target.split_at(target.find(['/', '?']).unwrap_or(target.len()));
    let service = Service::ALL.into_iter().find(|service| service.kind() == kind)?;
    let path =
        ["/v3", "/v2.0", "/v2", "/v1"].into_iter().find_map(|version| rest.strip_prefix(version)).unwrap_or(rest);
    Some(Request { service, call: Call::Read, method, path: path.to_owned(), body, form: false })
}
