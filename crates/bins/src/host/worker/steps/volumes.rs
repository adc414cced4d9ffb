//! Claims of flows on a worker: a directory for each flow, which steps mark as used.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder of claims below that of a namespace.
const VOLUMES: &str = "volumes";
/// How often a step that runs marks its claims, and an agent looks for old ones.
const OFTEN: Duration = Duration::from_secs(3600);

/// Where the claims of a flow are.
pub(super) fn of(namespace: &Path, flow: &str) -> PathBuf {
    namespace.join(VOLUMES).join(flow)
}

/// Marks the claims of a flow as used, as long as this is waited for.
pub(super) async fn use_them(volumes: &Path) -> Infallible {
    loop {
        if let Err(error) = mark(volumes, SystemTime::now()) {
            tracing::warn!(volumes = %volumes.display(), %error, "claims cannot be marked as used");
        }
        tokio::time::sleep(OFTEN).await;
    }
}

fn mark(volumes: &Path, now: SystemTime) -> io::Result<()> {
    File::open(volumes)?.set_modified(now)
}

/// Removes claims below the directory of flows that no step has used for so long, now and from time to time.
pub(in crate::host::worker) async fn remove_unused(flows: PathBuf, unused: Duration) {
    loop {
        let folder = flows.clone();
        let swept = tokio::task::spawn_blocking(move || sweep(&folder, unused, SystemTime::now())).await;
        match swept {
            Ok(Ok(0)) => {}
            Ok(Ok(count)) => tracing::info!(count, "removed claims of flows that no step has used for long"),
            Ok(Err(error)) => tracing::warn!(%error, "old claims of flows cannot be removed"),
            Err(error) => tracing::error!(%error, "the sweep of claims was interrupted"),
        }
        tokio::time::sleep(OFTEN).await;
    }
}

fn sweep(flows: &Path, unused: Duration, now: SystemTime) -> io::Result<usize> {
    let mut count = 0;
    for namespace in folders(flows)? {
        for volumes in folders(&namespace.join(VOLUMES))? {
            let used = fs::symlink_metadata(&volumes)?.modified()?;
            if now.duration_since(used).is_ok_and(|age| age >= unused) {
                fs::remove_dir_all(&volumes)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// The folders in a folder, links left out; none when it is not there.
fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_no_step_has_used_for_long_go() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = dir.path().join("default");
        let (old, new) = (of(&namespace, "old"), of(&namespace, "new"));
        for volumes in [&old, &new] {
            fs::create_dir_all(volumes.join("f-data")).unwrap();
            fs::write(volumes.join("f-data/x"), "x").unwrap();
        }
        let (now, month) = (SystemTime::now(), Duration::from_secs(30 * 86_400));
        mark(&old, now - month).unwrap();
        mark(&new, now - month + OFTEN).unwrap();
        assert_eq!(sweep(dir.path(), month, now).unwrap(), 1);
        assert!(!old.exists() && new.join("f-data/x").is_file());
        assert_eq!(sweep(&dir.path().join("nothing"), month, now).unwrap(), 0);
    }
}
