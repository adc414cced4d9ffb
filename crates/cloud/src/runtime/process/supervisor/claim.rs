//! Claiming a pod. Owns the order of things before the claim (all that can fail) and after it (only what leads to a record of the
//! end); never runs anything for a pod that another supervisor has or had.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::pod::{Parts, Pod};
use crate::clock::{self, now};
use crate::runtime::logs::capture::{self, Capture};
use crate::runtime::logs::{Masker, read_secrets};
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::failure::{During, Failure};
use crate::runtime::process::identity::{self, Identity};
use crate::runtime::process::record::{Claim, Directory, LockRegion};
use crate::runtime::process::request;
use crate::runtime::process::wire::{KeepOrder, Variable};

/// Claims the pod's directory; none when there is a claim already.
pub(super) fn claim(order: KeepOrder) -> Result<Option<(Pod, Identity)>, Failure> {
    clock::begin(order.now);
    let directory = Directory::new(&order.directory);
    let locks = directory.locks()?;
    locks.take(LockRegion::Claiming)?;
    if directory.claim()?.is_some() || directory.exit()?.is_some() {
        return Ok(None);
    }
    locks.take(LockRegion::Life)?;
    let own = Identity::own().during(|| "reading `/proc/self/stat`".to_owned())?;
    let boot = identity::boot().during(|| "reading the boot of this machine".to_owned())?;
    let token = token(&order, own, &boot);
    let reserved = directory.reserve_exit()?;
    let layout = Some(directory.reserve_layout()?);
    request::prepare(&directory)?;
    let masker = Arc::new(Masker::with_encodings(secrets(&order)?));
    let open = |path: &PathBuf| capture::open(path).during(|| format!("opening the log `{}`", path.display()));
    let stdout = Capture::new(Arc::clone(&masker), open(&order.stdout)?);
    let stderr = Capture::new(Arc::clone(&masker), open(&order.stderr)?);
    let cgroup = order.cgroup_parent.as_deref().map(|parent| Cgroup::path(parent, &token));
    let inode = Some(directory.inode()?);
    let claim = Claim { key: Some(order.key.clone()), supervisor: Some(own), boot, token, cgroup, at: now(), inode };
    let view = make_view(&directory, &claim.token)?;
    let life = directory.begin_life()?;
    locks.make_room().during(|| "keeping room for the process of a container".to_owned())?;
    if let Err(failure) = directory.make_claim(&claim).and_then(|()| locks.release(LockRegion::Claiming)) {
        // What stays is garbage in the pod's directory; the failure that led here counts.
        drop(fs::remove_dir_all(&view));
        return Err(failure);
    }
    let (token, cgroup) = (claim.token, claim.cgroup.map(Cgroup::at));
    let parts = Parts { order, directory, locks, life, reserved, layout, view, token, cgroup, masker, stdout, stderr };
    let mut pod = Pod::new(parts);
    pod.make_group();
    Ok(Some((pod, own)))
}

/// A name that no other pod of this machine has or had, and nobody takes for anything else.
fn token(order: &KeepOrder, own: Identity, boot: &str) -> String {
    let text = format!("{}\n{}\n{own}\n{boot}\n{}", order.key, order.directory.display(), now().millis());
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the places that the pod's containers see as their own; all of it or nothing.
fn make_view(directory: &Directory, token: &str) -> Result<PathBuf, Failure> {
    let view = directory.join(&format!("view-{token}"));
    let make = || -> io::Result<()> {
        for name in ["top", "tmp"] {
            fs::create_dir_all(view.join(name))?;
        }
        // Whatever the umask of the host: programs may run as any user.
        fs::set_permissions(view.join("top"), fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(view.join("tmp"), fs::Permissions::from_mode(0o1777))
    };
    let made = make();
    if made.is_err() {
        drop(fs::remove_dir_all(&view));
    }
    made.during(|| format!("making `{}`", view.display())).map(|()| view)
}

/// What containers see of secrets, in their environment and in files.
fn secrets(order: &KeepOrder) -> Result<Vec<String>, Failure> {
    let variables = order.init.iter().chain([&order.main]).flat_map(|container| &container.env);
    let secret = |variable: &&Variable| variable.secret;
    let mut secrets =
        read_secrets(&order.secret_files).during(|| "reading the secrets of the pod's volumes".to_owned())?;
    secrets.extend(variables.filter(secret).map(|variable| variable.value.clone()));
    Ok(secrets)
}
