//! Settings that are maps: labels, counters, limits of resources, users of tenants.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use orlop_cloud::runtime::process::{ResourceLimit, ResourceLimits};
use orlop_cloud::runtime::worker::User;
use orlop_core::id::TenantName;
use orlop_core::named::Named as _;
use serde::Serializer;

use super::Problem;
use crate::host::program::wrong_setting;

/// An entry of a map, as `key=value`.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) key: String,
    pub(super) value: String,
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not key=value"))?;
        Ok(Self { key: key.to_owned(), value: value.trim().to_owned() })
    }
}

/// Writes entries as a map; of two with one key the later counts.
pub(super) fn as_map<S: Serializer>(pairs: &[Pair], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|pair| (&pair.key, &pair.value)).collect::<BTreeMap<_, _>>())
}

/// The count of something that is offered.
pub(super) fn count_of(Pair { key, value }: &Pair) -> Result<(String, u64), Problem> {
    let count = value.parse().map_err(|_| wrong_setting("extra", format!("`{key}` has no count; write {key}=3")))?;
    Ok((key.clone(), count))
}

/// Limits by their names in `ulimit`.
pub(super) fn limits(given: &[Pair]) -> Result<ResourceLimits, Problem> {
    let wrong = |text: String| wrong_setting("rlimits", text);
    let one = |Pair { key, value }: &Pair| {
        let limit = ResourceLimit::from_typed(key).map_err(wrong)?;
        let count = if value.eq_ignore_ascii_case("unlimited") { Some(u64::MAX) } else { value.parse().ok() };
        let none = || wrong(format!("`{key}` has no limit; write a number, or `unlimited`"));
        Ok((limit, count.ok_or_else(none)?))
    };
    given.iter().map(one).collect()
}

/// Users by tenant: each has its own, and none is root.
pub(super) fn users(given: &[Pair]) -> Result<BTreeMap<TenantName, User>, Problem> {
    let wrong = |text: String| wrong_setting("users", text);
    let given: BTreeMap<_, _> = given.iter().map(|pair| (&pair.key, &pair.value)).collect();
    let mut users: BTreeMap<TenantName, User> = BTreeMap::new();
    for (name, value) in given {
        let tenant = TenantName::new(name.clone()).map_err(|error| wrong(error.to_string()))?;
        let user = user(value).filter(|user| user.uid != 0 && user.gid != 0);
        let none = || wrong(format!("`{name}` has no user; write the number of one other than root, or uid:gid"));
        let user = user.ok_or_else(none)?;
        if let Some((other, _)) = users.iter().find(|(_, taken)| taken.uid == user.uid) {
            return Err(wrong(format!("`{name}` and `{other}` have the same user {}; give each its own", user.uid)));
        }
        users.insert(tenant, user);
    }
    Ok(users)
}

fn user(value: &str) -> Option<User> {
    let (uid, gid) = value.split_once(':').unwrap_or((value, value));
    Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
}

/// Whose jobs are taken: where processes run as users of their tenants, only those of tenants that have one.
pub(super) fn tenants(
    asked: BTreeSet<TenantName>,
    users: &BTreeMap<TenantName, User>,
) -> Result<BTreeSet<TenantName>, Problem> {
    if users.is_empty() {
        return Ok(asked);
    }
    if let Some(without) = asked.iter().find(|tenant| !users.contains_key(*tenant)) {
        let text = format!("`{without}` has no user, and others have; name one under `users`");
        return Err(wrong_setting("tenants", text));
    }
    Ok(if asked.is_empty() { users.keys().cloned().collect() } else { asked })
}
