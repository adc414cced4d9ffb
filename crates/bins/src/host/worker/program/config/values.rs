//! Values of settings that have names of their own: counters, limits of resources, users of tenants.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orlop_cloud::runtime::worker::User;
use orlop_cloud::runtime::worker::process::{Limit, Limits};
use orlop_core::id::TenantName;
use orlop_core::named::Named as _;
use serde::{Deserialize, Serialize};

use super::Problem;
use crate::host::program::wrong_setting;

/// A value that is a number in a file, or a text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Count {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// The longest pause before the worker connects again: none would be a storm.
pub(super) fn pause(seconds: u64) -> Result<Duration, Problem> {
    let none = || {
        wrong_setting(
            "reconnect_seconds",
            "0 would ask a server that is away without a pause; write 1 or more".to_owned(),
        )
    };
    (seconds > 0).then(|| Duration::from_secs(seconds)).ok_or_else(none)
}

/// The share of a disk that is to be free.
pub(super) fn percent(percent: u8) -> Result<u8, Problem> {
    let more = || wrong_setting("min_free_percent", format!("{percent} is more than all; write 0 to 100"));
    (percent <= 100).then_some(percent).ok_or_else(more)
}

/// The count of something that is offered.
pub(super) fn count_of(name: &str, count: &Count) -> Result<(String, u64), Problem> {
    let read = match count {
        Count::Number(number) => Some(*number),
        Count::Text(text) => text.trim().parse().ok(),
    };
    let none = || wrong_setting("extra", format!("`{name}` has no count; write {name}=3"));
    Ok((name.to_owned(), read.ok_or_else(none)?))
}

/// Limits by their names in `ulimit`.
pub(super) fn limits(given: &BTreeMap<String, Count>) -> Result<Limits, Problem> {
    let wrong = |text: String| wrong_setting("rlimits", text);
    let one = |(name, value): (&String, &Count)| {
        let limit = Limit::from_typed(name).map_err(wrong)?;
        let value = match value {
            Count::Number(number) => Some(*number),
            Count::Text(text) if text.trim().eq_ignore_ascii_case("unlimited") => Some(u64::MAX),
            Count::Text(text) => text.trim().parse().ok(),
        };
        let none = || wrong(format!("`{name}` has no limit; write a number, or `unlimited`"));
        Ok((limit, value.ok_or_else(none)?))
    };
    given.iter().map(one).collect()
}

/// Users by tenant: each has its own, and none is root.
pub(super) fn users(given: &BTreeMap<String, Count>) -> Result<BTreeMap<TenantName, User>, Problem> {
    let wrong = |text: String| wrong_setting("users", text);
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

fn user(value: &Count) -> Option<User> {
    match value {
        Count::Number(number) => u32::try_from(*number).ok().map(|id| User { uid: id, gid: id }),
        Count::Text(text) => {
            let (uid, gid) = text.trim().split_once(':').unwrap_or((text.trim(), text.trim()));
            Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
        }
    }
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
