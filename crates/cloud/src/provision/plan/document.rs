//! The plan as a document: what is shown, confirmed, saved. Owns its fields and its JSON, which is the same for the same plan.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::analyze::Requirements;
use crate::catalog::cost::Cost;
use crate::catalog::host::{Origin, Shape};
use crate::catalog::image::Image;
use crate::catalog::rank::{Class, Offering};
use crate::catalog::window::Availability;

/// The version of the form.
pub(super) const SCHEMA: &str = "orlop.plan/1";

/// What is going to be leased, the best first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The version of this form.
    pub schema: &'static str,
    /// What the machine must have, with evidence.
    pub requirements: Requirements,
    /// Where the hardware is described.
    pub source: Origin,
    /// The decision the needs fell under.
    pub class: Class,
    /// How long, in hours.
    pub hours: u32,
    /// What is tried, in this order.
    pub offerings: Vec<PlannedOffering>,
    /// What was decided on the way.
    pub notes: Vec<String>,
    /// What people should read before they agree.
    pub warnings: Vec<String>,
}

/// One thing to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedOffering {
    /// The site.
    pub site: String,
    /// The type.
    pub node_type: String,
    /// The flavor of a virtual machine; nothing for a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<PlannedFlavor>,
    /// The filter on hypervisor properties, or nothing.
    pub hypervisor_properties: String,
    /// The filter on resource properties, or nothing.
    pub resource_properties: String,
    /// What the host has.
    pub hardware: Shape,
    /// Its tier.
    pub tier: u8,
    /// `free`, `unknown`, or `taken` where it is waited for.
    pub availability: String,
    /// The start, in UTC.
    pub start: String,
    /// The end, in UTC.
    pub end: String,
    /// The cost in thousandths of a service unit.
    pub su_milli: u64,
    /// Whether the rate behind it is the site's; if not, it is at least this much.
    #[serde(default)]
    pub su_known: bool,
    /// The cost for people.
    pub su_estimate: String,
    /// The image.
    pub image: PlannedImage,
    /// The next image by rule, should the cloud refuse the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_images: Vec<PlannedImage>,
}

/// A flavor of virtual machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFlavor {
    /// Its id.
    pub id: String,
    /// Whether its card is a slice of one.
    pub vgpu: bool,
    /// Whether it is reserved; if not, the machine is there until it is removed.
    pub reserved: bool,
}

/// The word for what is taken.
const TAKEN: &str = "taken";

/// An image and who signs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedImage {
    /// Its name.
    pub name: String,
    /// Its id, if the site was asked.
    pub id: Option<String>,
    /// Who signs in, if known.
    pub user: Option<String>,
}

impl PlannedImage {
    pub(super) fn of(image: &Image) -> Self {
        let id = Some(image.id.clone()).filter(|id| !id.is_empty());
        Self { name: image.name.clone(), id, user: image.user().map(str::to_owned) }
    }

    pub(super) fn named(name: &str) -> Self {
        Self::of(&Image { name: name.to_owned(), ..Image::default() })
    }
}

/// Where a catalogue comes from, for people.
pub(super) const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Live => "live",
        Origin::File => "given",
        Origin::Public => "public",
        Origin::Embedded => "embedded",
        Origin::Hidden => "hidden",
    }
}

/// The word for how an offering stands.
pub(super) const fn standing(availability: &Availability) -> &'static str {
    match availability {
        Availability::Free { .. } => "free",
        Availability::Unknown => "unknown",
        Availability::Taken { .. } => TAKEN,
    }
}

impl PlannedOffering {
    pub(super) fn new(
        offering: &Offering,
        start: Timestamp,
        reserved: bool,
        image: PlannedImage,
        next: Option<PlannedImage>,
    ) -> Self {
        let (hypervisor_properties, resource_properties) = offering.variant.filters();
        Self {
            site: offering.variant.site.clone(),
            node_type: offering.variant.node_type.clone(),
            flavor: offering.variant.vm.as_ref().map(|vm| PlannedFlavor { id: vm.id.clone(), vgpu: vm.vgpu, reserved }),
            hypervisor_properties,
            resource_properties,
            hardware: offering.variant.shape.clone(),
            tier: offering.tier,
            availability: standing(&offering.availability).to_owned(),
            start: start.to_string(),
            end: String::new(),
            su_milli: offering.cost.milli_su,
            su_known: offering.cost.known,
            su_estimate: offering.cost.text(),
            image,
            other_images: next.into_iter().filter(|image| image.id.is_some()).collect(),
        }
    }

    /// What it costs.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        Cost { milli_su: self.su_milli, known: self.su_known }
    }

    /// Whether it was taken when it was planned.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.availability == TAKEN
    }

    fn ending(mut self, hours: u32) -> Self {
        let start: Option<Timestamp> = self.start.parse().ok();
        let end = start.and_then(|start| start.checked_add(SignedDuration::from_hours(i64::from(hours))).ok());
        self.end = end.map(|end| end.to_string()).unwrap_or_default();
        self
    }
}

impl Plan {
    pub(super) fn new(
        requirements: Requirements,
        source: Origin,
        class: Class,
        hours: u32,
        offerings: Vec<PlannedOffering>,
        notes: Vec<String>,
        warnings: Vec<String>,
    ) -> Self {
        let offerings = offerings.into_iter().map(|offering| offering.ending(hours)).collect();
        Self { schema: SCHEMA, requirements, source, class, hours, offerings, notes, warnings }
    }

    /// The first offering; a plan has at least one.
    #[must_use]
    pub fn best(&self) -> Option<&PlannedOffering> {
        self.offerings.first()
    }
}
