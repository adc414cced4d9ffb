//! Real services, where some are, and what an administrator sees in them: for tests that have to show that nothing is left.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::openstack::client::{HttpTransport, Session, SystemClock, open};
use crate::openstack::credentials::{Settings, read_assignments, resolve};
use crate::openstack::port::{Cloud, CloudError};
use crate::openstack::wire::{Lost, Response, Sent, Transport};

/// The real services whose folder `ORLOP_TEST_OPENSTACK` names, for one test at a time.
#[derive(Debug)]
pub struct RealServices {
    folder: PathBuf,
    /// Locked while this test has its turn, whatever process the others run in.
    _turn: File,
}

impl RealServices {
    /// The services, once no other test works on them; nothing where there are none. Blocks.
    ///
    /// # Errors
    /// Their folder cannot be used.
    pub fn find() -> std::io::Result<Option<Self>> {
        let Some(folder) = std::env::var_os("ORLOP_TEST_OPENSTACK").filter(|folder| !folder.is_empty()) else {
            return Ok(None);
        };
        let folder = PathBuf::from(folder);
        let turn = File::create(folder.join("orlop-test.lock"))?;
        turn.lock()?;
        Ok(Some(Self { folder, _turn: turn }))
    }

    /// The file of `OS_*` assignments of somebody: `tester`, `appcred`, `appcred-restricted` or `admin`.
    #[must_use]
    pub fn openrc(&self, who: &str) -> PathBuf {
        self.folder.join(format!("openrc-{who}.sh"))
    }

    /// A session as somebody, on a way that `wrap` may change.
    ///
    /// # Errors
    /// The assignments cannot be read or are not enough, in words.
    pub fn open(
        &self,
        who: &str,
        wrap: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>,
    ) -> Result<(Cloud, Arc<Session>), String> {
        let path = self.openrc(who);
        let at = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| at(&path, &error))?;
        let settings = Settings::of(read_assignments(&text).values);
        let credentials = resolve(&settings).map_err(|error| at(&path, &error))?;
        let transport = HttpTransport::new(None).map_err(|error| at(&path, &error))?;
        Ok(open(credentials, wrap(Arc::new(transport)), Arc::new(SystemClock)))
    }
}

/// A way that asks for what all projects have, which an administrator may.
struct Everybody {
    inner: Arc<dyn Transport>,
    /// Whose keys are asked for: they belong to users.
    user: String,
}

#[async_trait]
impl Transport for Everybody {
    async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
        let more = match sent.request.path.split('?').next() {
            Some("/servers/detail") => "all_tenants=1".to_owned(),
            Some(path) if path.starts_with("/os-keypairs") => format!("user_id={}", self.user),
            _ => return self.inner.send(sent).await,
        };
        let mut sent = sent.clone();
        sent.url = format!("{}{}{more}", sent.url, if sent.url.contains('?') { '&' } else { '?' });
        self.inner.send(&sent).await
    }
}

/// What an administrator sees of all projects, and who made things here.
pub struct Census {
    admin: Cloud,
    before: BTreeSet<String>,
}

impl std::fmt::Debug for Census {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Census").field("before", &self.before).finish_non_exhaustive()
    }
}

impl Census {
    /// What there is before a test makes anything.
    ///
    /// # Errors
    /// The services cannot be asked, in words.
    pub async fn take(services: &RealServices) -> Result<Self, String> {
        let (tester, _) = services.open("tester", |transport| transport)?;
        let user = tester.identity.authenticate().await.map_err(|error| error.to_string())?.user_id;
        let (admin, _) = services.open("admin", |inner| Arc::new(Everybody { inner, user }))?;
        let before = everything(&admin).await.map_err(|error| error.to_string())?;
        Ok(Self { admin, before })
    }

    /// What there is now, in any project, that was not there before.
    ///
    /// # Errors
    /// The services cannot be asked.
    pub async fn more(&self) -> Result<Vec<String>, CloudError> {
        Ok(everything(&self.admin).await?.difference(&self.before).cloned().collect())
    }

    /// Whether the tester has a key of a name.
    ///
    /// # Errors
    /// The services cannot be asked.
    pub async fn has_key(&self, name: &str) -> Result<bool, CloudError> {
        match self.admin.compute.keypair(name).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_gone() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Everything that costs, of all projects.
async fn everything(admin: &Cloud) -> Result<BTreeSet<String>, CloudError> {
    let servers = admin.compute.servers(None).await?;
    let leases = admin.reservations.leases().await?;
    let addresses = admin.network.floating_ips().await?;
    let groups = admin.network.security_groups().await?;
    let servers = servers.iter().map(|server| format!("server {} {}", server.name, server.id));
    let leases = leases.iter().map(|lease| format!("lease {} {}", lease.name, lease.id));
    let addresses = addresses.iter().map(|ip| format!("address {} {}", ip.address, ip.id));
    // The service makes one of this name for each project that it hears of for the first time, and none other can have it.
    let groups = groups.iter().filter(|group| group.name != "default");
    let groups = groups.map(|group| format!("group {} {}", group.name, group.id));
    Ok(servers.chain(leases).chain(addresses).chain(groups).collect())
}
