//! Topics: named views that a page subscribes to.

use std::fmt;
use std::str::FromStr;

use orlop_core::error::Problem;
use orlop_core::id::JobId;

/// The longest name of a flow in a topic.
const NAME: usize = 253;

/// A named view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Topic {
    /// The counters of the first view.
    Overview,
    /// Rows of flows.
    Flows,
    /// Rows of jobs.
    Jobs,
    /// Rows of workers.
    Workers,
    /// Steps that wait for a decision.
    Approvals,
    /// The steps of a flow, by its id.
    Flow(String),
    /// A job.
    Job(JobId),
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overview => f.write_str("overview"),
            Self::Flows => f.write_str("flows"),
            Self::Jobs => f.write_str("jobs"),
            Self::Workers => f.write_str("workers"),
            Self::Approvals => f.write_str("approvals"),
            Self::Flow(id) => write!(f, "flow:{id}"),
            Self::Job(id) => write!(f, "job:{id}"),
        }
    }
}

impl FromStr for Topic {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let unknown = || {
            let shown: String = text.chars().take(64).collect();
            let known = "overview, flows, jobs, workers, approvals, flow:ID or job:ID";
            Problem::field("topics", format!("`{shown}` is not a topic; use {known}"))
        };
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        Ok(match (kind, rest) {
            ("overview", None) => Self::Overview,
            ("flows", None) => Self::Flows,
            ("jobs", None) => Self::Jobs,
            ("workers", None) => Self::Workers,
            ("approvals", None) => Self::Approvals,
            ("flow", Some(id))
                if !id.is_empty() && id.len() <= NAME && id.bytes().all(|byte| byte.is_ascii_graphic()) =>
            {
                Self::Flow(id.to_owned())
            }
            ("job", Some(id)) => Self::Job(id.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_read_back_and_what_is_none_is_refused() {
        for text in ["overview", "flows", "jobs", "workers", "approvals", "flow:etl-7f3a", "job:j0000000000001"] {
            let topic: Topic = text.parse().unwrap();
            assert_eq!(topic.to_string(), text);
        }
        for text in ["", "overview:", "flow", "flow:", "flow:a b", "job:", "job:x", "nothing"] {
            assert!(text.parse::<Topic>().is_err(), "{text}");
        }
    }
}
