//! The record of what clients asked: each write in order, and counters by verb, resource and answer.

use std::collections::BTreeMap;

use super::request::Verb;

/// A write that was carried out, or refused after it was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Write {
    /// Counted from 1, over all clients.
    pub number: u64,
    /// The name of the client.
    pub client: String,
    /// What was asked.
    pub verb: Verb,
    /// The resource, as in `jobs.batch`.
    pub resource: String,
    /// Its namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name; the generated one where the server generated it.
    pub name: String,
    /// The subresource, empty for the object itself.
    pub subresource: String,
    /// The HTTP status that was, or would have been, answered.
    pub code: u16,
    /// Whether anything stored is different after it.
    pub changed: bool,
}

/// One class of requests and how many there were.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Requests {
    /// The name of the client.
    pub client: String,
    /// What was asked.
    pub verb: Verb,
    /// The resource with its subresource, as in `jobflows.workflow.kube-zen.io/status`.
    pub resource: String,
    /// The HTTP status; 0 where no answer was given.
    pub code: u16,
    /// How many.
    pub count: u64,
}

/// Everything that was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) writes: Vec<Write>,
    counts: BTreeMap<(String, Verb, String, u16), u64>,
    pub(crate) number: u64,
}

impl Record {
    /// Counts one request.
    pub(crate) fn count(&mut self, client: &str, verb: Verb, resource: &str, code: u16) {
        *self.counts.entry((client.to_owned(), verb, resource.to_owned(), code)).or_default() += 1;
    }

    /// The counters.
    pub(crate) fn requests(&self) -> Vec<Requests> {
        self.counts
            .iter()
            .map(|((client, verb, resource, code), count)| Requests {
                client: client.clone(),
                verb: *verb,
                resource: resource.clone(),
                code: *code,
                count: *count,
            })
            .collect()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.counts.clear();
    }
}
