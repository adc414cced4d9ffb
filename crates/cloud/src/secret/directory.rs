//! Secrets as files of a folder: `<tenant>/<name>` (port [`SecretStore`]). Owns opening them beneath that folder; writes none.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use orlop_core::error::{Class, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::secret::{MAX_SECRET, SecretStore, SecretValue, check_secret_name};

use super::unknown;

/// Secrets as files of a folder. Links are not followed, so that none leads out of it.
#[derive(Clone, Debug)]
pub struct DirectorySecrets {
    root: PathBuf,
}

impl DirectorySecrets {
    /// The secrets below a folder.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

/// Opens a file step by step, each beneath the one before.
fn open(root: &Path, tenant: &str, name: &str) -> io::Result<File> {
    let folder = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(root, folder, Mode::empty())?;
    let tenant = nix::fcntl::openat(&root, tenant, folder | OFlag::O_NOFOLLOW, Mode::empty())?;
    // Not to wait for a writer where somebody put a pipe.
    let file = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    Ok(File::from(nix::fcntl::openat(&tenant, name, file, Mode::empty())?))
}

fn read(root: &Path, tenant: &TenantName, name: &str) -> Result<SecretValue, Problem> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => unknown(tenant, name),
        kind => {
            let class = match error.raw_os_error() {
                Some(code) if code == nix::errno::Errno::ELOOP as i32 => Class::Denied,
                _ => Problem::from(io::Error::from(kind)).class,
            };
            Problem::new(class, format!("secret `{name}` of tenant `{tenant}` cannot be read")).because(error)
        }
    };
    let file = open(root, tenant.as_str(), name).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Problem::new(Class::Denied, format!("secret `{name}` of tenant `{tenant}` is not a file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_SECRET as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_SECRET {
        let message = format!("secret `{name}` of tenant `{tenant}` has more than {MAX_SECRET} bytes");
        return Err(Problem::new(Class::Invalid, message));
    }
    Ok(SecretValue::new(bytes))
}

fn list(root: &Path, tenant: &TenantName) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = match std::fs::read_dir(root.join(tenant.as_str())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().filter(|name| check_secret_name(name).is_ok());
        if entry.file_type()?.is_file() {
            names.extend(name);
        }
    }
    names.sort();
    Ok(names)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Problem> + Send + 'static) -> Result<T, Problem> {
    let ended = |error| Problem::new(Class::Transient, "reading a secret was aborted").because(error);
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}

#[async_trait]
impl SecretStore for DirectorySecrets {
    async fn resolve(&self, tenant: &TenantName, name: &str) -> Result<SecretValue, Problem> {
        check_secret_name(name)?;
        let (root, tenant, name) = (self.root.clone(), tenant.clone(), name.to_owned());
        blocking(move || read(&root, &tenant, &name)).await
    }

    async fn names(&self, tenant: &TenantName) -> Result<Vec<String>, Problem> {
        let (root, tenant) = (self.root.clone(), tenant.clone());
        blocking(move || list(&root, &tenant).map_err(Problem::from)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_secrets_and_links_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let tenant = folder.path().join("t");
        std::fs::create_dir(&tenant).unwrap();
        std::fs::write(tenant.join("db"), b"hush\n\x00\xff").unwrap();
        std::fs::write(folder.path().join("outside"), b"no").unwrap();
        std::os::unix::fs::symlink("../outside", tenant.join("link")).unwrap();
        std::os::unix::fs::symlink("t", folder.path().join("u")).unwrap();
        std::fs::create_dir(tenant.join("folder")).unwrap();
        std::fs::write(tenant.join("long"), vec![0; MAX_SECRET + 1]).unwrap();
        let secrets = DirectorySecrets::new(folder.path());
        let (t, u): (TenantName, TenantName) = ("t".parse().unwrap(), "u".parse().unwrap());
        assert_eq!(secrets.resolve(&t, "db").await.unwrap().expose(), b"hush\n\x00\xff");
        assert_eq!(secrets.names(&t).await.unwrap(), ["db", "long"]);
        let class = async |tenant: &TenantName, name: &str| secrets.resolve(tenant, name).await.unwrap_err().class;
        assert_eq!(class(&t, "none").await, Class::NotFound);
        assert_eq!(class(&t, "link").await, Class::Denied);
        assert_eq!(class(&t, "folder").await, Class::Denied);
        assert_eq!(class(&t, "long").await, Class::Invalid);
        assert_eq!(class(&t, "../outside").await, Class::Invalid);
        assert!(secrets.resolve(&u, "db").await.is_err(), "a tenant's folder is no link");
        assert_eq!(secrets.names(&"nobody".parse().unwrap()).await.unwrap(), Vec::<String>::new());
    }
}
