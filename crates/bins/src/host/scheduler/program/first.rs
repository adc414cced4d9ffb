//! The first token of a fleet, an administrator's, in a file: for machines that set others up. It is
//! in no log.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ring::rand::SystemRandom;

use super::super::Status;
use crate::api::Api;
use crate::api::auth::Bearer;

/// Between two tries.
const AGAIN: Duration = Duration::from_secs(5);

/// Waits until this server leads; then, if there is no token yet, takes the one in the file, or makes one and writes it
/// there.
pub(super) async fn token(api: Arc<Api>, path: std::path::PathBuf) {
    let mut changes = api.handle().status_changes();
    loop {
        if matches!(&*changes.borrow_and_update(), Status::Leading { .. }) {
            match provide(&api, &path).await {
                Ok(()) => return,
                Err(error) => {
                    let path = path.display();
                    tracing::error!(target: "orlop::scheduler", %path, error, "there is no first token; retrying");
                }
            }
        }
        if let Ok(Err(_)) = tokio::time::timeout(AGAIN, changes.changed()).await {
            return;
        }
    }
}

async fn provide(api: &Api, path: &Path) -> Result<(), String> {
    if api.has_tokens().await.map_err(|problem| problem.to_string())? {
        return Ok(());
    }
    let bearer = match std::fs::read_to_string(path) {
        Ok(text) => Bearer::parse(text.trim()).map_err(|error| error.to_string())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let made = Bearer::generate(&SystemRandom::new()).map_err(|error| error.to_string())?;
            write(path, &made).map_err(|error| error.to_string())?;
            made
        }
        Err(error) => return Err(error.to_string()),
    };
    api.make_first_token(&bearer).await.map_err(|problem| problem.to_string())?;
    tracing::info!(target: "orlop::scheduler", token = %bearer.id(), path = %path.display(), "made the first token");
    Ok(())
}

/// Written and on disk before it is good for anything.
fn write(path: &Path, bearer: &Bearer) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bearer.reveal().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
