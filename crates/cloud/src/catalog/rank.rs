//! Which of those that fit is best: tiers by capability, then a fixed order of criteria. Owns the
//! order, which is total; names of types decide nothing but the last tie.

use serde::Serialize;

use super::fit::{Misfit, fits, relax};
use super::host::{Catalogue, Origin, Shape, Variant};
use super::needs::Needs;
use super::window::{Allocation, Availability, WindowRequest, availability};
use crate::analyze::card;
use crate::catalog::cost::Cost;

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefer {
    /// The tier.
    #[default]
    Fit,
    /// The cost.
    Cost,
    /// The earliest start.
    Start,
}

/// The decision a need falls under; every boundary is strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// A card of more than 24 GB.
    GpuOver24,
    /// A card of more than 16 GB.
    GpuOver16,
    /// Any other card.
    Gpu,
    /// Memory over 256 GiB.
    Memory,
    /// More than 48 threads.
    Cores,
    /// None of these.
    Standard,
}

impl Class {
    /// The class of a need.
    #[must_use]
    pub fn of(needs: &Needs) -> Self {
        match &needs.gpu {
            Some(gpu) if gpu.memory_gb > 24 => Self::GpuOver24,
            Some(gpu) if gpu.memory_gb > 16 => Self::GpuOver16,
            Some(_) => Self::Gpu,
            None if needs.ram_gib.wish > 256 => Self::Memory,
            None if needs.cores.wish > 48 => Self::Cores,
            None => Self::Standard,
        }
    }
}

/// A place that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offering {
    /// What it is.
    pub variant: Variant,
    /// Its tier, from 1.
    pub tier: u8,
    /// Whether it is free.
    pub availability: Availability,
    /// What it costs.
    pub cost: Cost,
}

/// What is ranked, and when.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The needs.
    pub needs: &'a Needs,
    /// Sites, the first one first; a later site comes after all of an earlier one.
    pub sites: &'a [String],
    /// When and how long.
    pub asked: WindowRequest,
    /// What comes first.
    pub prefer: Prefer,
}

/// Offerings, the best first, and what was relaxed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    /// The offerings.
    pub offerings: Vec<Offering>,
    /// The needs they meet.
    pub needs: Needs,
    /// The decision they fell under.
    pub class: Class,
    /// What people should know.
    pub notes: Vec<String>,
}

/// Ranks a catalogue for needs.
///
/// # Errors
/// Nothing at the sites fits; with other sites that do.
pub fn rank(
    question: &Question<'_>,
    catalogue: &Catalogue,
    allocations: Option<&[Allocation]>,
) -> Result<Ranking, Misfit> {
    let allowed: Vec<&Variant> =
        catalogue.variants.iter().filter(|variant| question.sites.contains(&variant.site)).collect();
    let relaxed = relax(question.needs, &allowed).map_err(|mut misfit| {
        let others = elsewhere(question, catalogue);
        if !others.is_empty() {
            misfit.message.push_str(&format!("; fits at {}", others.join(", ")));
        }
        misfit
    })?;
    let class = Class::of(&relaxed.needs);
    let mut offerings = Vec::new();
    for site in question.sites {
        let fitting: Vec<&Variant> =
            allowed.iter().copied().filter(|v| v.site == *site && fits(&relaxed.needs, &v.shape)).collect();
        let smallest =
            fitting.iter().filter_map(|variant| variant.shape.cards.as_ref()).map(|cards| cards.memory_gb).min();
        let of = |variant: Variant| Offering {
            tier: tier(class, &variant.shape, smallest),
            availability: availability(&variant.ids, allocations, &question.asked),
            cost: variant.cost(question.asked.hours, catalogue.origin == Origin::Live),
            variant,
        };
        let mut here: Vec<(usize, Offering)> = Vec::new();
        for variant in fitting {
            // Of hosts that are asked for by name the free ones come first, and one of each kind before the others of any.
            let mut hosts: Vec<Offering> = variant.askable().into_iter().map(of).collect();
            hosts.sort_by_key(|offering| offering.availability);
            here.extend(hosts.into_iter().enumerate());
        }
        here.sort_by_cached_key(|(place, offering)| key(question, class, &relaxed.needs, *place, offering));
        offerings.extend(here.into_iter().map(|(_, offering)| offering));
    }
    let mut notes = relaxed.notes;
    if let Some(best) = offerings.first()
        && !is_known(&relaxed.needs, &best.variant.shape)
    {
        let (cuda, cards) = (relaxed.needs.gpu.as_ref().and_then(|gpu| gpu.cuda), &best.variant.shape.cards);
        let of = cards.as_ref().map_or("", |cards| cards.model.as_str());
        let cuda = cuda.map_or_else(String::new, |cuda| cuda.to_string());
        notes.push(format!("CUDA {cuda} is older than the {of}: binaries without newer code need recompiling"));
    }
    Ok(Ranking { offerings, needs: relaxed.needs, class, notes })
}

/// Whether the CUDA that is asked for knows the cards of a host.
fn is_known(needs: &Needs, shape: &Shape) -> bool {
    let cuda = needs.gpu.as_ref().and_then(|gpu| gpu.cuda);
    let capability = shape.cards.as_ref().and_then(|cards| cards.capability);
    cuda.zip(capability).is_none_or(|(cuda, capability)| card::knows(cuda, capability))
}

fn elsewhere(question: &Question<'_>, catalogue: &Catalogue) -> Vec<String> {
    let others = catalogue.variants.iter().filter(|variant| !question.sites.contains(&variant.site));
    let mut found: Vec<String> = others
        .filter(|variant| relax(question.needs, &[*variant]).is_ok())
        .map(|variant| format!("{} ({})", variant.site, variant.node_type))
        .collect();
    found.sort();
    found.dedup();
    found.truncate(5);
    found
}

/// The tier of a host under a decision. `smallest` is the memory of the smallest card that fits at its site.
#[must_use]
pub fn tier(class: Class, shape: &Shape, smallest: Option<u32>) -> u8 {
    let memory = shape.cards.as_ref().map_or(0, |cards| cards.memory_gb);
    let is_first = match class {
        Class::GpuOver24 => memory >= 40,
        Class::GpuOver16 => memory == 24,
        Class::Gpu => Some(memory) == smallest,
        Class::Memory | Class::Cores => !shape.is_accelerated(),
        Class::Standard => shape.threads <= 48 && !shape.is_accelerated() && !has_special_disk(shape),
    };
    match (is_first, class) {
        (true, _) => 1,
        (false, Class::Standard) if !shape.is_accelerated() => 2,
        (false, Class::Standard) => 3,
        (false, _) => 2,
    }
}

/// Disks that others need more: NVMe, persistent memory, or many.
fn has_special_disk(shape: &Shape) -> bool {
    shape.nvdimm || shape.disks.len() > 2 || shape.disks.iter().any(|disk| disk.nvme)
}

/// What is compared, in this order; the first parts depend on the preference.
type Key = ((u8, bool), usize, u64, u64, u8, u64, bool, i64, u64, u64, (String, usize));

fn key(question: &Question<'_>, class: Class, needs: &Needs, place: usize, offering: &Offering) -> Key {
    let shape = &offering.variant.shape;
    let (free, start) = match offering.availability {
        Availability::Free { start } => (0, start.as_second()),
        Availability::Unknown => (1, 0),
        Availability::Taken { first } => (2, first.map_or(i64::MAX, jiff::Timestamp::as_second)),
    };
    let su = offering.cost.milli_su;
    let by_cost = if question.prefer == Prefer::Cost { su } else { 0 };
    let by_start = if question.prefer == Prefer::Start { u64::try_from(start).unwrap_or(u64::MAX) } else { 0 };
    let within = match class {
        Class::Memory => u64::from(shape.ram_gib),
        Class::Cores => u64::from(shape.threads),
        _ => 0,
    };
    let unneeded = shape.is_accelerated() && needs.gpu.is_none();
    let name = offering.variant.node_type.clone();
    (
        (free, !is_known(needs, shape)),
        place,
        by_cost,
        by_start,
        offering.tier,
        within,
        unneeded,
        start,
        su,
        surplus(needs, shape),
        (name, offering.variant.count),
    )
}

/// How much more a host has than is needed: the sum of the relative excesses, in thousandths.
#[must_use]
pub fn surplus(needs: &Needs, shape: &Shape) -> u64 {
    let over = |has: u32, needed: u32| {
        let needed = u64::from(needed.max(1));
        u64::from(has).saturating_sub(needed).saturating_mul(1000) / needed
    };
    let mut sum = over(shape.threads, needs.cores.wish) + over(shape.ram_gib, needs.ram_gib.wish);
    sum += over(shape.disk_gb(needs.disk_gb.wish), needs.disk_gb.wish);
    if let (Some(gpu), Some(cards)) = (&needs.gpu, &shape.cards) {
        sum += over(cards.count, gpu.count.wish) + over(cards.memory_gb, gpu.memory_gb);
    }
    sum
}

/// The type that an alias stands for at a site, or the type itself: some names do not exist and are taken for a class.
#[must_use]
pub(crate) fn resolve_type(name: &str, site: &str, catalogue: &Catalogue) -> Option<TypeChoice> {
    if catalogue.at(site).any(|variant| variant.node_type == name) {
        return Some(TypeChoice::Exact);
    }
    match name {
        "gpu_a100" => Some(TypeChoice::Class(Class::GpuOver24)),
        "gpu_rtx_5000" => Some(TypeChoice::Class(Class::Gpu)),
        "compute_384gb" => Some(TypeChoice::Class(Class::Memory)),
        "compute_cascadelake_r640" => Some(TypeChoice::Other("compute_cascadelake_r")),
        _ => None,
    }
}

/// What a name of a type means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeChoice {
    /// The type of that name.
    Exact,
    /// The type of another name.
    Other(&'static str),
    /// The best type of a class.
    Class(Class),
}

/// The type that is taken where no catalogue is usable and no GPU is needed: the first of these that exists, else the
/// cheapest standard one.
#[must_use]
pub fn default_type<'a>(site: &str, catalogue: &'a Catalogue) -> Option<&'a Variant> {
    let here = || catalogue.variants.iter().filter(|variant| variant.site == site);
    let named = ["compute_cascadelake_r", "compute_skylake", "compute_haswell"];
    named
        .iter()
        .find_map(|name| here().find(|variant| variant.node_type == *name && !variant.shape.is_accelerated()))
        .or_else(|| {
            let plain = here().filter(|variant| tier(Class::Standard, &variant.shape, None) < 3);
            plain.min_by_key(|variant| {
                (variant.su_milli.unwrap_or(1000), variant.shape.threads, variant.node_type.clone())
            })
        })
}
