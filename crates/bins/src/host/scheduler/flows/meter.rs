//! What stands of the flows that this server drives, counted when it is asked for.

use super::Flows;
use crate::telemetry::metrics::Tally;

impl Flows {
    /// Counts the flows that are driven here, with their steps.
    #[must_use]
    pub fn standing(&self) -> Tally {
        let views: Vec<_> = self.inner.live().values().map(|live| live.host.status()).collect();
        let mut all = Tally::default();
        for view in views {
            let view = std::sync::Arc::clone(&view.borrow());
            all.add(&Tally::of(&view.status));
        }
        all
    }
}
