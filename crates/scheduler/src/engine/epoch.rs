//! Epochs: every server that takes leadership issues tokens under its own. Owns the current epoch.

use orlop_core::id::{Epoch, JobId};

use super::Scheduler;

impl Scheduler {
    /// The epoch under which tokens are issued.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epochs.last().copied().unwrap_or_default()
    }

    /// Issues tokens under this epoch from now on; one that is not greater than the current one changes nothing.
    pub fn lead(&mut self, epoch: Epoch) {
        if epoch > self.epoch() {
            self.epochs.push(epoch);
            self.raise_revision(epoch);
        }
    }

    /// Revisions of an epoch are above those of every earlier one, whatever was forgotten since.
    pub(super) fn raise_revision(&mut self, epoch: Epoch) {
        self.revision = self.revision.max(epoch.min(JobId::MAX_EPOCH).0 << 40);
    }
}
