//! Why a repository could not be had: it is away, private, or no repository.

use std::io;

use orlop_core::error::Class;

use super::source::Refusal;

/// A repository that was refused or could not be obtained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The address itself.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A host within a private network, or this machine.
    #[error("{host} leads to {address}, which is not a public address; see --allow-private-hosts")]
    Private {
        /// The host.
        host: String,
        /// What it leads to.
        address: String,
    },
    /// A name of a private network.
    #[error("{host} is a name of a private network; see --allow-private-hosts")]
    LocalName {
        /// The name.
        host: String,
    },
    /// A proxy that cannot be one.
    #[error("the proxy in https_proxy is not usable: {why}")]
    Proxy {
        /// Why.
        why: &'static str,
    },
    /// A redirect that is not followed.
    #[error("{url} redirects {why}")]
    Redirect {
        /// The address that redirects.
        url: String,
        /// Where to, or how often.
        why: String,
    },
    /// The program `git` is missing.
    #[error("the program git is not installed: install it, or name a folder with --allow-local")]
    NoProgram,
    /// The server says no.
    #[error("cannot fetch {url}: {why}; check the address or access")]
    Denied {
        /// The address.
        url: String,
        /// What the server said.
        why: String,
    },
    /// The network or the server failed.
    #[error("cannot fetch {url}: {why}")]
    Network {
        /// The address.
        url: String,
        /// What failed.
        why: String,
    },
    /// More bytes than allowed.
    #[error("cannot fetch {url}: more than {mib} MiB were received")]
    TooLarge {
        /// The address.
        url: String,
        /// The limit in MiB.
        mib: u64,
    },
    /// Not done in time.
    #[error("cannot fetch {url}: not done within {seconds} s")]
    TooSlow {
        /// The address.
        url: String,
        /// The limit in seconds.
        seconds: u64,
    },
    /// The ref or folder is not there.
    #[error("{what} is not in the repository")]
    Missing {
        /// What was asked for.
        what: String,
    },
    /// The folder of this machine is not there, is none, or may not be read.
    #[error("{what}")]
    Folder {
        /// What is wrong with which.
        what: String,
    },
    /// A folder within one of this machine is not there.
    #[error("{what} is not in the repository")]
    Below {
        /// What was asked for.
        what: String,
    },
    /// This machine failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

impl FetchError {
    /// The class of the error, by which a caller decides what to do next.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Network { .. } | Self::TooSlow { .. } => Class::Transient,
            Self::Missing { .. } | Self::Folder { .. } | Self::Below { .. } => Class::NotFound,
            Self::Denied { .. } | Self::Private { .. } | Self::LocalName { .. } => Class::Denied,
            Self::Io { .. } => Class::Fatal,
            Self::Refused(_) | Self::Redirect { .. } | Self::Proxy { .. } | Self::NoProgram | Self::TooLarge { .. } => {
                Class::Invalid
            }
        }
    }

    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_and_what_to_do() {
        let url = || "https://h/x".to_owned();
        let all = [
            FetchError::Private { host: "h".into(), address: "10.0.0.1".into() },
            FetchError::Redirect { url: url(), why: "to something that is not an https URL".into() },
            FetchError::NoProgram,
            FetchError::Denied { url: url(), why: "404 Not Found".into() },
            FetchError::Network { url: url(), why: "connection refused".into() },
            FetchError::TooLarge { url: url(), mib: 200 },
            FetchError::TooSlow { url: url(), seconds: 120 },
            FetchError::Missing { what: "branch x".into() },
        ];
        let reported = all.iter().map(|error| format!("{}: {error}", error.class())).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(reported, @r"
        denied: h leads to 10.0.0.1, which is not a public address; see --allow-private-hosts
        invalid: https://h/x redirects to something that is not an https URL
        invalid: the program git is not installed: install it, or name a folder with --allow-local
        denied: cannot fetch https://h/x: 404 Not Found; check the address or access
        transient: cannot fetch https://h/x: connection refused
        invalid: cannot fetch https://h/x: more than 200 MiB were received
        transient: cannot fetch https://h/x: not done within 120 s
        not found: branch x is not in the repository
        ");
    }
}
