//! Real calls over loopback: workers in plain text and over TLS, and clients.

mod artifacts;
mod jobs;
pub(crate) mod workers;

use super::super::identity::{Authority, ServerIdentity};
use super::*;
