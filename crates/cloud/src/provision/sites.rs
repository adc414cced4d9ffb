//! A run over several sites: what came of one says which is next, and what all of them share. Pure: a program signs in, plans and
//! carries out the deployment there.

use std::collections::BTreeSet;
use std::time::Duration;

use orlop_core::machine::saga::SagaState;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::order::DeploymentOrder;
use super::saga::{ELSEWHERE, Reason, Saga};

/// What came of a deployment at a site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteOutcome {
    /// Whether nothing of it is in the cloud any more.
    pub is_gone: bool,
    /// Whether nothing is left to go on with.
    pub is_over: bool,
    /// Whether it was over, or was being removed, before this run: another one takes its place.
    pub is_past: bool,
    /// Attempts so far, those at sites before included.
    pub attempts: u32,
    /// Since when a free host was waited for, if it was.
    pub waiting: Option<Time>,
    /// The site that was seen to have one meanwhile.
    pub room: Option<String>,
}

impl SiteOutcome {
    /// What came of a deployment.
    #[must_use]
    pub fn of(saga: &Saga) -> Self {
        use SagaState as S;
        let state = saga.state();
        Self {
            is_gone: state == S::Failed,
            is_over: matches!(state, S::Ready | S::Degraded | S::Failed | S::Destroyed | S::Expired),
            is_past: false,
            attempts: saga.attempts_made(),
            waiting: saga.waiting_since(),
            room: saga.room().map(str::to_owned),
        }
    }
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteStep {
    /// Another site is tried, which is the present one from now on.
    GoOn,
    /// The run begins anew at its first site.
    Restart,
    /// The run is over.
    Stop,
}

/// Sites in their order, and what was used up so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteRun {
    sites: Vec<String>,
    /// The present one.
    at: String,
    /// Attempts at the sites before.
    tried: u32,
    /// Whether every site was tried: from now on free hosts are waited for, wherever they are.
    waits: bool,
    /// Since when.
    #[serde(skip)]
    waiting: Option<Time>,
    /// Sites that could not be reached before the run began.
    #[serde(skip)]
    away: BTreeSet<String>,
    /// Attempts at all sites together.
    #[serde(skip)]
    most: u32,
    #[serde(skip)]
    deadline: Duration,
    #[serde(skip)]
    began: Time,
}

impl SiteRun {
    /// A run that begins at the first of some sites, with so many attempts and so much time for all of them.
    #[must_use]
    pub fn new(sites: Vec<String>, most: u32, deadline: Duration, began: Time) -> Self {
        let at = sites.first().cloned().unwrap_or_default();
        Self { sites, at, most, deadline, began, ..Self::default() }
    }

    /// The present site.
    #[must_use]
    pub fn site(&self) -> &str {
        &self.at
    }

    /// All of them.
    #[must_use]
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// Sites that come after the present one; after one that is none of them comes none.
    #[must_use]
    pub fn left(&self) -> &[String] {
        let next = self.sites.iter().position(|site| *site == self.at).map(|at| at + 1);
        next.and_then(|next| self.sites.get(next..)).filter(|_| !self.waits).unwrap_or_default()
    }

    /// Goes to a site by its name.
    pub fn go_to(&mut self, site: &str) {
        site.clone_into(&mut self.at);
    }

    /// Goes to where a run before came to.
    pub fn take_up(&mut self, before: &Self) {
        (self.at, self.tried, self.waits) = (before.at.clone(), before.tried, before.waits);
    }

    /// The same without sites that cannot be reached.
    #[must_use]
    pub fn without(self, away: BTreeSet<String>) -> Self {
        Self { away, ..self }
    }

    /// Goes on behind sites that cannot be reached, if there is another.
    pub fn skip_away(&mut self) {
        while self.away.contains(&self.at) && self.pass() {}
    }

    /// Goes to the next site without an attempt at the present one, which cannot be reached; whether there is one.
    pub fn pass(&mut self) -> bool {
        let next = self.left().first().cloned();
        let has_next = next.is_some();
        self.at = next.unwrap_or_else(|| std::mem::take(&mut self.at));
        has_next
    }

    /// What follows after the present site: what came of a deployment there, if one was carried out, and why there is no machine.
    /// `watched` are the sites where a free host is waited for.
    pub fn on(
        &mut self,
        outcome: Option<&SiteOutcome>,
        reason: Option<Reason<'_>>,
        watched: &[String],
        now: Time,
    ) -> SiteStep {
        if self.goes_on(outcome, reason, watched, now) {
            return SiteStep::GoOn;
        }
        if !outcome.is_some_and(|outcome| outcome.is_past) {
            return SiteStep::Stop;
        }
        let away = std::mem::take(&mut self.away);
        *self = Self { away, ..Self::new(std::mem::take(&mut self.sites), self.most, self.deadline, now) };
        SiteStep::Restart
    }

    /// Goes to the next site, if there is one and what came of the present one is something that another may not share; after the
    /// last one, to one of those where a free host is waited for. Attempts and time are those of all sites.
    fn goes_on(
        &mut self,
        outcome: Option<&SiteOutcome>,
        reason: Option<Reason<'_>>,
        watched: &[String],
        now: Time,
    ) -> bool {
        if let Some(outcome) = outcome {
            self.tried = outcome.attempts;
            self.waiting = self.waiting.or(outcome.waiting);
        }
        // What was kept, or could not be removed, is not left alone.
        let reason = reason.filter(|_| outcome.is_none_or(|outcome| outcome.is_gone));
        let Some(reason) = reason.filter(Reason::is_of_the_site) else { return false };
        if now.since(self.began) >= self.deadline {
            return false;
        }
        if reason.code != ELSEWHERE && !self.left().is_empty() {
            return self.tried < self.most && self.pass();
        }
        // Where capacity failed last, it was waited for there in vain.
        let goes_on = reason.code == ELSEWHERE || !self.waits && !reason.is_about_capacity();
        let room = outcome.and_then(|outcome| outcome.room.as_ref());
        let next = room.or_else(|| watched.iter().find(|site| **site != self.at)).filter(|_| goes_on);
        let Some(next) = next.cloned() else { return false };
        self.at = next;
        self.waits = true;
        // Where no number is left, the last one is given out anew, as in every wait.
        self.tried = self.tried.min(self.most.saturating_sub(1));
        true
    }

    /// Puts into an order what sites before this one used up. Only where no site comes after, free hosts are
    /// waited for and what fails is kept.
    pub fn share(&self, order: &mut DeploymentOrder, now: Time) {
        // Where one attempt a site was asked for, it is one at each.
        order.max_attempts = if order.max_attempts > 1 { self.most } else { self.tried + 1 };
        order.tried = self.tried;
        order.pace.deadline = order.pace.deadline.saturating_sub(now.since(self.began));
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
    use orlop_core::error::Class;

    use super::*;
    use crate::exit::Exit;
    use crate::provision::mark::DeploymentId;

    const HOUR: Duration = Duration::from_secs(3600);

    fn failed(exit: Exit, code: &str) -> Option<Reason<'_>> {
        Some(Reason { exit, class: Class::Capacity, code })
    }

    fn ended(is_gone: bool, attempts: u32) -> SiteOutcome {
        SiteOutcome { is_gone, attempts, ..SiteOutcome::default() }
    }

    fn run() -> SiteRun {
        SiteRun::new(vec!["one".into(), "two".into()], 4, HOUR, Time::EPOCH)
    }

    fn leads_on(outcome: Option<&SiteOutcome>, reason: Option<Reason<'_>>) -> bool {
        run().on(outcome, reason, &[], Time::EPOCH) == SiteStep::GoOn
    }

    fn order() -> DeploymentOrder {
        let mut order = DeploymentOrder::to_remove(DeploymentId::new("s", "p", "n"), "p");
        (order.max_attempts, order.pace.capacity) = (4, Some(HOUR));
        order
    }

    #[test]
    fn only_what_another_site_may_not_share_leads_there() {
        for (exit, meaning) in Exit::ALL.iter().copied() {
            let may = matches!(exit, Exit::Quota | Exit::Failed);
            assert_eq!(leads_on(None, failed(exit, "made_up")), may, "{meaning}: of a plan");
            assert_eq!(leads_on(Some(&ended(true, 1)), failed(exit, "capacity")), may, "{meaning}: rolled back");
            assert!(!leads_on(Some(&ended(false, 1)), failed(exit, "capacity")), "{meaning}: kept or left behind");
        }
        assert!(!leads_on(None, failed(Exit::Quota, "budget")), "the budget is the same everywhere");
        let own = Some(Reason { exit: Exit::Failed, class: Class::Fatal, code: "internal" });
        assert!(!leads_on(None, own), "an error of the program is no fault of a site");
        assert!(!leads_on(Some(&ended(false, 1)), None), "it is ready");
    }

    #[test]
    fn attempts_time_and_sites_are_those_of_the_whole_run() {
        let reason = failed(Exit::Failed, "capacity");
        assert!(!leads_on(Some(&ended(true, 4)), reason), "no attempt is left");
        let mut run = run();
        let late = Time::EPOCH.plus(HOUR);
        assert_eq!(run.on(Some(&ended(true, 1)), reason, &[], late), SiteStep::Stop, "no time is left");
        assert_eq!((run.site(), run.left()), ("one", &["two".to_owned()][..]));
        assert_eq!(run.on(Some(&ended(true, 1)), reason, &[], Time::EPOCH), SiteStep::GoOn);
        assert_eq!((run.site(), run.left().len()), ("two", 0));
        assert_eq!(run.on(Some(&ended(true, 2)), reason, &[], Time::EPOCH), SiteStep::Stop, "no site is left");
        run.go_to("elsewhere");
        let step = run.on(Some(&ended(true, 2)), reason, &[], Time::EPOCH);
        assert_eq!(step, SiteStep::Stop, "nothing comes after a site that is none of the run's");
    }

    #[test]
    fn a_deployment_of_before_is_followed_by_another_site_or_by_a_new_run() {
        let past = SiteOutcome { is_past: true, ..ended(true, 1) };
        let mut run = run();
        assert_eq!(run.on(Some(&past), failed(Exit::Failed, "capacity"), &[], Time::EPOCH), SiteStep::GoOn);
        assert_eq!((run.site(), run.tried), ("two", 1));
        assert_eq!(run.on(Some(&past), failed(Exit::Failed, "capacity"), &[], Time::EPOCH), SiteStep::Restart);
        assert_eq!((run.site(), run.tried), ("one", 0));
    }

    #[test]
    fn a_site_that_cannot_be_reached_is_passed_over_unless_it_is_the_last() {
        let mut run = run().without(["one".to_owned(), "two".to_owned()].into());
        run.skip_away();
        assert!(!run.pass());
        assert_eq!((run.site(), run.tried), ("two", 0));
    }

    #[test]
    fn an_order_gets_what_is_left_and_waits_only_at_the_last_site() {
        let mut run = run();
        let mut first = order();
        run.share(&mut first, Time::EPOCH);
        assert_eq!((first.tried, first.max_attempts, first.pace.capacity), (0, 4, None));
        assert_eq!(first.elsewhere, Some(4));
        assert_eq!(run.on(Some(&ended(true, 3)), failed(Exit::Quota, "capacity"), &[], Time::EPOCH), SiteStep::GoOn);
        let mut second = order();
        run.share(&mut second, Time::EPOCH.plus(Duration::from_secs(60)));
        assert_eq!((second.tried, second.max_attempts, second.pace.capacity), (3, 4, Some(HOUR)));
        assert_eq!(second.elsewhere, None);
        assert_eq!(second.pace.deadline, order().pace.deadline - Duration::from_secs(60));
        let mut single = DeploymentOrder { max_attempts: 1, ..order() };
        run.share(&mut single, Time::EPOCH);
        assert_eq!((single.tried, single.max_attempts), (3, 4), "one more, at this site");
    }

    #[test]
    fn a_free_host_is_waited_for_at_every_site_within_one_time() {
        let (watched, start) = (["one".to_owned(), "two".to_owned()], Time::EPOCH);
        let mut run = run();
        let (none, quota) = (failed(Exit::Quota, "no_capacity"), failed(Exit::Quota, "quota"));
        assert_eq!(run.on(None, none, &watched[..1], start), SiteStep::GoOn);
        assert_eq!(run.on(None, none, &watched, start), SiteStep::Stop, "it was waited for in vain");
        // The last site has room for nobody, but another may have some.
        assert_eq!(run.on(None, quota, &watched[..1], start), SiteStep::GoOn);
        assert_eq!((run.site(), run.left().len()), ("one", 0));
        let mut shared = order();
        run.share(&mut shared, start);
        assert_eq!((shared.pace.capacity, shared.elsewhere), (Some(HOUR), None));
        let (waiting, room) = (Some(start), Some("two".to_owned()));
        let outcome = SiteOutcome { is_gone: true, attempts: 4, waiting, room, ..SiteOutcome::default() };
        let step = run.on(Some(&outcome), failed(Exit::Quota, ELSEWHERE), &watched, start);
        assert_eq!(step, SiteStep::GoOn, "a wait uses up no attempt");
        assert_eq!((run.site(), run.tried), ("two", 3));
        let mut shared = order();
        run.share(&mut shared, start.plus(Duration::from_secs(600)));
        assert_eq!(shared.pace.capacity, Some(Duration::from_secs(3000)), "ten minutes were waited at the other");
        assert_eq!(run.on(None, quota, &watched, start), SiteStep::Stop, "once is enough");
    }
}
