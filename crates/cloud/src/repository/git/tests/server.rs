//! An https server with its own certificate that runs `git http-backend`, or answers as scripted.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::super::route::Doors;

/// A name that leads to the server.
pub(super) const NAME: &str = "git.test";
/// A name that leads to another address of this machine.
pub(super) const INNER: &str = "inner.test";

/// What a path is answered with.
#[derive(Clone)]
pub(super) enum Answer {
    /// These words.
    Words(String),
    /// Nothing, for ever.
    Silence,
}

type ScriptedAnswers = Arc<Mutex<Vec<(String, Answer)>>>;

pub(super) struct Server {
    pub(super) port: u16,
    folder: TempDir,
    scripted: ScriptedAnswers,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) async fn new(root: &Path) -> Self {
        let names = [NAME, "other.test", INNER, "127.0.0.1"].map(str::to_owned).to_vec();
        let pair = rcgen::generate_simple_self_signed(names).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), pair.cert.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (scripted, asked): (ScriptedAnswers, _) = (Arc::default(), Arc::new(Mutex::new(Vec::new())));
        let (answers, log, root) = (Arc::clone(&scripted), Arc::clone(&asked), root.to_owned());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answers, log, root) =
                    (acceptor.clone(), Arc::clone(&answers), Arc::clone(&log), root.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let Some((head, body)) = request(&mut stream).await else { return };
                    log.lock().unwrap().push(head.clone());
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    let answer = answers
                        .lock()
                        .unwrap()
                        .iter()
                        .find(|(front, _)| path.starts_with(front))
                        .map(|(_, answer)| answer.clone());
                    let bytes = match answer {
                        Some(Answer::Silence) => return std::future::pending().await,
                        Some(Answer::Words(words)) => words.into_bytes(),
                        None => tokio::task::spawn_blocking(move || backend(&root, &head, &body)).await.unwrap(),
                    };
                    drop(stream.write_all(&bytes).await);
                    drop(stream.shutdown().await);
                });
            }
        });
        Self { port, folder, scripted, asked, task }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("https://{NAME}:{}{path}", self.port)
    }

    pub(super) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Answers every path that begins so with these words.
    pub(super) fn tell(&self, front: &str, answer: Answer) {
        self.scripted.lock().unwrap().push((front.to_owned(), answer));
    }

    /// Redirects the question for refs of one repository to an address.
    pub(super) fn redirect(&self, front: &str, to: &str) {
        let words = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        self.tell(front, Answer::Words(words));
    }

    /// Heads of all requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Doors to 127.0.0.1 only; every name but one leads there.
    pub(super) fn doors(&self) -> Doors {
        let mut doors = Doors::new(false);
        doors.is_open = |address| address == IpAddr::from([127, 0, 0, 1]);
        doors.resolve = Arc::new(|host, _| {
            let last = if host == INNER { 2 } else { 1 };
            Box::pin(async move { Ok(vec![IpAddr::from([127, 0, 0, last])]) })
        });
        doors
    }
}

/// The head and the body of a request.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length: usize = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while bytes.len() < end + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, bytes[end + 4..].to_vec()))
}

pub(super) fn header(head: &str, name: &str) -> Option<String> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

/// What Git's own program answers.
fn backend(root: &Path, head: &str, body: &[u8]) -> Vec<u8> {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut child = Command::new("git")
        .args(["-c", "safe.directory=*", "http-backend"])
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("CONTENT_TYPE", header(head, "content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header(head, "content-encoding").unwrap_or_default())
        .env("GIT_PROTOCOL", header(head, "git-protocol").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let body = body.to_vec();
    let writing = std::thread::spawn(move || drop(input.write_all(&body)));
    let out = child.wait_with_output().unwrap().stdout;
    writing.join().unwrap();
    let end = out.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(out.len());
    let headers = String::from_utf8_lossy(&out[..end]).into_owned();
    let status = header(&format!("\n{headers}"), "status").unwrap_or_else(|| "200 OK".to_owned());
    let mut answer = format!("HTTP/1.1 {status}\r\n{headers}\r\nConnection: close\r\n\r\n").into_bytes();
    answer.extend(out.get(end + 4..).unwrap_or_default());
    answer
}

/// A proxy that opens tunnels to this machine, whatever their names, and keeps which ones.
pub(super) struct Tunnels {
    pub(super) url: String,
    opened: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Tunnels {
    pub(super) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://u:hunter2@{}", listener.local_addr().unwrap());
        let opened: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&opened);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let Some((head, _)) = request(&mut stream).await else { return };
                    let place = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    let port: Option<u16> = place.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
                    log.lock().unwrap().push(place);
                    let Some(port) = port.filter(|_| head.starts_with("CONNECT ")) else { return };
                    // Git asks without a user first.
                    if header(&head, "proxy-authorization").is_none() {
                        let words = "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                        return drop(stream.write_all(words.as_bytes()).await);
                    }
                    let Ok(mut other) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await else { return };
                    if stream.write_all(b"HTTP/1.1 200 Open\r\n\r\n").await.is_ok() {
                        drop(tokio::io::copy_bidirectional(&mut stream, &mut other).await);
                    }
                });
            }
        });
        Self { url, opened, task }
    }

    /// Where tunnels led to so far.
    pub(super) fn opened(&self) -> Vec<String> {
        self.opened.lock().unwrap().clone()
    }
}
