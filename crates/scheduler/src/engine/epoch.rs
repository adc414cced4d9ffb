//! Epochs: every server that takes leadership issues tokens under its own. Owns the current epoch.

use orlop_core::id::Epoch;

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
        }
    }
}
