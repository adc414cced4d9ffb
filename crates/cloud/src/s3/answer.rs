//! What answers of a store mean. Owns their classes, and the word of an answer: a store says in one what is wrong.

use orlop_core::error::{Class, Problem};
use reqwest::{Response, Url};
use rusty_s3::Bucket;

use crate::http::refused;

/// The longest answer that is read, in bytes.
const ANSWER_MAX: usize = 64 << 10;
/// The longest word, in characters.
const WORD_MAX: usize = 64;

/// The text of an answer, or its beginning.
///
/// # Errors
/// Transient when it breaks off.
pub(super) async fn text(mut answer: Response) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    let broke = |_| Problem::new(Class::Transient, "an answer of the S3 store was interrupted");
    while let Some(piece) = answer.chunk().await.map_err(broke)? {
        bytes.extend_from_slice(&piece);
        if bytes.len() >= ANSWER_MAX {
            bytes.truncate(ANSWER_MAX);
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The tag of a part.
pub(super) fn tag(answer: &Response) -> Option<String> {
    Some(answer.headers().get("etag")?.to_str().ok()?.to_owned())
}

/// The word in which a store says what is wrong.
fn word(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    let (word, _) = rest.split_once("</Code>")?;
    (!word.is_empty() && word.len() <= WORD_MAX && word.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .then_some(word)
}

/// What a word means, and what to do; none for one whose code says enough.
fn meaning(word: &str) -> Option<(Class, &'static str)> {
    Some(match word {
        "NoSuchBucket" => (Class::Invalid, "; create the bucket, or use another one"),
        "NoSuchKey" => (Class::NotFound, ""),
        "PermanentRedirect" | "AuthorizationHeaderMalformed" | "TemporaryRedirect" => {
            (Class::Invalid, "; the bucket is in another region: name the endpoint of that, or add `?region=…` to it")
        }
        "RequestTimeTooSkewed" => (Class::Denied, "; set the clock of this machine"),
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "AccessDenied" => {
            (Class::Denied, "; look at the keys in the Secret, and at what they may do")
        }
        "SlowDown" | "RequestTimeout" | "InternalError" | "ServiceUnavailable" | "OperationAborted" => {
            (Class::Transient, "")
        }
        // An upload that was aborted, or has ended before, is begun anew.
        "NoSuchUpload" => (Class::Conflict, ""),
        "QuotaExceeded" | "XMinioStorageFull" => (Class::Capacity, "; free space in the store"),
        _ => return None,
    })
}

/// A failure with the text of its answer.
pub(super) async fn refusal(url: &Url, answer: Response) -> Problem {
    let (mut error, redirected) = (refused(url, &answer), answer.status().is_redirection());
    let text = text(answer).await.unwrap_or_default();
    if redirected {
        error.class = Class::Invalid;
    }
    if let Some(word) = word(&text) {
        let (class, advice) = meaning(word).unwrap_or((error.class, ""));
        (error.class, error.message) = (class, format!("{} ({word}){advice}", error.message));
    }
    error.reason = None;
    error
}

/// A failure that an answer of success tells.
pub(super) fn trouble(text: &str) -> Option<Problem> {
    let word = word(text)?;
    let (class, advice) = meaning(word).unwrap_or((Class::Transient, ""));
    Some(Problem::new(class, format!("the S3 store reports {word}{advice}")))
}

/// An answer that is none of S3.
pub(super) fn unreadable(bucket: &Bucket) -> Problem {
    let host = bucket.base_url().host_str().unwrap_or_default();
    Problem::new(Class::Invalid, format!("the response of {host} is not that of an S3 store; check the endpoint"))
}
