//! The flow engine: bytes become a flow and what happens to it; every law of the engine holds against the naive model, and a
//! flow rebuilt from its status goes on.

use orlop_dag::testing::{check, check_rebuild};

/// Bytes of a flow and of what happens to it, as `orlop_dag::testing::decode` reads them.
pub fn engine_events(bytes: &[u8]) {
    let broken = check(bytes).err().or_else(|| check_rebuild(bytes).err());
    assert!(broken.is_none(), "{}", broken.map(|broken| broken.to_string()).unwrap_or_default());
}
