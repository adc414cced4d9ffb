//! What is wrong with a job specification: every fault with its place. Owns the list and its bound; finds no faults.

use std::fmt;

use crate::error::FieldError;

/// Faults a list keeps; further ones are only counted.
const KEPT: usize = 100;

/// Everything that is wrong with a specification, sorted by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecErrors {
    list: Vec<FieldError>,
    more: usize,
}

impl SpecErrors {
    /// The faults, at most 100.
    #[must_use]
    pub fn list(&self) -> &[FieldError] {
        &self.list
    }

    /// How many there are beyond those.
    #[must_use]
    pub fn more(&self) -> usize {
        self.more
    }

    pub(super) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.list.len() < KEPT {
            self.list.push(FieldError { path: path.into(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    /// Adds the faults of rules to those of reading. What could not be read has its default, so a rule that speaks of
    /// such a field, of one inside it or of one that depends on it says nothing of use.
    pub(super) fn join(&mut self, rules: Self) {
        let unread: Vec<String> = self.list.iter().map(|error| error.path.clone()).collect();
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let hides = |unread: &str, path: &str| {
            within(path, unread)
                || within(unread, path)
                || (unread == "runtime" && matches!(path, "command" | "image"))
                || (within(unread, "step") && path == "command")
        };
        for error in rules.list {
            if !unread.iter().any(|unread| hides(unread, &error.path)) {
                self.add(error.path, error.message);
            }
        }
        self.more += rules.more;
    }

    /// The value if nothing is wrong, else the faults in order.
    pub(super) fn or<T>(mut self, value: T) -> Result<T, Self> {
        if self.list.is_empty() {
            return Ok(value);
        }
        self.list.sort();
        self.list.dedup();
        Err(self)
    }
}

impl IntoIterator for SpecErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.list.iter().enumerate() {
            write!(f, "{}{error}", if number == 0 { "" } else { "; " })?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecErrors {}
