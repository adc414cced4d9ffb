//! The webhook without a cluster: which certificate is in use, and what one request may cost.

mod certificate;
mod requests;

use orlop_core::time::Time;

fn now() -> Time {
    "2026-11-22T10:00:00Z".parse().unwrap()
}
