//! Laws that hold for every kind, read off what the server has seen.

use std::collections::{BTreeMap, BTreeSet};

use proptest::test_runner::{Config, RngSeed, TestCaseError};
use proptest::{prop_assert, prop_assert_eq};
use serde_json::Value;

use super::TestEnv;
use crate::api::Kind;
use crate::hourglass::children::controller;
use crate::hourglass::controller::Reconciler;
use crate::value::{item, items, text, word};

/// Passes after which a controller must have come to rest where nothing else happens.
const PASSES: usize = 64;

/// So many histories: the same ones each time, so that a run tells of the change that it is made for. The long mode draws
/// others, and twelve times as many.
pub(crate) fn histories(count: u32) -> Config {
    if std::env::var_os("ORLOP_TEST_LONG").is_some() {
        Config { cases: count * 12, ..Config::default() }
    } else {
        Config { cases: count, rng_seed: RngSeed::Fixed(3), ..Config::default() }
    }
}

impl<R: Reconciler> TestEnv<R> {
    /// Passes until nothing is to be done now, of which there are few.
    pub(crate) fn settles(&mut self) -> Result<(), TestCaseError> {
        let before = self.passes;
        self.settle();
        prop_assert!(self.passes - before <= PASSES, "{} passes", self.passes - before);
        Ok(())
    }

    /// What was written to was ours, or the object itself. K4: the finalizer has gone after the children.
    pub(crate) fn laws(&self) -> Result<(), TestCaseError> {
        let store = self.server.store();
        let mine: BTreeSet<String> = store
            .log
            .iter()
            .filter(|change| change.kind == R::KIND)
            .map(|change| text(&change.object, "/metadata/uid"))
            .collect();
        for (kind, found) in store.touched.iter().filter(|(kind, _)| *kind != R::KIND) {
            let ours = controller(found).is_some_and(|uid| mine.contains(uid));
            prop_assert!(ours, "{kind:?} {} is another's", word(found, "/metadata/name"));
        }
        // Revisions and templates go by their owner reference, and lost pods are left to their node.
        let counts = |(kind, child): &&(Kind, Value)| {
            let lost = *kind == Kind::Pod && child["metadata"]["deletionTimestamp"].is_string();
            !matches!(kind, Kind::Revision | Kind::ClaimTemplate | Kind::BetaClaimTemplate | Kind::Event) && !lost
        };
        let left: Vec<String> =
            store.left.iter().filter(counts).map(|(kind, child)| format!("{kind:?} {child}")).collect();
        prop_assert_eq!(left, [] as [String; 0], "K4");
        Ok(())
    }

    /// Section 2.3 of every status that was written: all conditions of the kind are there, short, and the time of one moves
    /// with its status only.
    pub(crate) fn conditions(&self) -> Result<(), TestCaseError> {
        let kinds = ["Ready", "Available", "Progressing", "Degraded", "Contended", "HardwareAvailable"];
        let kinds = if R::KIND == Kind::Performer { &kinds[..] } else { &kinds[..5] };
        let store = self.server.store();
        let mut before: BTreeMap<String, Value> = BTreeMap::new();
        for change in store.log.iter().filter(|change| change.kind == R::KIND && !change.gone) {
            let said = items(&change.object, "/status/conditions");
            prop_assert!(
                said.is_empty() || said.iter().map(|one| word(one, "/type")).eq(kinds.iter().copied()),
                "{said:?}"
            );
            let of = |kind: &str, member: &str| {
                said.iter().find(|one| word(one, "/type") == kind).map_or("", |one| word(one, member))
            };
            let serves = of("Available", "/status") == "True" && of("Progressing", "/reason") == "UpToDate";
            let well = serves && of("Degraded", "/status") == "False";
            prop_assert_eq!(of("Ready", "/status") == "True", well, "{:?}", said);
            if of("Degraded", "/status") == "True" {
                prop_assert_eq!(of("Ready", "/reason"), of("Degraded", "/reason"), "{:?}", said);
            }
            let earlier = before.insert(text(&change.object, "/metadata/uid"), change.object["status"].clone());
            for one in said {
                prop_assert!(
                    one["observedGeneration"].is_i64() && word(one, "/message").chars().count() <= 1024,
                    "{one}"
                );
                let same = earlier.as_ref().and_then(|status| item(status, "/conditions", "type", word(one, "/type")));
                let same = same.filter(|known| known["status"] == one["status"]);
                let moved = same.is_some_and(|known| known["lastTransitionTime"] != one["lastTransitionTime"]);
                prop_assert!(one["lastTransitionTime"].is_string() && !moved, "{one} after {earlier:?}");
            }
        }
        Ok(())
    }

    /// Everything people may read but the object's own spec, as text; what may hold secrets is no part of it.
    pub(crate) fn shown(&self, hidden: &[Kind]) -> String {
        let store = self.server.store();
        let shown = store.log.iter().filter(|change| !hidden.contains(&change.kind)).map(|change| {
            if change.kind == R::KIND { change.object["status"].to_string() } else { change.object.to_string() }
        });
        shown.collect()
    }
}
