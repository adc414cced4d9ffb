//! What the databases of the fleet's store share: turns merged into rows, and texts of columns.

pub(super) mod batch;
pub(super) mod column;
pub(super) mod walk;
