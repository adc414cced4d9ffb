//! The deltas of all topics, each made once for everybody who sees the same. They are kept in a ring, from which every stream takes what
//! it has not sent yet: a slow one has no queue of its own, delays nobody, and begins anew when the ring has gone over it. Makes no
//! delta.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::topic::Topic;

/// Deltas of the ring, and their bytes.
const DELTAS: usize = 8192;
const BYTES: usize = 16 << 20;
/// A stream that has more to send than this begins anew.
const BEHIND: usize = 256 << 10;
/// What nobody listens to is made for so long: a stream that was cut goes on where it was.
const LINGER: Duration = Duration::from_secs(30);

/// A topic as some callers see it: the same for all who see the same tenants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct View {
    pub(crate) topic: Topic,
    /// Names of the tenants; none = all, or one object that was checked.
    pub(crate) tenants: Option<Vec<String>>,
}

#[derive(Debug)]
struct Delta {
    seq: u64,
    view: Arc<View>,
    text: Bytes,
}

#[derive(Debug)]
struct Watched {
    view: Arc<View>,
    streams: usize,
    /// Since when its deltas are made without a gap.
    since: u64,
    /// When the last stream left it, in monotonic milliseconds.
    left: Option<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    seq: u64,
    /// The number of the newest delta that was dropped.
    dropped: u64,
    bytes: usize,
    deltas: VecDeque<Delta>,
    watched: BTreeMap<View, Watched>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Names this process: numbers of another one mean nothing here.
    epoch: String,
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
}

/// What a stream takes next.
#[derive(Debug)]
pub(crate) enum Taken {
    /// These bytes; then it is at `seq`.
    Deltas { text: Bytes, seq: u64 },
    /// It is too far behind: all its topics begin anew.
    Lagged,
    /// Nothing of its views is new; it is at `seq`.
    Nothing { seq: u64 },
}

/// A name for a view while a stream shows it.
#[derive(Debug)]
pub(crate) struct Subscription {
    hub: Arc<Hub>,
    view: Arc<View>,
    /// When the clock of the hub began.
    since: Instant,
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let now = millis(self.since);
        if let Some(watched) = self.hub.ring().watched.get_mut(&*self.view) {
            watched.streams = watched.streams.saturating_sub(1);
            if watched.streams == 0 {
                watched.left = Some(now);
            }
        }
    }
}

impl Subscription {
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }
}

/// An event of a stream.
pub(crate) fn event(id: &str, kind: &str, data: &Value) -> Bytes {
    // JSON holds no line feed.
    let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
    format!("{id}event: {kind}\ndata: {data}\n\n").into()
}

impl Hub {
    pub(crate) fn new(epoch: String) -> Self {
        Self { epoch, ring: Mutex::default(), newest: watch::Sender::new(0) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn epoch(&self) -> &str {
        &self.epoch
    }

    /// The number of the newest delta.
    pub(crate) fn seq(&self) -> u64 {
        self.ring().seq
    }

    /// The id of an event.
    pub(crate) fn id(&self, seq: u64) -> String {
        format!("{}-{seq}", self.epoch)
    }

    /// The number that an id of this process names.
    pub(crate) fn seq_of(&self, id: &str) -> Option<u64> {
        let (epoch, seq) = id.rsplit_once('-')?;
        if epoch == self.epoch { seq.parse().ok() } else { None }
    }

    /// Hears of new deltas.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// A stream shows a view from now on, until the answer is dropped.
    pub(crate) fn subscribe(self: &Arc<Self>, view: View, since: Instant) -> Subscription {
        let mut ring = self.ring();
        let begins = ring.seq;
        let watched = ring.watched.entry(view.clone()).or_insert_with(|| Watched {
            view: Arc::new(view),
            streams: 0,
            since: begins,
            left: None,
        });
        (watched.streams, watched.left) = (watched.streams + 1, None);
        let view = Arc::clone(&watched.view);
        drop(ring);
        Subscription { hub: Arc::clone(self), view, since }
    }

    /// The views whose deltas are to be made; those that everybody left a while ago are dropped.
    pub(crate) fn watched(&self, now: u64) -> Vec<Arc<View>> {
        let mut ring = self.ring();
        let linger = u64::try_from(LINGER.as_millis()).unwrap_or(u64::MAX);
        ring.watched.retain(|_, watched| watched.left.is_none_or(|left| now < left.saturating_add(linger)));
        ring.watched.values().map(|watched| Arc::clone(&watched.view)).collect()
    }

    /// Adds a delta of a view.
    pub(crate) fn publish(&self, view: &Arc<View>, data: &Value) {
        let seq = {
            let mut ring = self.ring();
            ring.seq += 1;
            let seq = ring.seq;
            let data = json!({ "topic": view.topic.to_string(), "seq": seq, "data": data });
            let text = event(&self.id(seq), "delta", &data);
            ring.bytes += text.len();
            ring.deltas.push_back(Delta { seq, view: Arc::clone(view), text });
            while ring.deltas.len() > DELTAS || ring.bytes > BYTES {
                let Some(oldest) = ring.deltas.pop_front() else { break };
                (ring.bytes, ring.dropped) = (ring.bytes - oldest.text.len(), oldest.seq);
            }
            seq
        };
        self.newest.send_replace(seq);
    }

    /// The whole of a view could not be read: no stream goes on with what it had of it.
    pub(crate) fn gap(&self, view: &View) {
        let mut ring = self.ring();
        let next = ring.seq + 1;
        if let Some(watched) = ring.watched.get_mut(view) {
            watched.since = next;
        }
    }

    /// Something was missed: every stream begins anew.
    pub(crate) fn restart(&self) {
        let seq = {
            let mut ring = self.ring();
            ring.seq += 1;
            (ring.dropped, ring.bytes) = (ring.seq, 0);
            ring.deltas.clear();
            ring.seq
        };
        self.newest.send_replace(seq);
    }

    /// Whether a stream that had everything up to `seq` can go on with these views where it was.
    pub(crate) fn resumes(&self, seq: u64, views: &[View]) -> bool {
        let ring = self.ring();
        let whole = |view: &View| ring.watched.get(view).is_some_and(|watched| watched.since <= seq);
        seq <= ring.seq && seq >= ring.dropped && views.iter().all(whole)
    }

    /// The deltas of these views after `seq`.
    pub(crate) fn after(&self, seq: u64, views: &[Arc<View>]) -> Taken {
        let ring = self.ring();
        if seq < ring.dropped {
            return Taken::Lagged;
        }
        let begin = ring.deltas.partition_point(|delta| delta.seq <= seq);
        let mut text = BytesMut::new();
        for delta in ring.deltas.range(begin..) {
            if views.iter().any(|view| Arc::ptr_eq(view, &delta.view)) {
                text.extend_from_slice(&delta.text);
            }
            if text.len() > BEHIND {
                return Taken::Lagged;
            }
        }
        match text.is_empty() {
            true => Taken::Nothing { seq: ring.seq },
            false => Taken::Deltas { text: text.freeze(), seq: ring.seq },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn view(topic: Topic) -> View {
        View { topic, tenants: None }
    }

    fn since() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_stream_gets_the_deltas_of_its_views_alone_and_in_order() {
        let hub = Arc::new(Hub::new("e".to_owned()));
        let (flows, jobs) = (hub.subscribe(view(Topic::Flows), since()), hub.subscribe(view(Topic::Jobs), since()));
        hub.publish(flows.view(), &json!(1));
        hub.publish(jobs.view(), &json!(2));
        hub.publish(flows.view(), &json!(3));
        let Taken::Deltas { text, seq } = hub.after(0, &[Arc::clone(flows.view())]) else { panic!("deltas") };
        assert_eq!(seq, 3);
        insta::assert_snapshot!(String::from_utf8_lossy(&text), @r#"
        id: e-1
        event: delta
        data: {"data":1,"seq":1,"topic":"flows"}

        id: e-3
        event: delta
        data: {"data":3,"seq":3,"topic":"flows"}
        "#);
        assert!(matches!(hub.after(3, &[Arc::clone(flows.view())]), Taken::Nothing { seq: 3 }));
    }

    #[test]
    fn a_view_that_everybody_left_is_made_for_a_while_so_that_a_cut_stream_goes_on() {
        let hub = Arc::new(Hub::new("e".to_owned()));
        let wanted = [view(Topic::Flows)];
        assert!(!hub.resumes(0, &wanted), "nobody ever asked for it");
        let flows = hub.subscribe(wanted[0].clone(), since());
        let shown = Arc::clone(flows.view());
        drop(flows);
        assert_eq!(hub.watched(29_000).len(), 1);
        hub.publish(&shown, &json!(1));
        assert!(hub.resumes(0, &wanted) && hub.resumes(1, &wanted) && !hub.resumes(2, &wanted));
        assert_eq!(hub.watched(60_000).len(), 0);
        assert!(!hub.resumes(1, &wanted), "from now on it has a gap");
        assert_eq!((hub.seq_of("e-1"), hub.seq_of("f-1"), hub.seq_of("e")), (Some(1), None, None));
    }

    #[test]
    fn a_view_that_could_not_be_read_is_resumed_by_nobody_until_it_is_read() {
        let hub = Arc::new(Hub::new("e".to_owned()));
        let wanted = [view(Topic::Flows), view(Topic::Jobs)];
        let [flows, jobs] = wanted.clone().map(|view| hub.subscribe(view, since()));
        hub.publish(flows.view(), &json!(1));
        assert!(hub.resumes(1, &wanted));
        hub.gap(jobs.view());
        assert!(!hub.resumes(1, &wanted) && hub.resumes(1, &wanted[..1]));
        hub.publish(jobs.view(), &json!(2));
        assert!(hub.resumes(2, &wanted), "who has this delta has the whole too");
    }

    #[test]
    fn a_stream_that_is_far_behind_begins_anew() {
        let hub = Arc::new(Hub::new("e".to_owned()));
        let flows = hub.subscribe(view(Topic::Flows), since());
        let views = [Arc::clone(flows.view())];
        let long = json!("x".repeat(100 << 10));
        hub.publish(flows.view(), &long);
        assert!(matches!(hub.after(0, &views), Taken::Deltas { .. }));
        (0..3).for_each(|_| hub.publish(flows.view(), &long));
        assert!(matches!(hub.after(0, &views), Taken::Lagged));
        (0..200).for_each(|_| hub.publish(flows.view(), &long));
        assert!(matches!(hub.after(1, &views), Taken::Lagged), "the ring has gone over it");
        assert!(!hub.resumes(1, &[view(Topic::Flows)]));
        let newest = hub.seq();
        assert!(hub.resumes(newest, &[view(Topic::Flows)]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// What a stream puts together of deltas, cut and resumed anywhere, is what the newest values are.
        #[test]
        fn a_stream_that_is_cut_anywhere_ends_with_the_newest_values(
            steps in prop::collection::vec((0usize..3, 0u32..100, prop::bool::weighted(0.2)), 1..200),
        ) {
            let hub = Arc::new(Hub::new("e".to_owned()));
            let topics = [Topic::Flows, Topic::Jobs, Topic::Workers];
            let held: Vec<Subscription> = topics.iter().map(|topic| hub.subscribe(view(topic.clone()), since())).collect();
            let views: Vec<Arc<View>> = held.iter().map(|one| Arc::clone(one.view())).collect();
            let (mut truth, mut seen, mut at) = ([0; 3], [0; 3], 0);
            for (topic, value, reads) in steps {
                truth[topic] = value;
                hub.publish(&views[topic], &json!(value));
                if !reads {
                    continue;
                }
                prop_assert!(hub.resumes(at, &views.iter().map(|view| View::clone(view)).collect::<Vec<_>>()));
                if let Taken::Deltas { text, seq } = hub.after(at, &views) {
                    at = seq;
                    for line in String::from_utf8_lossy(&text).lines().filter_map(|line| line.strip_prefix("data: ")) {
                        let data: Value = serde_json::from_str(line).unwrap();
                        let number = topics.iter().position(|topic| data["topic"] == topic.to_string()).unwrap();
                        seen[number] = u32::try_from(data["data"].as_u64().unwrap()).unwrap();
                    }
                }
                prop_assert_eq!(seen, truth);
            }
        }
    }
}
