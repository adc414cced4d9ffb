//! `orlop workers token`: tokens with which workers join, made with the command that uses them, listed, revoked. Owns
//! options and texts.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use orlop_core::time::HumanDuration;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::client::{ApiRequest, Client, escaped, query};
use super::read::{each, items, text};
use super::target::{Patience, Plain, Target};
use crate::view::table::columns;

/// What is done with join tokens.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum TokenVerb {
    /// Make a token, and print how a worker joins with it
    Create(CreateArgs),
    /// List tokens, without their secrets
    List(Plain),
    /// Revoke a token: it can no longer be used to join
    Revoke(RevokeArgs),
}

/// Options of `orlop workers token create`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop workers token create
  orlop workers token create --uses 20 --ttl 24h --label zone=a --label gpu
  orlop workers token create -o name > join.token")]
pub(in crate::cli) struct CreateArgs {
    /// How many workers can join with it
    #[arg(long, default_value_t = 1)]
    uses: u32,
    /// How long it is valid
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    ttl: HumanDuration,
    /// A label that its workers may bring, KEY or KEY=VALUE; repeat it for more; none = any
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// A tenant whose jobs its workers take; repeat it for more; none = all
    #[arg(long = "for-tenant", value_name = "NAME")]
    tenants: Vec<String>,
    /// What it is for
    #[arg(long, default_value = "")]
    note: String,
    /// Write the token to a file that only its owner reads, instead of showing it
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Which token is revoked.
#[derive(Args, Debug)]
pub(in crate::cli) struct RevokeArgs {
    /// Id of the token
    id: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pub(super) patience: Patience,
}

/// Does it.
pub(super) async fn run(verb: TokenVerb) -> Result<Exit, Failure> {
    match verb {
        TokenVerb::Create(args) => args.patience.bound(create(&args)).await,
        TokenVerb::List(args) => args.patience.bound(list(&args)).await,
        TokenVerb::Revoke(args) => args.patience.bound(revoke_at("/join-tokens", &args)).await,
    }
}

async fn create(args: &CreateArgs) -> Result<Exit, Failure> {
    let body = json!({
        "uses": args.uses,
        "ttl": args.ttl.to_string(),
        "labels": args.labels,
        "tenants": args.tenants,
        "note": args.note,
    });
    let made = args.target.client()?.ask(ApiRequest::post("/join-tokens", Some(&body))).await?.body;
    keep_or_say(args.write.as_deref(), &args.target, &made, command)
}

/// Puts a token that was made where it was asked for: into a file, or onto the terminal with what to do with it.
pub(super) fn keep_or_say(
    file: Option<&Path>,
    target: &Target,
    made: &Value,
    advice: impl FnOnce(&Value) -> String,
) -> Result<Exit, Failure> {
    let Some(file) = file else {
        let shown = target.shown(made, |made| vec![text(made, "token")])?;
        output::print(&shown.unwrap_or_else(|| advice(made)))?;
        return Ok(Exit::Done);
    };
    let secret = format!("{}\n", text(made, "token"));
    kept(file, secret.as_bytes()).map_err(|error| {
        let id = text(made, "id");
        Failure::new(Exit::Usage, format!("{} cannot be written: {error}; token {id} is lost", file.display()))
    })?;
    let until = made["expires_at"].as_str().map_or_else(|| "it is revoked".to_owned(), str::to_owned);
    output::tell(&format!("{}: good until {until}", file.display()));
    Ok(Exit::Done)
}

/// Writes a secret to a file that appears whole, in place of what was there.
fn kept(file: &Path, secret: &[u8]) -> io::Result<()> {
    let half = file.with_extension(format!("{}.half", std::process::id()));
    let mut open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
    open.write_all(secret)?;
    open.sync_all()?;
    std::fs::rename(&half, file)
}

/// How a worker joins. The token goes by way of a file: arguments can be read by everybody on a machine.
fn command(made: &Value) -> String {
    let labels: Vec<&str> = made["labels"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let labels: String =
        labels.iter().filter(|label| label.contains('=')).map(|label| format!(" --label {label}")).collect();
    let (token, server) = (text(made, "token"), text(made, "server"));
    format!(
        "{token}\n\nThe token is shown once; it is valid until {} for {} more. On the worker's machine write it to a file that only you can read, then start:\n\n  orlop worker --server {server} --join-token-file FILE --state \
         DIR{labels}\n",
        text(made, "expires_at"),
        match text(made, "uses_left").as_str() {
            "1" => "1 worker".to_owned(),
            uses => format!("{uses} workers"),
        },
    )
}

/// Every object of a list, as one.
pub(super) async fn all(client: &Client, path: &str) -> Result<Value, Failure> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let mut members = vec![("limit", "1000".to_owned())];
        members.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = client.ask(ApiRequest::get(format!("{path}{}", query(&members)))).await?.body;
        found.extend(items(&page).iter().cloned());
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(json!({ "items": found }));
        }
    }
}

async fn list(args: &Plain) -> Result<Exit, Failure> {
    let found = all(&args.target.client()?, "/join-tokens").await?;
    let shown = args.target.shown(&found, |found| each(found, "id"))?;
    output::print(&shown.unwrap_or_else(|| table(&found)))?;
    Ok(Exit::Done)
}

/// Words of a list, in one cell.
pub(super) fn words(token: &Value, name: &str) -> String {
    token[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

fn table(found: &Value) -> String {
    let row = |token: &Value| {
        vec![
            text(token, "id"),
            text(token, "uses_left"),
            text(token, "expires_at"),
            text(token, "revoked_at"),
            words(token, "labels"),
            words(token, "tenants"),
            text(token, "note"),
        ]
    };
    let rows: Vec<Vec<String>> = items(found).iter().map(row).collect();
    if rows.is_empty() {
        return "no tokens\n".to_owned();
    }
    columns(&["ID", "USES", "EXPIRES", "REVOKED", "LABELS", "TENANTS", "NOTE"], &rows)
}

/// Revokes one of a list.
pub(super) async fn revoke_at(path: &str, args: &RevokeArgs) -> Result<Exit, Failure> {
    args.target.client()?.ask(ApiRequest::delete(format!("{path}/{}", escaped(&args.id)))).await?;
    output::tell(&format!("{}: revoked", args.id));
    Ok(Exit::Done)
}
