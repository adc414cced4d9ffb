//! Watches of objects of a kind. Owns the form in which they tell; each lists again and backs off by itself, and keeps nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use kube::api::DynamicObject;
use kube::runtime::watcher;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{ApiError, Kind, dynamic};

/// One watch: the index of its kind, and of its namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) of: usize,
    pub(crate) scope: usize,
}

/// What a watch tells.
pub(crate) enum WatchEvent {
    /// An object, new or changed.
    Applied(Value),
    /// An object that is gone.
    Deleted(Value),
    /// All that exists is listed anew.
    Init,
    /// It is listed.
    InitDone,
    /// The server refused or did not answer: its HTTP status, if any, and a sentence with nothing it said.
    Failed(Option<u16>, String),
}

/// A watch of objects with labels, in a namespace or in all.
pub(crate) fn objects(
    client: kube::Client,
    kind: Kind,
    namespace: Option<&str>,
    labels: &str,
    failures: Failures,
) -> impl Stream<Item = WatchEvent> + use<> {
    let config = watcher::Config::default();
    let config = if labels.is_empty() { config } else { config.labels(labels) };
    patient(watcher(dynamic(client, kind, namespace), config), failures)
        .map(move |event| news(event, |object| whole(object, kind)))
}

/// The wait after a first failure; it doubles with each in a row.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait for what may not be seen, or is not there.
const REFUSED_WAIT: Duration = Duration::from_secs(300);

/// How long a watch waits that has failed so often in a row, the last time with this answer.
fn wait(failures: u32, code: Option<u16>) -> Duration {
    let longest = if matches!(code, Some(403 | 404)) { REFUSED_WAIT } else { LONGEST_WAIT };
    longest.min(FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(16)))
}

/// How a watch has failed, which outlives its being begun anew: what is refused is not asked for more often by that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures(Arc<Mutex<Failed>>);

#[derive(Clone, Copy, Debug, Default)]
struct Failed {
    in_a_row: u32,
    wait_until: Option<Instant>,
}

impl Failures {
    fn change(&self, change: impl FnOnce(&mut Failed)) -> Failed {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut failed);
        *failed
    }
}

/// The failures of all watches.
#[derive(Debug, Default)]
pub(crate) struct AllFailures(Mutex<BTreeMap<(usize, usize), Failures>>);

impl AllFailures {
    /// Those of one.
    pub(crate) fn of(&self, source: Source) -> Failures {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry((source.of, source.scope)).or_default().clone()
    }
}

/// A watcher that waits longer with each failure in a row. That it begins to list is no success: only what a list or a watch
/// gives is.
pub(crate) fn patient<K: Send + 'static>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    failures: Failures,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send {
    stream::unfold((events.boxed(), failures), |(mut events, failures)| async move {
        if let Some(until) = failures.change(|_| {}).wait_until {
            tokio::time::sleep_until(until).await;
        }
        let event = events.next().await?;
        match &event {
            Ok(watcher::Event::Init) => {}
            Ok(_) => drop(failures.change(|failed| *failed = Failed::default())),
            Err(error) => {
                failures.change(|failed| {
                    failed.in_a_row = failed.in_a_row.saturating_add(1);
                    failed.wait_until = Some(Instant::now() + wait(failed.in_a_row, code(error)));
                });
            }
        }
        Some((event, (events, failures)))
    })
}

/// An object as it is on the server: lists leave out what it is.
fn whole(object: &DynamicObject, kind: Kind) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.insert("apiVersion".to_owned(), Value::from(kind.api_version()));
        members.insert("kind".to_owned(), Value::from(kind.name()));
    }
    value
}

/// What a watcher tells.
pub(crate) fn news<K>(event: watcher::Result<watcher::Event<K>>, value: impl Fn(&K) -> Value) -> WatchEvent {
    match event {
        Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => WatchEvent::Applied(value(&object)),
        Ok(watcher::Event::Delete(object)) => WatchEvent::Deleted(value(&object)),
        Ok(watcher::Event::Init) => WatchEvent::Init,
        Ok(watcher::Event::InitDone) => WatchEvent::InitDone,
        // The watch backs off and lists again by itself.
        Err(error) => {
            let (code, why) = (code(&error), unquoted(&error));
            tracing::debug!(why, code, "a watch was interrupted");
            WatchEvent::Failed(code, why)
        }
    }
}

/// What kept a watch from going on, without words of the server.
fn unquoted(error: &watcher::Error) -> String {
    let refused = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => ApiError::from_client(error),
        watcher::Error::WatchError(status) => {
            ApiError { code: Some(status.code), reason: status.reason.clone(), ..ApiError::default() }
        }
        watcher::Error::NoResourceVersion => ApiError::no_answer("its list has no version"),
    };
    refused.unquoted()
}

/// HTTP status of a watch that was refused, where there was an answer.
pub(crate) fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    /// What is planted stands for a key that a server quotes.
    const PLANTED: &str = "Planted-Key-6d5f1c9b7a";

    fn failure(error: watcher::Error) -> (Option<u16>, String) {
        match news(Err::<watcher::Event<DynamicObject>, _>(error), |_| Value::Null) {
            WatchEvent::Failed(code, why) => (code, why),
            _ => panic!("a watch that failed is told as broken"),
        }
    }

    #[test]
    fn what_a_server_says_to_a_list_or_a_watch_is_not_repeated() {
        let status = |code, reason: &str| {
            let message = format!("{PLANTED} cannot be shown. ").repeat(1000);
            Box::new(Status { code, reason: reason.to_owned(), message, ..Status::default() })
        };
        let api = |code, reason| kube::Error::Api(status(code, reason));
        for (error, want) in [
            (watcher::Error::InitialListFailed(api(500, "InternalError")), "the API server answers 500 InternalError"),
            (watcher::Error::InitialListFailed(api(403, "Forbidden")), "the API server answers 403 Forbidden"),
            (watcher::Error::WatchStartFailed(api(401, PLANTED)), "the API server answers 401"),
            (watcher::Error::WatchFailed(api(502, "Failed to parse error data")), "the API server answers 502"),
            (watcher::Error::WatchError(status(410, "Expired")), "the API server answers 410 Expired"),
        ] {
            let code = want.split(' ').find_map(|word| word.parse().ok());
            assert_eq!(failure(error), (code, want.to_owned()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_refused_is_tried_again_ever_more_seldom_though_each_try_begins_to_list() {
        let refused = |code| {
            let status = Status { code, reason: "Forbidden".to_owned(), ..Status::default() };
            Err::<watcher::Event<DynamicObject>, _>(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(
                status,
            ))))
        };
        let tries = |code| stream::iter((0..12).flat_map(move |_| [Ok(watcher::Event::Init), refused(code)]));
        for (code, longest) in [(403, 300), (404, 300), (500, 30)] {
            let (mut events, mut waits) = (patient(tries(code), Failures::default()).boxed(), Vec::new());
            let mut before = tokio::time::Instant::now();
            while let Some(event) = events.next().await {
                if event.is_ok() {
                    waits.push(before.elapsed().as_secs());
                    before = tokio::time::Instant::now();
                }
            }
            assert_eq!(waits[..5], [0, 1, 2, 4, 8], "{code}");
            assert_eq!(waits.last(), Some(&longest), "{code}");
        }
        let back = [refused(403), refused(403), Ok(watcher::Event::InitDone), refused(403), Ok(watcher::Event::Init)];
        let begun = tokio::time::Instant::now();
        patient(stream::iter(back), Failures::default()).for_each(|_| async {}).await;
        assert_eq!(begun.elapsed().as_secs(), 1 + 2 + 1, "a success counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_begun_anew_asks_for_what_is_refused_no_sooner() {
        let all = AllFailures::default();
        let refused = || {
            let status = Status { code: 403, ..Status::default() };
            Err::<watcher::Event<DynamicObject>, _>(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(
                status,
            ))))
        };
        let (begun, mut tries) = (tokio::time::Instant::now(), Vec::new());
        // Every five minutes all watches are begun anew.
        for resync in 1..=6_u64 {
            let until = begun + Duration::from_secs(300 * resync);
            let mut events = patient(stream::repeat_with(refused), all.of(Source { of: 1, scope: 0 })).boxed();
            while tokio::time::timeout_at(until, events.next()).await.is_ok() {
                tries.push(begun.elapsed().as_secs());
            }
        }
        assert_eq!(tries, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111, 1411, 1711]);
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_repeated() {
        let wrong = serde_json::from_value::<DynamicObject>(json!({"metadata": {"labels": PLANTED}})).unwrap_err();
        assert!(wrong.to_string().contains(PLANTED), "the library quotes it: {wrong}");
        let (code, why) = failure(watcher::Error::InitialListFailed(kube::Error::SerdeError(wrong)));
        assert_eq!(code, None);
        insta::assert_snapshot!(why, @"the API server does not answer: what it sent is not what was asked for (Data error at line 0 column 0)");
    }
}
