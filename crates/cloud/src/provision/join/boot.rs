//! What a server runs first so that it joins a fleet: a cloud-config, beside what the user wants it to run.
//! Owns the document and its limit, and the token, which is shown by nothing else.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::error::{Class, Problem};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::unit::{NAME, PROGRAM, TOKEN, unit};
use super::{Boot, DEPLOYMENT, JoinOrder, LABELS, MAX_LABEL};
use crate::openstack::port::UserData;

/// Bytes that user data may have, encoded.
pub const MAX_USER_DATA: usize = 64 << 10;
/// Characters of a token.
const MAX_TOKEN: usize = 512;
/// Where the script that fetches the program is.
const SCRIPT: &str = "/run/orlop/fetch-worker";

/// Fetches the program, sees that it is the one that was asked for, and only then lets it be run. Its arguments: address,
/// digest, protocol, program, unit.
const FETCH: &str = "#!/bin/sh
set -eu
umask 077
url=$1 sum=$2 protocol=$3 program=$4 unit=$5
half=$(mktemp -p \"${program%/*}\")
trap 'rm -f \"$half\"' EXIT
if command -v curl >/dev/null 2>&1; then
  curl --fail --silent --show-error --location --max-redirs 5 --proto \"=$protocol\" --proto-redir \"=$protocol\" \\
    --retry 5 --retry-delay 2 --connect-timeout 20 --max-time 900 --output \"$half\" --url \"$url\"
else
  wget --quiet --tries=5 --timeout=60 --max-redirect=5 --output-document=\"$half\" -- \"$url\"
fi
printf '%s  %s\\n' \"$sum\" \"$half\" | sha256sum -c - >/dev/null
chmod 0755 \"$half\"
mv -f \"$half\" \"$program\"
systemctl daemon-reload
systemctl enable --now \"$unit\"
";

const NO_TOKEN: &str = "malformed join token; create one with `orlop workers token create`";
pub(super) const ENCODING: &str = "the user data are not encoded";
pub(super) const TOO_LONG: &str =
    "the user data with what joins the fleet are longer than 64 KiB once they are encoded";

pub(super) fn wrong(message: &str) -> Problem {
    Problem::new(Class::Invalid, message)
}

/// The token with which a machine joins. `Debug` never shows it.
#[derive(Debug, Clone)]
pub struct Token(SecretString);

impl Token {
    /// Reads the text of a token's file.
    ///
    /// # Errors
    /// It is none.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let text = text.trim();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'.';
        let parts: Vec<&str> = text.split('.').collect();
        let is_whole =
            parts.len() == 4 && parts.first() == Some(&"orlopj") && parts.iter().all(|part| !part.is_empty());
        if text.len() > MAX_TOKEN || !is_whole || !text.bytes().all(plain) {
            return Err(wrong(NO_TOKEN));
        }
        Ok(Self(SecretString::from(text.to_owned())))
    }
}

/// The cloud-config that makes a machine join.
fn config(boot: &Boot, token: &Token) -> Value {
    let join = &boot.order.join;
    let (url, digest) = (&join.worker_url, &join.worker_sha256);
    let file = |path: &str, mode: &str, content: &str| json!({"path": path, "owner": "root:root", "permissions": mode, "encoding": "b64", "content": STANDARD.encode(content)});
    json!({
        "write_files": [
            file(TOKEN, "0600", token.0.expose_secret()),
            file(SCRIPT, "0700", FETCH),
            file(&format!("/etc/systemd/system/{NAME}"), "0644", &unit(&join.server, &boot.labels)),
        ],
        "runcmd": [["sh", SCRIPT, url.as_str(), digest.as_str(), url.scheme(), PROGRAM, NAME]],
    })
}

/// A part of a document of several.
fn part(out: &mut Vec<u8>, boundary: &str, head: &str, body: &[u8]) {
    out.extend_from_slice(format!("--{boundary}\n{head}").as_bytes());
    out.extend_from_slice(body);
    out.push(b'\n');
}

/// A boundary that stands in none of the parts.
fn boundary(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    loop {
        parts.iter().for_each(|part| hasher.update(part));
        let sum = hasher.clone().finalize();
        let name: String = sum.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let boundary = format!("orlop-{name}");
        if !parts.iter().any(|part| part.windows(boundary.len()).any(|window| window == boundary.as_bytes())) {
            return boundary;
        }
    }
}

/// Whether the user's own data are a document with a head, as those of several parts are: that becomes a part as it is.
fn has_head(own: &[u8]) -> bool {
    let front = String::from_utf8_lossy(own.get(..own.len().min(4096)).unwrap_or_default()).to_ascii_lowercase();
    ["mime-version:", "content-type:"].iter().any(|name| front.starts_with(name)) && front.contains("mime-version:")
}

/// The user's own data and ours as one document. Ours comes last and adds to lists that the user's has.
fn several(own: &[u8], ours: &Value) -> Vec<u8> {
    let mut ours = ours.clone();
    ours["merge_how"] =
        json!([{"name": "list", "settings": ["append"]}, {"name": "dict", "settings": ["no_replace", "recurse_list"]}]);
    let ours = format!("#cloud-config\n{ours}\n");
    let boundary = boundary(&[own, ours.as_bytes()]);
    let mut out = format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\nMIME-Version: 1.0\n\n").into_bytes();
    // What a part is, cloud-init finds out by its first line, as it does where there is only one.
    let plain = |byte: &u8| matches!(byte, b'\t' | b'\n' | b' '..=b'~');
    if has_head(own) {
        part(&mut out, &boundary, "", own);
    } else if own.iter().all(plain) {
        part(
            &mut out,
            &boundary,
            "Content-Type: text/plain; charset=\"utf-8\"\nMIME-Version: 1.0\nContent-Transfer-Encoding: 7bit\n\n",
            own,
        );
    } else {
        let kind = if own.starts_with(&[0x1f, 0x8b]) { "application/gzip" } else { "text/plain; charset=\"utf-8\"" };
        let head = format!("Content-Type: {kind}\nMIME-Version: 1.0\nContent-Transfer-Encoding: base64\n\n");
        part(&mut out, &boundary, &head, STANDARD.encode(own).as_bytes());
    }
    let head =
        "Content-Type: text/cloud-config; charset=\"utf-8\"\nMIME-Version: 1.0\nContent-Transfer-Encoding: 7bit\n\n";
    part(&mut out, &boundary, head, ours.as_bytes());
    out.extend_from_slice(format!("--{boundary}--\n").as_bytes());
    out
}

/// What a server runs first, in base64.
///
/// # Errors
/// It is too long for a server, or the user's own is not encoded.
pub fn user_data(boot: &Boot, token: &Token) -> Result<UserData, Problem> {
    let config = config(boot, token);
    let whole = match &boot.own {
        None => format!("#cloud-config\n{config}\n").into_bytes(),
        Some(own) => several(&STANDARD.decode(own).map_err(|_| wrong(ENCODING))?, &config),
    };
    let encoded = STANDARD.encode(whole);
    if encoded.len() > MAX_USER_DATA {
        return Err(wrong(TOO_LONG));
    }
    Ok(UserData::new(encoded))
}

/// Whether the user's own data and ours find room in a server, whatever is leased for it.
///
/// # Errors
/// They do not, or the user's own is not encoded.
pub fn fits(order: &JoinOrder, own: Option<&str>, token: &Token) -> Result<(), Problem> {
    let widest = |key: &str| (key.to_owned(), "x".repeat(MAX_LABEL));
    let labels: BTreeMap<String, String> = LABELS.iter().copied().chain([DEPLOYMENT]).map(widest).collect();
    user_data(&Boot { order: order.clone(), labels, own: own.map(str::to_owned) }, token).map(drop)
}
