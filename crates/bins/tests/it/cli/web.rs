//! A web server on the loopback address: one that serves a page to whoever shows a token, and a registry of images that
//! asks for a login and has none.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Serves until the test ends.
pub(super) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

/// What is request for: the first line, and a header.
struct HttpRequest {
    line: String,
    header: Option<String>,
}

impl Server {
    /// Serves `/page`, which shows the header `X-Token`.
    pub(super) fn start() -> Self {
        Self::serve("x-token", |request| match request.line.starts_with("GET /page ") {
            true => ("200 OK", "", format!("served to {}\n", request.header.clone().unwrap_or_default())),
            false => ("404 Not Found", "", String::new()),
        })
    }

    /// Serves as a registry without images.
    pub(super) fn registry() -> Self {
        Self::serve("authorization", |request| match request.header {
            None => ("401 Unauthorized", "WWW-Authenticate: Basic realm=\"test\"\r\n", String::new()),
            Some(_) if request.line.contains(" /v2/ ") => ("200 OK", "", "{}".to_owned()),
            Some(_) => {
                let unknown = r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}"#;
                ("404 Not Found", "Content-Type: application/json\r\n", unknown.to_owned())
            }
        })
    }

    /// Serves `/page`, and answers that it cannot until it is mended.
    pub(super) fn broken(mended: Arc<AtomicBool>) -> Self {
        Self::serve("x-token", move |_| match mended.load(Ordering::SeqCst) {
            true => ("200 OK", "", "page\n".to_owned()),
            false => ("500 Internal Server Error", "", String::new()),
        })
    }

    fn serve(
        header: &'static str,
        answer: impl Fn(&HttpRequest) -> (&'static str, &'static str, String) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let notes = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A caller that goes away is its own trouble.
                if let Ok(request) = ask(&stream, header) {
                    notes.lock().unwrap_or_else(PoisonError::into_inner).extend(request.header.clone());
                    let (code, headers, body) = answer(&request);
                    drop(tell(stream, code, headers, &body));
                }
            }
        });
        Self { address, seen }
    }

    /// Where it is.
    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Values of the header so far.
    pub(super) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn ask(stream: &TcpStream, header: &str) -> std::io::Result<HttpRequest> {
    let mut request = HttpRequest { line: String::new(), header: None };
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?;
        if request.line.is_empty() {
            request.line.clone_from(&line);
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case(header)
        {
            request.header = Some(value.to_owned());
        }
        if line.is_empty() {
            break;
        }
    }
    Ok(request)
}

fn tell(mut stream: TcpStream, code: &str, headers: &str, body: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {code}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
