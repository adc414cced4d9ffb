//! What goes wrong, when: faults that wait for a request, clients that have stopped, and streams that are cut, held or
//! twisted. Decides nothing about objects.

use std::collections::BTreeMap;
use std::time::Duration;

use super::request::Verb;

/// Which requests a fault waits for. What is not said matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The name of the client, see [`super::ApiServer::client_named`].
    pub client: Option<String>,
    /// What is asked.
    pub verb: Option<Verb>,
    /// Only requests that write.
    pub writes: bool,
    /// Only requests whose answer is more than metadata.
    pub contents: bool,
    /// The resource, as in `jobs` or `jobs.batch`, with `/status` for a subresource.
    pub resource: Option<String>,
    /// The object's name.
    pub name: Option<String>,
    /// Let this many matching requests pass first.
    pub skip: u64,
    /// Strike this often; 0 means always.
    pub times: u64,
}

impl Match {
    /// One request of any kind.
    #[must_use]
    pub fn any() -> Self {
        Self { times: 1, ..Self::default() }
    }

    /// One write.
    #[must_use]
    pub fn write() -> Self {
        Self { writes: true, times: 1, ..Self::default() }
    }

    /// One request of that verb and resource.
    #[must_use]
    pub fn of(verb: Verb, resource: &str) -> Self {
        Self { verb: Some(verb), resource: Some(resource.to_owned()), times: 1, ..Self::default() }
    }

    /// The n-th of them, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// Only by that client.
    #[must_use]
    pub fn by(mut self, client: &str) -> Self {
        self.client = Some(client.to_owned());
        self
    }

    /// Only of the object of that name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only where more than metadata is asked for.
    #[must_use]
    pub fn contents(mut self) -> Self {
        self.contents = true;
        self
    }

    /// That many times; 0 means always.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The request is carried out, and the connection breaks before the answer.
    DropAnswer,
    /// The connection breaks before the request arrives.
    Unreachable,
    /// Refused with that status and its usual reason and message.
    Refuse(u16),
    /// Refused with that status and message.
    RefuseWith(u16, String),
    /// 409, as if somebody had written in between.
    Conflict,
    /// 504, and nothing was done.
    Timeout,
    /// 504, though it was done.
    TimeoutAfter,
    /// Carried out after that long, by tokio's clock.
    Delay(Duration),
    /// Webhooks cannot be asked about this write.
    WebhooksDown,
    /// The client stops after the answer of this request: every later one of it is unreachable until
    /// [`super::FaultsHandle::restart`].
    StopAfter,
    /// The same, and the answer of this request is lost too.
    StopBeforeAnswer,
    /// The same, and this request does not arrive any more.
    StopBefore,
    /// Streams of the resource end.
    WatchDrop,
    /// The next event of the resource is told twice.
    WatchDuplicate,
    /// The next events of the resource that are told together are told in the opposite order.
    WatchReorder,
    /// History is forgotten: streams that are behind end with 410, and so do lists in pages.
    Compact,
    /// This list, or watch from the newest state, shows the state before the newest n changes of its resource.
    StaleList(usize),
}

/// One thing that goes wrong at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The requests it waits for.
    pub when: Match,
    /// What it does.
    pub what: What,
}

/// What becomes of the events that a stream is about to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twist {
    None,
    Duplicate,
    Swap,
}

/// A request as faults see it.
pub(crate) struct Seen<'a> {
    pub(crate) client: &'a str,
    pub(crate) verb: Verb,
    /// `jobs`
    pub(crate) resource: &'a str,
    /// `jobs.batch`
    pub(crate) qualified: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) name: &'a str,
    pub(crate) metadata_only: bool,
}

impl Match {
    fn fits(&self, seen: &Seen<'_>) -> bool {
        let resource = |wanted: &str| {
            let (wanted, sub) = wanted.split_once('/').unwrap_or((wanted, ""));
            (wanted == seen.resource || wanted == seen.qualified) && sub == seen.subresource
        };
        self.client.as_deref().is_none_or(|client| client == seen.client)
            && self.verb.is_none_or(|verb| verb == seen.verb)
            && (!self.writes || seen.verb.writes())
            && !(self.contents && seen.metadata_only)
            && self.resource.as_deref().is_none_or(resource)
            && self.name.as_deref().is_none_or(|name| name == seen.name)
    }
}

/// All faults that wait or last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    waiting: Vec<Fault>,
    stopped: Vec<String>,
    generations: BTreeMap<usize, u64>,
    twists: BTreeMap<usize, Twist>,
    /// How old the state is that the list under way shows.
    stale: Option<usize>,
    /// Faults that struck.
    pub(crate) struck: u64,
}

impl Faults {
    pub(crate) fn push(&mut self, fault: Fault) {
        self.waiting.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.twists.clear();
        self.stale = None;
    }

    /// The faults that strike this request, in the order in which they were pushed.
    pub(crate) fn strike(&mut self, seen: &Seen<'_>) -> Vec<What> {
        let mut struck = Vec::new();
        self.waiting.retain_mut(|fault| {
            if !fault.when.fits(seen) {
                return true;
            }
            if fault.when.skip > 0 {
                fault.when.skip -= 1;
                return true;
            }
            struck.push(fault.what.clone());
            fault.when.times != 1 && {
                fault.when.times = fault.when.times.saturating_sub(1);
                true
            }
        });
        self.struck += u64::try_from(struck.len()).unwrap_or_default();
        struck
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn stop(&mut self, client: &str) {
        if !self.is_stopped(client) {
            self.stopped.push(client.to_owned());
        }
    }

    pub(crate) fn restart(&mut self, client: &str) {
        self.stopped.retain(|stopped| stopped != client);
    }

    pub(crate) fn is_stopped(&self, client: &str) -> bool {
        self.stopped.iter().any(|stopped| stopped == client)
    }

    /// Ends the streams of a table.
    pub(crate) fn cut(&mut self, table: usize) {
        *self.generations.entry(table).or_default() += 1;
    }

    /// How often the streams of a table were cut.
    pub(crate) fn generation(&self, table: usize) -> u64 {
        self.generations.get(&table).copied().unwrap_or_default()
    }

    pub(crate) fn set_twist(&mut self, table: usize, twist: Twist) {
        self.twists.insert(table, twist);
    }

    /// The twist for the events a stream is about to tell; used up where it changes anything.
    pub(crate) fn twist(&mut self, table: usize, events: usize) -> Twist {
        let enough = match self.twists.get(&table) {
            Some(Twist::Duplicate) => events > 0,
            Some(Twist::Swap) => events > 1,
            _ => false,
        };
        if enough { self.twists.remove(&table).unwrap_or(Twist::None) } else { Twist::None }
    }

    pub(crate) fn set_stale(&mut self, count: usize) {
        self.stale = Some(count);
    }

    /// How old the list under way is to be; asked once.
    pub(crate) fn stale(&mut self) -> Option<usize> {
        self.stale.take()
    }
}
