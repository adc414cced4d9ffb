//! Bodies of requests: how large, how soon and of what type they are, and how much memory those under way may take together.
//! A body that is refused was not read into anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use orlop_core::error::{Code, Problem};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::route::Route;

/// How long a client may take to send a body, and how long it waits for memory.
const SENDING: Duration = Duration::from_secs(10);
/// Bodies up to this size, in bytes, never wait for others: there are as many as connections.
const SMALL: usize = 64 << 10;
/// Memory for the bytes of larger bodies, and for the values of larger JSON, in KiB.
const FOR_BYTES: u32 = 64 << 10;
/// As much of the former as one caller may take, so that nobody keeps others out with bodies that come slowly.
const FOR_BYTES_OF_ONE: u32 = FOR_BYTES / 2;
const FOR_VALUES: u32 = 96 << 10;
/// Bytes of memory that a value takes once it is read, and that a list or an object takes beside.
const VALUE: usize = 100;
const COLLECTION: usize = 250;

/// The memory of all bodies of an interface.
#[derive(Debug)]
pub(super) struct Bodies {
    bytes: Arc<Semaphore>,
    /// What each caller may take of it, of those who have a body under way.
    shares: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    values: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        let of = |kib| Arc::new(Semaphore::new(kib as usize));
        Self { bytes: of(FOR_BYTES), shares: Mutex::default(), values: of(FOR_VALUES) }
    }
}

/// A body, which takes memory of the interface as long as it lives.
#[derive(Debug, Default)]
pub(super) struct RequestBody {
    pub(super) bytes: Bytes,
    _memory: Vec<OwnedSemaphorePermit>,
    /// Kept as long as something is taken of it.
    _share: Option<Arc<Semaphore>>,
}

/// Takes memory; what is small takes none. More than there is waits for all of it.
async fn take(memory: &Arc<Semaphore>, all: u32, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Problem> {
    if bytes <= SMALL {
        return Ok(None);
    }
    let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).min(all);
    let taken = tokio::time::timeout(SENDING, Arc::clone(memory).acquire_many_owned(kib)).await;
    match taken {
        Ok(Ok(taken)) => Ok(Some(taken)),
        Ok(Err(_)) | Err(_) => {
            let text = "too many large requests in progress; try again shortly";
            Err(Problem::coded(Code::StoreUnavailable, text).retry_after(Duration::from_millis(1000)))
        }
    }
}

/// How many values and collections a text of JSON has at most, names counted too: each value but the first follows one of four bytes.
fn values(json: &[u8]) -> (usize, usize) {
    let (mut count, mut collections, mut quoted, mut escaped) = (1, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b':' if !quoted => count += 1,
            b'[' | b'{' if !quoted => (count, collections) = (count + 1, collections + 1),
            _ => {}
        }
    }
    (count, collections)
}

impl Bodies {
    /// What a caller may take.
    fn share(&self, caller: &str) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(caller).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(FOR_BYTES_OF_ONE as usize));
        shares.insert(caller.to_owned(), Arc::downgrade(&share));
        share
    }

    /// The body of a caller's request, if it is small enough, comes in time and has the right type.
    pub(super) async fn read(
        &self,
        caller: &str,
        route: &Route,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<RequestBody, Problem> {
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let most = announced.unwrap_or(route.body).min(route.body);
        let share = (most > SMALL).then(|| self.share(caller));
        let mut memory = Vec::new();
        if let Some(share) = &share {
            memory.extend(take(share, FOR_BYTES_OF_ONE, most).await?);
        }
        memory.extend(take(&self.bytes, FOR_BYTES, most).await?);
        let collected = collect(route, announced.unwrap_or(0), body).await?;
        if collected.is_empty() {
            return Ok(RequestBody::default());
        }
        check_type(route, headers)?;
        if route.raw {
            return Ok(RequestBody { bytes: collected, _memory: memory, _share: share });
        }
        let (count, collections) = values(&collected);
        let needed = count * VALUE + collections * COLLECTION;
        if needed > (FOR_VALUES as usize) << 10 {
            let text = format!("the body contains too many values ({count}, names included); send less in one request");
            return Err(Problem::coded(Code::TooLarge, text));
        }
        memory.extend(take(&self.values, FOR_VALUES, needed).await?);
        Ok(RequestBody { bytes: collected, _memory: memory, _share: share })
    }
}

async fn collect(route: &Route, announced: usize, body: Body) -> Result<Bytes, Problem> {
    let mut body = Limited::new(body, route.body);
    // Pieces are put together as they come: a whole body is there once.
    let pieces = async {
        let mut whole = BytesMut::with_capacity(announced.min(route.body));
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                whole.extend_from_slice(&data);
            }
        }
        Ok::<_, BoxError>(whole.freeze())
    };
    match tokio::time::timeout(SENDING, pieces).await {
        Err(_) => Err(Problem::coded(Code::Deadline, "the body did not arrive within 10 s")),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = match route.body {
                0 => "this route accepts no body".to_owned(),
                limit => format!("the body has more than {limit} bytes"),
            };
            Err(Problem::coded(Code::TooLarge, text))
        }
        Ok(Err(_)) => Err(Problem::field("", "the body was cut off")),
        Ok(Ok(whole)) => Ok(whole),
    }
}

fn check_type(route: &Route, headers: &HeaderMap) -> Result<(), Problem> {
    let media = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let essence = media.map(|media| media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match essence.as_deref() {
        Some("application/octet-stream") if route.raw => Ok(()),
        _ if route.raw => {
            let text = "this body is bytes; send `Content-Type: application/octet-stream`";
            Err(Problem::coded(Code::MediaType, text))
        }
        Some("application/json") => Ok(()),
        _ => Err(Problem::coded(Code::MediaType, "bodies are JSON; send `Content-Type: application/json`")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::table::ROUTES;
    use super::*;

    fn held(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(held).sum::<usize>(),
            Value::Object(members) => 1 + members.values().map(|value| 1 + held(value)).sum::<usize>(),
            _ => 1,
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".*".prop_map(Value::from)];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::btree_map(".*", inner, 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_text_holds_more_values_than_are_counted(value in json()) {
            prop_assert!(values(value.to_string().as_bytes()).0 >= held(&value));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_come_keep_only_bodies_of_their_sender_out() {
        let bodies = Arc::new(Bodies::default());
        let route = ROUTES.iter().find(|route| route.name == "jobs.submit").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, (16 << 20).to_string().parse().unwrap());
        headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
        for _ in 0..4 {
            let (bodies, headers) = (Arc::clone(&bodies), headers.clone());
            let nothing = Body::from_stream(futures::stream::pending::<Result<Bytes, BoxError>>());
            tokio::spawn(async move { drop(bodies.read("slow", route, &headers, nothing).await) });
        }
        tokio::task::yield_now().await;
        let whole = Body::from("{}");
        let read = tokio::time::timeout(Duration::from_secs(1), bodies.read("other", route, &headers, whole)).await;
        assert_eq!(read.expect("at once").unwrap().bytes, "{}");
        assert_eq!(bodies.shares.lock().unwrap().len(), 2);
        let own = bodies.read("slow", route, &headers, Body::from("{}")).await.unwrap_err();
        assert_eq!(own.code, Code::StoreUnavailable);
        tokio::time::sleep(SENDING * 3).await;
        assert!(bodies.read("slow", route, &headers, Body::from("{}")).await.is_ok());
        assert_eq!(bodies.shares.lock().unwrap().len(), 1, "who has nothing under way is forgotten");
    }

    #[test]
    fn values_in_strings_are_not_counted() {
        assert_eq!(values(br#"{"command": ["sh", "-c", "a,b:[{\",\\"]}"#), (6, 2));
    }
}
