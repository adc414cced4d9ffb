//! `orlop token`: tokens of people and programs, made with a role and tenants, listed, revoked. Owns options and texts; what a token
//! may make the server decides.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use orlop_core::time::HumanDuration;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::client::ApiRequest;
use super::join::{RevokeArgs, all, keep_or_say, revoke_at, words};
use super::read::{each, items, text};
use super::target::{Patience, Plain, Target};
use crate::api::auth::Role;
use crate::view::table::columns;

/// What is done with tokens.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Verb {
    /// Make a token, which is shown once
    Create(CreateArgs),
    /// List tokens, without their secrets
    List(Plain),
    /// Revoke a token: it can no longer be used
    Revoke(RevokeArgs),
}

/// Options of `orlop token create`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop token create --role submitter --for-tenant physics --write physics.token
  orlop token create --role viewer --for-tenant '*' --ttl 720h -o name")]
pub(in crate::cli) struct CreateArgs {
    /// What it may do: viewer, submitter, operator or admin
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Role,
    /// A tenant whose objects it may access, `*` for all; repeat it for more
    #[arg(long = "for-tenant", value_name = "NAME", required = true)]
    tenants: Vec<String>,
    /// How long it is valid; default: until it is revoked
    #[arg(long, value_name = "DURATION")]
    ttl: Option<HumanDuration>,
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

pub(super) fn role(text: &str) -> Result<Role, String> {
    let callers = || Role::ALL.into_iter().filter(|role| *role != Role::Worker);
    let found = callers().find(|role| role.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("use {}", callers().map(Role::as_str).collect::<Vec<_>>().join(", ")))
}

/// Does it.
pub(super) async fn run(verb: Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Create(args) => args.patience.bound(create(&args)).await,
        Verb::List(args) => args.patience.bound(list(&args)).await,
        Verb::Revoke(args) => args.patience.bound(revoke_at("/tokens", &args)).await,
    }
}

async fn create(args: &CreateArgs) -> Result<Exit, Failure> {
    let mut body = json!({ "role": args.role.as_str(), "tenants": args.tenants, "note": args.note });
    if let Some(ttl) = args.ttl {
        body["expires_in"] = ttl.to_string().into();
    }
    let made = args.target.client()?.ask(ApiRequest::post("/tokens", Some(&body))).await?.body;
    keep_or_say(args.write.as_deref(), &args.target, &made, |made| {
        format!(
            "{}\n\nThe token is shown once. Write it to a file that only you can read, and give that file in \
             --token-file or ORLOP_TOKEN_FILE.\n",
            text(made, "token")
        )
    })
}

async fn list(args: &Plain) -> Result<Exit, Failure> {
    let found = all(&args.target.client()?, "/tokens").await?;
    let shown = args.target.shown(&found, |found| each(found, "id"))?;
    output::print(&shown.unwrap_or_else(|| table(&found)))?;
    Ok(Exit::Done)
}

fn table(found: &Value) -> String {
    let row = |token: &Value| {
        let of = |name: &str| text(token, name);
        vec![of("id"), of("role"), words(token, "tenants"), of("expires_at"), of("revoked_at"), of("note")]
    };
    let rows: Vec<Vec<String>> = items(found).iter().map(row).collect();
    if rows.is_empty() {
        return "no tokens\n".to_owned();
    }
    columns(&["ID", "ROLE", "TENANTS", "EXPIRES", "REVOKED", "NOTE"], &rows)
}
