//! A plan of before, read from its file. Owns its reading, and whether it still holds: the
//! hardware, the price, the image and the window that somebody agreed to. What is asked of a cloud is made anew by code.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::document::{SCHEMA, standing};
use super::{PlannedDeployment, PlannedImage, PlannedOffering, World};
use crate::catalog::Origin;
use crate::catalog::cost::MAX_HOURS;
use crate::catalog::image::Image;
use crate::catalog::window::{Availability, WindowRequest, availability, round_up};
use crate::provision::join::Join;

/// Bytes of a plan that are read.
pub const MAX_PLAN: usize = 4 << 20;
/// Offerings that are read.
const MAX_OFFERINGS: usize = 100;
/// A plan whose start is longer ago holds no more.
const OLD: SignedDuration = SignedDuration::from_hours(24);

/// A plan of before.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedPlan {
    /// The version of the form.
    pub schema: String,
    /// What the machine must have, with evidence.
    pub requirements: Value,
    /// How long, in hours.
    pub hours: u32,
    /// What is tried, in this order.
    pub offerings: Vec<PlannedOffering>,
    /// Warnings and remarks of the plan.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Which repository it is for.
    #[serde(default)]
    pub repository: Value,
    /// The deployment that it is for, if a cloud was asked.
    #[serde(default)]
    pub deployment: Option<PlannedDeployment>,
    /// The fleet that its machine joins.
    #[serde(default)]
    pub join: Option<Join>,
    /// The longest lease that is allowed, in hours.
    #[serde(default)]
    pub max_lifetime_h: Option<u32>,
    /// Seconds without a job after which the machine is removed.
    #[serde(default)]
    pub idle_stop_s: Option<u64>,
}

/// A file that is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not a plan of this program: {0}")]
pub struct BadPlan(String);

/// A plan that holds no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan is outdated: {0}; create another one")]
pub struct Stale(String);

impl SavedPlan {
    /// Reads a plan, or the whole result that holds one.
    ///
    /// # Errors
    /// It is too long, none, of another version, or beyond the bounds of any plan.
    pub fn read(text: &str) -> Result<Self, BadPlan> {
        if text.len() > MAX_PLAN {
            return Err(BadPlan("it is longer than 4 MiB".to_owned()));
        }
        let mut document: Value = serde_json::from_str(text).map_err(|_| BadPlan("it is not JSON".to_owned()))?;
        if let Some(data) = document.get_mut("data") {
            document = data.take();
        }
        let schema = document.get("schema").and_then(Value::as_str).unwrap_or_default();
        if schema != SCHEMA {
            return Err(BadPlan(format!("its schema is not {SCHEMA}")));
        }
        let plan: Self = serde_json::from_value(document).map_err(|error| BadPlan(error.to_string()))?;
        if !(1..=MAX_HOURS).contains(&plan.hours) {
            return Err(BadPlan(format!("its {} h are not 1 to {MAX_HOURS}", plan.hours)));
        }
        if plan.offerings.is_empty() || plan.offerings.len() > MAX_OFFERINGS {
            return Err(BadPlan("it offers nothing, or too much".to_owned()));
        }
        Ok(plan)
    }

    /// What of the plan still holds at a site, with notes on what moved. Where a free host is waited for, what is taken holds too,
    /// behind what is free.
    ///
    /// # Errors
    /// Nothing of it does.
    pub fn renewed(
        &self,
        site: &str,
        world: &World<'_>,
        now: Timestamp,
        waits: bool,
        margin: SignedDuration,
    ) -> Result<(Vec<PlannedOffering>, Vec<String>), Stale> {
        let (mut kept, mut notes, mut first) = (Vec::new(), Vec::new(), None);
        for offering in self.offerings.iter().filter(|offering| offering.site == site) {
            match self.renew(offering, world, now, waits, margin) {
                Ok((offering, note)) => {
                    notes.extend(note);
                    kept.push(offering);
                }
                Err(stale) => {
                    notes.push(stale.0.clone());
                    first.get_or_insert(stale);
                }
            }
        }
        if kept.is_empty() {
            return Err(first.unwrap_or_else(|| Stale(format!("it offers nothing at {site}"))));
        }
        kept.sort_by_key(PlannedOffering::is_taken);
        Ok((kept, notes))
    }

    fn renew(
        &self,
        offering: &PlannedOffering,
        world: &World<'_>,
        now: Timestamp,
        waits: bool,
        margin: SignedDuration,
    ) -> Result<(PlannedOffering, Option<String>), Stale> {
        let what = format!("{} at {}", offering.node_type, offering.site);
        let same = |variant: &&crate::catalog::Variant| {
            variant.node_type == offering.node_type
                && variant.shape == offering.hardware
                && variant.vm.as_ref().map(|vm| &vm.id) == offering.flavor.as_ref().map(|flavor| &flavor.id)
        };
        let Some(variant) = world.catalogue.at(&offering.site).find(same) else {
            return Err(Stale(format!("{what} no longer exists, or has other hardware")));
        };
        let image = image_of(&offering.image, world.images.unwrap_or_default())
            .ok_or_else(|| Stale(format!("image {} no longer exists", offering.image.name)))?;
        // The host that the plan names, as far as the site names it too.
        let askable = variant.askable();
        let named = askable.iter().find(|one| one.filters().1 == offering.resource_properties);
        let variant = named.or(askable.first()).unwrap_or(variant);
        let is_live = world.catalogue.origin == Origin::Live;
        let price = variant.cost(self.hours, is_live);
        if is_live && price.milli_su > offering.su_milli {
            return Err(Stale(format!("{what} costs {} instead of {}", price.text(), offering.cost().text())));
        }
        let planned: Timestamp =
            offering.start.parse().map_err(|_| Stale(format!("the start of {what} is not a time")))?;
        if now.duration_since(planned) > OLD {
            return Err(Stale(format!("the start of {what} was {}", offering.start)));
        }
        let start = if planned < now { round_up(now).unwrap_or(now) } else { planned };
        let asked = WindowRequest { start, hours: self.hours, within: SignedDuration::ZERO, margin };
        let stands = availability(&variant.ids, world.allocations, &asked);
        let start = match stands {
            Availability::Taken { .. } if !waits => {
                return Err(Stale(format!("{what} is taken in the window of the plan")));
            }
            Availability::Taken { first } => first.unwrap_or(start),
            _ => start,
        };
        let (hypervisor_properties, resource_properties) = variant.filters();
        let end = start.checked_add(SignedDuration::from_hours(i64::from(self.hours))).unwrap_or(start);
        let note = match stands {
            Availability::Taken { .. } => Some(format!("{what} is taken in the window of the plan: it is waited for")),
            _ if start > planned => Some(format!("the start of {what} moved from {} to now", offering.start)),
            _ => None,
        };
        let renewed = PlannedOffering {
            hypervisor_properties,
            resource_properties,
            image,
            availability: standing(&stands).to_owned(),
            start: start.to_string(),
            end: end.to_string(),
            su_milli: price.milli_su,
            su_known: price.known,
            su_estimate: price.text(),
            ..offering.clone()
        };
        Ok((renewed, note))
    }
}

/// An image of a plan as the site has it: by its id, or, in a plan that was made without asking, the newest of its name.
fn image_of(planned: &PlannedImage, known: &[Image]) -> Option<PlannedImage> {
    let found = match &planned.id {
        Some(id) => known.iter().find(|image| image.id == *id),
        None => {
            let named = known.iter().filter(|image| image.active && image.name == planned.name);
            named.max_by_key(|image| (&image.created_at, &image.id))
        }
    };
    found.map(PlannedImage::of)
}

/// The digest of a plan, by which a state file names it.
#[must_use]
pub fn digest(plan: &Value) -> String {
    let sum = Sha256::digest(plan.to_string().as_bytes());
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::{FileKind, analyze};
    use crate::catalog::{Catalogue, read_allocations, read_hosts};
    use crate::provision::plan::{Request, plan};
    use crate::repository::{Scan, ScannedFile};

    const HOST: &str = r#"[{"id":"1","uid":"u1","node_type":"compute_x","architecture.smt_size":"48","main_memory.ram_size":"137438953472","storage_devices.0.size":"250000000000","su_factor":"RATE"}]"#;

    fn catalogue(rate: &str) -> Catalogue {
        Catalogue::of_hosts(Origin::Live, "here", &read_hosts(&HOST.replace("RATE", rate)).unwrap())
    }

    fn image(id: &str) -> Image {
        Image { id: id.into(), name: "CC-Ubuntu22.04".into(), active: true, ..Image::default() }
    }

    fn now() -> Timestamp {
        "2026-01-05T14:02:00Z".parse().unwrap()
    }

    fn saved() -> String {
        let kind = FileKind::of("requirements.txt").unwrap();
        let file = ScannedFile { path: "requirements.txt".into(), kind, text: "flask\n".into() };
        let analysis = analyze(&Scan { files: vec![file], ..Scan::default() });
        let (catalogue, images) = (catalogue("1.0"), [image("i")]);
        let world = World { catalogue: &catalogue, allocations: Some(&[]), images: Some(&images) };
        let plan = plan(&analysis, &world, &Request { sites: vec!["here".into()], ..Request::new(now()) }).unwrap();
        serde_json::to_string(&plan).unwrap()
    }

    #[test]
    fn a_saved_plan_is_read_alone_or_within_its_result() {
        let text = saved();
        let plan = SavedPlan::read(&text).unwrap();
        assert_eq!(SavedPlan::read(&format!("{{\"ok\": true, \"data\": {text}}}")).unwrap(), plan);
        assert_eq!(plan.offerings.first().unwrap().node_type, "compute_x");
        for bad in ["", "{}", "{\"schema\": \"orlop.plan/2\"}", &text.replace("\"hours\":24", "\"hours\":169")] {
            assert!(SavedPlan::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_plan_holds_while_hardware_price_image_and_window_do() {
        let plan = SavedPlan::read(&saved()).unwrap();
        let renewal = |rate: &str, images: &[Image], taken: &str, hours: i64| {
            let (catalogue, taken) = (catalogue(rate), read_allocations(taken).unwrap());
            let world = World { catalogue: &catalogue, allocations: Some(&taken), images: Some(images) };
            let at = now().checked_add(SignedDuration::from_hours(hours)).unwrap();
            let renewed = plan.renewed("here", &world, at, false, SignedDuration::from_mins(5));
            renewed
                .map(|(offerings, notes)| format!("{} {notes:?}", offerings.first().unwrap().start))
                .map_err(|stale| stale.to_string())
        };
        let (free, image) = (r#"{"allocations":[]}"#, [image("i")]);
        assert_eq!(renewal("1.0", &image, free, 0).unwrap(), "2026-01-05T14:02:00Z []");
        assert_eq!(
            renewal("0.5", &image, free, 1).unwrap(),
            "2026-01-05T15:02:00Z [\"the start of compute_x at here moved from 2026-01-05T14:02:00Z to now\"]"
        );
        assert!(renewal("1.5", &image, free, 0).unwrap_err().contains("costs 36 SU instead of 24 SU"));
        assert!(renewal("1.0", &[], free, 0).unwrap_err().contains("image CC-Ubuntu22.04 no longer exists"));
        assert!(renewal("1.0", &image, free, 25).unwrap_err().contains("the start of compute_x"));
        let taken = r#"{"allocations":[{"resource_id":"1","reservations":[{"start_date":"2026-01-05T20:00:00","end_date":"2026-01-05T21:00:00"}]}]}"#;
        assert!(renewal("1.0", &image, taken, 0).unwrap_err().contains("taken in the window"));
        assert!(
            plan.renewed(
                "elsewhere",
                &World { catalogue: &catalogue("1"), allocations: None, images: None },
                now(),
                false,
                SignedDuration::ZERO
            )
            .is_err()
        );
    }

    #[test]
    fn what_is_taken_holds_where_a_free_host_is_waited_for() {
        let plan = SavedPlan::read(&saved()).unwrap();
        let (catalogue, images) = (catalogue("1.0"), [image("i")]);
        let taken = r#"{"allocations":[{"resource_id":"1","reservations":[{"start_date":"2026-01-05T14:00:00","end_date":"2026-01-05T21:00:00"}]}]}"#;
        let taken = read_allocations(taken).unwrap();
        let world = World { catalogue: &catalogue, allocations: Some(&taken), images: Some(&images) };
        let (offerings, notes) = plan.renewed("here", &world, now(), true, SignedDuration::from_mins(5)).unwrap();
        let one = offerings.first().unwrap();
        assert_eq!(
            (one.is_taken(), one.start.as_str(), one.end.as_str()),
            (true, "2026-01-05T21:05:00Z", "2026-01-06T21:05:00Z")
        );
        assert_eq!(notes, ["compute_x at here is taken in the window of the plan: it is waited for"]);
        // What a file says of it is not believed.
        let claimed = SavedPlan::read(&saved().replace("\"free\"", "\"taken\"")).unwrap();
        let free = World { allocations: Some(&[]), ..world };
        let (offerings, _) = claimed.renewed("here", &free, now(), false, SignedDuration::ZERO).unwrap();
        assert!(!offerings.first().unwrap().is_taken());
    }

    #[test]
    fn a_plan_that_was_made_without_asking_finds_its_image_by_name_and_its_host_by_its_own() {
        let mut plan = SavedPlan::read(&saved()).unwrap();
        let offering = plan.offerings.first_mut().unwrap();
        offering.image.id = None;
        offering.resource_properties = r#"["=", "$uid", "u2"]"#.to_owned();
        let dated = |id: &str, created_at: &str| Image { created_at: created_at.into(), ..image(id) };
        let images = [
            dated("old", "2025-01-01"),
            dated("new", "2025-06-01"),
            Image { active: false, ..dated("off", "2026-01-01") },
        ];
        // A second host of the kind, and one of another: the type alone says too little.
        let one = HOST.trim_matches(['[', ']']).replace("RATE", "1.0");
        let other = |id: &str, threads: &str| {
            one.replace("\"id\":\"1\"", &format!("\"id\":\"{id}\""))
                .replace("u1", &format!("u{id}"))
                .replace("\"48\"", &format!("\"{threads}\""))
        };
        let hosts = format!("[{one},{},{}]", other("2", "48"), other("3", "96"));
        let catalogue = Catalogue::of_hosts(Origin::Live, "here", &read_hosts(&hosts).unwrap());
        let taken = r#"{"allocations":[{"resource_id":"1","reservations":[{"start_date":"2026-01-05T10:00:00","end_date":"2026-01-09T10:00:00"}]}]}"#;
        let taken = read_allocations(taken).unwrap();
        let world = World { catalogue: &catalogue, allocations: Some(&taken), images: Some(&images) };
        let (offerings, _) = plan.renewed("here", &world, now(), false, SignedDuration::ZERO).unwrap();
        let found = offerings.first().unwrap();
        assert_eq!(
            (found.image.id.as_deref(), found.resource_properties.as_str()),
            (Some("new"), r#"["=", "$uid", "u2"]"#)
        );
        assert_eq!(crate::provision::prepare::hosts_of(found, &catalogue), ["2"]);
    }

    #[test]
    fn filters_of_a_file_are_not_believed() {
        let text = saved().replace("compute_x\\\"]", "everything\\\"]");
        let plan = SavedPlan::read(&text).unwrap();
        assert!(plan.offerings.first().unwrap().resource_properties.contains("everything"));
        let (catalogue, images) = (catalogue("1.0"), [image("i")]);
        let world = World { catalogue: &catalogue, allocations: None, images: Some(&images) };
        let (renewed, _) = plan.renewed("here", &world, now(), false, SignedDuration::ZERO).unwrap();
        assert_eq!(renewed.first().unwrap().resource_properties, "[\"=\", \"$node_type\", \"compute_x\"]");
    }
}
