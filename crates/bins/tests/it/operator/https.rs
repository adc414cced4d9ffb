//! HTTPS as an API server speaks it to a webhook: connections that stay, and what they trust. Owns one connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use orlop::core::time::Time;
use orlop::host::flow::{Clock as _, SystemClock};
use orlop::wire::identity::{Authority, ServerIdentity};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// The name in certificates of webhooks: that of the Service.
pub(super) const NAME: &str = "orlop-operator-webhook.orlop-system.svc";

/// An authority with a pair for the webhook.
pub(super) struct Issued {
    pub(super) authority: String,
    pub(super) pair: ServerIdentity,
}

/// A pair that is good for a year from now, and so many days less.
pub(super) fn issue(days_ago: u32) -> Issued {
    let now = SystemClock.now();
    let made = Time::from_millis(now.millis() - i64::from(days_ago) * 86_400_000);
    let (authority, _) = Authority::create(made).unwrap();
    let pair = authority.server(&[NAME.to_owned(), "localhost".to_owned()], made).unwrap();
    Issued { authority: authority.pem().to_owned(), pair }
}

/// A connection.
pub(super) struct Https(StreamOwned<ClientConnection, TcpStream>);

/// Reads an answer to its end; gives its code and body.
pub(super) fn answer(stream: &mut impl std::io::Read) -> std::io::Result<(u16, String)> {
    let mut bytes = Vec::new();
    let wrong = |why: &str| std::io::Error::other(why.to_owned());
    loop {
        let head = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if bytes.len() >= head + 4 + length.unwrap_or(0) {
                let code = text.split(' ').nth(1).and_then(|code| code.parse().ok());
                let body = String::from_utf8_lossy(&bytes[head + 4..]).into_owned();
                return Ok((code.ok_or_else(|| wrong("no code"))?, body));
            }
        }
        let mut piece = [0; 16 << 10];
        match stream.read(&mut piece)? {
            0 => return Err(wrong("the connection ended")),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

impl Https {
    /// Connects, and trusts what these authorities have signed.
    pub(super) fn connect(address: &str, authorities: &[&str]) -> std::io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(NAME).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut stream = StreamOwned::new(connection, stream);
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(Self(stream))
    }

    /// Sends bytes as they are.
    pub(super) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    pub(super) fn answer(&mut self) -> std::io::Result<(u16, String)> {
        answer(&mut self.0)
    }

    /// Posts a body.
    pub(super) fn post(&mut self, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        self.send(head.as_bytes())?;
        self.send(body.as_bytes())?;
        self.answer()
    }

    /// Asks for a review, and gives the response in the answer.
    pub(super) fn review(&mut self, path: &str, review: &Value) -> std::io::Result<Value> {
        let (code, text) = self.post(path, &review.to_string())?;
        if code != 200 {
            return Err(std::io::Error::other(format!("{code} {text}")));
        }
        serde_json::from_str(&text).map_err(std::io::Error::other)
    }

    /// Reads until the other side ends it.
    pub(super) fn read_to_end(&mut self) -> String {
        let mut text = Vec::new();
        // An end without a farewell is an end.
        drop(self.0.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    }
}
