//! Instances on a line with uniform sizes. Owns their ranges and capacities.

use super::super::random::Random;
use super::InstanceId;
use super::draw::{self, Drawn};

/// Sizes of a closed range.
pub(super) fn uniform(id: InstanceId, least: u64, most: u64, capacity: u64, random: &mut Random) -> Drawn {
    let rows = (0..id.items).map(|_| draw::uniform(random, 1, least, most)).collect();
    Drawn { rows, capacity: vec![capacity] }
}

/// Classes 1–3: 1–100, 4–6: 20–100, 7–9: 50–100; of each the capacities 100, 120 and 150.
pub(super) fn martello_toth(id: InstanceId, random: &mut Random) -> Drawn {
    let least = match (id.class - 1) / 3 {
        0 => 1,
        1 => 20,
        _ => 50,
    };
    let capacity = match (id.class - 1) % 3 {
        0 => 100,
        1 => 120,
        _ => 150,
    };
    uniform(id, least, 100, capacity, random)
}
