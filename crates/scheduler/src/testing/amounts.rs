//! Amounts by dimension, as the naive model counts them: every dimension that a random world knows has its place in a plain
//! array. Owns the kinds of devices and the counters of these worlds, and what jobs need and workers offer of them.

use orlop_core::hardware::gpu::Vendor;

use crate::event::Capabilities;
use crate::job::{Demand, GpuKind};
use crate::stored::GpuShape;

/// Millicores.
pub(super) const CPU: usize = 0;
/// Mebibytes.
pub(super) const MEMORY: usize = 1;
/// Attempts at once.
pub(super) const SLOTS: usize = 2;
const FIRST_GPU: usize = 3;
const FIRST_EXTRA: usize = FIRST_GPU + GPUS.len();
const DIMS: usize = FIRST_EXTRA + EXTRAS.len();

/// An amount of every dimension.
pub(super) type Amounts = [u64; DIMS];

/// Nothing.
pub(super) const NOTHING: Amounts = [0; DIMS];

/// Kinds of devices: vendor, model, gibibytes of one. Two differ in memory only.
pub(super) const GPUS: [(Vendor, &str, u64); 4] = [
    (Vendor::Nvidia, "a100", 40),
    (Vendor::Nvidia, "a100", 80),
    (Vendor::Nvidia, "l4", 24),
    (Vendor::Amd, "mi300x", 192),
];

/// Counters; no worker has the last one. With the devices these are more dimensions than the scheduler has columns.
pub(super) const EXTRAS: [&str; 12] =
    ["disk", "licence", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "nobody-has-it"];

/// The counter of which workers have amounts of any magnitude.
pub(super) const LARGE_COUNTER: &str = EXTRAS[0];

/// How many of the counters are at hand in every world; the others use up the scheduler's columns.
pub(super) const COUNTERS: usize = 2;

/// What nobody has: amounts but for counters are counted up to here.
const NOBODY: u64 = i32::MAX as u64;

/// The dimension of a kind of device.
fn gpu_dim(vendor: Vendor, model: &str, memory_bytes: u64) -> Option<usize> {
    let is_it = |(v, m, gibi): &(Vendor, &str, u64)| *v == vendor && *m == model && *gibi << 30 == memory_bytes;
    GPUS.iter().position(is_it).map(|at| FIRST_GPU + at)
}

/// The dimension of devices that an attempt holds.
pub(super) fn dim_of(devices: &GpuShape) -> Option<usize> {
    gpu_dim(devices.vendor, devices.model.as_str(), devices.memory_bytes)
}

/// The dimensions of devices of a model, or of all.
pub(super) fn gpu_dims(model: Option<&str>) -> impl Iterator<Item = usize> {
    let kinds = GPUS.iter().enumerate().filter(move |(_, (_, name, _))| model.is_none_or(|model| model == *name));
    kinds.map(|(at, _)| FIRST_GPU + at)
}

/// The dimensions of devices that would do for a job; of one without devices nothing, once.
pub(super) fn alternatives(spec: &Demand) -> Vec<Option<usize>> {
    let gpus = &spec.resources.gpus;
    if gpus.count == 0 {
        return vec![None];
    }
    let accepts = |kind: &GpuKind, (vendor, model, gibi): &(Vendor, &str, u64)| {
        kind.vendor == *vendor
            && kind.model.as_ref().is_none_or(|wanted| wanted.as_str() == *model)
            && kind.memory_min.is_none_or(|least| *gibi << 30 >= least)
    };
    let does = |device| gpus.any_of.is_empty() || gpus.any_of.iter().any(|kind| accepts(kind, device));
    GPUS.iter().enumerate().filter(|(_, device)| does(device)).map(|(at, _)| Some(FIRST_GPU + at)).collect()
}

/// What one attempt takes, with devices of this dimension: mebibytes rounded up, one slot.
pub(super) fn needs(spec: &Demand, gpu: Option<usize>) -> Amounts {
    let mut needs = NOTHING;
    needs[CPU] = spec.resources.cpu_m;
    needs[MEMORY] = spec.resources.memory_bytes.div_ceil(1 << 20);
    needs[SLOTS] = 1;
    if let Some(need) = gpu.and_then(|dim| needs.get_mut(dim)) {
        *need = u64::from(spec.resources.gpus.count);
    }
    needs = needs.map(|need| need.min(NOBODY));
    for (dim, name) in (FIRST_EXTRA..).zip(EXTRAS) {
        needs[dim] = spec.resources.extras.get(name).copied().unwrap_or(0);
    }
    needs
}

/// What a worker has: mebibytes rounded down.
pub(super) fn totals(offer: &Capabilities) -> Amounts {
    let mut totals = NOTHING;
    totals[CPU] = offer.cpu_m;
    totals[MEMORY] = offer.memory_bytes >> 20;
    totals[SLOTS] = u64::from(offer.max_jobs);
    for devices in &offer.gpus {
        if let Some(total) =
            gpu_dim(devices.vendor, devices.model.as_str(), devices.memory_bytes).and_then(|dim| totals.get_mut(dim))
        {
            *total = total.saturating_add(u64::from(devices.count));
        }
    }
    totals = totals.map(|total| total.min(NOBODY - 1));
    for (dim, name) in (FIRST_EXTRA..).zip(EXTRAS) {
        totals[dim] = offer.extras.get(name).copied().unwrap_or(0);
    }
    totals
}

pub(super) fn plus(a: Amounts, b: &Amounts) -> Amounts {
    std::array::from_fn(|dim| a[dim].saturating_add(b[dim]))
}

/// What is left of `a`, at least nothing.
pub(super) fn minus(a: &Amounts, b: &Amounts) -> Amounts {
    std::array::from_fn(|dim| a[dim].saturating_sub(b[dim]))
}

pub(super) fn times(a: &Amounts, n: u64) -> Amounts {
    a.map(|amount| amount.saturating_mul(n))
}

pub(super) fn within(a: &Amounts, b: &Amounts) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b)
}

/// How often `need` goes into `left`.
pub(super) fn hosts(need: &Amounts, left: &Amounts) -> u64 {
    need.iter().zip(left).filter_map(|(need, left)| left.checked_div(*need)).min().unwrap_or(0)
}
