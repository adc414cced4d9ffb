//! Whose a new job is.

use orlop_core::error::{Code, Problem};
use orlop_core::id::TenantName;
use orlop_core::spec::job::JobSpec;

use super::caller::Caller;
use super::role::Role;

/// Whose a job is, if the caller may submit it. `place` is where it stands in its request, empty if it is alone.
pub(crate) fn owner(caller: &Caller, default: &TenantName, place: &str, spec: &JobSpec) -> Result<TenantName, Problem> {
    let field = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    if spec.urgent && !caller.role.may(Role::Operator) {
        return Err(Problem::coded(Code::Forbidden, format!("{}: needs the role operator", field("urgent"))));
    }
    caller.tenant(spec.tenant.clone(), default).ok_or_else(|| match &spec.tenant {
        Some(tenant) => {
            let text = format!("{}: this token is not good for tenant `{tenant}`", field("tenant"));
            Problem::coded(Code::Forbidden, text)
        }
        None => {
            let message = "is missing; this token is good for several tenants, so say whose it is".to_owned();
            Problem::field(field("tenant"), message)
        }
    })
}
