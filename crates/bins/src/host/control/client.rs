//! The caller's end of the socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::address::Address;
use super::process::is_stopped;
use super::{Answer, Request};
use crate::host::flow::FlowCommand;

/// How long a host may take to answer an order.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection to the host of a run.
#[derive(Debug)]
pub struct Client {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
    /// The process that opened the socket, where the kernel says so.
    host: Option<i32>,
}

/// What a host tells, line by line.
#[derive(Debug)]
pub struct Watch {
    client: Client,
}

impl Client {
    /// Connects to the host of a run; none when there is no live one.
    ///
    /// # Errors
    /// Those of the file system, missing rights above all.
    pub async fn connect(directory: &Path) -> io::Result<Option<Self>> {
        let address = match Address::of(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            address => address?,
        };
        match UnixStream::connect(&address.path).await {
            Ok(stream) => {
                let host = stream.peer_cred().ok().and_then(|peer| peer.pid());
                let (read, write) = stream.into_split();
                Ok(Some(Self { lines: BufReader::new(read).lines(), write, host }))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The process of the host where it was stopped: it takes nothing and nothing goes on.
    #[must_use]
    pub fn stopped(&self) -> Option<i32> {
        self.host.filter(|host| is_stopped(*host, None))
    }

    async fn send(&mut self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.write.write_all(&line).await
    }

    async fn answer(&mut self) -> io::Result<Option<Answer>> {
        match self.lines.next_line().await? {
            Some(line) => Ok(Some(serde_json::from_str(&line)?)),
            None => Ok(None),
        }
    }

    /// Gives an order. False: the host went away before it answered.
    ///
    /// # Errors
    /// When it does not fit, or the host does not answer.
    pub async fn order(&mut self, order: FlowCommand) -> Result<bool, Problem> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(false),
            _ => Err(Problem::new(Class::Fatal, format!("the process that drives the flow does not answer: {error}"))),
        };
        if let Err(error) = self.send(&Request::Order(order)).await {
            return failed(error);
        }
        let Ok(answer) = tokio::time::timeout(PATIENCE, self.answer()).await else {
            // A host carries out no order of a caller who has left.
            let message = format!(
                "the process that drives the flow has not answered for {} s, and the command is withdrawn; the \
                 process may be stopped (SIGSTOP) or very busy",
                PATIENCE.as_secs()
            );
            return Err(Problem::new(Class::Fatal, message));
        };
        match answer {
            Ok(Some(Answer::Done)) => Ok(true),
            Ok(Some(Answer::Refused { code, class, message })) => {
                Err(Problem { class, ..Problem::coded(code, message) })
            }
            Ok(Some(_) | None) => Ok(false),
            Err(error) => failed(error),
        }
    }

    /// Waits until the host closes the connection.
    pub async fn closed(mut self) {
        // Any line, the end or an error: only the end matters, and an error is one.
        while let Ok(Some(_)) = self.lines.next_line().await {}
    }

    /// Watches from now on.
    ///
    /// # Errors
    /// When the host went away.
    pub async fn watch(mut self) -> io::Result<Watch> {
        self.send(&Request::Watch).await?;
        Ok(Watch { client: self })
    }
}

impl Watch {
    /// As of [`Client::stopped`].
    #[must_use]
    pub fn stopped(&self) -> Option<i32> {
        self.client.stopped()
    }

    /// The next line; none when the host has gone.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<Answer>> {
        self.client.answer().await
    }
}
