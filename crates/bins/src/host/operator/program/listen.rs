//! Where the program listens.

use std::io;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use tokio::net::TcpListener;

/// A host, or all of them, with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listen {
    /// All addresses of the machine where none is named.
    host: Option<String>,
    port: u16,
}

impl Listen {
    /// This machine only.
    pub(super) fn loopback(port: u16) -> Self {
        Self { host: Some("127.0.0.1".to_owned()), port }
    }

    /// Every address of the machine.
    pub(super) const fn everywhere(port: u16) -> Self {
        Self { host: None, port }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not an address; write host:port, or :port for all addresses of the machine");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if host.contains(':') != host.starts_with('[') || bare.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { host: Some(bare.to_owned()).filter(|host| !host.is_empty()), port })
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            None => write!(f, ":{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Writes an address as a flag takes it: `off` for none.
pub(super) fn or_off<S: Serializer>(listen: &Option<Listen>, serializer: S) -> Result<S::Ok, S::Error> {
    match listen {
        Some(listen) => listen.serialize(serializer),
        None => serializer.serialize_str("off"),
    }
}

/// Listens, where an address is given.
///
/// # Errors
/// It cannot be had; `flag` is where it stands.
pub(super) async fn bind(listen: Option<&Listen>, flag: &str) -> io::Result<Option<TcpListener>> {
    let Some(listen) = listen else { return Ok(None) };
    let bound = match &listen.host {
        Some(host) => TcpListener::bind((host.as_str(), listen.port)).await,
        // Both families by one socket, where the machine has both.
        None => match TcpListener::bind(("::", listen.port)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", listen.port)).await,
            bound => bound,
        },
    };
    bound.map(Some).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{flag}: {listen} cannot be listened on: {error}; choose another, or `off`"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in [":8080", "127.0.0.1:0", "[::1]:9", "localhost:80"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in ["", "8080", "a:b", "::1:80", "h o:1", ":99999"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
        insta::assert_snapshot!("8080".parse::<Listen>().unwrap_err(), @"`8080` is not an address; write host:port, or :port for all addresses of the machine");
    }
}
