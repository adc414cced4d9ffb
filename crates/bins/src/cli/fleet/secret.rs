//! `orlop secret`: secrets of a tenant on a server. Owns that values come from standard input or a file, never from the
//! command line, where others see them.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use orlop_cloud::runtime::logs::SECRET_MIN;
use serde_json::json;

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::client::{ApiRequest, escaped, query};
use super::read::each;
use super::target::{Patience, Plain, Target};

/// The longest value, as of the server.
const LONGEST: u64 = 64 << 10;

/// What is done with secrets.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Verb {
    /// Store a secret, from a file or standard input
    Set(SetArgs),
    /// List names of secrets
    List(Plain),
    /// Delete a secret
    Delete(DeleteArgs),
}

/// Options of `orlop secret set`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop secret set db-password < password.txt
  pass show db | orlop secret set db-password --trim
  orlop secret set tls-key --file key.pem
  orlop submit --secret db-password=DB_PASSWORD -- ./migrate")]
pub(in crate::cli) struct SetArgs {
    /// Its name
    name: String,
    /// File with the value; else it is read from standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Strip the line feed at its end
    #[arg(long)]
    trim: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Options of `orlop secret delete`.
#[derive(Args, Debug)]
pub(in crate::cli) struct DeleteArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Runs a verb.
pub(super) async fn run(verb: Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Set(args) => {
            let mut value = value(args.file.as_deref())?;
            if args.trim {
                value.truncate(value.trim_end_matches(['\r', '\n']).len());
            }
            args.patience.bound(set(&args, &value)).await
        }
        Verb::List(args) => args.patience.bound(list(&args)).await,
        Verb::Delete(args) => args.patience.bound(delete(&args)).await,
    }
}

/// Whose secrets: a member of the query.
fn whose(target: &Target) -> String {
    let members: Vec<_> = target.tenant.iter().map(|tenant| ("tenant", tenant.clone())).collect();
    query(&members)
}

/// Reads a value. It is never part of an error.
fn value(file: Option<&Path>) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let (name, read) = match file {
        Some(path) => {
            let opened = std::fs::File::open(path);
            let read = opened.and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
            (path.display().to_string(), read)
        }
        None => {
            let input = std::io::stdin();
            if input.is_terminal() {
                output::tell("type the value, then press Ctrl-D on an empty line");
            }
            ("standard input".to_owned(), input.lock().take(LONGEST + 1).read_to_end(&mut bytes))
        }
    };
    read.map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Failure::usage(format!("{name} has more than {LONGEST} bytes; use an artifact instead")));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name} is not text; encode it, with base64 for example")))
}

async fn set(args: &SetArgs, value: &str) -> Result<Exit, Failure> {
    let body = json!({ "value": value });
    let path = format!("/secrets/{}{}", escaped(&args.name), whose(&args.target));
    args.target.client()?.ask(ApiRequest::put(path, &body)).await?;
    if value.trim().len() < SECRET_MIN {
        output::tell(&format!(
            "warning: secret `{}` has fewer than {SECRET_MIN} bytes; it appears in logs, since values this short are \
             not masked",
            args.name
        ));
    }
    Ok(Exit::Done)
}

async fn list(args: &Plain) -> Result<Exit, Failure> {
    let path = format!("/secrets{}", whose(&args.target));
    let list = args.target.client()?.ask(ApiRequest::get(path)).await?.body;
    let names = each(&list, "name");
    let shown = args.target.shown(&list, |_| names.clone())?;
    output::print(&shown.unwrap_or_else(|| names.join("\n")))?;
    Ok(Exit::Done)
}

async fn delete(args: &DeleteArgs) -> Result<Exit, Failure> {
    let path = format!("/secrets/{}{}", escaped(&args.name), whose(&args.target));
    args.target.client()?.ask(ApiRequest::delete(path)).await?;
    Ok(Exit::Done)
}
