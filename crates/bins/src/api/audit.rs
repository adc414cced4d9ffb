//! The audit trail of the interface: every write and every refusal. Owns a bounded queue and the task that writes it down;
//! who waits for nothing else never waits for it, unless the queue is full.

use orlop_core::ports::fleet_store::{AuditEntry, Record, Turn};
use tokio::sync::mpsc;

use crate::host::scheduler::{Handle, Status};

/// Entries that wait at most.
const WAITING: usize = 4096;
/// Entries of one commit at most.
const TOGETHER: usize = 512;

/// Where entries go.
#[derive(Debug)]
pub(super) struct Audit(mpsc::Sender<AuditEntry>);

impl Audit {
    /// Starts the task. It ends with the last sender.
    pub(super) fn start(handle: Handle) -> Self {
        let (sender, mut entries) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut batch = Vec::new();
            while entries.recv_many(&mut batch, TOGETHER).await > 0 {
                write(&handle, std::mem::take(&mut batch)).await;
            }
        });
        Self(sender)
    }

    /// Hands an entry over.
    pub(super) async fn add(&self, entry: AuditEntry) {
        if self.0.send(entry).await.is_err() {
            tracing::error!(target: "orlop::audit", "the audit trail has ended");
        }
    }
}

/// Writes entries down. What cannot be written is told in the log, so that it is somewhere.
async fn write(handle: &Handle, entries: Vec<AuditEntry>) {
    let Status::Leading { epoch } = handle.status() else {
        tell(&entries, "this server does not lead");
        return;
    };
    let records = entries.iter().cloned().map(|entry| Record::Audit(Box::new(entry))).collect();
    if let Err(error) = handle.store().commit(epoch, vec![Turn::new(records)]).await {
        tell(&entries, &error.chain());
    }
}

fn tell(entries: &[AuditEntry], why: &str) {
    for AuditEntry { actor, action, target, outcome, .. } in entries {
        tracing::warn!(target: "orlop::audit", actor, %action, target, %outcome, why, "not in the audit trail");
    }
}
