//! The way over sites: which come next, when one cannot give what was asked for, and what all of them share.

use std::time::Duration;

use orlop_cloud::provision::order::DeploymentOrder;
use orlop_cloud::provision::saga::{ELSEWHERE, is_about_capacity, is_of_the_site};
use orlop_core::time::Time;
use tokio::time::Instant;

use super::document::Report;
use super::failure::Failure;
use super::record::Record;

/// What came of one site.
#[derive(Default)]
pub(super) struct Tried {
    pub(super) report: Report,
    /// Whether nothing of it is in the cloud any more.
    pub(super) is_gone: bool,
    /// Whether nothing is left to go on with.
    pub(super) is_over: bool,
    /// Whether it was over, or was being removed, before this run: another one takes its place.
    pub(super) is_past: bool,
    /// Attempts so far, those at sites before included.
    pub(super) attempts: u32,
    /// Since when a free host was waited for, if it was.
    pub(super) waiting: Option<Time>,
    /// The site that was seen to have one meanwhile.
    pub(super) room: Option<String>,
}

/// Sites in their order, and what was used up so far.
pub(super) struct SiteOrder {
    sites: Vec<String>,
    at: usize,
    tried: u32,
    /// Attempts at all sites together.
    most: u32,
    began: Instant,
    /// Whether every site was tried: from now on free hosts are waited for, wherever they are.
    waits: bool,
    /// Since when.
    waiting: Option<Time>,
}

impl SiteOrder {
    pub(super) fn new(sites: Vec<String>, most: u32) -> Self {
        Self { sites, at: 0, tried: 0, most, began: Instant::now(), waits: false, waiting: None }
    }

    /// The present site.
    pub(super) fn site(&self) -> &str {
        self.sites.get(self.at).map_or("", String::as_str)
    }

    pub(super) fn sites(&self) -> &[String] {
        &self.sites
    }

    /// Sites that come after the present one.
    pub(super) fn left(&self) -> &[String] {
        self.sites.get(self.at + 1..).filter(|_| !self.waits).unwrap_or_default()
    }

    /// Goes to a site by its name; after one that is not on the way comes none.
    pub(super) fn go_to(&mut self, site: &str) {
        self.at = self.sites.iter().position(|one| one == site).unwrap_or(self.sites.len());
    }

    /// Goes to the next site without an attempt at the present one, which cannot be reached; whether there is one.
    pub(super) fn pass(&mut self) -> bool {
        let has_next = !self.left().is_empty();
        self.at += usize::from(has_next);
        has_next
    }

    /// Goes to where a run before came to.
    pub(super) fn take_up(&mut self, record: &Record) {
        self.go_to(&record.at);
        (self.tried, self.waits) = (record.tried, record.waits);
    }

    /// Writes down where it is.
    pub(super) fn put_into(&self, record: &mut Record) {
        record.at = self.site().to_owned();
        (record.tried, record.waits) = (self.tried, self.waits);
    }

    /// Goes to the next site, if there is one and what came of the present one is something that another may not share; after the
    /// last one, to one of those where a free host is waited for. Attempts and time are those of all sites.
    pub(super) fn go_on(&mut self, came: &Result<Tried, Failure>, deadline: Duration, watched: &[String]) -> bool {
        let (failure, room) = match came {
            Ok(tried) => {
                self.tried = tried.attempts;
                self.waiting = self.waiting.or(tried.waiting);
                // What was kept, or could not be removed, is not left alone.
                (tried.report.failure.as_ref().filter(|_| tried.is_gone), tried.room.as_ref())
            }
            Err(failure) => (Some(failure), None),
        };
        let Some(failure) = failure.filter(|one| is_of_the_site(one.exit, one.class, &one.code)) else { return false };
        if self.began.elapsed() >= deadline {
            return false;
        }
        if failure.code != ELSEWHERE && !self.left().is_empty() {
            let has_attempts = self.tried < self.most;
            self.at += usize::from(has_attempts);
            return has_attempts;
        }
        // Where capacity failed last, it was waited for there in vain.
        let goes_on = failure.code == ELSEWHERE || !self.waits && !is_about_capacity(failure.exit, &failure.code);
        let here = self.site().to_owned();
        let Some(next) = room.or_else(|| watched.iter().find(|site| **site != here)).filter(|_| goes_on) else {
            return false;
        };
        self.go_to(next);
        self.waits = true;
        // Where no number is left, the last one is given out anew, as in every wait.
        self.tried = self.tried.min(self.most.saturating_sub(1));
        true
    }

    /// Puts into an order what sites before this one used up. Only where no site comes after, free hosts are
    /// waited for and what fails is kept.
    pub(super) fn share(&self, order: &mut DeploymentOrder, now: Time) {
        // Where one attempt a site was asked for, it is one at each.
        order.max_attempts = if order.max_attempts > 1 { self.most } else { self.tried + 1 };
        order.tried = self.tried;
        order.pace.deadline = order.pace.deadline.saturating_sub(self.began.elapsed());
        if self.left().is_empty() {
            let waited = self.waiting.map(|since| now.since(since)).unwrap_or_default();
            order.pace.capacity = order.pace.capacity.map(|most| most.saturating_sub(waited));
        } else {
            order.elsewhere = Some(self.most);
            order.pace.capacity = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_cloud::exit::Exit;
    use orlop_core::error::Class;

    use super::*;

    fn failed(exit: Exit, code: &'static str) -> Failure {
        Failure::new(exit, Class::Capacity, code, "made up")
    }

    fn tried(exit: Exit, is_gone: bool, attempts: u32) -> Result<Tried, Failure> {
        let report = Report { failure: Some(failed(exit, "capacity")), ..Report::default() };
        Ok(Tried { report, is_gone, attempts, ..Tried::default() })
    }

    fn leads_on(came: &Result<Tried, Failure>) -> bool {
        SiteOrder::new(vec!["one".into(), "two".into()], 4).go_on(came, Duration::from_secs(60), &[])
    }

    #[test]
    fn only_what_another_site_may_not_share_leads_there() {
        for (exit, meaning) in Exit::ALL.iter().copied() {
            let may = matches!(exit, Exit::Quota | Exit::Failed);
            assert_eq!(leads_on(&Err(failed(exit, "made_up"))), may, "{meaning}: of a plan");
            assert_eq!(leads_on(&tried(exit, true, 1)), may, "{meaning}: rolled back");
            assert!(!leads_on(&tried(exit, false, 1)), "{meaning}: kept or left behind");
        }
        assert!(!leads_on(&Err(failed(Exit::Quota, "budget"))), "the budget is the same everywhere");
        assert!(!leads_on(&Err(Failure::internal("made up"))), "an error of the program is no fault of a site");
        assert!(!leads_on(&Ok(Tried { attempts: 1, ..Tried::default() })), "it is ready");
    }

    #[test]
    fn attempts_time_and_sites_are_those_of_the_whole_way() {
        let hour = Duration::from_secs(3600);
        assert!(!leads_on(&tried(Exit::Failed, true, 4)), "no attempt is left");
        let mut way = SiteOrder::new(vec!["one".into(), "two".into()], 4);
        assert!(!way.go_on(&tried(Exit::Failed, true, 1), Duration::ZERO, &[]), "no time is left");
        assert_eq!((way.site(), way.left()), ("one", &["two".to_owned()][..]));
        assert!(way.go_on(&tried(Exit::Failed, true, 1), hour, &[]));
        assert_eq!((way.site(), way.left().len()), ("two", 0));
        assert!(!way.go_on(&tried(Exit::Failed, true, 2), hour, &[]), "no site is left");
        way.go_to("elsewhere");
        assert!(
            !way.go_on(&tried(Exit::Failed, true, 2), hour, &[]),
            "nothing comes after a site that is not on the way"
        );
    }

    #[test]
    fn an_order_gets_what_is_left_and_waits_only_at_the_last_site() {
        let id = orlop_cloud::provision::mark::DeploymentId::new("s", "p", "n");
        let mut asked = DeploymentOrder::to_remove(id, "p");
        (asked.max_attempts, asked.pace.capacity) = (4, Some(Duration::from_secs(60)));
        let mut way = SiteOrder::new(vec!["one".into(), "two".into()], 4);
        let mut first = asked.clone();
        way.share(&mut first, Time::EPOCH);
        assert_eq!((first.tried, first.max_attempts, first.pace.capacity), (0, 4, None));
        assert_eq!(first.elsewhere, Some(4));
        assert!(way.go_on(&tried(Exit::Quota, true, 3), Duration::from_secs(3600), &[]));
        let mut second = asked.clone();
        way.share(&mut second, Time::EPOCH);
        assert_eq!((second.tried, second.max_attempts, second.pace.capacity), (3, 4, asked.pace.capacity));
        assert_eq!(second.elsewhere, None);
        assert!(second.pace.deadline <= asked.pace.deadline);
        let mut single = DeploymentOrder { max_attempts: 1, ..asked };
        way.share(&mut single, Time::EPOCH);
        assert_eq!((single.tried, single.max_attempts), (3, 4), "one more, at this site");
    }

    #[test]
    fn a_free_host_is_waited_for_at_every_site_within_one_time() {
        let (hour, now) = (Duration::from_secs(3600), Time::from_millis(0));
        let watched = ["one".to_owned(), "two".to_owned()];
        let mut way = SiteOrder::new(watched.to_vec(), 4);
        assert!(way.go_on(&Err(failed(Exit::Quota, "no_capacity")), hour, &watched[..1]));
        assert!(!way.go_on(&Err(failed(Exit::Quota, "no_capacity")), hour, &watched), "it was waited for in vain");
        // The last site has room for nobody, but another may have some.
        assert!(way.go_on(&Err(failed(Exit::Quota, "quota")), hour, &watched[..1]));
        assert_eq!((way.site(), way.left().len()), ("one", 0));
        let mut order = DeploymentOrder::to_remove(orlop_cloud::provision::mark::DeploymentId::new("s", "p", "n"), "p");
        order.pace.capacity = Some(hour);
        way.share(&mut order, now);
        assert_eq!((order.pace.capacity, order.elsewhere), (Some(hour), None));
        let report = Report { failure: Some(failed(Exit::Quota, ELSEWHERE)), ..Report::default() };
        let (waiting, room) = (Some(now), Some("two".to_owned()));
        let came = Ok(Tried { report, is_gone: true, is_over: true, attempts: 4, waiting, room, ..Tried::default() });
        assert!(way.go_on(&came, hour, &watched), "a wait uses up no attempt");
        assert_eq!((way.site(), way.tried), ("two", 3));
        order.pace.capacity = Some(hour);
        way.share(&mut order, now.plus(Duration::from_secs(600)));
        assert_eq!(order.pace.capacity, Some(Duration::from_secs(3000)), "ten minutes were waited at the other");
        assert!(!way.go_on(&Err(failed(Exit::Quota, "quota")), hour, &watched), "once is enough");
    }
}
