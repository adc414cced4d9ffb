//! Stores behind the port of secrets: sealed in the fleet's store, or files in a folder. Owns sealing; hands values to nobody
//! but who asks by the port.

mod directory;
mod key;
mod sealed;

pub use self::directory::DirectorySecrets;
pub use self::key::SealingKey;
pub use self::sealed::SealedSecrets;

use orlop_core::error::{Class, Problem};
use orlop_core::id::TenantName;

fn unknown(tenant: &TenantName, name: &str) -> Problem {
    Problem::new(Class::NotFound, format!("tenant `{tenant}` has no secret `{name}`; store it first"))
}
