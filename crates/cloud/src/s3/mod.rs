//! Objects of S3 stores: whole files on their way there, in parts where they are large, and back.
//! Owns which region a store is in, what an answer means, and the size of parts; requests are signed in their query by a
//! library. A signature or a key appears in no message.

mod answer;
mod body;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::helper::S3Location;
use reqwest::{Method, Response, Url};
use rusty_s3::actions::{
    AbortMultipartUpload, CompleteMultipartUpload, CompleteMultipartUploadResponse, CreateMultipartUpload, GetObject,
    PutObject, S3Action, UploadPart,
};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use tempfile::NamedTempFile;

use crate::http::HttpDownload;
use crate::retry::attempt;

/// How long a signature is good: an object of a hundred gigabytes is on its way for a while.
const VALID: Duration = Duration::from_secs(12 * 60 * 60);
/// Tries of one part, about a minute with their delays.
const TRIES: u32 = 6;
const MIB: u64 = 1 << 20;
/// The largest object that goes in one request, in bytes.
pub(crate) const WHOLE_MAX: u64 = 256 * MIB;
/// The least part of a larger one, in bytes.
const PART_MIN: u64 = 64 * MIB;
/// The most parts: a store takes 10,000.
const PARTS_MAX: u64 = 9_000;

/// An object of a store.
#[derive(Debug)]
pub(crate) struct Object {
    bucket: Bucket,
    key: String,
    credentials: Option<Credentials>,
}

/// What is sent from where to where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(Class::Invalid, message)
}

impl Object {
    /// An object, with the access key id and the secret access key where the store asks for them.
    ///
    /// # Errors
    /// Invalid for a place that is none.
    pub(crate) fn new(place: &S3Location, keys: Option<(String, String)>) -> Result<Self, Problem> {
        let endpoint = &place.endpoint;
        let mut url = Url::parse(endpoint).map_err(|_| invalid("the endpoint of the S3 store is not a URL"))?;
        let named = url.query_pairs().find(|(name, _)| name == "region").map(|(_, region)| region.into_owned());
        url.set_query(None);
        url.set_fragment(None);
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("the endpoint of the S3 store holds credentials; give them as Secrets"));
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let name = &place.bucket;
        if !(1..=255).contains(&name.len()) || !name.chars().all(legal) || name.chars().all(|c| c == '.') {
            return Err(invalid(format!("`{}` is not a valid bucket name", name.escape_debug())));
        }
        if place.key.len() > 1024 || place.key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            let key: String = place.key.chars().take(200).collect();
            let why = "a key has at most 1,024 bytes, and no part of it between slashes is empty, `.` or `..`";
            return Err(invalid(format!("`{}` is not a valid S3 object key: {why}", key.escape_debug())));
        }
        let region = named.unwrap_or_else(|| region(url.host_str().unwrap_or_default()));
        let bucket = Bucket::new(url, UrlStyle::Path, name.clone(), region);
        let bucket =
            bucket.map_err(|_| invalid("the endpoint of the S3 store is not an http or https URL with a host"))?;
        let credentials = keys.map(|(id, secret)| Credentials::new(id, secret));
        Ok(Self { bucket, key: place.key.clone(), credentials })
    }

    /// Fetches all of it into a file.
    ///
    /// # Errors
    /// NotFound where it is not stored; Denied where the keys are not taken; Invalid for one that is too large; Transient for
    /// what may pass.
    pub(crate) async fn fetch(&self, http: &HttpDownload, into: &NamedTempFile) -> Result<(), Problem> {
        let url = GetObject::new(&self.bucket, self.credentials.as_ref(), &self.key).sign(VALID);
        let answer = self.ask(http, Method::GET, url.clone(), "", body::empty(), 0).await?;
        http.take_down(answer, &url, into).await
    }

    /// Stores a file. Doing so twice equals once.
    ///
    /// # Errors
    /// As of [`Object::fetch`]; Invalid where there is no such bucket.
    pub(crate) async fn store(&self, http: &HttpDownload, file: &Path, bytes: u64, kind: &str) -> Result<(), Problem> {
        if bytes > WHOLE_MAX {
            // Once more from the beginning, where the store forgets what was begun.
            return attempt(2, || self.in_parts(http, file, parts(bytes), kind)).await;
        }
        let span = Span { start: 0, bytes };
        attempt(TRIES, || async {
            let url = PutObject::new(&self.bucket, self.credentials.as_ref(), &self.key).sign(VALID);
            let body = body::of(file, span).await?;
            self.ask(http, Method::PUT, url, kind, body, bytes).await.map(drop)
        })
        .await
    }

    async fn in_parts(&self, http: &HttpDownload, file: &Path, spans: Vec<Span>, kind: &str) -> Result<(), Problem> {
        let keys = self.credentials.as_ref();
        let begun = attempt(TRIES, || async {
            let url = CreateMultipartUpload::new(&self.bucket, keys, &self.key).sign(VALID);
            let answer = self.ask(http, Method::POST, url, kind, body::empty(), 0).await?;
            let text = answer::text(answer).await?;
            CreateMultipartUpload::parse_response(&text).map_err(|_| answer::unreadable(&self.bucket))
        })
        .await?;
        let upload = begun.upload_id();
        let done = self.send_parts(http, file, spans, upload).await;
        if done.is_err() {
            // Parts that are left cost their owner something. What went wrong is told, not that this did too.
            let url = AbortMultipartUpload::new(&self.bucket, keys, &self.key, upload).sign(VALID);
            drop(self.ask(http, Method::DELETE, url, "", body::empty(), 0).await);
        }
        done
    }

    async fn send_parts(
        &self,
        http: &HttpDownload,
        file: &Path,
        spans: Vec<Span>,
        upload: &str,
    ) -> Result<(), Problem> {
        let keys = self.credentials.as_ref();
        let mut tags = Vec::new();
        for (number, span) in (1_u16..).zip(spans) {
            let tag = attempt(TRIES, || async {
                let url = UploadPart::new(&self.bucket, keys, &self.key, number, upload).sign(VALID);
                let body = body::of(file, span).await?;
                let answer = self.ask(http, Method::PUT, url, "", body, span.bytes).await?;
                answer::tag(&answer).ok_or_else(|| answer::unreadable(&self.bucket))
            });
            tags.push(tag.await?);
        }
        attempt(TRIES, || async {
            let end = || {
                let tags = tags.iter().map(String::as_str);
                CompleteMultipartUpload::new(&self.bucket, keys, &self.key, upload, tags)
            };
            let (url, text) = (end().sign(VALID), end().body());
            let bytes = text.len() as u64;
            let answer = self.ask(http, Method::POST, url, "text/xml", text.into(), bytes).await?;
            // The first line of such an answer comes before it is known how it ends.
            let text = answer::text(answer).await?;
            match CompleteMultipartUploadResponse::parse(&text) {
                Ok(_) => Ok(()),
                Err(_) => Err(answer::trouble(&text).unwrap_or_else(|| answer::unreadable(&self.bucket))),
            }
        })
        .await
    }

    /// An answer that is none of a failure.
    async fn ask(
        &self,
        http: &HttpDownload,
        method: Method,
        url: Url,
        kind: &str,
        body: reqwest::Body,
        bytes: u64,
    ) -> Result<Response, Problem> {
        let answer = http.send(method, &url, kind, body, bytes).await?;
        if answer.status().is_success() { Ok(answer) } else { Err(answer::refusal(&url, answer).await) }
    }
}

/// The parts of a large file.
fn parts(bytes: u64) -> Vec<Span> {
    let part = bytes.div_ceil(PARTS_MAX).max(PART_MIN).next_multiple_of(MIB);
    let span = |number| {
        let start = number * part;
        Span { start, bytes: part.min(bytes - start) }
    };
    (0..bytes.div_ceil(part)).map(span).collect()
}

/// The region that a store's host is in, where its provider puts it into the name. Others take the first one there was.
fn region(host: &str) -> String {
    const PLAIN: &str = "us-east-1";
    let labels: Vec<&str> = host.split('.').collect();
    let from_end = |n: usize| labels.len().checked_sub(n).and_then(|at| labels.get(at)).copied();
    let ends = |suffix: &str| host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
    let found = if ends("amazonaws.com.cn") {
        from_end(4)
    } else if ends("amazonaws.com") || ends("wasabisys.com") || ends("backblazeb2.com") {
        // `s3-REGION` is an old form of the first.
        from_end(3).map(|label| label.strip_prefix("s3-").unwrap_or(label))
    } else if ends("scw.cloud") || ends("digitaloceanspaces.com") {
        from_end(3)
    } else if ends("r2.cloudflarestorage.com") || host == "storage.googleapis.com" {
        Some("auto")
    } else {
        None
    };
    found.filter(|label| !matches!(*label, "s3" | "")).unwrap_or(PLAIN).to_owned()
}
