//! Events of a stream (SSE) as a client reads them.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures::StreamExt as _;

/// The longest event that is read.
const EVENT: usize = 4 << 20;

/// A server with nothing to say says so every 15 s: one that is silent for longer has gone, or stands still.
const SILENCE: Duration = Duration::from_secs(60);

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its position.
    pub(super) id: Option<String>,
    /// What it is.
    pub(super) kind: String,
    /// What it says.
    pub(super) data: String,
}

/// Events under way.
pub(super) struct Events {
    body: BodyDataStream,
    text: Vec<u8>,
    /// Where in it the next event begins: many come at once.
    begin: usize,
}

impl Events {
    pub(super) fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), text: Vec::new(), begin: 0 }
    }

    /// The next event; none where the stream ends, breaks off or goes silent, which the stream itself tells apart by its
    /// last event.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(event) = self.block().map(parse) {
                // A comment is a sign of life.
                if !event.kind.is_empty() || !event.data.is_empty() {
                    return Some(event);
                }
            }
            self.text.drain(..std::mem::take(&mut self.begin));
            if self.text.len() > EVENT {
                return None;
            }
            let heard = tokio::time::timeout(SILENCE, self.body.next()).await.ok()?;
            self.text.extend_from_slice(&heard?.ok()?);
        }
    }

    /// Takes the text up to the next blank line.
    fn block(&mut self) -> Option<&[u8]> {
        let rest = self.text.get(self.begin..)?;
        let end = rest.windows(2).position(|pair| pair == b"\n\n")? + 2;
        self.begin += end;
        rest.get(..end)
    }
}

fn parse(block: &[u8]) -> Event {
    let mut event = Event::default();
    for line in String::from_utf8_lossy(block).lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => event.id = Some(value.to_owned()),
            "event" => event.kind = value.to_owned(),
            "data" => {
                if !event.data.is_empty() {
                    event.data.push('\n');
                }
                event.data.push_str(value);
            }
            _ => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn events_are_read_however_they_are_cut() {
        let text =
            ": hello\n\nid: 1.2\nevent: chunk\ndata: {\"text\":\"h\u{e9}\"}\n\nevent: end\ndata: a\ndata: b\n\nid: cut";
        for size in 1..text.len() {
            let pieces =
                text.as_bytes().chunks(size).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
            let body = Body::from_stream(futures::stream::iter(pieces.collect::<Vec<_>>()));
            let mut events = Events::new(body);
            let first = events.next().await.unwrap();
            assert_eq!((first.id.as_deref(), first.kind.as_str()), (Some("1.2"), "chunk"));
            assert_eq!(first.data, "{\"text\":\"h\u{e9}\"}");
            assert_eq!(events.next().await.unwrap().data, "a\nb");
            assert_eq!(events.next().await, None, "half an event is none");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_gives_no_sign_of_life_is_not_waited_for() {
        let silent = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(Events::new(silent).next().await, None);
    }
}
