//! Instances whose optimum is known: three items fill a bin exactly. Owns how the first two are drawn.

use super::super::random::Random;
use super::InstanceId;
use super::draw::{Drawn, triple};

fn in_threes(id: InstanceId, capacity: u64, random: &mut Random, pair: impl Fn(&mut Random) -> (u64, u64)) -> Drawn {
    let rows = (0..id.items / 3).flat_map(|_| triple(id.dimensions, capacity, || pair(random))).collect();
    Drawn { rows, capacity: vec![capacity; id.dimensions] }
}

/// Class 10: two items of 25–50.
pub(super) fn caprara_toth(id: InstanceId, random: &mut Random) -> Drawn {
    in_threes(id, 100, random, |random| (random.within(25, 50), random.within(25, 50)))
}

/// Class 1: 38–49 and 25–half the rest; class 2: both 25–50; class 3: both 1–50.
pub(super) fn triplets(id: InstanceId, random: &mut Random) -> Drawn {
    in_threes(id, 100, random, |random| match id.class {
        1 => {
            let first = random.within(38, 49);
            (first, random.within(25, (100 - first) / 2))
        }
        2 => (random.within(25, 50), random.within(25, 50)),
        _ => (random.within(1, 50), random.within(1, 50)),
    })
}

/// 380–490, 250–half the rest, of 1000.
pub(super) fn falkenauer(id: InstanceId, random: &mut Random) -> Drawn {
    in_threes(id, 1000, random, |random| {
        let first = random.within(380, 490);
        (first, random.within(250, (1000 - first) / 2))
    })
}
