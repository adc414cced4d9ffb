//! References of an object: ConfigMaps and Secrets that its pods read when they start, and when another version of one starts new
//! pods.

use std::collections::BTreeMap;

use orlop_core::name::sha256_hex;
use serde_json::Value;

use super::plan::Notice;
use super::spec::Reference;
use crate::api::Kind;
use crate::value::{canonical, text};

/// Annotation of pods: how often references had changed when their spec was rendered.
pub(crate) const GENERATION: &str = "hourglass.eigenlayer.io/reference-generation";

/// The state of a referenced ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceState {
    /// It is there.
    Present {
        /// Its uid.
        uid: String,
        /// Its version.
        version: String,
        /// Whether what is read of it is known to be what it was in the version that is recorded.
        same: bool,
    },
    /// There is none of the name.
    Missing,
    /// It may not be read.
    Denied,
}

/// A referenced ConfigMap or Secret as it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedReference {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What was found.
    pub found: ReferenceState,
}

/// What is to be recorded, and how often references have changed by now, from what was recorded and what there is. What is seen
/// for the first time changes nothing, and so does what is missing or may not be read: the last version of it stays recorded.
#[must_use]
pub fn follow(recorded: &[Reference], generation: u32, seen: &[ObservedReference]) -> (Vec<Reference>, u32) {
    let mut changed = false;
    let mut all = Vec::new();
    for ObservedReference { kind, name, found } in seen {
        let known = recorded.iter().find(|known| known.kind == kind.name() && known.name == *name);
        let mut next = known.cloned().unwrap_or_else(|| Reference {
            kind: kind.name().to_owned(),
            name: name.clone(),
            ..Reference::default()
        });
        next.forbidden = *found == ReferenceState::Denied;
        if let ReferenceState::Present { uid, version, same } = found {
            let before = known.filter(|known| !known.resource_version.is_empty());
            changed |= before.is_some_and(|known| !same && (&known.uid, &known.resource_version) != (uid, version));
            (next.uid, next.resource_version) = (uid.clone(), version.clone());
        }
        if *found != ReferenceState::Missing || known.is_some() {
            all.push(next);
        }
    }
    (all, generation.saturating_add(u32::from(changed)))
}

/// That the operator may not read a reference, where that is news.
pub(crate) fn forbidden(before: &[Reference], now: &[Reference], generation: i64) -> Vec<Notice> {
    let known =
        |new: &&Reference| before.iter().any(|old| old.forbidden && (&old.kind, &old.name) == (&new.kind, &new.name));
    let new = now.iter().filter(|reference| reference.forbidden).filter(|reference| !known(reference));
    let notice = |Reference { kind, name, .. }: &Reference| {
        let message = format!(
            "{kind} `{name}` may not be read, so a change of it starts no new pods; allow `get`, or set rollOnReferenceChange to false"
        );
        Notice::warning("ReferenceForbidden", message, format!("{generation}/{kind}/{name}"))
    };
    new.map(notice).collect()
}

/// What is kept of a reference between passes: never a value of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Present { uid: String, version: String, digest: Option<String> },
    Missing,
    Denied,
}

impl Version {
    /// The version of an object. With keys, also a digest of what stands under them.
    pub(super) fn of<'k>(object: &Value, keys: Option<impl IntoIterator<Item = &'k String>>) -> Self {
        let digest = keys.map(|keys| {
            let value = |key: &'k String| {
                let values =
                    ["data", "binaryData"].map(|part| object.get(part).and_then(|data| data.get(key)).cloned());
                (key.clone(), Value::from(values.map(Option::unwrap_or_default).to_vec()))
            };
            let named: serde_json::Map<String, Value> = keys.into_iter().map(value).collect();
            sha256_hex(canonical(&Value::Object(named)).as_bytes(), 64)
        });
        Self::Present { uid: text(object, "/metadata/uid"), version: text(object, "/metadata/resourceVersion"), digest }
    }
}

/// The cached references of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct ReferenceCache {
    found: BTreeMap<(Kind, String), Version>,
    /// Digests by version, for comparing with a version that is recorded.
    digests: BTreeMap<(Kind, String), BTreeMap<String, String>>,
}

impl ReferenceCache {
    /// Everything is asked for again; what it is compared with stays known.
    pub(super) fn forget(&mut self) {
        self.found.clear();
    }

    /// What was found, in comparison with what is recorded; none where it must be asked for.
    pub(super) fn compare(&self, kind: Kind, name: &str, recorded: &[Reference]) -> Option<ObservedReference> {
        let place = (kind, name.to_owned());
        let found = match self.found.get(&place)? {
            Version::Missing => ReferenceState::Missing,
            Version::Denied => ReferenceState::Denied,
            Version::Present { uid, version, digest } => {
                let known = recorded.iter().find(|known| known.kind == kind.name() && known.name == name);
                let before = known.and_then(|known| self.digests.get(&place)?.get(&known.resource_version));
                let same = digest.is_some() && before == digest.as_ref();
                ReferenceState::Present { uid: uid.clone(), version: version.clone(), same }
            }
        };
        Some(ObservedReference { kind, name: name.to_owned(), found })
    }

    /// What the server has said of one. Digests of versions that are neither recorded nor there are dropped.
    pub(super) fn record(&mut self, kind: Kind, name: &str, now: Version, recorded: &[Reference]) {
        let place = (kind, name.to_owned());
        if let Version::Present { version, digest: Some(digest), .. } = &now {
            let is_recorded = |known: &String| {
                recorded.iter().any(|reference| reference.name == name && reference.resource_version == *known)
            };
            let digests = self.digests.entry(place.clone()).or_default();
            digests.retain(|known, _| is_recorded(known));
            digests.insert(version.clone(), digest.clone());
        }
        self.found.insert(place, now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn there(version: &str, same: bool) -> ObservedReference {
        let found = ReferenceState::Present { uid: "u".to_owned(), version: version.to_owned(), same };
        ObservedReference { kind: Kind::Secret, name: "keys".to_owned(), found }
    }

    fn not(found: ReferenceState) -> ObservedReference {
        ObservedReference { kind: Kind::Secret, name: "keys".to_owned(), found }
    }

    #[test]
    fn only_another_version_with_other_contents_counts() {
        let (first, generation) = follow(&[], 0, &[there("1", false)]);
        assert_eq!((generation, first[0].resource_version.as_str()), (0, "1"), "seen for the first time");
        assert_eq!(follow(&first, 0, &[there("1", false)]), (first.clone(), 0));
        let (same, generation) = follow(&first, 0, &[there("2", true)]);
        assert_eq!((generation, same[0].resource_version.as_str()), (0, "2"), "another key was changed");
        let (other, generation) = follow(&same, 0, &[there("3", false)]);
        assert_eq!(generation, 1);
        for away in [ReferenceState::Missing, ReferenceState::Denied] {
            let (kept, generation) = follow(&other, 1, &[not(away.clone())]);
            assert_eq!((kept[0].resource_version.as_str(), generation), ("3", 1), "{away:?}");
            assert_eq!(follow(&kept, 1, &[there("3", false)]), (other.clone(), 1), "it is back as it was");
            assert_eq!(follow(&kept, 1, &[there("4", false)]).1, 2, "it is back as another");
        }
        let (denied, generation) = follow(&[], 0, &[not(ReferenceState::Denied)]);
        assert_eq!((denied[0].forbidden, generation), (true, 0));
        assert_eq!(follow(&denied, 0, &[there("1", false)]).1, 0, "it may be read now, for the first time");
        assert_eq!(follow(&[], 0, &[not(ReferenceState::Missing)]), (Vec::new(), 0));
        assert_eq!(follow(&other, 7, &[]), (Vec::new(), 7), "what is named no more is recorded no more");
    }

    #[test]
    fn digests_are_of_the_named_keys_alone_and_are_kept_for_what_is_recorded() {
        let secret = |version: &str, named: &str, other: &str| json!({"metadata": {"uid": "u", "resourceVersion": version}, "data": {"named": named, "other": other}});
        let keys = ["named".to_owned()];
        let mut versions = ReferenceCache::default();
        let mut recorded = Vec::new();
        let mut generation = 0;
        let mut step = |versions: &mut ReferenceCache, object: Value| {
            versions.record(Kind::Secret, "keys", Version::of(&object, Some(&keys)), &recorded);
            let seen = versions.compare(Kind::Secret, "keys", &recorded).unwrap();
            (recorded, generation) = follow(&recorded, generation, &[seen]);
            generation
        };
        assert_eq!(step(&mut versions, secret("1", "a", "x")), 0);
        assert_eq!(step(&mut versions, secret("2", "a", "y")), 0, "another key");
        assert_eq!(step(&mut versions, secret("3", "b", "y")), 1);
        let mut after_restart = ReferenceCache::default();
        assert_eq!(step(&mut after_restart, secret("3", "b", "y")), 1, "the same version needs no digest");
        assert_eq!(
            step(&mut ReferenceCache::default(), secret("4", "b", "z")),
            2,
            "nobody knows what the version before held"
        );
        assert!(!format!("{after_restart:?}").contains("\"b\""), "no value is kept");
        after_restart.forget();
        assert_eq!(after_restart.compare(Kind::Secret, "keys", &[]), None);
    }

    fn found() -> impl Strategy<Value = ReferenceState> {
        let there = ("[ab]", "[1-4]", any::<bool>());
        prop_oneof![
            Just(ReferenceState::Missing),
            Just(ReferenceState::Denied),
            there.prop_map(|(uid, version, same)| ReferenceState::Present { uid, version, same }),
        ]
    }

    proptest! {
        #[test]
        fn what_was_followed_once_is_settled(first in found(), second in found(), generation in 0..9_u32) {
            let (recorded, once) = follow(&[], generation, &[not(first)]);
            prop_assert_eq!(once, generation);
            let (recorded, then) = follow(&recorded, once, &[not(second.clone())]);
            prop_assert!(then == once || then == once + 1);
            prop_assert_eq!(follow(&recorded, then, &[not(second)]), (recorded.clone(), then));
        }
    }
}
