//! Logs of jobs: as text, or as a stream of events (SSE) that can be gone on with.
//!
//! A position is `<attempt>.<seq>`: the id of an event, and what `Last-Event-ID` names to go on behind it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::ACCEPT;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::stream;
use orlop_core::error::Problem;
use orlop_core::machine::job::JobState;
use orlop_core::named::Named as _;
use orlop_core::task::LogStream;
use serde_json::{Value, json};

use super::super::call::Call;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::streams::StreamPermit;
use crate::host::scheduler::{LogNews, LogOrder, LogReader, PartNews, PartsReader};
use crate::wire::attempt::LogChunk;

/// A stream with nothing to say says so after this time, so that nobody in between closes it.
const QUIET: Duration = Duration::from_secs(15);
/// The header that says what the client has.
const LAST: &str = "last-event-id";

/// How a log is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Events,
}

/// What is read: one log, or those of several parts of a job.
enum Source {
    One(Box<LogReader>),
    Several(PartsReader),
}

/// What comes of it.
enum News {
    /// Chunks, where there are several logs of this part.
    Chunks(Option<u32>, Vec<LogChunk>),
    /// One of several logs has ended.
    PartEnd(u32, JobState),
    End(JobState),
}

impl Source {
    async fn next(&mut self) -> Result<Option<News>, Problem> {
        Ok(match self {
            Self::One(reader) => reader.next().await?.map(|news| match news {
                LogNews::Chunks(chunks) => News::Chunks(None, chunks),
                LogNews::End(state) => News::End(state),
            }),
            Self::Several(reader) => reader.next().await?.map(|news| match news {
                PartNews::Chunks(part, chunks) => News::Chunks(Some(part), chunks),
                PartNews::PartEnd(part, state) => News::PartEnd(part, state),
                PartNews::End(state) => News::End(state),
            }),
        })
    }
}

/// Logs under way.
struct Streaming {
    source: Source,
    form: Form,
    /// The text of a part does not end with a line feed yet.
    open_line: bool,
    over: bool,
    _permit: StreamPermit,
}

/// GET /jobs/{id}/logs
pub(in super::super) async fn logs(api: Arc<Api>, call: Call) -> Answer {
    let row = api.job(&call).await?;
    let accept = call.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let form = if accept.contains("text/event-stream") { Form::Events } else { Form::Text };
    let parts = call.one("index")?.filter(|index| index.parse::<u32>().is_err());
    let order = order(&call, LogOrder::of(row.job.id), form, parts.is_some())?;
    let (handle, stop) = (api.handle.clone(), api.stop.clone());
    let source = match parts {
        None => Source::One(Box::new(LogReader::open(handle, stop, order).await?)),
        Some(text) => {
            let read = |text: &str| text.parse().map_err(|error| Problem::field("index", format!("{error}; or `all`")));
            let indices = if text == "all" { None } else { Some(read(text)?) };
            Source::Several(PartsReader::open(handle, stop, order, indices).await?)
        }
    };
    let permit = api.streams.permit(&call.caller)?;
    let streaming = Streaming { source, form, open_line: false, over: false, _permit: permit };
    let pieces = stream::unfold(streaming, |mut streaming| async move {
        let piece = streaming.next().await?;
        Some((piece, streaming))
    });
    let media = match form {
        Form::Text => "text/plain; charset=utf-8",
        Form::Events => "text/event-stream",
    };
    Ok(Reply::stream(media, Body::from_stream(pieces)))
}

/// What is asked for.
fn order(call: &Call, order: LogOrder, form: Form, several: bool) -> Result<LogOrder, Problem> {
    let name =
        |text: &str| LogStream::from_typed(text).map_err(|_| Problem::field("stream", "use stdout, stderr or system"));
    let asked = LogOrder {
        index: if several { 0 } else { call.read("index")?.unwrap_or(0) },
        attempt: call.read("attempt")?,
        after: call.read::<u64>("since_seq")?.unwrap_or(0).saturating_sub(1),
        stream: call.one("stream")?.map(name).transpose()?,
        since: call.read("since")?,
        follow: call.switch("follow")?,
        ..order
    };
    if several {
        if asked.after > 0 {
            return Err(Problem::field("since_seq", "is the position in one log; name one with `index`"));
        }
        if asked.follow && form == Form::Text {
            return Err(Problem::field(
                "follow",
                "several logs can only be followed as events; send `Accept: text/event-stream`",
            ));
        }
        return Ok(asked);
    }
    let last = call.headers.get(LAST).filter(|_| form == Form::Events);
    let Some(last) = last.map(|value| value.to_str().unwrap_or_default()).filter(|last| !last.is_empty()) else {
        return Ok(asked);
    };
    let read = last.split_once('.').and_then(|(attempt, seq)| Some((attempt.parse().ok()?, seq.parse().ok()?)));
    let (attempt, after) =
        read.ok_or_else(|| Problem::field("Last-Event-ID", "is not the id of an event of this stream"))?;
    if asked.attempt.is_some_and(|named| named != attempt) {
        return Err(Problem::field("Last-Event-ID", "belongs to another attempt than `attempt`"));
    }
    Ok(LogOrder { from: Some(attempt), after, ..asked })
}

impl Streaming {
    /// What goes out next; none at the end.
    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        if self.over {
            return None;
        }
        let news = tokio::select! {
            news = self.source.next() => news,
            () = tokio::time::sleep(QUIET), if self.form == Form::Events => {
                return Some(Ok(Bytes::from_static(b": still here\n\n")));
            }
        };
        match news {
            Ok(Some(News::Chunks(part, chunks))) => Some(Ok(self.said(part, chunks).into())),
            Ok(Some(News::PartEnd(part, state))) => Some(Ok(self.part_end(part, state).into())),
            Ok(Some(News::End(state))) => {
                self.over = true;
                Some(Ok(match self.form {
                    Form::Text => Bytes::new(),
                    Form::Events => end(state).into(),
                }))
            }
            Ok(None) => self.broken("the server ends"),
            Err(error) => {
                tracing::warn!(target: "orlop::api", %error, "a log was interrupted");
                self.broken("the log cannot be read now")
            }
        }
    }

    /// Breaks off, so that the client knows that this was not all.
    fn broken(&mut self, why: &str) -> Option<Result<Bytes, std::io::Error>> {
        self.over = true;
        Some(Err(std::io::Error::other(why.to_owned())))
    }

    fn said(&mut self, part: Option<u32>, chunks: Vec<LogChunk>) -> Vec<u8> {
        let mut out = Vec::new();
        for chunk in chunks {
            match self.form {
                Form::Text => text(&chunk, &mut out),
                Form::Events => events(&chunk, part, &mut out),
            }
        }
        self.open_line = out.last().map_or(self.open_line, |byte| *byte != b'\n');
        out
    }

    /// The end of one of several logs. Lines of two logs do not run into each other.
    fn part_end(&mut self, part: u32, state: JobState) -> Vec<u8> {
        match self.form {
            Form::Text if std::mem::take(&mut self.open_line) => b"\n".to_vec(),
            Form::Text => Vec::new(),
            Form::Events => format!("event: part\ndata: {}\n\n", json!({ "index": part, "state": state })).into_bytes(),
        }
    }
}

/// A chunk as text. What is missing is reported on its own line.
fn text(chunk: &LogChunk, out: &mut Vec<u8>) {
    if let Some(gap) = &chunk.gap {
        let bytes = if gap.bytes > 0 { format!(" with {} bytes", gap.bytes) } else { String::new() };
        out.extend(format!("[{} chunks{bytes} are missing here]\n", gap.chunks).bytes());
    }
    out.extend_from_slice(&chunk.data);
}

/// A chunk as events: what is missing before it, and itself.
fn events(chunk: &LogChunk, part: Option<u32>, out: &mut Vec<u8>) {
    let (attempt, seq) = (chunk.attempt().attempt, chunk.seq);
    // The position in one of several logs is none in all of them.
    let id = |at: u64| if part.is_some() { String::new() } else { format!("id: {attempt}.{at}\n") };
    if let Some(gap) = &chunk.gap {
        let mut data = json!({ "attempt": attempt, "seq": seq, "chunks": gap.chunks, "bytes": gap.bytes });
        name(part, &mut data);
        // A reader that goes on behind a gap is to get the chunk after it.
        let at = if chunk.data.is_empty() { seq } else { seq.saturating_sub(1) };
        out.extend(format!("{}event: gap\ndata: {data}\n\n", id(at)).bytes());
    }
    if chunk.data.is_empty() {
        return;
    }
    let mut data = json!({
        "attempt": attempt,
        "stream": chunk.log_stream().as_str(),
        "seq": seq,
        "time": chunk.written().map(|time| time.to_string()),
    });
    name(part, &mut data);
    // Jobs write bytes; those that are no text go as Base64.
    match std::str::from_utf8(&chunk.data) {
        Ok(text) => data["text"] = text.into(),
        Err(_) => data["base64"] = STANDARD.encode(&chunk.data).into(),
    }
    out.extend(format!("{}event: chunk\ndata: {data}\n\n", id(seq)).bytes());
}

/// Says of which of several logs an event is.
fn name(part: Option<u32>, data: &mut Value) {
    if let Some(index) = part {
        data["index"] = index.into();
    }
}

fn end(state: JobState) -> Vec<u8> {
    format!("event: end\ndata: {}\n\n", json!({ "state": state })).into_bytes()
}
