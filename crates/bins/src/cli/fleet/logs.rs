//! `orlop logs`: what jobs wrote, read and followed over restarts of the server. Owns which parts of a job are shown, and
//! that nothing is shown twice.

use std::time::Duration;

use clap::Args;
use orlop_core::time::{GoDuration, Time};
use serde_json::Value;

use super::super::failure::{Exit, Failure};
use super::client::{Asked, Client, escaped, query};
use super::page::Page;
use super::read::{items, number, text};
use super::sse::{Event, Events};
use super::target::{Patience, Target};
use crate::host::flow::{Clock as _, SystemClock};

/// How long a server may be away before following ends.
const AWAY: Duration = Duration::from_secs(60);
/// Between two tries to reach it.
const RETRY: Duration = Duration::from_millis(500);

/// Options of `orlop logs`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop logs j000040000000001
  orlop logs j000040000000001 -f              goes on until the job has ended, also over restarts of the server
  orlop logs j000040000000001 --index 17      of one element of an array; without it, of all of them in order
  orlop logs j000040000000001 --stderr --since 10m --timestamps

Logs of flows that run on this machine: `orlop flow logs`")]
pub(in crate::cli) struct LogsArgs {
    /// Id of the job
    id: String,
    /// Go on as more is written, until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Only standard error
    #[arg(long)]
    stderr: bool,
    /// Only standard output
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only this attempt; else the latest, and with --follow those after it
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only this element of an array, or this member of a gang
    #[arg(long, value_name = "N")]
    index: Option<u32>,
    /// Only what was written in the last while, such as 10m
    #[arg(long, value_name = "DURATION")]
    since: Option<GoDuration>,
    /// Begin every line with its time
    #[arg(long)]
    timestamps: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Which logs are shown, and how.
#[derive(Clone, Debug, Default)]
pub(super) struct Showing {
    pub(super) follow: bool,
    pub(super) stream: Option<&'static str>,
    pub(super) attempt: Option<u32>,
    pub(super) index: Option<u32>,
    pub(super) since: Option<Time>,
    pub(super) timestamps: bool,
}

/// Shows logs.
pub(super) async fn logs(args: LogsArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let ago = |since: GoDuration| {
        Time::from_millis(SystemClock.now().millis() - i64::try_from(since.get().as_millis()).unwrap_or(i64::MAX))
    };
    let showing = Showing {
        follow: args.follow,
        stream: if args.stderr { Some("stderr") } else { args.stdout.then_some("stdout") },
        attempt: args.attempt,
        index: args.index,
        since: args.since.map(ago),
        timestamps: args.timestamps,
    };
    args.patience.bound(show(&client, &args.id, &showing)).await
}

/// Shows the logs of a job: of one part of it, or of all of them in order.
///
/// # Errors
/// There is no such job, or the server stays away.
pub(super) async fn show(client: &Client, id: &str, showing: &Showing) -> Result<Exit, Failure> {
    let path = format!("/jobs/{}", escaped(id));
    let job = patiently(async || client.ask(Asked::get(&path)).await).await?.body;
    let kind = text(&job, "kind");
    if showing.index.is_some() || kind == "single" {
        let page = Page::new(None, showing.timestamps);
        part(client, &path, showing, page).await?;
        return Ok(Exit::Done);
    }
    if kind == "gang" {
        let size = u32::try_from(number(&job, "count")).unwrap_or_default();
        for member in 0..size {
            if !one_of(client, &path, showing, member).await? {
                break;
            }
        }
        return Ok(Exit::Done);
    }
    let mut cursor = None;
    loop {
        let mut members = vec![("limit", "1000".to_owned())];
        members.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let list = format!("{path}/elements{}", query(&members));
        let list = patiently(async || client.ask(Asked::get(&list)).await).await?.body;
        for element in items(&list) {
            let index = u32::try_from(number(element, "index")).unwrap_or_default();
            // What was never tried has written nothing.
            let wanted = showing.follow || number(element, "attempt") > 0;
            if wanted && !one_of(client, &path, showing, index).await? {
                return Ok(Exit::Done);
            }
        }
        match list["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(Exit::Done),
        }
    }
}

/// One of several parts, every line with its number. False when the reader has gone.
async fn one_of(client: &Client, path: &str, showing: &Showing, index: u32) -> Result<bool, Failure> {
    let showing = Showing { index: Some(index), ..showing.clone() };
    part(client, path, &showing, Page::new(Some(index), showing.timestamps)).await
}

/// Shows one log to its end. False when the reader has gone.
async fn part(client: &Client, path: &str, showing: &Showing, mut page: Page) -> Result<bool, Failure> {
    let mut members: Vec<(&str, String)> = Vec::new();
    members.extend(showing.follow.then(|| ("follow", "true".to_owned())));
    members.extend(showing.stream.map(|stream| ("stream", stream.to_owned())));
    members.extend(showing.attempt.map(|attempt| ("attempt", attempt.to_string())));
    members.extend(showing.index.map(|index| ("index", index.to_string())));
    members.extend(showing.since.map(|since| ("since", since.to_string())));
    let path = format!("{path}/logs{}", query(&members));
    let mut last: Option<String> = None;
    loop {
        let opened = patiently(async || {
            let asked = Asked::get(&path).with("accept", Some("text/event-stream".to_owned()));
            client.open(asked.with("last-event-id", last.clone())).await
        });
        let mut events = Events::new(opened.await?);
        while let Some(Event { id, kind, data }) = events.next().await {
            let data: Value = serde_json::from_str(&data).unwrap_or_default();
            if kind == "end" {
                return page.end();
            }
            if !page.show(&kind, &data)? {
                return Ok(false);
            }
            last = id.or(last);
        }
        // It broke off: the server ends, or the way to it.
        tokio::time::sleep(RETRY).await;
    }
}

/// Asks again while the server is away or has no room, for a while.
async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let begun = tokio::time::Instant::now();
    loop {
        match ask().await {
            Err(failure) if (failure.is_passing() || failure.exit == Exit::Quota) && begun.elapsed() < AWAY => {
                tokio::time::sleep(RETRY).await;
            }
            other => return other,
        }
    }
}
