//! What only the program in a pod may know: the token of its attempt, and keys to stores. Owns the reading of these from
//! variables; they are never shown.

use std::collections::BTreeMap;
use std::fmt;

use orlop_core::error::{Class, Problem};
use orlop_core::helper::{KEYS, S3Location};

/// Keys to stores, by the variable that holds them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(BTreeMap<String, String>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FromIterator<(String, String)> for Keys {
    /// Variables that hold no keys are left out.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().filter(|(name, _)| name.starts_with(KEYS)).collect())
    }
}

impl Keys {
    /// The access key id and the secret access key for a place; none where it asks for none.
    ///
    /// # Errors
    /// Denied where a variable that it names is not there, or empty.
    pub(super) fn of(&self, place: &S3Location) -> Result<Option<(String, String)>, Problem> {
        let Some(names) = &place.keys else { return Ok(None) };
        let read = |name: &str, what: &str| {
            let text = self.0.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| {
                let message = format!("the {what} of the S3 store is empty; look at the Secret that it is in");
                Problem::new(Class::Denied, message)
            })
        };
        Ok(Some((read(&names.id, "access key id")?, read(&names.secret, "secret access key")?)))
    }
}

/// What is needed to hand things over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secrets<'e> {
    pub(super) token: &'e str,
    pub(super) keys: &'e Keys,
}
