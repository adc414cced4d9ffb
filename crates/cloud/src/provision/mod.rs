//! From requirements to a leased server (provisioner contract). Owns the plan; never talks to a cloud.

pub mod plan;
