//! The event bus over NATS JetStream (port [`EventBus`]). Owns the stream, publishing in order with confirmation, and
//! listening; what waits to be published is the store's outbox.
//!
//! A message carries its number as `Nats-Msg-Id` (`<cluster>-<id>`), so that one published again inside the stream's window is
//! stored once. Messages of one call name the one before, so that none overtakes another when one in between fails.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_MESSAGE_ID, NATS_MESSAGE_ID};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::jetstream::{self, Context, Message};
use async_trait::async_trait;
use futures::StreamExt as _;
use orlop_core::error::{Class, Problem};
use orlop_core::ports::bus::{BusEvent, Delivery, EventBus, SUBJECT_ROOT, SubjectFilter, Subscription, check_events};

/// Messages that wait for their confirmation at once.
const IN_FLIGHT: usize = 256;

/// How the bus is reached, and what its stream keeps.
#[derive(Clone)]
#[non_exhaustive]
pub struct NatsOptions {
    /// Addresses, such as `nats://localhost:4222`, joined by commas.
    pub url: String,
    /// A token, if the server wants one; user and password stand in the address.
    pub token: Option<String>,
    /// Distinguishes the fleets that share one stream.
    pub cluster: String,
    /// Name of the stream.
    pub stream: String,
    /// How long the stream keeps events.
    pub max_age: Duration,
    /// How many bytes it keeps.
    pub max_bytes: u64,
    /// In how long a window it knows an event again.
    pub duplicate_window: Duration,
}

impl NatsOptions {
    /// The bus at an address: stream `ORLOP_EVENTS`, 7 days or 1 Gi, events known again for 2 minutes.
    #[must_use]
    pub fn new(url: impl Into<String>, cluster: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            cluster: cluster.into(),
            stream: "ORLOP_EVENTS".to_owned(),
            max_age: Duration::from_secs(7 * 24 * 3600),
            max_bytes: 1 << 30,
            duplicate_window: Duration::from_secs(120),
        }
    }
}

impl fmt::Debug for NatsOptions {
    /// Without the address, which can hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsOptions")
            .field("cluster", &self.cluster)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// The event bus over NATS JetStream.
pub struct NatsBus {
    context: Context,
    options: NatsOptions,
}

impl fmt::Debug for NatsBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBus").field("options", &self.options).finish_non_exhaustive()
    }
}

fn lost(doing: &str, error: impl std::error::Error + Send + Sync + 'static) -> Problem {
    let message =
        format!("{doing} the event bus failed: {error}; check that NATS runs with JetStream and is reachable");
    Problem::new(Class::Transient, message)
}

impl NatsBus {
    /// Connects, and makes the stream or brings its settings up to date.
    ///
    /// # Errors
    /// Transient when the server cannot be reached or has no JetStream, or refuses us.
    pub async fn open(options: NatsOptions) -> Result<Self, Problem> {
        let mut connect = async_nats::ConnectOptions::new().name("orlop").connection_timeout(Duration::from_secs(5));
        if let Some(token) = &options.token {
            connect = connect.token(token.clone());
        }
        let addresses: Vec<&str> = options.url.split(',').map(str::trim).collect();
        let client = connect.connect(addresses).await.map_err(|error| lost("connecting to", error))?;
        let context = jetstream::new(client);
        let config = Config {
            name: options.stream.clone(),
            subjects: vec![format!("{SUBJECT_ROOT}>")],
            storage: StorageType::File,
            max_age: options.max_age,
            max_bytes: i64::try_from(options.max_bytes).unwrap_or(i64::MAX),
            discard: DiscardPolicy::Old,
            duplicate_window: options.duplicate_window,
            ..Config::default()
        };
        context.create_or_update_stream(config).await.map_err(|error| lost("preparing the stream of", error))?;
        Ok(Self { context, options })
    }

    fn message_id(&self, id: u64) -> String {
        format!("{}-{id}", self.options.cluster)
    }
}

#[async_trait]
impl EventBus for NatsBus {
    async fn publish(&self, events: Vec<BusEvent>) -> Result<(), Problem> {
        check_events(&events)?;
        let failed = |error| lost("publishing to", error);
        let mut waiting: VecDeque<PublishAckFuture> = VecDeque::new();
        let mut before: Option<String> = None;
        for event in events {
            if waiting.len() >= IN_FLIGHT
                && let Some(confirmation) = waiting.pop_front()
            {
                IntoFuture::into_future(confirmation).await.map_err(failed)?;
            }
            let id = self.message_id(event.id);
            let mut headers = HeaderMap::new();
            headers.insert(NATS_MESSAGE_ID, id.as_str());
            if let Some(before) = &before {
                headers.insert(NATS_EXPECTED_LAST_MESSAGE_ID, before.as_str());
            }
            let body = String::from(event.body).into_bytes().into();
            let sent = self.context.publish_with_headers(event.subject.into_owned(), headers, body).await;
            waiting.push_back(sent.map_err(failed)?);
            before = Some(id);
        }
        for confirmation in waiting {
            IntoFuture::into_future(confirmation).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn subscribe(&self, filter: SubjectFilter) -> Result<Box<dyn Subscription>, Problem> {
        let stream = self.context.get_stream(&self.options.stream).await;
        let stream = stream.map_err(|error| lost("listening to", error))?;
        let config = OrderedConfig {
            filter_subject: filter.as_str().to_owned(),
            deliver_policy: DeliverPolicy::New,
            ..OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(|error| lost("listening to", error))?;
        let messages = consumer.messages().await.map_err(|error| lost("listening to", error))?;
        Ok(Box::new(NatsSubscription { messages, cluster: self.options.cluster.clone() }))
    }
}

/// Events as one listener gets them from the stream.
struct NatsSubscription {
    messages: Ordered,
    cluster: String,
}

impl NatsSubscription {
    /// The event of a message; none for messages of other clusters and programs.
    fn event(&self, message: &Message) -> Option<BusEvent> {
        let id = message.headers.as_ref()?.get(NATS_MESSAGE_ID)?.as_str();
        let id = id.strip_prefix(self.cluster.as_str())?.strip_prefix('-')?.parse().ok()?;
        let body = std::str::from_utf8(&message.payload).ok()?;
        Some(BusEvent { id, subject: message.subject.to_string().into(), body: body.into() })
    }
}

#[async_trait]
impl Subscription for NatsSubscription {
    async fn next(&mut self) -> Option<Delivery> {
        loop {
            match self.messages.next().await? {
                Ok(message) => {
                    if let Some(event) = self.event(&message) {
                        return Some(Delivery::Event(event.into()));
                    }
                }
                Err(error) => {
                    // The listener starts again, and reads the state as it does.
                    tracing::warn!(%error, "listening to the event bus ended");
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::testing::bus_suite;

    use super::*;

    /// The server for tests, if there is one.
    fn url() -> Option<String> {
        let url = std::env::var("ORLOP_TEST_NATS").ok().filter(|url| !url.is_empty());
        if url.is_none() {
            println!("skipped: no NATS in ORLOP_TEST_NATS; scripts/with-nats provides one");
        }
        url
    }

    #[tokio::test]
    async fn the_bus_passes_the_suite_and_confirms_an_outbox_in_order() {
        let Some(url) = url() else { return };
        let context = jetstream::new(async_nats::connect(&url).await.unwrap());
        let passed = bus_suite(async |number| {
            // One stream holds these subjects: each check has it anew.
            drop(context.delete_stream("ORLOP_EVENTS").await);
            NatsBus::open(NatsOptions::new(&url, format!("c{number}"))).await.unwrap()
        });
        passed.await.unwrap_or_else(|error| panic!("{error}"));
        crate::bus::outbox::suite::drains(&NatsBus::open(NatsOptions::new(&url, "outbox")).await.unwrap()).await;
    }

    #[tokio::test]
    async fn a_place_without_a_server_is_transient() {
        let error = NatsBus::open(NatsOptions::new("nats://u:hush@127.0.0.1:1", "c")).await.unwrap_err();
        assert_eq!(error.class, Class::Transient);
        assert!(!error.chain().contains("hush"), "{}", error.chain());
    }
}
