//! Stores of secrets (port `orlop_core::ports::secret`): files in a folder, or encrypted (*sealed*) in the fleet's store. Owns the
//! encryption; gives values only by the port.
//!
//! ```
//! use orlop_cloud::secret::DirectorySecrets;
//! use orlop_core::ports::secret::SecretStore;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! std::fs::create_dir(folder.path().join("physics"))?;
//! std::fs::write(folder.path().join("physics/db-password"), "hunter2")?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let secrets = DirectorySecrets::new(folder.path());
//! let value = secrets.resolve(&"physics".parse()?, "db-password").await?;
//! assert_eq!(value.expose(), b"hunter2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok(()) }
//! ```

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
