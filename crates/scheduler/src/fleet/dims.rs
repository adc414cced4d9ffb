//! The dimensions of capacity: millicores, mebibytes, slots, then one per kind of GPU and per extra that a worker has
//! advertised. Owns their numbers, which only grow, and the rounding of requests (up) and capacities (down).

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
            found.extend(self.gpus());
        }
        for kind in &gpus.any_of {
            let fit = self.list.iter().enumerate().filter(|(_, dim)| accepts(dim, kind)).map(|(number, _)| number);
            found.extend(fit.filter(|number| !found.contains(number)).collect::<Vec<_>>());
        }
        found
    }

    /// Number of the dimension of a counter, if a worker ever had it.
    pub(crate) fn extra(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|dim| matches!(dim, Dim::Extra(known) if known == name))
    }

    fn number(&mut self, dim: Dim) -> Option<usize> {
        if let Some(number) = self.list.iter().position(|known| *known == dim) {
            return Some(number);
        }
        let number = self.list.len();
        (number < MAX_DIMS).then(|| {
            self.list.push(dim);
            number
        })
    }

    /// A worker's capacity by dimension; new kinds get a dimension.
    ///
    /// # Errors
    /// The name of the first kind for which no dimension is left; then no kind has got one.
    pub(crate) fn capacity(&mut self, offer: &Capabilities) -> Result<Amounts, String> {
        let known = self.list.len();
        let amounts = self.widened(offer);
        if amounts.is_err() {
            // A worker that is refused must not use up what others may need.
            self.list.truncate(known);
        }
        amounts
    }

    fn widened(&mut self, offer: &Capabilities) -> Result<Amounts, String> {
        let mut amounts: Amounts = [0; MAX_DIMS];
        let mut add = |dim: usize, amount: u64| {
            if let Some(place) = amounts.get_mut(dim) {
                *place = offered(u64::try_from(*place).unwrap_or(0).saturating_add(amount));
            }
        };
        add(CPU, offer.cpu_m);
        add(MEMORY, mebi_down(offer.memory_bytes));
        add(SLOTS, u64::from(offer.max_jobs));
        for devices in offer.gpus.iter().filter(|devices| devices.count > 0) {
            let (vendor, model) = (devices.vendor, devices.model.clone());
            let dim = Dim::Gpu { vendor, model, memory_bytes: devices.memory_bytes };
            let number = self.number(dim).ok_or_else(|| format!("{vendor}/{}", devices.model))?;
            add(number, u64::from(devices.count));
        }
        for (name, amount) in offer.extras.iter().filter(|(_, amount)| **amount > 0) {
            add(self.number(Dim::Extra(name.clone())).ok_or_else(|| name.clone())?, *amount);
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
    fn s2_2_requests_round_up_and_capacities_down() {
        assert_eq!((mebi_up(1), mebi_up(MEBI), mebi_down(2 * MEBI - 1)), (1, 1, 1));
        let mut dims = Dims::default();
        let amounts = dims.capacity(&offer(4000, 10 * MEBI + 5)).unwrap();
        assert_eq!(amounts[..3], [4000, 10, 8]);
    }

    #[test]
    fn s2_2_extreme_amounts_never_wrap_and_never_fit() {
        let amounts = Dims::default().capacity(&offer(u64::MAX, u64::MAX)).unwrap();
        assert!(amounts[CPU] < requested(u64::MAX) && amounts[MEMORY] < requested(mebi_up(u64::MAX)));
    }

    #[test]
    fn s2_2_there_are_at_most_sixteen_dimensions() {
        let mut dims = Dims::default();
        let mut many = offer(1, 1);
        many.extras = (0..14).map(|n| (format!("x{n:02}"), 1)).collect();
        assert_eq!(dims.capacity(&many), Err("x13".to_owned()));
        assert_eq!((dims.len(), dims.extra("x00")), (3, None), "who is refused uses nothing up");
        many.extras.remove("x13");
        assert!(dims.capacity(&many).is_ok());
        assert_eq!((dims.len(), dims.extra("x12"), dims.extra("x13")), (16, Some(15), None));
    }
}
