//! Who somebody is to this machine: a user id and its name. Believes no environment.

use nix::unistd::{Uid, User, getuid};

/// The name of a user, or where the machine knows none the number.
pub(super) fn name_of(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid));
    user.ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// The user this process belongs to.
#[must_use]
pub fn caller() -> String {
    name_of(getuid().as_raw())
}
