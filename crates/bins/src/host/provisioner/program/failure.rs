//! How the program ends: exit codes, and errors for people and programs.

use std::borrow::Cow;

use orlop_cloud::exit::Exit;
use orlop_cloud::openstack::port::CloudError;
use orlop_cloud::provision::journal::JournalError;
use orlop_cloud::provision::plan::{PlanError, Stale};
use orlop_cloud::provision::saga::{self, Reason};
use orlop_cloud::repository::{FetchError, Refusal};
use orlop_cloud::scrub::scrubbed;
use orlop_core::error::{Class, Problem};
use serde::Serialize;

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub(super) struct Failure {
    /// The exit code.
    #[serde(skip)]
    pub(super) exit: Exit,
    /// The class of the error.
    #[serde(serialize_with = "in_words")]
    pub(super) class: Class,
    /// One word for programs.
    pub(super) code: Cow<'static, str>,
    /// What is wrong; holds no secret.
    pub(super) message: String,
    /// What to do, if the message does not say it.
    pub(super) hint: Option<Cow<'static, str>>,
    /// Which request failed, if one did.
    #[serde(flatten)]
    pub(super) asked: Box<CloudRequest>,
}

/// A request to a cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct CloudRequest {
    /// The service.
    pub(super) service: Option<String>,
    /// The status of its answer.
    pub(super) status: Option<u16>,
    /// The id that the service gave it.
    pub(super) request_id: Option<String>,
}

fn in_words<S: serde::Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(class)
}

impl Failure {
    pub(super) fn new(exit: Exit, class: Class, code: impl Into<Cow<'static, str>>, message: impl AsRef<str>) -> Self {
        let message = scrubbed(message.as_ref());
        Self { exit, class, code: code.into(), message, hint: None, asked: Box::default() }
    }

    /// Wrong flags or configuration.
    pub(super) fn usage(message: impl AsRef<str>) -> Self {
        Self::new(Exit::Usage, Class::Invalid, "usage", message)
    }

    /// Something that must not happen.
    pub(super) fn internal(message: impl AsRef<str>) -> Self {
        Self::new(Exit::Failed, Class::Fatal, "internal", message)
    }

    pub(super) fn interrupted(exit: Exit) -> Self {
        Self::new(exit, Class::Transient, "interrupted", "interrupted; nothing was created")
    }

    /// A request to a cloud that failed.
    pub(super) fn of_cloud(error: &CloudError) -> Self {
        let mut failure = Self::from(saga::refused(error));
        (failure.asked.service, failure.asked.status) = (Some(error.service.to_string()), error.status);
        failure
    }

    /// As a run over several sites takes it.
    pub(super) fn reason(&self) -> Reason<'_> {
        Reason { exit: self.exit, class: self.class, code: &self.code }
    }

    /// Whether the site cannot be reached, so that another one may do.
    pub(super) fn is_away(&self) -> bool {
        self.exit == Exit::Unreachable && self.code == "unavailable"
    }

    /// Names the site that it is about where there are several. One that is away is named by who passes it over.
    pub(super) fn at_site(mut self, site: &str, sites: usize) -> Self {
        if sites > 1 && !self.is_away() {
            self.message = format!("site {site}: {}", self.message);
        }
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(Exit::Refused, Class::Invalid, "refused", refusal.to_string())
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        let code = match &error {
            FetchError::Refused(_) => "refused",
            FetchError::Private { .. } | FetchError::LocalName { .. } => "private_host",
            FetchError::Proxy { .. } => "proxy",
            FetchError::Redirect { .. } => "redirect",
            FetchError::NoProgram => "no_git",
            FetchError::Denied { .. } => "denied",
            FetchError::Network { .. } => "network",
            FetchError::TooLarge { .. } => "too_large",
            FetchError::TooSlow { .. } => "too_slow",
            FetchError::Missing { .. } => "missing",
            FetchError::Folder { .. } => "no_folder",
            FetchError::Below { .. } => "no_subdir",
            _ => "io",
        };
        // Git and the proxy are of this machine; everything else is about the repository.
        let exit = if matches!(code, "no_git" | "proxy") { Exit::Usage } else { Exit::from(error.class()) };
        let failure = Self::new(exit, error.class(), code, error.to_string());
        match code {
            "network" | "too_slow" => failure.hint("check the address and the network, then try again"),
            "no_subdir" => failure.hint("check --subdir"),
            "missing" => failure.hint("check --ref and --subdir"),
            "denied" => failure.hint("name the variable of a token with --git-token-env"),
            _ => failure,
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let class = match error.exit() {
            Exit::Quota => Class::Capacity,
            Exit::Denied => Class::Denied,
            _ => Class::Invalid,
        };
        Self::new(error.exit(), class, error.code(), error.to_string())
    }
}

impl From<saga::Failure> for Failure {
    fn from(failure: saga::Failure) -> Self {
        let class = failure.class();
        let hint = Some(failure.hint).filter(|hint| !hint.is_empty()).map(Cow::Owned);
        let asked = Box::new(CloudRequest { request_id: failure.request_id, ..CloudRequest::default() });
        // The library's own words; those of services came to it without secrets.
        Self { exit: failure.exit, class, code: failure.code.into(), message: failure.message, hint, asked }
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let (class, code) = match &error {
            JournalError::Locked { .. } => (Class::Conflict, "locked"),
            JournalError::Damaged(_) | JournalError::Unreadable { .. } => (Class::Fatal, "journal_damaged"),
            _ => (Class::Fatal, "journal"),
        };
        Self::new(error.exit(), class, code, error.to_string())
    }
}

impl From<Stale> for Failure {
    fn from(stale: Stale) -> Self {
        Self::new(Exit::Conflict, Class::Conflict, "stale_plan", stale.to_string())
    }
}

impl From<Problem> for Failure {
    fn from(error: Problem) -> Self {
        Self::internal(error.chain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_words_about_tokens_and_credentials_stay_readable() {
        use orlop_cloud::openstack::classify::{Meaning, Service};
        for words in ["it cannot be reached", "the region `RegionTwo` is unknown; there are: RegionOne"] {
            let error = CloudError::own(Service::Identity, "POST /auth/tokens", Meaning::Invalid, words);
            assert_eq!(Failure::of_cloud(&error).message, format!("identity POST /auth/tokens: {words}"));
        }
    }

    #[test]
    fn every_failure_has_its_exit_code_and_no_secret() {
        let leak = format!("https://h/x?token=ghp_{}", "Q7wE9rT2yU5iO8pA1sD4fG6hJ3kL0zXc");
        let elsewhere = |name: &str| (name == "OPENAI_BASE_URL").then(|| "http://elsewhere".to_owned());
        let elsewhere = orlop_cloud::llm::Settings::read(elsewhere);
        let all = [
            Failure::from(Refusal::Helper),
            FetchError::Denied { url: leak, why: "404 Not Found".into() }.into(),
            FetchError::NoProgram.into(),
            FetchError::Missing { what: "branch x".into() }.into(),
            PlanError::Edge.into(),
            PlanError::Budget { estimate: "30 SU".into(), max_su: 20 }.into(),
            PlanError::Lifetime { hours: 30, most: 20 }.into(),
            PlanError::Taken { types: "t".into(), site: "uc".into(), until: None }.into(),
            Failure::usage(elsewhere.unwrap_err().message),
            Failure::interrupted(Exit::Interrupted),
        ];
        let reported =
            all.iter().map(|one| format!("{} {} {}: {one}", one.exit.code(), one.class, one.code)).collect::<Vec<_>>();
        insta::assert_snapshot!(reported.join("\n"));
    }
}
