//! What was said of objects so far: conditions and events, each once.

use std::collections::BTreeSet;

use super::TestEnv;
use crate::api::Kind;
use crate::hourglass::controller::Reconciler;
use crate::value::{items, word};

/// Everything that was said so far: conditions as type, status and reason; events as type and reason.
#[derive(Default)]
pub(crate) struct Reasons {
    conditions: BTreeSet<String>,
    events: BTreeSet<String>,
}

impl Reasons {
    pub(crate) fn collect<R: Reconciler>(&mut self, env: &TestEnv<R>) {
        for change in env.server.store().log.iter().filter(|change| change.kind == R::KIND) {
            for reasons in items(&change.object, "/status/conditions") {
                let part = |name: &str| reasons[name].as_str().unwrap_or("-").to_owned();
                // What `Ready` says follows from the others, which is a law of its own.
                if part("type") != "Ready" {
                    self.conditions.insert(format!("{} {} {}", part("type"), part("status"), part("reason")));
                }
            }
        }
        for event in env.server.list(Kind::Event) {
            self.events.insert(format!("{} {}", word(&event, "/type"), word(&event, "/reason")));
        }
    }

    /// Nothing else was said, and all of that.
    pub(crate) fn assert_are(&self, conditions: &[Vec<String>], events: &[Vec<String>]) {
        for (reasons, wanted) in [(&self.conditions, conditions), (&self.events, events)] {
            let wanted: BTreeSet<String> = wanted.concat().into_iter().collect();
            assert_eq!(reasons.symmetric_difference(&wanted).collect::<Vec<_>>(), [] as [&String; 0]);
        }
    }
}

/// Rows of a table: a kind with each of its reasons.
pub(crate) fn rows(kind: &str, reasons: &str) -> Vec<String> {
    reasons.split(' ').map(|reason| format!("{kind} {reason}")).collect()
}
