//! A web server on the loopback address. Serves one page, to whoever shows a token.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Serves until the test ends.
pub(super) struct Server {
    address: SocketAddr,
}

impl Server {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A caller that goes away is its own trouble.
                drop(answer(stream));
            }
        });
        Self { address }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut first, mut token) = (String::new(), String::new());
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?;
        if first.is_empty() {
            first.clone_from(&line);
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("x-token")
        {
            value.clone_into(&mut token);
        }
        if line.is_empty() {
            break;
        }
    }
    let (code, body) = match first.starts_with("GET /page ") {
        true => ("200 OK", format!("served to {token}\n")),
        false => ("404 Not Found", String::new()),
    };
    write!(stream, "HTTP/1.1 {code}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
