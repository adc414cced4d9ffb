//! What a run is called, and how commands learn which run is meant.

use std::fmt;

/// A run as people name it.
///
/// ```
/// use orlop::view::name::RunName;
/// let name = RunName { name: "etl".to_owned(), options: " -n team".to_owned() };
/// assert_eq!(format!("{name}: watch it with `orlop flow watch {}`", name.call()), "etl: watch it with `orlop flow watch etl -n team`");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunName {
    /// Its name.
    pub name: String,
    /// Options that lead to it, each with a blank before it; empty where the name is enough.
    pub options: String,
}

impl RunName {
    /// A run that is found by its name alone.
    #[must_use]
    pub fn plain(name: impl Into<String>) -> Self {
        Self { name: name.into(), options: String::new() }
    }

    /// Name and options, for a command.
    #[must_use]
    pub fn call(&self) -> String {
        format!("{}{}", self.name, self.options)
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
