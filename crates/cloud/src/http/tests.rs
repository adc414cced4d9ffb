//! Downloads from servers on the loopback interface that answer with given bytes.

use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;

/// A server, and what it was asked.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a server does with a connection after it has read the request.
#[derive(Clone)]
enum Then {
    Close,
    Wait,
}

impl Server {
    /// Answers each path with a text, then closes or waits.
    async fn new(answer: impl Fn(&str) -> String + Send + Sync + 'static, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log), Arc::clone(&answer), then.clone()));
            }
        });
        Self { url, asked, task }
    }

    /// Answers everything with one text.
    async fn saying(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::new(move |_| answer.clone(), Then::Close).await
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    asked: Arc<Mutex<Vec<String>>>,
    answer: Arc<impl Fn(&str) -> String>,
    then: Then,
) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => request.push(byte[0]),
            _ => return,
        }
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    asked.lock().unwrap().push(request.to_lowercase());
    // A client that has seen enough may be gone already.
    drop(stream.write_all(answer(&path).as_bytes()).await);
    if let Then::Wait = then {
        drop(stream.read(&mut byte).await);
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn moved(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn source(url: &str) -> HttpSource {
    let headers = [("Authorization", "Bearer secret"), ("X-Token", "secret")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    HttpSource { url: url.to_owned(), headers }
}

fn patient() -> Options {
    Options { max_bytes: 1000, connect_timeout: Duration::from_secs(30), idle_timeout: Duration::from_secs(30) }
}

/// Downloads into a folder, in which afterwards is the file or nothing.
async fn fetch_from(source: &HttpSource) -> Result<Vec<u8>, Problem> {
    fetch_by(source, patient()).await
}

async fn fetch_by(source: &HttpSource, options: Options) -> Result<Vec<u8>, Problem> {
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("target");
    let download = HttpDownload::direct(options).unwrap();
    let result = download.fetch(source, &target).await;
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    match result {
        Ok(()) => {
            assert_eq!(names, ["target"]);
            assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o644);
            Ok(std::fs::read(&target).unwrap())
        }
        Err(error) => {
            assert!(names.is_empty(), "{names:?} is left after {error}");
            assert!(!error.chain().contains("secret"), "{}", error.chain());
            Err(error)
        }
    }
}

/// The error of a download, without the port of the server.
async fn trouble(server: &Server) -> (Class, Option<&'static str>, String) {
    trouble_by(server, patient()).await
}

async fn trouble_by(server: &Server, options: Options) -> (Class, Option<&'static str>, String) {
    let error = fetch_by(&source(&format!("{}/file?sig=secret", server.url)), options).await.unwrap_err();
    (error.class, error.reason, error.chain().replace(&server.url, "http://host"))
}

#[tokio::test]
async fn a_file_is_downloaded_with_its_headers() {
    let server = Server::saying(ok("some bytes")).await;
    assert_eq!(fetch_from(&source(&format!("{}/a/b?c=d", server.url))).await.unwrap(), b"some bytes");
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with("get /a/b?c=d http/1.1\r\n"), "{}", asked[0]);
    for header in ["authorization: bearer secret\r\n", "x-token: secret\r\n", "accept-encoding: identity\r\n"] {
        assert!(asked[0].contains(header), "{}", asked[0]);
    }
}

#[tokio::test]
async fn an_empty_file_and_one_without_a_length_are_downloaded() {
    let server = Server::saying(ok("")).await;
    assert_eq!(fetch_from(&source(&server.url)).await.unwrap(), b"");
    let server = Server::saying("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end").await;
    assert_eq!(fetch_from(&source(&server.url)).await.unwrap(), b"until the end");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmany\r\n7\r\n pieces\r\n0\r\n\r\n";
    let server = Server::saying(chunked).await;
    assert_eq!(fetch_from(&source(&server.url)).await.unwrap(), b"many pieces");
}

#[tokio::test]
async fn encoded_bytes_are_kept_as_they_are() {
    let server = Server::saying("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd").await;
    assert_eq!(fetch_from(&source(&server.url)).await.unwrap(), b"abcd");
}

#[tokio::test]
async fn only_status_200_will_do() {
    let mut reported = Vec::new();
    for status in [
        "201 Created",
        "204 No Content",
        "206 Partial Content",
        "304 Not Modified",
        "400 Bad Request",
        "401 Unauthorized",
        "403 Forbidden",
        "404 Not Found",
        "410 Gone",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "503 Service Unavailable",
    ] {
        let server = Server::saying(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")).await;
        let (class, reason, text) = trouble(&server).await;
        assert_eq!(reason, Some("ArtifactUnavailable"));
        reported.push(format!("{class}: {text}"));
    }
    insta::assert_snapshot!(reported.join("\n"), @"
    transient: http://host/file?… answered 201 Created
    transient: http://host/file?… answered 204 No Content
    transient: http://host/file?… answered 206 Partial Content
    transient: http://host/file?… answered 304 Not Modified
    denied: http://host/file?… answered 400 Bad Request
    denied: http://host/file?… answered 401 Unauthorized
    denied: http://host/file?… answered 403 Forbidden
    not found: http://host/file?… answered 404 Not Found
    not found: http://host/file?… answered 410 Gone
    transient: http://host/file?… answered 429 Too Many Requests
    transient: http://host/file?… answered 500 Internal Server Error
    transient: http://host/file?… answered 503 Service Unavailable
    ");
}

#[tokio::test]
async fn a_server_may_ask_to_wait() {
    let server = Server::saying("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n").await;
    let error = fetch_from(&source(&server.url)).await.unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn headers_stay_with_the_first_host() {
    let other = Server::saying(ok("elsewhere")).await;
    let to = format!("{}/there", other.url);
    let home = Server::new(move |path| moved(if path == "/" { "/near" } else { &to }), Then::Close).await;
    assert_eq!(fetch_from(&source(&home.url)).await.unwrap(), b"elsewhere");
    assert!(home.asked().iter().all(|request| request.contains("secret")), "{:?}", home.asked());
    assert_eq!(home.asked().len(), 2);
    // Another port of the same address is another host.
    assert_eq!(other.asked().len(), 1);
    assert!(!other.asked()[0].contains("secret") && !other.asked()[0].contains("referer"), "{:?}", other.asked());
}

#[tokio::test]
async fn a_password_in_the_url_stays_with_the_first_host() {
    let other = Server::saying(ok("elsewhere")).await;
    let to = other.url.clone();
    let home = Server::new(move |_| moved(&to), Then::Close).await;
    let url = home.url.replace("http://", "http://user:secret@");
    assert_eq!(fetch_from(&HttpSource { url, ..HttpSource::default() }).await.unwrap(), b"elsewhere");
    assert!(home.asked()[0].contains("authorization: basic"));
    assert!(!other.asked()[0].contains("authorization"));
}

#[tokio::test]
async fn five_redirects_are_followed_and_no_more() {
    let down = |path: &str| match path.trim_start_matches('/').parse::<u32>() {
        Ok(0) | Err(_) => ok("at last"),
        Ok(left) => moved(&format!("/{}", left - 1)),
    };
    let server = Server::new(down, Then::Close).await;
    assert_eq!(fetch_from(&source(&format!("{}/5", server.url))).await.unwrap(), b"at last");
    let error = fetch_from(&source(&format!("{}/6", server.url))).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Invalid, Some("ArtifactUnavailable")));
    assert!(error.message.starts_with("more than 5 redirects, the last from "), "{error}");
    assert_eq!(server.asked().len(), 12);
}

#[tokio::test]
async fn more_than_the_limit_is_refused() {
    let exact = Server::saying(ok(&"x".repeat(1000))).await;
    assert_eq!(fetch_from(&source(&exact.url)).await.unwrap().len(), 1000);
    let announced = Server::saying(ok(&"x".repeat(1001))).await;
    let endless = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "x".repeat(100_000));
    for server in [announced, Server::saying(endless).await] {
        let (class, reason, text) = trouble(&server).await;
        assert_eq!((class, reason), (Class::Invalid, Some("ArtifactUnavailable")));
        assert_eq!(text, "http://host/file?\u{2026} has more than 1000 bytes; raise --artifact-max-bytes");
    }
}

#[tokio::test]
async fn half_a_file_is_none() {
    let server = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf").await;
    let (class, reason, text) = trouble(&server).await;
    assert_eq!((class, reason), (Class::Transient, Some("ArtifactUnavailable")));
    assert!(text.starts_with("http://host/file?\u{2026} was interrupted"), "{text}");
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"] {
        let server = Server::new(move |_| answer.to_owned(), Then::Wait).await;
        let options = Options { idle_timeout: Duration::from_millis(300), ..patient() };
        let (class, reason, text) = trouble_by(&server, options).await;
        assert_eq!((class, reason), (Class::Transient, Some("ArtifactUnavailable")));
        assert!(text.starts_with("http://host/file?\u{2026} sent nothing for too long"), "{text}");
    }
}

#[tokio::test]
async fn a_host_that_is_not_there_is_said() {
    let server = Server::saying("").await;
    let url = server.url.clone();
    drop(server);
    let error = fetch_from(&source(&url)).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Transient, Some("ArtifactUnavailable")));
    assert!(error.message.contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn https_needs_no_provider_of_the_process() {
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    HttpDownload::new(Options::default()).unwrap();
    let server = Server::saying("this is no TLS").await;
    let error = fetch_from(&source(&server.url.replace("http:", "https:"))).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Transient, Some("ArtifactUnavailable")));
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

#[tokio::test]
async fn headers_that_cannot_be_sent_are_named_but_not_shown() {
    let server = Server::saying(ok("")).await;
    for (name, value) in [("X-Bad", "secret\nsecret"), ("X Bad", "secret"), ("", "secret")] {
        let headers = [(name.to_owned(), value.to_owned())].into();
        let error = fetch_from(&HttpSource { url: server.url.clone(), headers }).await.unwrap_err();
        assert_eq!(error.class, Class::Invalid);
        assert!(error.message.ends_with(&format!("of header `{name}` cannot be sent")), "{error}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn what_is_at_the_target_stays() {
    let server = Server::saying(ok("new")).await;
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("target");
    std::fs::write(&target, "mine").unwrap();
    let download = HttpDownload::direct(patient()).unwrap();
    assert_eq!(download.fetch(&source(&server.url), &target).await.unwrap_err().class, Class::Exists);
    assert_eq!(std::fs::read(&target).unwrap(), b"mine");
    let nowhere = folder.path().join("no/target");
    assert_eq!(download.fetch(&source(&server.url), &nowhere).await.unwrap_err().class, Class::NotFound);
}

#[tokio::test]
async fn a_dropped_download_leaves_nothing() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
    let server = Server::new(move |_| half.to_owned(), Then::Wait).await;
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("target");
    let download = HttpDownload::direct(patient()).unwrap();
    let source = source(&server.url);
    let fetch = download.fetch(&source, &target);
    assert!(tokio::time::timeout(Duration::from_millis(300), fetch).await.is_err());
    // A write in progress ends first.
    let began = std::time::Instant::now();
    while std::fs::read_dir(folder.path()).unwrap().count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "something is left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
