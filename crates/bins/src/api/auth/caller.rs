//! Who calls: what a token was found to mean. Owns the decisions about tenants.

use std::collections::BTreeSet;

use orlop_core::id::TenantName;

use super::role::Role;
use super::token::TokenId;

/// Whose objects a token is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody's (`*`).
    All,
    /// Those of these tenants.
    Tenants(BTreeSet<TenantName>),
}

/// Somebody who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The token, for audit; absent on a server without tokens, which only this machine reaches.
    pub token: Option<TokenId>,
    /// What it may do.
    pub role: Role,
    /// To whose objects.
    pub scope: Scope,
}

impl Caller {
    /// Whoever reaches a server without tokens: somebody on this machine, who may do anything.
    #[must_use]
    pub const fn local() -> Self {
        Self { token: None, role: Role::Admin, scope: Scope::All }
    }

    /// Who it is, in audit and logs.
    #[must_use]
    pub fn name(&self) -> &str {
        self.token.as_ref().map_or("local", TokenId::as_str)
    }

    /// Whether it may see a tenant's objects. What it may not see is answered as if it were not there.
    #[must_use]
    pub fn sees(&self, tenant: &TenantName) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Tenants(tenants) => tenants.contains(tenant),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TenantName {
        text.parse().unwrap()
    }

    fn with(tenants: &[&str]) -> Caller {
        let scope = Scope::Tenants(tenants.iter().map(|text| name(text)).collect());
        Caller { token: None, role: Role::Submitter, scope }
    }

    #[test]
    fn s1_1_the_tenant_of_a_job_is_the_callers_only_one_unless_it_says_which() {
        let default = name("default");
        assert_eq!(with(&["a"]).tenant(None, &default), Some(name("a")));
        assert_eq!(with(&["a", "b"]).tenant(None, &default), None);
        assert_eq!(with(&["a", "b"]).tenant(Some(name("b")), &default), Some(name("b")));
        assert_eq!(with(&["a"]).tenant(Some(name("b")), &default), None);
        assert_eq!(with(&[]).tenant(None, &default), None);
        assert_eq!(Caller::local().tenant(None, &default), Some(default));
    }

    #[test]
    fn s5_5_a_caller_sees_its_own_tenants_only() {
        assert!(with(&["a"]).sees(&name("a")) && !with(&["a"]).sees(&name("b")));
        assert!(Caller::local().sees(&name("b")));
        assert_eq!((with(&["a"]).visible(), Caller::local().visible()), (Some(vec![name("a")]), None));
    }
}
