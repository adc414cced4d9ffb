//! Sites where a host is waited for beside the one that waits.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use orlop_cloud::catalog::Catalogue;
use orlop_cloud::catalog::window::{Allocation, Availability, WindowRequest, availability};
use orlop_cloud::provision::plan::PlannedOffering;
use orlop_cloud::provision::prepare::hosts_of;
use orlop_cloud::provision::saga::Elsewhere;
use serde::{Deserialize, Serialize};

use super::sign_in::Site;

/// How long one of several sites is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Hosts any of which would do, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WatchedHosts {
    hosts: Vec<String>,
    hours: u32,
}

impl WatchedHosts {
    /// The places of a plan.
    pub(super) fn of(offerings: &[PlannedOffering], hours: u32, catalogue: &Catalogue) -> Vec<Self> {
        offerings.iter().map(|offering| Self { hosts: hosts_of(offering, catalogue), hours }).collect()
    }
}

/// A site that fits, and had no free host when it was asked.
#[derive(Clone)]
struct Watched {
    site: Arc<Site>,
    places: Vec<WatchedHosts>,
}

/// Sites where a host is waited for.
#[derive(Clone)]
pub(super) struct Watch {
    all: Vec<Watched>,
    margin: SignedDuration,
}

impl Watch {
    pub(super) fn new(margin: SignedDuration) -> Self {
        Self { margin, all: Vec::new() }
    }

    /// Waits at a site too.
    pub(super) fn add(&mut self, site: &Arc<Site>, places: Vec<WatchedHosts>) {
        self.remove(&site.name);
        self.all.push(Watched { site: Arc::clone(site), places });
    }

    /// Waits no more at a site: it cannot give what was asked for, however free it is.
    pub(super) fn remove(&mut self, site: &str) {
        self.all.retain(|one| one.site.name != site);
    }

    /// Where else one waits than at a site.
    pub(super) fn but(&self, site: &str) -> Self {
        let mut others = self.clone();
        others.remove(site);
        others
    }

    /// One of them.
    pub(super) fn site(&self, name: &str) -> Option<Arc<Site>> {
        self.all.iter().find(|one| one.site.name == name).map(|one| Arc::clone(&one.site))
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.all.iter().map(|one| one.site.name.clone()).collect()
    }

    /// The sites with their places.
    pub(super) fn places(&self) -> impl Iterator<Item = (String, Vec<WatchedHosts>)> + '_ {
        self.all.iter().map(|one| (one.site.name.clone(), one.places.clone()))
    }

    /// What was asked of each so far: calls, and repeats among them.
    pub(super) fn asked(&self) -> impl Iterator<Item = (&str, (u32, u32))> {
        self.all.iter().map(|one| (one.site.name.as_str(), one.site.asked()))
    }

    /// Asks all of them. One that cannot be asked has no room that anybody knows of.
    pub(super) async fn look(&self) -> Elsewhere {
        let mut seen = Elsewhere::default();
        // One that does not answer holds none of the others up.
        let ask = |one: &Watched| {
            let site = Arc::clone(&one.site);
            async move { tokio::time::timeout(PATIENCE, site.cloud.reservations.allocations()).await }
        };
        let answers = futures::future::join_all(self.all.iter().map(ask)).await;
        for (one, answer) in self.all.iter().zip(answers) {
            let allocations = match answer {
                Ok(Ok(found)) => Some(found),
                Ok(Err(error)) if error.is_hidden() => None,
                Err(_) => {
                    tracing::debug!(site = one.site.name, "capacity there is unknown: it did not answer in time");
                    continue;
                }
                Ok(Err(error)) => {
                    tracing::debug!(site = one.site.name, %error, "capacity there is unknown");
                    continue;
                }
            };
            let place = match best(&one.places, allocations.as_deref(), one.site.now(), self.margin) {
                Some(Availability::Free { .. }) => &mut seen.free,
                Some(Availability::Unknown) => &mut seen.unknown,
                _ => continue,
            };
            place.get_or_insert_with(|| one.site.name.clone());
        }
        seen
    }
}

/// How the best of some places stands from a start on.
fn best(
    places: &[WatchedHosts],
    allocations: Option<&[Allocation]>,
    start: Timestamp,
    margin: SignedDuration,
) -> Option<Availability> {
    let stand = |place: &WatchedHosts| {
        let asked = WindowRequest { start, hours: place.hours, within: SignedDuration::ZERO, margin };
        availability(&place.hosts, allocations, &asked)
    };
    places.iter().map(stand).min()
}

#[cfg(test)]
mod tests {
    use orlop_cloud::catalog::read_allocations;

    use super::*;

    #[test]
    fn a_site_has_room_when_any_host_that_fits_is_free_for_long_enough() {
        let place = |host: &str, hours| WatchedHosts { hosts: vec![host.to_owned()], hours };
        let taken = r#"{"allocations":[{"resource_id":"1","reservations":[{"start_date":"2026-01-05T20:00:00","end_date":"2026-01-05T21:00:00"}]}]}"#;
        let taken = read_allocations(taken).unwrap();
        let at: Timestamp = "2026-01-05T14:00:00Z".parse().unwrap();
        let stand =
            |places: &[WatchedHosts], known: bool| best(places, known.then_some(&taken[..]), at, SignedDuration::ZERO);
        assert!(matches!(stand(&[place("1", 24)], true), Some(Availability::Taken { .. })));
        assert_eq!(stand(&[place("1", 6)], true), Some(Availability::Free { start: at }));
        assert_eq!(stand(&[place("1", 24), place("2", 24)], true), Some(Availability::Free { start: at }));
        assert_eq!(stand(&[place("1", 24)], false), Some(Availability::Unknown));
        assert_eq!(stand(&[], true), None);
    }
}
