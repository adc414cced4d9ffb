//! Fit, ranking and images over the embedded table.

mod fitting;
mod images;
mod ranking;

use jiff::{SignedDuration, Timestamp};
use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;

use super::needs::Range;
use super::window::WindowRequest;
use super::*;

/// Needs without anything special.
pub(super) fn plain() -> Needs {
    let range = |least, wish| Range { least, wish };
    Needs {
        arch: Arch::Amd64,
        gpu: None,
        cores: range(2, 4),
        ram_gib: range(4, 8),
        disk_gb: range(20, 40),
        features: Vec::new(),
    }
}

/// Needs for one card of so much memory.
pub(super) fn card(memory_gb: u32) -> Needs {
    let gpu = GpuNeed {
        vendor: Vendor::Nvidia,
        count: Range { least: 1, wish: 1 },
        memory_gb,
        cuda: None,
        capability: None,
        legacy: false,
    };
    Needs { gpu: Some(gpu), ..plain() }
}

pub(super) fn asked() -> WindowRequest {
    let start: Timestamp = "2026-01-05T14:00:00Z".parse().unwrap();
    WindowRequest { start, hours: 24, within: SignedDuration::ZERO, margin: SignedDuration::from_mins(5) }
}
