//! The dimensions of capacity: millicores, mebibytes, slots, then one per kind of GPU and per extra that a worker has
//! advertises. Owns their numbers and the rounding of requests (up) and capacities (down). A number whose kind or counter nobody
//! has any more is given to the next one that is new. Counters of many magnitudes have units of their own, so that each amount
//! fits its column: a worker has a counter in the finest unit in which its amount does.

use orlop_core::hardware::gpu::{ModelKey, Vendor};
use serde::{Deserialize, Serialize};

use super::{Amounts, MAX_DIMS};
use crate::event::Capabilities;
use crate::job::Gpus;

/// Millicores.
pub(crate) const CPU: usize = 0;
/// Mebibytes.
pub(crate) const MEMORY: usize = 1;
/// Attempts at once.
pub(crate) const SLOTS: usize = 2;

/// More than any worker has: capacities stay below it.
pub(crate) const TOO_MUCH: i32 = i32::MAX;

const MEBI: u64 = 1 << 20;

/// Units of counters, as powers of two: the coarsest counts all of 64 bits.
const SHIFTS: [u32; 3] = [0, 16, 33];

/// The counter of a worker that has so much of it.
fn counter(name: &str, amount: u64) -> Dim {
    let fits = |shift: &u32| amount >> shift < TOO_MUCH as u64;
    match SHIFTS.into_iter().find(fits).unwrap_or(33) {
        0 => Dim::Extra(name.to_owned()),
        shift => Dim::LargeExtra { name: name.to_owned(), shift },
    }
}

impl Dim {
    /// By how many bits an amount is shorter in its column.
    pub(crate) const fn shift(&self) -> u32 {
        match self {
            Self::LargeExtra { shift, .. } => *shift,
            _ => 0,
        }
    }
}

/// What one dimension counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Dim {
    /// Millicores.
    Cpu,
    /// Mebibytes.
    Memory,
    /// Attempts.
    Slots,
    /// Devices of one kind.
    Gpu { vendor: Vendor, model: ModelKey, memory_bytes: u64 },
    /// A counter by name.
    Extra(String),
    /// A counter by name, in units of 2 to the power of `shift`, on workers that have more of it than a column counts.
    LargeExtra { name: String, shift: u32 },
}

/// All dimensions, by number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Dims {
    list: Vec<Dim>,
}

impl Default for Dims {
    fn default() -> Self {
        Self { list: vec![Dim::Cpu, Dim::Memory, Dim::Slots] }
    }
}

/// A request: cut so that what nobody can have stays what nobody has.
pub(crate) fn requested(amount: u64) -> i32 {
    i32::try_from(amount).unwrap_or(TOO_MUCH)
}

/// A capacity: cut below every request that was cut.
pub(crate) fn offered(amount: u64) -> i32 {
    i32::try_from(amount).unwrap_or(TOO_MUCH).min(TOO_MUCH - 1)
}

/// Bytes as mebibytes, rounded up.
pub(crate) fn mebi_up(bytes: u64) -> u64 {
    bytes.div_ceil(MEBI)
}

/// Bytes as mebibytes, rounded down.
pub(crate) fn mebi_down(bytes: u64) -> u64 {
    bytes / MEBI
}

impl Dims {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, dim: usize) -> Option<&Dim> {
        self.list.get(dim)
    }

    /// Numbers of the dimensions that count GPUs.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = usize> {
        let gpus = |(number, dim): (usize, &Dim)| matches!(dim, Dim::Gpu { .. }).then_some(number);
        self.list.iter().enumerate().filter_map(gpus)
    }

    /// Numbers of the dimensions whose devices would do.
    pub(crate) fn gpus_for(&self, gpus: &Gpus) -> Vec<usize> {
        let accepts = |dim: &Dim, kind: &crate::job::GpuKind| match dim {
            Dim::Gpu { vendor, model, memory_bytes } => kind.accepts(*vendor, model, *memory_bytes),
            _ => false,
        };
        let mut found: Vec<usize> = Vec::new();
        if gpus.any_of.is_empty() {
            let is_slice = |dim: &Dim| matches!(dim, Dim::Gpu { model, .. } if model.is_slice());
            found.extend(self.gpus().filter(|number| !self.get(*number).is_some_and(is_slice)));
        }
        for kind in &gpus.any_of {
            let fit = self.list.iter().enumerate().filter(|(_, dim)| accepts(dim, kind)).map(|(number, _)| number);
            found.extend(fit.filter(|number| !found.contains(number)).collect::<Vec<_>>());
        }
        found
    }

    /// Numbers of the dimensions of a counter that workers have, each with its shift.
    pub(crate) fn extras<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (usize, u32)> + 'a {
        self.list.iter().enumerate().filter_map(move |(number, dim)| match dim {
            Dim::Extra(known) if known == name => Some((number, 0)),
            Dim::LargeExtra { name: known, shift } if known == name => Some((number, *shift)),
            _ => None,
        })
    }

    /// By dimension, the first one of the same counter and the shift of its unit; nothing while no counter has several.
    pub(crate) fn units(&self) -> Vec<(usize, u32)> {
        let name = |dim: &Dim| match dim {
            Dim::Extra(name) | Dim::LargeExtra { name, .. } => Some(name.clone()),
            _ => None,
        };
        let unit = |(number, dim): (usize, &Dim)| {
            let first = name(dim).and_then(|name| self.extras(&name).map(|(first, _)| first).min());
            (first.unwrap_or(number), dim.shift())
        };
        let units: Vec<(usize, u32)> = self.list.iter().enumerate().map(unit).collect();
        let several = units.iter().enumerate().any(|(number, (first, _))| *first != number);
        if several { units } else { Vec::new() }
    }

    /// Kinds and counters of an offer with their amounts, and by what name they are refused.
    fn wanted(offer: &Capabilities) -> Vec<(Dim, u64, String)> {
        let gpus = offer.gpus.iter().filter(|devices| devices.count > 0).map(|devices| {
            let (vendor, model) = (devices.vendor, devices.model.clone());
            let name = format!("{vendor}/{model}");
            (Dim::Gpu { vendor, model, memory_bytes: devices.memory_bytes }, u64::from(devices.count), name)
        });
        let extras = offer.extras.iter().filter(|(_, amount)| **amount > 0);
        let extras = extras.map(|(name, amount)| (counter(name, *amount), *amount, name.clone()));
        gpus.chain(extras).collect()
    }

    /// Numbers of the dimensions that an offer needs and that are known.
    pub(crate) fn known<'a>(&'a self, offer: &Capabilities) -> impl Iterator<Item = usize> + 'a {
        let numbers = |(dim, ..): (Dim, u64, String)| self.list.iter().position(|known| *known == dim);
        Self::wanted(offer).into_iter().filter_map(numbers)
    }

    /// Whether an offer has kinds or counters that are new although there is no number left.
    pub(crate) fn is_short(&self, offer: &Capabilities) -> bool {
        let new = |(dim, ..): &(Dim, u64, String)| !self.list.contains(dim);
        Self::wanted(offer).iter().filter(|wanted| new(wanted)).count() > MAX_DIMS.saturating_sub(self.list.len())
    }

    /// A worker's capacity by dimension, and whether kinds or counters got a number for it; those may be numbers that are `spare`.
    ///
    /// # Errors
    /// The name of the first kind for which no dimension is left; then no kind has got one.
    pub(crate) fn capacity(&mut self, offer: &Capabilities, spare: &[usize]) -> Result<(Amounts, bool), String> {
        let before = self.list.clone();
        let amounts = self.widened(offer, spare);
        if amounts.is_err() {
            // A worker that is refused must not use up what others may need.
            self.list = before;
            return amounts.map(|amounts| (amounts, false));
        }
        amounts.map(|amounts| (amounts, self.list != before))
    }

    fn widened(&mut self, offer: &Capabilities, spare: &[usize]) -> Result<Amounts, String> {
        let mut amounts: Amounts = [0; MAX_DIMS];
        let mut add = |dim: usize, amount: u64| {
            if let Some(place) = amounts.get_mut(dim) {
                *place = offered(u64::try_from(*place).unwrap_or(0).saturating_add(amount));
            }
        };
        add(CPU, offer.cpu_m);
        add(MEMORY, mebi_down(offer.memory_bytes));
        add(SLOTS, u64::from(offer.max_jobs));
        let own: Vec<usize> = self.known(offer).collect();
        let mut spare = spare.iter().copied().filter(|number| *number > SLOTS && !own.contains(number));
        for (dim, amount, name) in Self::wanted(offer) {
            let (amount, known) = (amount >> dim.shift(), self.list.iter().position(|known| *known == dim));
            let number = match known {
                Some(number) => number,
                None if self.list.len() < MAX_DIMS => {
                    self.list.push(dim);
                    self.list.len() - 1
                }
                None => {
                    let number = spare.next().ok_or(name)?;
                    self.list.get_mut(number).into_iter().for_each(|place| *place = dim.clone());
                    number
                }
            };
            add(number, amount);
        }
        Ok(amounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(cpu_m: u64, memory_bytes: u64) -> Capabilities {
        Capabilities { cpu_m, memory_bytes, max_jobs: 8, ..Capabilities::default() }
    }

    #[test]
    fn requests_round_up_and_capacities_down() {
        assert_eq!((mebi_up(1), mebi_up(MEBI), mebi_down(2 * MEBI - 1)), (1, 1, 1));
        let mut dims = Dims::default();
        let amounts = dims.capacity(&offer(4000, 10 * MEBI + 5), &[]).unwrap().0;
        assert_eq!(amounts[..3], [4000, 10, 8]);
    }

    #[test]
    fn extreme_amounts_never_wrap_and_never_fit() {
        let amounts = Dims::default().capacity(&offer(u64::MAX, u64::MAX), &[]).unwrap().0;
        assert!(amounts[CPU] < requested(u64::MAX) && amounts[MEMORY] < requested(mebi_up(u64::MAX)));
    }

    #[test]
    fn there_are_at_most_sixteen_dimensions() {
        let mut dims = Dims::default();
        let mut many = offer(1, 1);
        many.extras = (0..14).map(|n| (format!("x{n:02}"), 1)).collect();
        let of = |dims: &Dims, name: &str| dims.extras(name).next();
        assert_eq!(dims.capacity(&many, &[]), Err("x13".to_owned()));
        assert_eq!((dims.len(), of(&dims, "x00")), (3, None), "who is refused uses nothing up");
        many.extras.remove("x13");
        assert!(dims.capacity(&many, &[]).is_ok());
        assert_eq!((dims.len(), of(&dims, "x12"), of(&dims, "x13")), (16, Some((15, 0)), None));
        let mut other = offer(1, 1);
        other.extras = [("x12".to_owned(), 1), ("x13".to_owned(), 1), ("x14".to_owned(), 1)].into();
        assert!(dims.is_short(&other));
        assert_eq!(dims.capacity(&other, &[15, 14]), Err("x14".to_owned()), "its own is not spare");
        assert_eq!(dims.capacity(&other, &[15, 14, 2, 7]).map(|(_, new)| new), Ok(true));
        assert_eq!(
            (of(&dims, "x12"), of(&dims, "x13"), of(&dims, "x14")),
            (Some((15, 0)), Some((14, 0)), Some((7, 0)))
        );
    }

    #[test]
    fn a_counter_is_reported_in_a_unit_in_which_it_fits_its_column() {
        let of = |amount: u64| {
            let mut dims = Dims::default();
            let offer = Capabilities { extras: [("disk".to_owned(), amount)].into(), ..offer(1, 1) };
            let amounts = dims.capacity(&offer, &[]).unwrap().0;
            dims.extras("disk").map(|(dim, shift)| (amounts[dim], shift)).collect::<Vec<_>>()
        };
        assert_eq!(of(i32::MAX as u64 - 1), [(i32::MAX - 1, 0)]);
        assert_eq!(of(i32::MAX as u64), [(32_767, 16)]);
        assert_eq!(of(4_000_000_000_000), [(61_035_156, 16)]);
        assert_eq!(of(u64::MAX), [(i32::MAX - 1, 33)]);
    }
}
