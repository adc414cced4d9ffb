//! What stands of the flows that this server drives, counted when it is asked for.

use super::Flows;
use crate::telemetry::metrics::FlowCounts;

impl Flows {
    /// Counts the flows that are driven here, with their steps.
    #[must_use]
    pub fn counts(&self) -> FlowCounts {
        let views: Vec<_> = self.inner.live().values().map(|live| live.host.status()).collect();
        let mut all = FlowCounts::default();
        for view in views {
            let view = std::sync::Arc::clone(&view.borrow());
            all.add(&FlowCounts::of(&view.status));
        }
        all
    }
}
