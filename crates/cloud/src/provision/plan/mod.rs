//! Plans: which types of servers to try, in which order, with which image, when, for how long and at what cost. Made of the requirements of
//! a repository, a catalogue and the wishes of the user; creates nothing and needs no credentials.
//!
//! ```
//! use orlop_cloud::analyze::{FileKind, analyze};
//! use orlop_cloud::catalog::embedded;
//! use orlop_cloud::provision::plan::{Request, World, plan};
//! use orlop_cloud::repository::{Scan, ScannedFile};
//! let (path, text) = ("README.md", "# Tuning\n\nRequires a GPU with at least 24 GB of memory.\n");
//! let file = ScannedFile { path: path.into(), kind: FileKind::of(path).ok_or("a known kind")?, text: text.into() };
//! let analysis = analyze(&Scan { files: vec![file], ..Scan::default() });
//!
//! let catalogue = embedded();
//! let world = World { catalogue: &catalogue, allocations: None, images: None };
//! let request = Request { sites: vec!["uc".into(), "tacc".into()], ..Request::new("2026-12-01T08:00:00Z".parse()?) };
//! let plan = plan(&analysis, &world, &request)?;
//! assert!(plan.best().is_some_and(|offering| offering.site == "uc" || offering.site == "tacc"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod closest;
mod deployment;
mod document;
mod error;
mod machines;
mod place;
mod saved;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use crate::analyze::os::{Os, OsType};
use crate::analyze::requirements::{GPU_UNKNOWN, LOW_CONFIDENCE, TPU_NEEDED};
use crate::analyze::{Analysis, Version};
use crate::catalog::cost::MAX_HOURS;
use crate::catalog::fit::Misfit;
use crate::catalog::host::Catalogue;
use crate::catalog::image::{self, Image, Wanted, candidates};
use crate::catalog::needs::{Needs, Overrides};
use crate::catalog::rank::{Offering, Prefer, Question, Ranking};
use crate::catalog::window::{Allocation, Availability, WindowRequest};
use place::{check_hosts, check_sites, narrow};

pub use deployment::PlannedDeployment;
pub use document::{Plan, PlannedFlavor, PlannedImage, PlannedOffering};
pub use error::PlanError;
pub use machines::MachineKind;
pub use saved::{BadPlan, MAX_PLAN, SavedPlan, Stale, digest};

/// What the user asks of a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// Sites in the order of preference.
    pub sites: Vec<String>,
    /// Further sites that were named and are left out of this plan.
    pub others: Vec<String>,
    /// What the user sets in place of the requirements.
    pub overrides: Overrides,
    /// The operating system; none: as the requirements say.
    pub os: Option<Os>,
    /// The image, by name or id; none: one is chosen by the operating system.
    pub image: Option<String>,
    /// The type of host or virtual machine; none: any that fits.
    pub node_type: Option<String>,
    /// Whether hosts, virtual machines or both are looked for.
    pub kind: MachineKind,
    /// The flavor of virtual machines, by name or id; none: any that fits.
    pub flavor: Option<String>,
    /// Whether virtual machines are reserved too; if not, they are there until they are removed.
    pub reserve: bool,
    /// Whether a virtual machine is taken where no host fits.
    pub vm_fallback: bool,
    /// Length of the lease in hours; none: by the rules.
    pub hours: Option<u32>,
    /// Hours that were advised; they count where the user says nothing, and are shortened to fit a budget.
    pub advised_hours: Option<u32>,
    /// Images that were advised, by id, the best first; they count where they are admissible.
    pub preferred_images: Vec<String>,
    /// The longest lease that is allowed, in hours; none: that of the site.
    pub max_hours: Option<u32>,
    /// The start, with the delay, rounded up to a minute.
    pub start: Timestamp,
    /// How much later it may start.
    pub within: SignedDuration,
    /// What is kept free before and after.
    pub margin: SignedDuration,
    /// What decides between types that fit.
    pub prefer: Prefer,
    /// Budget in service units; none: no limit.
    pub max_su: Option<u64>,
    /// Whether the closest type is taken where nothing fits, with the numbers that it has.
    pub accept_closest: bool,
    /// The most types of servers in the plan that are tried one after the other.
    pub attempts: usize,
    /// Whether types without free servers are in the plan too, after all others and not counted in `attempts`, to wait for them.
    pub waits: bool,
}

impl Request {
    /// The defaults, for a lease that begins at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            sites: vec!["uc".to_owned()],
            others: Vec::new(),
            overrides: Overrides::default(),
            os: None,
            image: None,
            node_type: None,
            kind: MachineKind::default(),
            flavor: None,
            reserve: true,
            vm_fallback: false,
            hours: None,
            advised_hours: None,
            preferred_images: Vec::new(),
            max_hours: None,
            start,
            within: SignedDuration::ZERO,
            margin: SignedDuration::from_mins(5),
            prefer: Prefer::default(),
            max_su: None,
            accept_closest: false,
            attempts: 4,
            waits: false,
        }
    }
}

/// What is known of the sites.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// Hosts.
    pub catalogue: &'a Catalogue,
    /// When hosts are taken, if anybody says.
    pub allocations: Option<&'a [Allocation]>,
    /// Images that may be chosen by rule, if they could be listed.
    pub images: Option<&'a [Image]>,
}

/// Plans. Pure: the same arguments give the same plan.
///
/// # Errors
/// Wrong arguments, nothing that fits, nothing free, or over the budget.
pub fn plan(analysis: &Analysis, world: &World<'_>, request: &Request) -> Result<Plan, PlanError> {
    match planned_within(analysis, world, request) {
        Err(PlanError::Misfit(Misfit { closest: Some(closest), .. })) if request.accept_closest => {
            let (request, taken) = closest::accepted(&closest, request);
            let mut plan = planned_within(analysis, world, &request)?;
            plan.warnings.push(taken);
            Ok(plan)
        }
        other => other,
    }
}

fn planned_within(analysis: &Analysis, world: &World<'_>, request: &Request) -> Result<Plan, PlanError> {
    check_sites(request, world.catalogue)?;
    let wished = hours(analysis, request)?;
    let refused = match plan_for(wished, analysis, world, request) {
        Err(error @ PlanError::Budget { .. }) if request.hours.is_none() => error,
        other => return other,
    };
    // Shorter than advised, but not than the repository asks for: the longest that the budget allows.
    let (mut least, mut most) = (analysis.requirements.duration_hours.target.unwrap_or(1).min(wished), wished);
    let mut found = None;
    while least < most {
        let middle = least.midpoint(most);
        match plan_for(middle, analysis, world, request) {
            Ok(plan) => (found, least) = (Some(plan), middle + 1),
            Err(_) => most = middle,
        }
    }
    let mut plan = found.ok_or(refused)?;
    plan.notes.push(format!("shortened from {wished} h to {} h to fit the budget", plan.hours));
    Ok(plan)
}

/// The images that may be chosen for the best offering of a plan, the first by rule first; none where the user names one.
#[must_use]
pub fn admissible_images<'a>(plan: &Plan, analysis: &Analysis, world: &World<'a>, request: &Request) -> Vec<&'a Image> {
    let (Some(images), Some(best), None) = (world.images, plan.best(), &request.image) else { return Vec::new() };
    let needs = Needs::of(&analysis.requirements, &request.overrides);
    let os = request.os.unwrap_or_else(|| system(analysis));
    let vgpu = best.flavor.as_ref().is_some_and(|flavor| flavor.vgpu);
    candidates(images, &Wanted { os, needs: &needs, shape: &best.hardware, vgpu })
}

fn plan_for(hours: u32, analysis: &Analysis, world: &World<'_>, request: &Request) -> Result<Plan, PlanError> {
    let requirements = &analysis.requirements;
    let mut notes = analysis.notes.clone();
    let mut warnings = Vec::new();
    if requirements.has_flag(LOW_CONFIDENCE) {
        warnings.push("low confidence: little in the repository says what it needs".to_owned());
    }
    if let Some(flag) = requirements.flags.iter().find(|flag| flag.starts_with("instruction-like")) {
        warnings.push(format!("{flag}; such lines were not used"));
    }
    let is_said = request.overrides.gpu_count.is_some() || request.overrides.no_gpu;
    if requirements.has_flag(GPU_UNKNOWN) && !is_said {
        warnings
            .push("nothing indicates whether a GPU is needed, and none is planned: use --gpu N or --no-gpu".to_owned());
    }
    if requirements.has_flag(TPU_NEEDED) {
        warnings.push("the repository needs a TPU, and no site has one".to_owned());
    }
    check_hosts(request, world.catalogue)?;
    let needs = Needs::of(requirements, &request.overrides);
    let asked = WindowRequest { start: request.start, hours, within: request.within, margin: request.margin };
    let question = Question { needs: &needs, sites: &request.sites, asked, prefer: request.prefer };
    let (mut offerings, mut class, mut refused, mut of_images) = (Vec::new(), None, None, Vec::new());
    for part in machines::parts(request, world.catalogue, &needs)? {
        let room = part.room(request, offerings.len());
        let found = part.ranked(&question, world, request, &mut notes).and_then(|ranking| {
            let offered = offered(&ranking, room, analysis, world, request, (&mut notes, &mut of_images))?;
            Ok((ranking.class, offered))
        });
        match found {
            Ok((of, offered)) => {
                if part.is_fallback
                    && offerings.is_empty()
                    && let Some(refused) = &refused
                {
                    notes.push(format!("{refused}: a virtual machine takes the place of a host"));
                }
                class.get_or_insert(of);
                offerings.extend(offered);
            }
            // What keeps the first from being had is what the user has to know.
            Err(error) => drop(refused.get_or_insert(machines::hidden(error, request, world.catalogue))),
        }
    }
    let Some(class) = class else { return Err(refused.unwrap_or(PlanError::Unleased)) };
    machines::warn(&offerings, world.catalogue.origin, request, &mut warnings)?;
    warnings.extend(of_images);
    Ok(Plan::new(requirements.clone(), world.catalogue.origin, class, hours, offerings, notes, warnings))
}

/// So many of those that are free as offerings of a plan, with an image each and within the budget.
fn offered(
    ranking: &Ranking,
    room: usize,
    analysis: &Analysis,
    world: &World<'_>,
    request: &Request,
    (notes, warnings): (&mut Vec<String>, &mut Vec<String>),
) -> Result<Vec<PlannedOffering>, PlanError> {
    let (mut offerings, mut left) = (Vec::new(), None);
    let is_taken = |offering: &Offering| matches!(offering.availability, Availability::Taken { .. });
    for offering in &ranking.offerings {
        // Those come last: whoever waits, waits for all of them.
        if offerings.len() >= room && !is_taken(offering) {
            continue;
        }
        match within_budget(offering, request)
            .and_then(|()| planned(offering, &ranking.needs, analysis, world, request, warnings))
        {
            Ok(planned) => offerings.push(planned),
            // The first one decides; later ones are only fallbacks.
            Err(error) if offerings.is_empty() && !error.is_of_one_offering() => return Err(error),
            Err(error) => {
                notes.push(format!("{} at {} left out: {error}", offering.variant.node_type, offering.variant.site));
                if matches!(error, PlanError::NoImage { .. } | PlanError::LargeImage { .. }) {
                    left.get_or_insert(error);
                }
            }
        }
    }
    if !offerings.is_empty() || room == 0 {
        return Ok(offerings);
    }
    Err(match (all_left_out(ranking, request), left) {
        // What was looked for says more.
        (PlanError::NoImage { .. }, Some(left)) => left,
        (why, _) => why,
    })
}

/// How long: as the user says, else as the repository says, never beyond what the user caps.
fn hours(analysis: &Analysis, request: &Request) -> Result<u32, PlanError> {
    if let Some(hours) = request.hours.filter(|hours| !(1..=MAX_HOURS).contains(hours)) {
        return Err(PlanError::Duration { hours });
    }
    let wished = request
        .hours
        .or(request.advised_hours)
        .or(analysis.requirements.duration_hours.target)
        .unwrap_or(24)
        .clamp(1, MAX_HOURS);
    match request.max_hours {
        Some(most) if request.hours.is_some_and(|hours| hours > most) => {
            Err(PlanError::Lifetime { hours: wished, most })
        }
        Some(most) => Ok(wished.min(most.max(1))),
        None => Ok(wished),
    }
}

fn within_budget(offering: &Offering, request: &Request) -> Result<(), PlanError> {
    match request.max_su {
        Some(max_su) if !offering.cost.is_within(max_su) => {
            Err(PlanError::Budget { estimate: offering.cost.text(), max_su })
        }
        _ => Ok(()),
    }
}

fn planned(
    offering: &Offering,
    needs: &Needs,
    analysis: &Analysis,
    world: &World<'_>,
    request: &Request,
    warnings: &mut Vec<String>,
) -> Result<PlannedOffering, PlanError> {
    let start = match offering.availability {
        Availability::Free { start } | Availability::Taken { first: Some(start) } => start,
        _ => request.start,
    };
    let (image, next) = choose_image(offering, needs, analysis, world, request, warnings)?;
    Ok(PlannedOffering::new(offering, start, request.reserve, image, next))
}

/// The image, and the next one by rule.
fn choose_image(
    offering: &Offering,
    needs: &Needs,
    analysis: &Analysis,
    world: &World<'_>,
    request: &Request,
    warnings: &mut Vec<String>,
) -> Result<(PlannedImage, Option<PlannedImage>), PlanError> {
    let mut warn = |warning: String| {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    };
    if let Some(name) = &request.image {
        let found: Vec<&Image> =
            world.images.into_iter().flatten().filter(|image| image.id == *name || image.name == *name).collect();
        let site = &offering.variant.site;
        return match (world.images, found.as_slice()) {
            (None, _) => Ok((PlannedImage::named(name), None)),
            (Some(_), [one, ..]) if one.min_disk_gb > u64::from(offering.variant.shape.root_disk_gb()) => {
                Err(PlanError::LargeImage {
                    name: name.clone(),
                    least: one.min_disk_gb,
                    node_type: offering.variant.node_type.clone(),
                    site: site.clone(),
                    most: offering.variant.shape.root_disk_gb(),
                })
            }
            (Some(_), [one, ..]) => {
                warn(format!("image {name} was named by hand and is not checked"));
                Ok((PlannedImage::of(one), None))
            }
            (Some(all), []) => {
                let mut names: Vec<&str> = all.iter().map(|image| image.name.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                names.truncate(30);
                Err(PlanError::UnknownImage { name: name.clone(), site: site.clone(), known: names.join(", ") })
            }
        };
    }
    let os = request.os.unwrap_or_else(|| system(analysis));
    let usual = image::usual();
    let images = world.images.unwrap_or(&usual);
    let vgpu = offering.variant.vm.as_ref().is_some_and(|vm| vm.vgpu);
    let wanted = Wanted { os, needs, shape: &offering.variant.shape, vgpu };
    let offered = candidates(images, &wanted);
    let preferred = request.preferred_images.iter().find_map(|id| offered.iter().find(|image| image.id == *id));
    let Some(best) = preferred.or(offered.first()).copied() else {
        if world.images.is_none() {
            return Ok((PlannedImage::named(image::default_name(needs)), None));
        }
        let wanted = format!("{} {}", os.kind.name(), os.version_text());
        return Err(PlanError::NoImage { wanted, site: offering.variant.site.clone() });
    };
    if os.is_end_of_life() {
        warn(format!("{} {} is at the end of its life: {} is taken", os.kind.name(), os.version_text(), best.name));
    }
    let next = offered.iter().find(|image| image.id != best.id);
    Ok((PlannedImage::of(best), next.map(|image| PlannedImage::of(image))))
}

fn system(analysis: &Analysis) -> Os {
    let requirements = &analysis.requirements;
    let kind = requirements.os_type.target.unwrap_or(OsType::Ubuntu);
    let version = requirements.os_version.target.as_deref().and_then(Version::read);
    Os { kind, version: version.unwrap_or(Os::DEFAULT.version), mapped: false }
}

fn taken(ranking: &Ranking, request: &Request) -> PlanError {
    let first = ranking.offerings.iter().filter_map(|offering| match offering.availability {
        Availability::Taken { first } => Some((first?, offering)),
        _ => None,
    });
    let earliest = first.min_by_key(|(first, _)| *first);
    let mut types: Vec<&str> = ranking.offerings.iter().map(|offering| offering.variant.node_type.as_str()).collect();
    types.dedup();
    PlanError::Taken {
        types: types.join(", "),
        site: request.sites.join(", "),
        until: earliest.map(|(first, _)| first.to_string()),
    }
}

/// Why no offering is left: the budget or the image of the best one.
fn all_left_out(ranking: &Ranking, request: &Request) -> PlanError {
    let is_free = |offering: &&Offering| !matches!(offering.availability, Availability::Taken { .. });
    let best = ranking.offerings.iter().filter(|offering| request.waits || is_free(offering));
    let cheapest = best.min_by_key(|offering| offering.cost.milli_su);
    match (cheapest, request.max_su) {
        (Some(offering), Some(max_su)) if !offering.cost.is_within(max_su) => {
            PlanError::Budget { estimate: offering.cost.text(), max_su }
        }
        (Some(offering), _) => {
            PlanError::NoImage { wanted: "an image that fits".to_owned(), site: offering.variant.site.clone() }
        }
        (None, _) => PlanError::Taken { types: String::new(), site: request.sites.join(", "), until: None },
    }
}
