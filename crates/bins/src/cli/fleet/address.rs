//! What verbs about jobs are given: a job, or elements of an array.

use std::fmt;
use std::str::FromStr;

use orlop_core::spec::job::Indices;

use super::super::failure::Failure;
use super::client::escaped;

/// A job, or elements of it: `JOB`, `JOB.17` or `JOB.0-9,17`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Id of the job.
    pub(super) job: String,
    /// Which elements; absent = the whole job.
    pub(super) indices: Option<Indices>,
}

impl Address {
    /// Path of the job in the REST interface.
    pub(super) fn path(&self) -> String {
        format!("/jobs/{}", escaped(&self.job))
    }

    /// The same address with indices that an option gives.
    ///
    /// # Errors
    /// Both name some.
    pub(super) fn with(&self, option: &str, indices: Option<&Indices>) -> Result<Self, Failure> {
        match (&self.indices, indices) {
            (_, None) => Ok(self.clone()),
            (None, Some(indices)) => Ok(Self { job: self.job.clone(), indices: Some(indices.clone()) }),
            (Some(_), Some(_)) => Err(Failure::usage(format!("`{self}` names elements; leave out {option}"))),
        }
    }

    /// The indices as a member of a query.
    pub(super) fn members(&self) -> Vec<(&'static str, String)> {
        self.indices.iter().map(|indices| ("index", indices.to_string())).collect()
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (job, indices) = match text.split_once('.') {
            None => (text, None),
            Some((job, indices)) => {
                let read = indices.parse().map_err(|error| format!("the elements of `{text}`: {error}"));
                (job, Some(read?))
            }
        };
        if job.is_empty() {
            return Err("use the id of a job, or JOB.INDEX for an element of an array".to_owned());
        }
        Ok(Self { job: job.to_owned(), indices })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.indices {
            None => f.write_str(&self.job),
            Some(indices) => write!(f, "{}.{indices}", self.job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_jobs_or_elements_of_them() {
        let read = |text: &str| text.parse::<Address>();
        assert_eq!(read("j1").unwrap(), Address { job: "j1".to_owned(), indices: None });
        let some = read("j1.0-9,17").unwrap();
        assert_eq!((some.indices.as_ref().unwrap().count(), some.to_string().as_str()), (11, "j1.0-9,17"));
        assert_eq!(read("j1.17").unwrap().indices.unwrap().single(), Some(17));
        assert!(read("j1.x").unwrap_err().contains("the elements of `j1.x`"));
        assert!(read(".1").is_err() && read("").is_err() && read("j1.").is_err());
        assert!(some.with("--index", Some(&"1".parse().unwrap())).is_err());
    }
}
