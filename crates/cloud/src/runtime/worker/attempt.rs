//! Names of attempts on a worker: the fence as it stands in directory, container and group names. Owns both text forms;
//! never judges which attempt is current.

use std::fmt;
use std::str::FromStr;

use orlop_core::id::{Epoch, JobId};
use serde::{Deserialize, Serialize};

/// One attempt with its fencing token, as every directory, container and record on a worker names it.
///
/// ```
/// use orlop_cloud::runtime::worker::AttemptId;
/// use orlop_core::id::{Epoch, JobId};
/// let id = AttemptId { job: JobId::from_u64(7), index: 1, member: 0, attempt: 2, epoch: Epoch(3) };
/// assert_eq!(id.to_string(), "j0000000000007.1.0.2.3");
/// assert_eq!(id.to_string().parse(), Ok(id));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// The element of an array, else 0.
    pub index: u32,
    /// The member of a gang, else 0.
    pub member: u32,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The epoch of the server that issued it.
    pub epoch: Epoch,
}

impl fmt::Display for AttemptId {
    /// `<job>.<index>.<member>.<attempt>.<epoch>`: safe as a file name and as a container name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}.{}", self.job, self.index, self.member, self.attempt, self.epoch.0)
    }
}

/// A text that names no attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not name an attempt; write <job>.<index>.<member>.<attempt>.<epoch>")]
pub struct NoAttempt(String);

impl FromStr for AttemptId {
    type Err = NoAttempt;

    fn from_str(text: &str) -> Result<Self, NoAttempt> {
        let wrong = || NoAttempt(text.chars().take(64).collect());
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or_else(wrong);
        let id = Self {
            job: next()?.parse().map_err(|_| wrong())?,
            index: next()?.parse().map_err(|_| wrong())?,
            member: next()?.parse().map_err(|_| wrong())?,
            attempt: next()?.parse().map_err(|_| wrong())?,
            epoch: Epoch(next()?.parse().map_err(|_| wrong())?),
        };
        // Only the form that is written names an attempt: `01` and `+1` are somebody else's names.
        if parts.next().is_none() && id.to_string() == text { Ok(id) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_written_form_names_an_attempt() {
        for bad in ["", "j0000000000007.1.0.2", "j0000000000007.1.0.2.3.4", "j0000000000007.01.0.2.3", "x.1.0.2.3"] {
            assert!(bad.parse::<AttemptId>().is_err(), "{bad}");
        }
        insta::assert_snapshot!("nothing".parse::<AttemptId>().unwrap_err(), @"`nothing` does not name an attempt; write <job>.<index>.<member>.<attempt>.<epoch>");
    }
}
