//! What is available of a catalogue in a window: hosts by type, how many are free, since when and at what rate.
//! Owns the counting; whether a host is free is `window`'s.

use jiff::Timestamp;
use serde::Serialize;

use super::host::{Catalogue, Shape, Variant};
use super::window::{Allocation, Availability, WindowRequest, availability};

/// Hosts of a type that are equal, and how they stand in a window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stock {
    /// The site.
    pub site: String,
    /// The type, or the flavor.
    pub node_type: String,
    /// `baremetal` or `vm`.
    pub kind: &'static str,
    /// What each is made of.
    pub hardware: Shape,
    /// How many there are; nothing for a flavor.
    pub hosts: Option<usize>,
    /// How many are free from the start on; nothing where nobody knows.
    pub free: Option<usize>,
    /// The first start at which one is free, if any is seen.
    pub first_start: Option<String>,
    /// Service units an hour of the dearest, if the site says.
    pub su_per_hour: Option<f64>,
}

/// The hosts of a site in a window, by type.
#[must_use]
pub fn stock(
    catalogue: &Catalogue,
    site: &str,
    allocations: Option<&[Allocation]>,
    asked: &WindowRequest,
) -> Vec<Stock> {
    catalogue.at(site).map(|variant| one(variant, allocations, asked)).collect()
}

fn one(variant: &Variant, allocations: Option<&[Allocation]>, asked: &WindowRequest) -> Stock {
    let each: Vec<Availability> =
        variant.ids.iter().map(|id| availability(std::slice::from_ref(id), allocations, asked)).collect();
    let is_known = !each.is_empty() && each.iter().all(|one| *one != Availability::Unknown);
    // Free within the allowed start is not yet free at the start itself.
    let now = each.iter().filter(|one| **one == Availability::Free { start: asked.start }).count();
    let start = |one: &Availability| match one {
        Availability::Free { start } => Some(*start),
        Availability::Taken { first } => *first,
        Availability::Unknown => None,
    };
    let first: Option<Timestamp> = each.iter().filter_map(start).min();
    Stock {
        site: variant.site.clone(),
        node_type: variant.node_type.clone(),
        kind: if variant.vm.is_some() { "vm" } else { "baremetal" },
        hardware: variant.shape.clone(),
        hosts: variant.vm.is_none().then_some(variant.count),
        free: is_known.then_some(now),
        first_start: first.map(|first| first.to_string()),
        su_per_hour: rate(variant),
    }
}

/// Service units an hour: of a host its own, of a flavor its share.
fn rate(variant: &Variant) -> Option<f64> {
    variant.su_milli?;
    let milli = u32::try_from(variant.cost(1, true).milli_su).ok()?;
    Some(f64::from(milli) / 1000.0)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::catalog::{Origin, embedded, read_allocations, read_hosts};

    fn asked(within_hours: i64) -> WindowRequest {
        WindowRequest {
            start: "2026-01-05T12:00:00Z".parse().unwrap(),
            hours: 2,
            within: SignedDuration::from_hours(within_hours),
            margin: SignedDuration::from_mins(5),
        }
    }

    fn reported(allocations: &str, within_hours: i64) -> String {
        let host = |id: u32, rate: &str| {
            format!("{{\"id\":\"{id}\",\"uid\":\"u{id}\",\"node_type\":\"t\",\"vcpus\":8,\"su_factor\":\"{rate}\"}}")
        };
        let hosts = read_hosts(&format!("[{},{},{}]", host(1, "1"), host(2, "2.5"), host(3, "1"))).unwrap();
        let catalogue = Catalogue::of_hosts(Origin::Live, "here", &hosts);
        let taken = read_allocations(&format!("{{\"allocations\":[{allocations}]}}")).unwrap();
        let all = stock(&catalogue, "here", Some(&taken), &asked(within_hours));
        let one = all.first().unwrap();
        format!(
            "{} of {}, {:?}, {:?}",
            one.free.unwrap_or(99),
            one.hosts.unwrap_or(0),
            one.first_start,
            one.su_per_hour
        )
    }

    #[test]
    fn free_hosts_are_counted_at_the_start_and_the_first_start_is_reported() {
        let taken = |id: u32, from: &str, to: &str| {
            format!(
                "{{\"resource_id\":\"{id}\",\"reservations\":[{{\"start_date\":\"2026-01-05T{from}\",\"end_date\":\"2026-01-05T{to}\"}}]}}"
            )
        };
        let two = [taken(1, "11:00", "13:00"), taken(2, "11:00", "18:00")].join(",");
        assert_eq!(reported("", 0), "3 of 3, Some(\"2026-01-05T12:00:00Z\"), Some(2.5)");
        assert_eq!(reported(&two, 0), "1 of 3, Some(\"2026-01-05T12:00:00Z\"), Some(2.5)");
        let all = [two, taken(3, "13:00", "14:00")].join(",");
        assert_eq!(reported(&all, 0), "0 of 3, Some(\"2026-01-05T13:05:00Z\"), Some(2.5)");
        assert_eq!(reported(&all, 6), "0 of 3, Some(\"2026-01-05T13:05:00Z\"), Some(2.5)", "later is not at the start");
    }

    #[test]
    fn what_nobody_knows_is_not_called_free() {
        assert_eq!(
            reported("{\"resource_id\":\"1\",\"reservations\":[{}]}", 0),
            "99 of 3, Some(\"2026-01-05T12:00:00Z\"), Some(2.5)"
        );
        let all = stock(&embedded(), "uc", Some(&[]), &asked(0));
        assert!(!all.is_empty() && all.iter().all(|one| one.free.is_none() && one.first_start.is_none()));
        assert!(all.iter().all(|one| one.site == "uc" && one.su_per_hour.is_none()));
    }
}
