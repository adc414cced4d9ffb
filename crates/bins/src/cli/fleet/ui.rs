//! `orlop ui`: opens the web page of a server, signed in. Owns options and how a browser is started; what the page may do the server
//! decides.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::client::ApiRequest;
use super::read::text;
use super::target::{Patience, Target};
use crate::api::auth::Role;

/// After this time the file with the link is removed: the browser has read it.
const READ: Duration = Duration::from_secs(10);

/// Options of `orlop ui`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop ui                                  open the page of the server of this machine
  orlop ui nightly                          open it at the flow `nightly`
  orlop ui --no-open --role viewer          print a link for somebody who may only look; it works once, within a minute")]
pub(in crate::cli) struct UiArgs {
    /// The flow that the page shows first
    #[arg(value_name = "FLOW")]
    flow: Option<String>,
    /// Only print the link
    #[arg(long)]
    no_open: bool,
    /// What the page may do: viewer, submitter, operator or admin; default: what the token may
    #[arg(long, value_name = "ROLE", value_parser = super::token::role)]
    role: Option<Role>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Asks for a link, and opens or prints it.
pub(super) async fn ui(args: UiArgs) -> Result<Exit, Failure> {
    let made = args.patience.bound(link(&args)).await?;
    let url = text(&made, "url");
    if let Some(shown) = args.target.shown(&made, |made| vec![text(made, "url")])? {
        output::print(&shown)?;
        return Ok(Exit::Done);
    }
    output::print(&format!("{url}\n"))?;
    if args.no_open {
        return Ok(Exit::Done);
    }
    match Opened::open(&url) {
        Ok(opened) => {
            output::tell("opened in the browser; the link works once");
            tokio::time::sleep(READ).await;
            drop(opened);
        }
        Err(error) => output::tell(&format!("open the link in a browser: none could be started here ({error})")),
    }
    Ok(Exit::Done)
}

async fn link(args: &UiArgs) -> Result<Value, Failure> {
    let mut wanted = json!({});
    if let Some(flow) = &args.flow {
        // That it is there is said here, not by the page.
        let found = args.target.client()?.ask(ApiRequest::get(format!("/flows/{}", encoded(flow)))).await?.body;
        wanted["path"] = format!("flows/{}", encoded(&text(&found, "id"))).into();
    }
    if let Some(role) = args.role {
        wanted["role"] = role.as_str().into();
    }
    Ok(args.target.client()?.ask(ApiRequest::post("/session-links", Some(&wanted))).await?.body)
}

/// A part of a path as addresses have it.
fn encoded(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    part.bytes().map(one).collect()
}

/// A link that was given to a browser in a file, so that it stands in no argument that others can read. The file goes with it.
#[derive(Debug)]
struct Opened {
    folder: PathBuf,
}

impl Opened {
    fn open(url: &str) -> io::Result<Self> {
        if cfg!(target_os = "linux")
            && ["DISPLAY", "WAYLAND_DISPLAY"].iter().all(|name| std::env::var_os(name).is_none())
        {
            return Err(io::Error::other("there is no display"));
        }
        let folder = std::env::temp_dir().join(format!("orlop-ui-{}", uuid::Uuid::new_v4().simple()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let opened = Self { folder };
        let file = opened.folder.join("open.html");
        page(&file, url)?;
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let mut command = Command::new(program);
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
        Ok(opened)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // What cannot be removed holds a link that has been used, or has expired.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// A file that leads a browser to a link without a script.
fn page(file: &Path, url: &str) -> io::Result<()> {
    let quoted = url.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let text =
        format!("<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={quoted}\">\n");
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_flows_are_encoded_for_addresses() {
        assert_eq!(encoded("etl.v2-7f3a"), "etl.v2-7f3a");
        assert_eq!(encoded("a/b c\u{e9}"), "a%2Fb%20c%C3%A9");
    }

    #[test]
    fn the_file_for_the_browser_is_private_and_holds_no_script() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("open.html");
        page(&file, "http://127.0.0.1:7070/ui/?a=\"<b>&c#k=1").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&file).unwrap();
        insta::assert_snapshot!(text, @r#"<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=http://127.0.0.1:7070/ui/?a=&quot;&lt;b>&amp;c#k=1">"#);
    }
}
