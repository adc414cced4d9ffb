//! `orlop logs`: what jobs wrote, read and followed over restarts of the server. Owns which parts of a job are shown, and
//! that nothing is shown twice.

use std::time::Duration;

use clap::Args;
use orlop_core::id::JobId;
use orlop_core::spec::job::Indices;
use orlop_core::time::{HumanDuration, Time};
use serde_json::Value;

use super::super::failure::{Exit, Failure};
use super::super::output::Format;
use super::address::Address;
use super::again::patiently;
use super::client::{ApiRequest, Client, query};
use super::page::{Page, Pages};
use super::read::text;
use super::sse::{Event, Events};
use super::target::{Patience, Target};
use crate::host::flow::{Clock as _, SystemClock};

/// Between two tries to reach it.
const RETRY: Duration = Duration::from_millis(500);

/// Options of `orlop logs`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop logs j000040000000001
  orlop logs j000040000000001 -f              until the job has ended, also over restarts of the server
  orlop logs j000040000000001.17              of one element of an array
  orlop logs j000040000000001.0-9 --no-prefix of some of them in order, the lines as they were written
  orlop logs j000040000000001 --stderr --since 10m --timestamps
  orlop logs j000040000000001 -o json         what was written as events, one a line

Logs of flows that run on this machine: `orlop flow logs`")]
pub(in crate::cli) struct LogsArgs {
    /// Id of the job, or JOB.0-9,17 for elements of an array
    job: Address,
    /// Follow the log until the job has ended
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
    /// Only these elements of an array, or members of a gang
    #[arg(long, value_name = "INDICES")]
    index: Option<Indices>,
    /// Only what was written in the last while, such as 10m
    #[arg(long, value_name = "DURATION")]
    since: Option<HumanDuration>,
    /// Prefix every line with its time
    #[arg(long)]
    timestamps: bool,
    /// Do not prefix the lines of several elements with their index
    #[arg(long)]
    no_prefix: bool,
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
    pub(super) since: Option<Time>,
    pub(super) timestamps: bool,
    /// Lines of several elements begin with their index.
    pub(super) prefix: bool,
    /// As events, each a line of JSON.
    pub(super) json: bool,
}

/// Shows logs.
pub(super) async fn logs(args: LogsArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let ago = |since: HumanDuration| {
        Time::from_millis(SystemClock.now().millis() - i64::try_from(since.get().as_millis()).unwrap_or(i64::MAX))
    };
    let showing = Showing {
        follow: args.follow,
        stream: if args.stderr { Some("stderr") } else { args.stdout.then_some("stdout") },
        attempt: args.attempt,
        since: args.since.map(ago),
        timestamps: args.timestamps,
        prefix: !args.no_prefix,
        json: match args.target.output {
            Format::Table => false,
            Format::Json => true,
            Format::Yaml | Format::Name => {
                let message =
                    "logs have no such output format; use `-o json` for events, one a line, or leave -o out for text";
                return Err(Failure::new(Exit::Usage, message));
            }
        },
    };
    let address = args.job.with("--index", args.index.as_ref())?;
    let asked = async {
        // What is no id of a job is the name of a flow, most likely: nobody waits for a server to say so.
        if address.job.parse::<JobId>().is_err() {
            client.ask(ApiRequest::get(address.path())).await.map_err(|failure| of_flow(&address.job, failure))?;
        }
        show(&client, &address, &showing).await
    };
    args.patience.bound(asked).await
}

/// What a failure has to say to one who may mean a flow.
fn of_flow(name: &str, failure: Failure) -> Failure {
    if !failure.is_passing() && failure.exit != Exit::NotFound {
        return failure;
    }
    let message = format!("{failure}; the logs of a flow are shown by `orlop flow logs {name}`");
    Failure { message, ..failure }
}

/// Shows the logs of a job: of one part of it, or of all of them: in order, or as they come where they are followed.
///
/// # Errors
/// There is no such job, or the server stays away.
pub(super) async fn show(client: &Client, address: &Address, showing: &Showing) -> Result<Exit, Failure> {
    let single = match &address.indices {
        Some(indices) => indices.single(),
        None => {
            let job = patiently(async || client.ask(ApiRequest::get(address.path())).await).await?.body;
            (text(&job, "kind") == "single").then_some(0)
        }
    };
    match single {
        Some(index) => part(client, address, showing, index).await?,
        None => several(client, address, showing).await?,
    };
    Ok(Exit::Done)
}

/// What is asked for.
fn members(showing: &Showing) -> Vec<(&'static str, String)> {
    let mut members: Vec<(&str, String)> = Vec::new();
    members.extend(showing.follow.then(|| ("follow", "true".to_owned())));
    members.extend(showing.stream.map(|stream| ("stream", stream.to_owned())));
    members.extend(showing.attempt.map(|attempt| ("attempt", attempt.to_string())));
    members.extend(showing.since.map(|since| ("since", since.to_string())));
    members
}

/// Shows several logs to their ends, all from one stream. Where it breaks off it is asked for anew, and what was shown is left
/// out: positions in several logs are none of the stream.
async fn several(client: &Client, address: &Address, showing: &Showing) -> Result<bool, Failure> {
    let mut members = members(showing);
    let index = address.indices.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string);
    members.push(("index", index));
    let path = format!("{}/logs{}", address.path(), query(&members));
    let mut pages = if showing.json { Pages::events() } else { Pages::new(showing.prefix, showing.timestamps) };
    loop {
        let opened = patiently(async || {
            client.open(ApiRequest::get(&path).with("accept", Some("text/event-stream".to_owned()))).await
        });
        let mut events = Events::new(opened.await?);
        while let Some(Event { kind, data, .. }) = events.next().await {
            let data: Value = serde_json::from_str(&data).unwrap_or_default();
            if kind == "end" {
                return pages.end();
            }
            if !pages.show(&kind, &data)? {
                return Ok(false);
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Shows one log to its end. False when the reader has gone.
async fn part(client: &Client, address: &Address, showing: &Showing, index: u32) -> Result<bool, Failure> {
    let mut members = members(showing);
    members.push(("index", index.to_string()));
    let path = format!("{}/logs{}", address.path(), query(&members));
    let mut page = if showing.json { Page::events() } else { Page::new(None, showing.timestamps, false) };
    let mut last: Option<String> = None;
    loop {
        let opened = patiently(async || {
            let asked = ApiRequest::get(&path).with("accept", Some("text/event-stream".to_owned()));
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
