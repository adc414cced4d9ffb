//! The closest type where none fits: what it has in place of the numbers it misses. Owns that exchange and the words that tell it; a
//! card, its maker and the architecture are never given up.

use super::Request;
use crate::catalog::fit::{Closest, Unfit};

/// The request with what the closest type has in place of the numbers it misses, and a sentence that says so.
pub(super) fn accepted(closest: &Closest, request: &Request) -> (Request, String) {
    let mut request = Request { accept_closest: false, ..request.clone() };
    for missed in &closest.missed {
        let place = match missed.what {
            Unfit::Count => &mut request.overrides.gpu_count,
            Unfit::CardMemory => &mut request.overrides.vram_gb,
            Unfit::Cores => &mut request.overrides.cores,
            Unfit::Ram => &mut request.overrides.ram_gib,
            _ => &mut request.overrides.disk_gb,
        };
        *place = Some(missed.had);
    }
    let missed: Vec<String> = closest.missed.iter().map(ToString::to_string).collect();
    let note = format!(
        "less than the repository asks for: {} at {} has {}, by --accept-closest",
        closest.node_type,
        closest.site,
        missed.join(", ")
    );
    (request, note)
}
