//! Whose objects a request turned out to be about: reported by who decides it, read by the audit trail and by the layer that lets
//! no answer out about which nobody decided.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use orlop_core::id::TenantName;

/// Shared by everybody who has to do with one request.
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
