//! Why there is no plan, and with which exit code a program says so.

use crate::catalog::fit::Misfit;
use crate::exit::Exit;

/// No plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A site nobody knows.
    #[error("site `{name}` is unknown; there are: {known}")]
    UnknownSite {
        /// As given.
        name: String,
        /// All that are known.
        known: String,
    },
    /// The site for containers.
    #[error("CHI@Edge has containers and no servers to lease; choose another site")]
    Edge,
    /// A type nobody knows.
    #[error("node type `{name}` is unknown; there are: {known}")]
    UnknownType {
        /// As given.
        name: String,
        /// All that are known at the sites.
        known: String,
    },
    /// A type that only a site has at which is not planned.
    #[error("node type `{name}` is not at {here}; {name} is at {site}: name that site first, or add --fallback sites")]
    TypeElsewhere {
        /// As given.
        name: String,
        /// Where it was looked for.
        here: String,
        /// Where it is.
        site: String,
    },
    /// A site whose flavors cannot be seen.
    #[error("no flavor of virtual machines is known at {site}: it needs credentials for a site that has them")]
    NoFlavors {
        /// Where.
        site: String,
    },
    /// Hosts without a lease.
    #[error(
        "--reservation none is for virtual machines, hosts are available with a lease only: give --kind vm, or leave \
         it out"
    )]
    Unleased,
    /// A cap on something that nothing ends.
    #[error("--max-lifetime cannot be held with --reservation none: without a lease nothing ends the server")]
    Unenforceable,
    /// A duration beyond any lease.
    #[error("a lease of {hours} h is not possible; give 1 to 168")]
    Duration {
        /// As given.
        hours: u32,
    },
    /// A duration beyond the user's own cap.
    #[error("a lease of {hours} h is longer than --max-lifetime of {most} h")]
    Lifetime {
        /// As given.
        hours: u32,
        /// The cap.
        most: u32,
    },
    /// Nothing fits.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// No host at all.
    #[error("nothing can ever fit at {site}: it lists no host that can be reserved; try another --site")]
    NoHosts {
        /// Where.
        site: String,
    },
    /// Hosts that only the site knows.
    #[error("{}the hosts of {site} are hidden by the site: name them with --catalog-file{}", if *.looked { "no virtual machine fits, and " } else { "" }, if *.looked { "" } else { ", or take a virtual machine with --kind vm" })]
    HiddenHosts {
        /// Where.
        site: String,
        /// Whether its virtual machines were looked through.
        looked: bool,
    },
    /// Everything that fits is taken.
    #[error("no free {types} at {site}{}; try --fallback, --start-within, --wait-for-capacity or another --site", until.as_ref().map_or(String::new(), |until| format!(" until {until}")))]
    Taken {
        /// What fits.
        types: String,
        /// Where.
        site: String,
        /// The first free start, if one is seen.
        until: Option<String>,
    },
    /// Over the user's budget.
    #[error("the estimate of {estimate} is over --max-su {max_su}; choose a shorter lease or another type")]
    Budget {
        /// What it would cost.
        estimate: String,
        /// The budget.
        max_su: u64,
    },
    /// A named image that is not there.
    #[error("image `{name}` is not available at {site}; there are: {known}")]
    UnknownImage {
        /// As given.
        name: String,
        /// Where.
        site: String,
        /// Some that are there.
        known: String,
    },
    /// A named image that needs more disk than a machine has.
    #[error(
        "image `{name}` needs a disk of {least} GB, and {node_type} at {site} has {most} GB; choose another --image"
    )]
    LargeImage {
        /// As given.
        name: String,
        /// What it needs, in GB.
        least: u64,
        /// The type of the machine.
        node_type: String,
        /// Where.
        site: String,
        /// What the machine has, in GB.
        most: u32,
    },
    /// No image.
    #[error("no image {wanted} that fits the host at {site}; choose one with --image or --os")]
    NoImage {
        /// What was looked for.
        wanted: String,
        /// Where.
        site: String,
    },
}

impl PlanError {
    /// The exit code of a program.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::UnknownSite { .. }
            | Self::Edge
            | Self::UnknownType { .. }
            | Self::TypeElsewhere { .. }
            | Self::Duration { .. }
            | Self::NoFlavors { .. }
            | Self::Unleased
            | Self::Unenforceable
            | Self::UnknownImage { .. }
            | Self::LargeImage { .. }
            | Self::NoImage { .. } => Exit::Usage,
            Self::Misfit(_)
            | Self::NoHosts { .. }
            | Self::HiddenHosts { .. }
            | Self::Taken { .. }
            | Self::Budget { .. } => Exit::Quota,
            Self::Lifetime { .. } => Exit::Denied,
        }
    }

    /// A word for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Misfit(_) | Self::NoHosts { .. } => "nothing_fits",
            Self::UnknownType { .. } => "unknown_type",
            Self::HiddenHosts { .. } => "hosts_hidden",
            Self::Taken { .. } => "no_capacity",
            Self::Budget { .. } => "budget",
            Self::Lifetime { .. } => "policy",
            _ => "usage",
        }
    }

    /// Whether another offering may do all the same.
    pub(super) const fn is_of_one_offering(&self) -> bool {
        matches!(self, Self::Budget { .. } | Self::NoImage { .. } | Self::LargeImage { .. })
    }
}
