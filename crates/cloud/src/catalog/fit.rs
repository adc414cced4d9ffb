//! Whether a host fits, and how far needs are relaxed when none does. Owns the filter and the
//! order of relaxing; GPU presence, vendor, memory of a card, architecture and minimums are never relaxed.

use serde::Serialize;

use super::host::{Shape, Variant};
use super::needs::{Needs, Range};
use crate::analyze::{Feature, card};

/// Why a host does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unfit {
    /// Another CPU architecture.
    Arch,
    /// No card at all.
    NoGpu,
    /// Another maker's cards.
    Vendor,
    /// Too few cards.
    Count,
    /// Too little memory on a card.
    CardMemory,
    /// Drivers with the CUDA that is needed no longer drive its cards.
    Cuda,
    /// Cards older than the code is compiled for.
    Capability,
    /// Cards too old for present libraries.
    Legacy,
    /// Too few threads.
    Cores,
    /// Too little memory.
    Ram,
    /// Too little disk.
    Disk,
    /// Lacks special hardware.
    Feature(Feature),
}

/// Everything that keeps a host from fitting.
#[must_use]
pub fn misfits(needs: &Needs, shape: &Shape) -> Vec<Unfit> {
    let mut misfits = Vec::new();
    let mut unless = |fits: bool, why: Unfit| {
        if !fits {
            misfits.push(why);
        }
    };
    unless(shape.arch == needs.arch, Unfit::Arch);
    if let Some(gpu) = &needs.gpu {
        match &shape.cards {
            None => unless(false, Unfit::NoGpu),
            Some(cards) => {
                unless(cards.vendor == gpu.vendor, Unfit::Vendor);
                unless(cards.count >= gpu.count.wish, Unfit::Count);
                unless(cards.memory_gb >= gpu.memory_gb, Unfit::CardMemory);
                let runs =
                    gpu.cuda.zip(cards.capability).is_none_or(|(cuda, capability)| card::drives(cuda, capability));
                unless(runs, Unfit::Cuda);
                let runs = gpu.capability.zip(cards.capability).is_none_or(|(least, had)| had >= least);
                unless(runs, Unfit::Capability);
                let known = card::by_model(&cards.model);
                unless(gpu.legacy || !known.is_some_and(card::Card::is_legacy), Unfit::Legacy);
            }
        }
    }
    unless(shape.threads >= needs.cores.wish, Unfit::Cores);
    unless(shape.ram_gib >= needs.ram_gib.wish, Unfit::Ram);
    unless(shape.disk_gb(needs.disk_gb.wish) >= needs.disk_gb.wish, Unfit::Disk);
    for feature in &needs.features {
        unless(shape.has(*feature), Unfit::Feature(*feature));
    }
    misfits
}

/// Whether a host fits.
#[must_use]
pub fn fits(needs: &Needs, shape: &Shape) -> bool {
    misfits(needs, shape).is_empty()
}

/// Needs under which something fits, and what was relaxed to get there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relaxed {
    /// The needs.
    pub needs: Needs,
    /// What was relaxed, for people.
    pub notes: Vec<String>,
}

/// Relaxes count, cores, memory and disk, in this order and each down to the most that still fits, until something does.
///
/// # Errors
/// Nothing fits even so.
pub(crate) fn relax(needs: &Needs, variants: &[&Variant]) -> Result<Relaxed, Misfit> {
    let mut relaxed = Relaxed { needs: needs.clone(), notes: Vec::new() };
    let any = |needs: &Needs| variants.iter().any(|variant| fits(needs, &variant.shape));
    if any(&relaxed.needs) {
        return Ok(relaxed);
    }
    for part in [Relaxable::Count, Relaxable::Cores, Relaxable::Ram, Relaxable::Disk] {
        let Some(range) = part.range(&mut relaxed.needs) else { continue };
        let asked = range.wish;
        if range.least == range.wish {
            continue;
        }
        range.wish = range.least;
        if any(&relaxed.needs) {
            let best = best(part, &relaxed.needs, variants, asked);
            if let Some(range) = part.range(&mut relaxed.needs) {
                range.wish = best;
            }
            relaxed.notes.push(part.note(asked, best));
            return Ok(relaxed);
        }
        let least = part.range(&mut relaxed.needs).map_or(0, |range| range.wish);
        relaxed.notes.push(part.note(asked, least));
    }
    Err(Misfit::of(needs, &relaxed.needs, variants))
}

/// A wish that may be relaxed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relaxable {
    Count,
    Cores,
    Ram,
    Disk,
}

impl Relaxable {
    fn range(self, needs: &mut Needs) -> Option<&mut Range> {
        match self {
            Self::Count => needs.gpu.as_mut().map(|gpu| &mut gpu.count),
            Self::Cores => Some(&mut needs.cores),
            Self::Ram => Some(&mut needs.ram_gib),
            Self::Disk => Some(&mut needs.disk_gb),
        }
    }

    fn of(self, shape: &Shape, asked: u32) -> u32 {
        match self {
            Self::Count => shape.cards.as_ref().map_or(0, |cards| cards.count),
            Self::Cores => shape.threads,
            Self::Ram => shape.ram_gib,
            Self::Disk => shape.disk_gb(asked),
        }
    }

    fn note(self, asked: u32, had: u32) -> String {
        let (what, unit) = match self {
            Self::Count => ("cards", ""),
            Self::Cores => ("hardware threads", ""),
            Self::Ram => ("memory", " GiB"),
            Self::Disk => ("disk", " GB"),
        };
        format!(
            "{what} relaxed from {asked}{unit} to {had}{unit}: nothing has more together with the other requirements"
        )
    }
}

/// The most of a part that hosts have which fit otherwise.
fn best(part: Relaxable, needs: &Needs, variants: &[&Variant], asked: u32) -> u32 {
    let fitting = variants.iter().filter(|variant| fits(needs, &variant.shape));
    fitting.map(|variant| part.of(&variant.shape, asked)).max().unwrap_or(asked).min(asked)
}

/// Nothing fits: what there is instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Misfit {
    /// What is missing, with the largest value there is.
    pub message: String,
    /// Types that come nearest, each with what it lacks; at most three.
    pub nearest: Vec<(String, Vec<Unfit>)>,
    /// The one that misses fewest numbers, and those the least; none where more than numbers is in the way.
    pub closest: Option<Closest>,
}

/// A type that has everything but some numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Closest {
    /// The type.
    pub node_type: String,
    /// Where.
    pub site: String,
    /// The numbers it misses.
    pub missed: Vec<Missed>,
}

/// A number that was asked for, and what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// Of what; never of the architecture, the CUDA or special hardware.
    pub what: Unfit,
    /// What was asked for.
    pub asked: u32,
    /// What there is.
    pub had: u32,
}

impl Missed {
    /// How much is missing, in thousandths.
    fn shortfall(self) -> u64 {
        u64::from(self.asked.saturating_sub(self.had)).saturating_mul(1000) / u64::from(self.asked.max(1))
    }
}

impl std::fmt::Display for Missed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (of, unit) = match self.what {
            Unfit::Count => (" cards", ""),
            Unfit::CardMemory => (" a card", " GB"),
            Unfit::Cores => (" hardware threads", ""),
            Unfit::Ram => (" of memory", " GiB"),
            _ => (" of disk", " GB"),
        };
        write!(f, "{}{unit}{of} instead of {}{unit}", self.had, self.asked)
    }
}

impl Closest {
    fn of(needs: &Needs, variants: &[&Variant]) -> Option<Self> {
        let all = variants.iter().filter_map(|variant| Some((numbers(needs, &variant.shape)?, variant)));
        let (missed, variant) = all.min_by_key(|(missed, variant)| {
            let short: u64 = missed.iter().map(|one| one.shortfall()).sum();
            (missed.len(), short, variant.node_type.as_str(), variant.site.as_str())
        })?;
        Some(Self { node_type: variant.node_type.clone(), site: variant.site.clone(), missed })
    }
}

/// The numbers a host misses, if nothing else keeps it from fitting.
fn numbers(needs: &Needs, shape: &Shape) -> Option<Vec<Missed>> {
    let cards = shape.cards.as_ref();
    let number = |what: Unfit| {
        let (asked, had) = match what {
            Unfit::Count => (needs.gpu.as_ref()?.count.wish, cards?.count),
            Unfit::CardMemory => (needs.gpu.as_ref()?.memory_gb, cards?.memory_gb),
            Unfit::Cores => (needs.cores.wish, shape.threads),
            Unfit::Ram => (needs.ram_gib.wish, shape.ram_gib),
            Unfit::Disk => (needs.disk_gb.wish, shape.disk_gb(needs.disk_gb.wish)),
            _ => return None,
        };
        Some(Missed { what, asked, had })
    };
    misfits(needs, shape).into_iter().map(number).collect()
}

impl Misfit {
    fn of(asked: &Needs, relaxed: &Needs, variants: &[&Variant]) -> Self {
        let mut near: Vec<(Vec<Unfit>, &&Variant)> =
            variants.iter().map(|variant| (misfits(relaxed, &variant.shape), variant)).collect();
        near.sort_by(|(a, left), (b, right)| (a.len(), &left.node_type).cmp(&(b.len(), &right.node_type)));
        near.dedup_by(|(_, a), (_, b)| a.node_type == b.node_type && a.site == b.site);
        let nearest = near
            .iter()
            .take(3)
            .map(|(lacks, variant)| (format!("{} at {}", variant.node_type, variant.site), lacks.clone()));
        let closest = Closest::of(relaxed, variants);
        let mut message = message(asked, relaxed, variants);
        if let Some(closest) = &closest {
            let missed: Vec<String> = closest.missed.iter().map(ToString::to_string).collect();
            let (name, site) = (&closest.node_type, &closest.site);
            message.push_str(&format!(
                "; closest: {name} at {site} with {}, take it with --accept-closest",
                missed.join(", ")
            ));
        }
        Self { message, nearest: nearest.collect(), closest }
    }
}

/// What is compared: its name, its unit, what is wanted, what a host has.
type Check<'a> = (&'a str, &'a str, u32, &'a dyn Fn(&Shape) -> u32);

fn message(asked: &Needs, relaxed: &Needs, variants: &[&Variant]) -> String {
    let largest = |value: &dyn Fn(&Shape) -> u32| {
        let best = variants.iter().max_by(|a, b| (value(&a.shape), &b.site).cmp(&(value(&b.shape), &a.site)));
        best.map_or((0, "no site"), |variant| (value(&variant.shape), variant.site.as_str()))
    };
    if let Some(gpu) = &relaxed.gpu {
        let of_vendor = |shape: &Shape| {
            shape.cards.as_ref().filter(|cards| cards.vendor == gpu.vendor).map_or(0, |cards| cards.memory_gb)
        };
        let (most, site) = largest(&of_vendor);
        if most == 0 {
            return format!("none of the types that are looked at has a GPU of {}", gpu.vendor);
        }
        if most < gpu.memory_gb {
            let cards = gpu.memory_gb.div_ceil(most.max(1));
            return format!(
                "no type has one card of {} GB (largest {most} at {site}); {cards} cards of {most} GB together have as much: --gpu {cards} --vram {most}",
                gpu.memory_gb
            );
        }
    }
    let checks: [Check<'_>; 3] = [
        ("hardware threads", "", relaxed.cores.wish, &|shape| shape.threads),
        ("memory", " GiB", relaxed.ram_gib.wish, &|shape| shape.ram_gib),
        ("disk", " GB", relaxed.disk_gb.wish, &|shape| shape.disk_gb(relaxed.disk_gb.wish)),
    ];
    for (what, unit, wanted, value) in checks {
        let (most, site) = largest(value);
        if most < wanted {
            let of = if unit.is_empty() { "" } else { " of" };
            return format!("no type has {wanted}{unit}{of} {what} (largest {most} at {site})");
        }
    }
    if let Some(feature) = relaxed.features.iter().find(|feature| !variants.iter().any(|one| one.shape.has(**feature)))
    {
        let name = feature.name();
        return format!("no type has {name}; do without it: --without {name}");
    }
    let cards = asked.gpu.as_ref().map_or(String::new(), |gpu| {
        let cuda = gpu.cuda.map_or(String::new(), |cuda| format!(" with CUDA {cuda}"));
        let oldest = gpu.capability.map_or(String::new(), |least| format!(" and compute capability {least}"));
        format!(", {} x {} GB of {}{cuda}{oldest}", gpu.count.least, gpu.memory_gb, gpu.vendor)
    });
    let features: String = relaxed.features.iter().map(|feature| format!(", {}", feature.name())).collect();
    format!(
        "no type has all of it together: {} threads, {} GiB, {} GB of disk{cards}{features} on {}",
        relaxed.cores.wish, relaxed.ram_gib.wish, relaxed.disk_gb.wish, relaxed.arch
    )
}
