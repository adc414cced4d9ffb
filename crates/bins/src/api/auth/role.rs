//! Roles: what a token may be used for.

use serde::{Deserialize, Serialize};

/// What the bearer of a token may do. The first four nest: each may do all that the ones before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees the jobs, flows and workers of its tenants.
    Viewer,
    /// Also submits, cancels and retries.
    Submitter,
    /// Also drains workers, approves, writes secrets.
    Operator,
    /// Also tenants, quotas and tokens.
    Admin,
    /// A worker: its own session and the artifacts of its own attempts, nothing else.
    Worker,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Submitter, Self::Operator, Self::Admin, Self::Worker];

    /// Whether this role may do what needs `needed`.
    #[must_use]
    pub fn may(self, needed: Self) -> bool {
        let level = |role: Self| match role {
            Self::Viewer => Some(0),
            Self::Submitter => Some(1),
            Self::Operator => Some(2),
            Self::Admin => Some(3),
            Self::Worker => None,
        };
        match (level(self), level(needed)) {
            (Some(has), Some(needs)) => has >= needs,
            (None, None) => true,
            _ => false,
        }
    }

    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Worker => "worker",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_nest_and_worker_stands_apart() {
        let table: Vec<_> = Role::ALL
            .iter()
            .map(|has| {
                let may = Role::ALL.iter().filter(|needed| has.may(**needed)).map(|role| role.as_str());
                format!("{}: {}", has.as_str(), may.collect::<Vec<_>>().join(" "))
            })
            .collect();
        insta::assert_snapshot!(table.join("\n"), @r"
        viewer: viewer
        submitter: viewer submitter
        operator: viewer submitter operator
        admin: viewer submitter operator admin
        worker: worker
        ");
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
    }
}
