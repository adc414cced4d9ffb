//! Who calls and what they may: what a token was found to mean, its role, whose a new job is, and whose objects a request turned
//! out to be about.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use orlop_core::error::{Code, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{Session, SessionGrant};
use orlop_core::spec::job::JobSpec;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::bearer::TokenId;

/// Whose objects a token is good for; or whose an object is, such as a worker or a token, that tenants share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody's (`*`).
    All,
    /// Those of these tenants.
    Tenants(BTreeSet<TenantName>),
}

impl Scope {
    /// Of a stored list of names: none and `*` are all tenants. Of a name that is none nobody has heard: it is everybody's, so
    /// that only who may do anything has to do with it.
    #[must_use]
    pub fn of(names: &[String]) -> Self {
        let read: Result<BTreeSet<TenantName>, _> = names.iter().map(|name| name.parse()).collect();
        match read {
            Ok(tenants) if !tenants.is_empty() => Self::Tenants(tenants),
            _ => Self::All,
        }
    }
}

impl Scope {
    /// Of names as a token has them: `*` = all tenants. None where one is no name.
    #[must_use]
    pub fn read(names: &[String]) -> Option<Self> {
        if names.iter().any(|name| name == "*") {
            return Some(Self::All);
        }
        names.iter().map(|name| name.parse()).collect::<Result<_, _>>().ok().map(Self::Tenants)
    }

    /// The names as a token has them.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::All => vec!["*".to_owned()],
            Self::Tenants(tenants) => tenants.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<TenantName> for Scope {
    fn from(tenant: TenantName) -> Self {
        Self::Tenants(BTreeSet::from([tenant]))
    }
}

/// What somebody wants to do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Learn of it: enough that one of its tenants is the caller's.
    See,
    /// Make, change or remove it: all its tenants have to be the caller's.
    Change,
}

/// Somebody who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The token, for audit; absent for the client token.
    pub token: Option<TokenId>,
    /// What it may do.
    pub role: Role,
    /// To whose objects.
    pub scope: Scope,
    /// When the token or the session ends.
    pub expires_at: Option<Time>,
    /// The session of a browser through which it calls, by its id.
    pub session: Option<String>,
}

impl Caller {
    /// The caller with the client token: a person or a worker of this machine under the server's user. It may do anything.
    #[must_use]
    pub const fn local() -> Self {
        Self { token: None, role: Role::Admin, scope: Scope::All, expires_at: None, session: None }
    }

    /// What a session that it opens may do: as much as it may itself, or less.
    #[must_use]
    pub fn grant(&self, role: Role) -> SessionGrant {
        SessionGrant {
            token: self.token.as_ref().map(|token| token.as_str().to_owned()),
            role: role.as_str().to_owned(),
            tenants: self.scope.names(),
            token_expires_at: self.expires_at,
        }
    }

    /// The caller of a session; none where it cannot be read.
    #[must_use]
    pub fn of_session(session: &Session) -> Option<Self> {
        let grant = &session.grant;
        Some(Self {
            token: grant.token.clone().map(TokenId::of),
            role: Role::ALL.into_iter().find(|role| role.as_str() == grant.role)?,
            scope: Scope::read(&grant.tenants)?,
            expires_at: Some(session.expires_at),
            session: Some(session.id.clone()),
        })
    }

    /// Who it is, in audit and logs.
    #[must_use]
    pub fn name(&self) -> &str {
        self.token.as_ref().map_or("local", TokenId::as_str)
    }

    /// Whether it may do this with an object of these tenants, whatever its role. What it may not see is answered as if it were
    /// not there.
    #[must_use]
    pub fn may(&self, access: Access, whose: &Scope) -> bool {
        match (&self.scope, whose, access) {
            (Scope::All, _, _) | (Scope::Tenants(_), Scope::All, Access::See) => true,
            (Scope::Tenants(_), Scope::All, Access::Change) => false,
            (Scope::Tenants(own), Scope::Tenants(whose), Access::See) => !own.is_disjoint(whose),
            (Scope::Tenants(own), Scope::Tenants(whose), Access::Change) => whose.is_subset(own),
        }
    }

    /// Whether it may see and change a tenant's own objects.
    #[must_use]
    pub fn sees(&self, tenant: &TenantName) -> bool {
        self.may(Access::Change, &Scope::from(tenant.clone()))
    }

    /// The tenants whose objects a list may show; none = all.
    #[must_use]
    pub fn visible(&self) -> Option<Vec<TenantName>> {
        match &self.scope {
            Scope::All => None,
            Scope::Tenants(tenants) => Some(tenants.iter().cloned().collect()),
        }
    }

    /// Its only tenant, if it has one alone.
    #[must_use]
    pub fn only(&self) -> Option<TenantName> {
        match &self.scope {
            Scope::Tenants(tenants) if tenants.len() == 1 => tenants.first().cloned(),
            Scope::All | Scope::Tenants(_) => None,
        }
    }

    /// The tenant of something new: the one asked for; else the only one the caller has; else `default` where it may have
    /// any.
    #[must_use]
    pub fn tenant(&self, asked: Option<TenantName>, default: &TenantName) -> Option<TenantName> {
        match (&self.scope, asked) {
            (_, Some(asked)) => self.sees(&asked).then_some(asked),
            (Scope::All, None) => Some(default.clone()),
            (Scope::Tenants(tenants), None) => {
                let mut tenants = tenants.iter();
                let only = tenants.next()?;
                tenants.next().is_none().then(|| only.clone())
            }
        }
    }
}

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

/// Whose a job is, if the caller may submit it. `place` is where it stands in its request, empty if it is alone.
pub(crate) fn owner(caller: &Caller, default: &TenantName, place: &str, spec: &JobSpec) -> Result<TenantName, Problem> {
    let field = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    if spec.urgent && !caller.role.may(Role::Operator) {
        return Err(Problem::coded(Code::Forbidden, format!("{}: needs the role operator", field("urgent"))));
    }
    caller.tenant(spec.tenant.clone(), default).ok_or_else(|| match &spec.tenant {
        Some(tenant) => {
            let text = format!("{}: this token is not valid for tenant `{tenant}`", field("tenant"));
            Problem::coded(Code::Forbidden, text)
        }
        None => {
            let message = "is missing; this token is valid for several tenants, so name one".to_owned();
            Problem::field(field("tenant"), message)
        }
    })
}

/// Whose objects a request turned out to be about: reported by who decides it, read by the audit trail and by the layer that lets
/// no answer out about which nobody decided. Shared by everybody who has to do with one request.
#[derive(Clone, Debug, Default)]
pub struct Concern(Arc<ConcernState>);

#[derive(Debug, Default)]
struct ConcernState {
    whose: Mutex<Whose>,
    decided: AtomicBool,
}

#[derive(Debug, Default)]
enum Whose {
    #[default]
    Nobody,
    One(TenantName),
    Several,
}

impl Concern {
    /// The request is about this tenant's objects, whether its caller may see them or not.
    pub fn is(&self, tenant: &TenantName) {
        self.decide();
        let mut whose = self.0.whose.lock().unwrap_or_else(PoisonError::into_inner);
        match &*whose {
            Whose::Nobody => *whose = Whose::One(tenant.clone()),
            Whose::One(known) if known != tenant => *whose = Whose::Several,
            Whose::One(_) | Whose::Several => {}
        }
    }

    /// Somebody compared the caller's tenants with those of what the request is about.
    pub fn decide(&self) {
        self.0.decided.store(true, Ordering::Relaxed);
    }

    /// Whether that was done.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.0.decided.load(Ordering::Relaxed)
    }

    /// The tenant it is about, if it is about one.
    #[must_use]
    pub fn tenant(&self) -> Option<TenantName> {
        match &*self.0.whose.lock().unwrap_or_else(PoisonError::into_inner) {
            Whose::One(tenant) => Some(tenant.clone()),
            Whose::Nobody | Whose::Several => None,
        }
    }

    /// Whether nobody has said so far whose it is.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(&*self.0.whose.lock().unwrap_or_else(PoisonError::into_inner), Whose::Nobody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TenantName {
        text.parse().unwrap()
    }

    fn with(tenants: &[&str]) -> Caller {
        let scope = Scope::Tenants(tenants.iter().map(|text| name(text)).collect());
        Caller { role: Role::Submitter, scope, ..Caller::local() }
    }

    #[test]
    fn the_tenant_of_a_job_is_the_callers_only_one_unless_it_says_which() {
        let default = name("default");
        assert_eq!(with(&["a"]).tenant(None, &default), Some(name("a")));
        assert_eq!(with(&["a", "b"]).tenant(None, &default), None);
        assert_eq!(with(&["a", "b"]).tenant(Some(name("b")), &default), Some(name("b")));
        assert_eq!(with(&["a"]).tenant(Some(name("b")), &default), None);
        assert_eq!(with(&[]).tenant(None, &default), None);
        assert_eq!(Caller::local().tenant(None, &default), Some(default));
    }

    #[test]
    fn what_tenants_share_is_seen_by_each_and_changed_by_who_has_all_of_them() {
        let shared = |names: &[&str]| Scope::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let table = [
            (&[][..], &["a"][..], true, false),
            (&["*"], &["a"], true, false),
            (&["not a name"], &["a"], true, false),
            (&["a"], &["a"], true, true),
            (&["a"], &["b"], false, false),
            (&["a", "b"], &["a"], true, false),
            (&["a", "b"], &["a", "b", "c"], true, true),
            (&["a"], &[], false, false),
        ];
        for (whose, own, sees, changes) in table {
            let (caller, whose) = (with(own), shared(whose));
            assert_eq!(caller.may(Access::See, &whose), sees, "{own:?} sees {whose:?}");
            assert_eq!(caller.may(Access::Change, &whose), changes, "{own:?} changes {whose:?}");
            assert!(Caller::local().may(Access::Change, &whose));
        }
    }

    #[test]
    fn a_caller_sees_its_own_tenants_only() {
        assert!(with(&["a"]).sees(&name("a")) && !with(&["a"]).sees(&name("b")));
        assert!(Caller::local().sees(&name("b")));
        assert_eq!((with(&["a"]).visible(), Caller::local().visible()), (Some(vec![name("a")]), None));
    }

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
