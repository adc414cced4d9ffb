//! A run of `apply` over its sites, from the first or from where another process came to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::catalog::Catalogue;
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::plan::{PlanError, PlannedOffering};
use orlop_cloud::provision::saga::is_about_capacity;
use orlop_core::error::Class;
use orlop_core::machine::saga::SagaState;

use super::apply::{Begun, Job};
use super::document::Report;
use super::examine::Run;
use super::failure::Failure;
use super::options::pace;
use super::record::Record;
use super::request::margin;
use super::sign_in::Site;
use super::site_order::{SiteOrder, Tried};
use super::steps::Steps;
use super::watch::{Watch, WatchedHosts};

/// Where a run is.
pub(super) struct MultiSiteRun {
    pub(super) way: SiteOrder,
    /// The present site.
    pub(super) site: Arc<Site>,
    /// Sites where a free host is waited for.
    pub(super) watch: Watch,
    /// Sites that could not be reached before the run began.
    away: Vec<String>,
    /// Whether it is waited for at all.
    waits: bool,
    /// What is written down, if there is more than one site.
    record: Option<Record>,
}

impl MultiSiteRun {
    /// Takes over what a plan offers here.
    ///
    /// # Errors
    /// Everything is taken, and other sites are tried before anybody waits.
    pub(super) fn plan(
        &mut self,
        offerings: &[PlannedOffering],
        hours: u32,
        catalogue: &Catalogue,
    ) -> Result<(), Failure> {
        if !self.waits {
            return Ok(());
        }
        self.watch.add(&self.site, WatchedHosts::of(offerings, hours, catalogue));
        if self.way.left().is_empty() || !offerings.iter().all(PlannedOffering::is_taken) {
            return Ok(());
        }
        let mut types: Vec<&str> = offerings.iter().map(|offering| offering.node_type.as_str()).collect();
        types.dedup();
        let until = offerings.iter().map(|offering| offering.start.clone()).min();
        Err(PlanError::Taken { types: types.join(", "), site: self.site.name.clone(), until }.into())
    }

    fn goes_on(&mut self, came: &Result<Tried, Failure>, deadline: Duration) -> bool {
        let here = self.way.site().to_owned();
        let goes_on = self.way.go_on(came, deadline, &self.watch.names());
        let failure = came.as_ref().map_or_else(Some, |tried| tried.report.failure.as_ref());
        if goes_on && failure.is_some_and(|failure| !is_about_capacity(failure.exit, &failure.code)) {
            self.watch.remove(&here);
        }
        goes_on
    }

    /// Says why the present site is left.
    fn leave(&self, came: Result<Tried, Failure>, run: &mut Run) {
        let failure = came.map_or_else(Some, |tried| tried.report.failure);
        let why = failure.map(|failure| failure.to_string()).unwrap_or_default();
        run.warnings.push(format!("{why}; site {} is tried next", self.way.site()));
    }

    /// Writes down where the run is, and what is about to begin there.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn begin(&mut self, state_dir: &Path, deployment: Option<&DeploymentId>) -> Result<(), Failure> {
        let Some(record) = &mut self.record else { return Ok(()) };
        self.way.put_into(record);
        record.deployment = deployment.cloned();
        record.places = self.watch.places().collect();
        record.write(state_dir)
    }
}

impl Job<'_> {
    pub(super) async fn carry_out(&self, run: &mut Run) -> Result<Report, Failure> {
        let steps = Steps::new(self.context.output, 0..3);
        let pace = pace(self.args, self.settings)?;
        self.check_fleet_join()?;
        let sites = &self.sites;
        let mut away = Vec::new();
        let site = steps.during(0, self.sign_in_first(&mut away, run)).await?;
        let (begun, existing) = self.begin(&site, sites, run)?;
        let new = (sites.len() > 1).then(|| Record::new(&self.args.given, &begun.name, &begun.request, sites));
        let waits = pace.capacity.is_some();
        if pace.capacity.is_some_and(|wait| wait > pace.deadline) {
            let minutes = pace.deadline.as_secs() / 60;
            run.warnings.push(format!("--deadline of {minutes} min ends the wait before --wait-for-capacity does"));
        }
        let watch = Watch::new(margin(self.settings)?);
        let mut multi = MultiSiteRun {
            way: SiteOrder::new(sites.clone(), self.args.window.max_attempts),
            site,
            watch,
            away,
            waits,
            record: new,
        };
        let mut survey = None;
        let before = self.before(&begun, &mut multi, run).await?;
        let was_there = existing.is_some();
        let mut came = if let Some(existing) = existing {
            if !existing.known.notes.site.is_empty() {
                multi.way.go_to(&existing.known.notes.site);
            }
            self.go_on(existing, &multi, run).await
        } else {
            match before.map(Ok) {
                Some(came) if multi.goes_on(&came, pace.deadline) => multi.leave(came, run),
                // What ended there for good is over: it begins with the first site again.
                Some(_) => multi.way = SiteOrder::new(sites.clone(), self.args.window.max_attempts),
                None => {}
            }
            self.at_next(&steps, &begun, &mut multi, &mut survey, run).await
        };
        if came.as_ref().is_ok_and(|tried| tried.is_past) {
            if multi.goes_on(&came, pace.deadline) {
                multi.leave(came, run);
            } else {
                self.fleet_join.check()?;
                multi.way = SiteOrder::new(sites.clone(), self.args.window.max_attempts);
            }
            came = self.at_next(&steps, &begun, &mut multi, &mut survey, run).await;
        }
        while multi.goes_on(&came, pace.deadline) {
            multi.leave(came, run);
            came = self.at_next(&steps, &begun, &mut multi, &mut survey, run).await;
        }
        self.end(&begun, &came, was_there, run);
        came.map(|tried| tried.report)
    }

    async fn sign_in(&self, name: &str, run: &mut Run) -> Result<Arc<Site>, Failure> {
        let site = self.sources.sign_in(name, None, run).await?;
        run.count(&site.name, site.asked());
        Ok(Arc::new(site))
    }

    /// Signs in to the first site that can be reached, from where a process before came to.
    async fn sign_in_first(&self, away: &mut Vec<String>, run: &mut Run) -> Result<Arc<Site>, Failure> {
        let from = self.record.as_ref().map(|record| record.at.as_str());
        let at = self.sites.iter().position(|site| from.is_none_or(|from| from == site));
        let Some(at) = at else { return self.sign_in(from.unwrap_or_default(), run).await };
        let mut sites = self.sites.iter().skip(at).peekable();
        loop {
            let site = sites.next().map_or("", String::as_str);
            match self.sign_in(site, run).await {
                Err(failure) if failure.is_away() && sites.peek().is_some() => {
                    run.pass_over(site, &failure);
                    away.push(site.to_owned());
                }
                other => return other,
            }
        }
    }

    /// Where a process before came to, if it ended in the middle of the same run; and what came of its last deployment, if that is
    /// over.
    async fn before(&self, begun: &Begun, multi: &mut MultiSiteRun, run: &mut Run) -> Result<Option<Tried>, Failure> {
        let same = |record: &Record| record.sites == multi.way.sites() && record.request == begun.request;
        let Some(record) = Record::read(&self.context.state_dir, &begun.name)?.filter(same) else { return Ok(None) };
        multi.way.take_up(&record);
        for (name, places) in record.places.iter().filter(|_| multi.waits) {
            match self.sign_in(name, run).await {
                Ok(site) => multi.watch.add(&site, places.clone()),
                Err(failure) => run.warnings.push(format!("no host is waited for at {name}: {failure}")),
            }
        }
        let deployment = record.deployment.clone();
        multi.record = Some(record);
        let Some(id) = deployment else { return Ok(None) };
        let Some(known) = self.context.shelf().read(&id)? else { return Ok(None) };
        let failure = known.saga.failure().cloned().map(Failure::from);
        let is_gone = known.saga.state() == SagaState::Failed;
        let report = Report { failure, ..Report::default() };
        let came = Tried { report, is_gone, is_over: true, attempts: known.saga.attempts_made(), ..Tried::default() };
        Ok(Some(came).filter(|_| !known.is_alive()))
    }

    /// Goes to the site that is next, and tries there.
    async fn at_next(
        &self,
        steps: &Steps,
        begun: &Begun,
        multi: &mut MultiSiteRun,
        survey: &mut Option<(super::super::Wanted, super::super::RepositoryAnalysis)>,
        run: &mut Run,
    ) -> Result<Tried, Failure> {
        loop {
            while multi.away.iter().any(|site| site == multi.way.site()) && multi.way.pass() {}
            multi.begin(&self.context.state_dir, None)?;
            let came = match self.arrive(multi, run).await {
                Ok(()) => self.at_site(steps, begun, multi, survey, run).await,
                Err(failure) => Err(failure),
            };
            // Whatever fails so has made nothing there.
            let site = multi.way.site().to_owned();
            match came {
                Err(failure) if failure.is_away() && multi.way.pass() => {
                    multi.watch.remove(&site);
                    run.pass_over(&site, &failure);
                }
                other => return other,
            }
        }
    }

    /// Signs in to the site that is next. Where a host was waited for one is signed in already.
    async fn arrive(&self, multi: &mut MultiSiteRun, run: &mut Run) -> Result<(), Failure> {
        if multi.site.name != multi.way.site() {
            multi.site = match multi.watch.site(multi.way.site()) {
                Some(site) => site,
                None => self.sign_in(multi.way.site(), run).await?,
            };
        }
        Ok(())
    }

    /// Forgets where the run is, if nothing of it can be gone on with.
    fn end(&self, begun: &Begun, came: &Result<Tried, Failure>, was_there: bool, run: &mut Run) {
        let is_over = match came {
            Ok(tried) => tried.is_over,
            // It is there still: anyone who goes on later goes on with all of it.
            Err(_) if was_there => false,
            Err(failure) => failure.class != Class::Fatal && !matches!(&*failure.code, "unavailable" | "locked"),
        };
        if is_over && let Err(error) = Record::remove(&self.context.state_dir, &begun.name) {
            run.warnings.push(format!("the record of the run cannot be removed: {error}"));
        }
    }
}
