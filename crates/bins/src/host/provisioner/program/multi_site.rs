//! A run of `apply` over its sites, from the first or from where another process came to. Where a deployment of the name was there
//! before, it goes on with one that is under way, tells one that is there, and sweeps one that is no more.

use orlop_cloud::catalog::Catalogue;
use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::port::Clock as _;
use orlop_cloud::provision::deployments::StoredDeployment;
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::order::Verify;
use orlop_cloud::provision::plan::{PlanError, PlannedOffering};
use orlop_cloud::provision::saga::{Event, Saga};
use orlop_cloud::provision::sites::{SiteOutcome, SiteRun, SiteStep};
use orlop_core::error::Class;
use orlop_core::machine::saga::SagaState;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::apply::{Begun, Job};
use super::carry::{Tried, Work};
use super::document::Report;
use super::examine::Run;
use super::failure::Failure;
use super::fleet::fleet;
use super::options::pace;
use super::record::Record;
use super::request::margin;
use super::sign_in::Site;
use super::steps::Steps;
use super::surroundings::DeploymentSurroundings;
use super::watch::{Watch, WatchedHosts};

/// Where a run is.
pub(super) struct MultiSiteRun {
    pub(super) run: SiteRun,
    /// The present site.
    pub(super) site: Arc<Site>,
    /// Sites where a free host is waited for.
    pub(super) watch: Watch,
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
        if self.run.left().is_empty() || !offerings.iter().all(PlannedOffering::is_taken) {
            return Ok(());
        }
        let mut types: Vec<&str> = offerings.iter().map(|offering| offering.node_type.as_str()).collect();
        types.dedup();
        let until = offerings.iter().map(|offering| offering.start.clone()).min();
        Err(PlanError::Taken { types: types.join(", "), site: self.site.name.clone(), until }.into())
    }

    /// What follows what came of the present site.
    fn on(&mut self, came: &Result<Tried, Failure>) -> SiteStep {
        let here = self.run.site().to_owned();
        let (outcome, failure) = match came {
            Ok(tried) => (Some(&tried.outcome), tried.report.failure.as_ref()),
            Err(failure) => (None, Some(failure)),
        };
        let reason = failure.map(Failure::reason);
        let step = self.run.on(outcome, reason, &self.watch.names(), SystemClock.now());
        if step == SiteStep::GoOn && reason.is_some_and(|reason| !reason.is_about_capacity()) {
            self.watch.remove(&here);
        }
        step
    }

    /// Says why the present site is left.
    fn leave(&self, came: Result<Tried, Failure>, run: &mut Run) {
        let failure = came.map_or_else(Some, |tried| tried.report.failure);
        let why = failure.map(|failure| failure.to_string()).unwrap_or_default();
        run.warnings.push(format!("{why}; site {} is tried next", self.run.site()));
    }

    /// Writes down where the run is, and what is about to begin there.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn begin(&mut self, state_dir: &Path, deployment: Option<&DeploymentId>) -> Result<(), Failure> {
        let Some(record) = &mut self.record else { return Ok(()) };
        record.run = self.run.clone();
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
        let mut away = BTreeSet::new();
        let site = steps.during(0, self.sign_in_first(&mut away, run)).await?;
        let (begun, existing) = self.begin(&site, sites, run)?;
        let record = (sites.len() > 1).then(|| Record::new(&self.args.given, &begun.name, &begun.request));
        let waits = pace.capacity.is_some();
        if pace.capacity.is_some_and(|wait| wait > pace.deadline) {
            let minutes = pace.deadline.as_secs() / 60;
            run.warnings.push(format!("--deadline of {minutes} min ends the wait before --wait-for-capacity does"));
        }
        let watch = Watch::new(margin(self.settings)?);
        let order = SiteRun::new(sites.clone(), self.args.window.max_attempts, pace.deadline, SystemClock.now());
        let mut multi = MultiSiteRun { run: order.without(away), site, watch, waits, record };
        let before = self.before(&begun, &mut multi, run).await?;
        let was_there = existing.is_some();
        let mut came = match existing {
            Some(existing) => {
                if !existing.notes.site.is_empty() {
                    multi.run.go_to(&existing.notes.site);
                }
                Some(self.go_on(existing, &begun, &multi, run).await)
            }
            None => before.map(Ok),
        };
        let mut survey = None;
        let came = loop {
            if let Some(came) = came.take() {
                match multi.on(&came) {
                    SiteStep::Stop => break came,
                    SiteStep::GoOn => multi.leave(came, run),
                    SiteStep::Restart => self.fleet_join.check()?,
                }
            }
            came = Some(self.at_next(&steps, &begun, &mut multi, &mut survey, run).await);
        };
        self.end(&begun, &came, was_there, run);
        came.map(|tried| tried.report)
    }

    async fn sign_in(&self, name: &str, run: &mut Run) -> Result<Arc<Site>, Failure> {
        let site = self.sources.sign_in(name, None, run).await?;
        run.count(&site.name, site.asked());
        Ok(Arc::new(site))
    }

    /// Signs in to the first site that can be reached, from where a process before came to.
    async fn sign_in_first(&self, away: &mut BTreeSet<String>, run: &mut Run) -> Result<Arc<Site>, Failure> {
        let from = self.record.as_ref().map(|record| record.run.site());
        let at = self.sites.iter().position(|site| from.is_none_or(|from| from == site));
        let Some(at) = at else { return self.sign_in(from.unwrap_or_default(), run).await };
        let mut sites = self.sites.iter().skip(at).peekable();
        loop {
            let site = sites.next().map_or("", String::as_str);
            match self.sign_in(site, run).await {
                Err(failure) if failure.is_away() && sites.peek().is_some() => {
                    run.pass_over(site, &failure);
                    away.insert(site.to_owned());
                }
                other => return other.map_err(|failure| failure.at_site(site, self.sites.len())),
            }
        }
    }

    /// Where a process before came to, if it ended in the middle of the same run; and what came of its last deployment, if that is
    /// over.
    async fn before(&self, begun: &Begun, multi: &mut MultiSiteRun, run: &mut Run) -> Result<Option<Tried>, Failure> {
        let same = |record: &Record| record.run.sites() == multi.run.sites() && record.request == begun.request;
        let Some(record) = Record::read(&self.context.state_dir, &begun.name)?.filter(same) else { return Ok(None) };
        multi.run.take_up(&record.run);
        for (name, places) in record.places.iter().filter(|_| multi.waits) {
            match self.sign_in(name, run).await {
                Ok(site) => multi.watch.add(&site, places.clone()),
                Err(failure) => run.warnings.push(format!("no host is waited for at {name}: {failure}")),
            }
        }
        let deployment = record.deployment.clone();
        multi.record = Some(record);
        let Some(id) = deployment else { return Ok(None) };
        let Some(known) = self.context.deployments().read(&id)? else { return Ok(None) };
        let failure = known.saga.failure().cloned().map(Failure::from);
        let outcome = SiteOutcome { is_past: true, ..SiteOutcome::of(&known.saga) };
        let came = Tried { report: Report { failure, ..Report::default() }, outcome };
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
            multi.run.skip_away();
            multi.begin(&self.context.state_dir, None)?;
            let came = match self.arrive(multi, run).await {
                Ok(()) => self.at_site(steps, begun, multi, survey, run).await,
                Err(failure) => Err(failure),
            };
            // Whatever fails so has made nothing there.
            let site = multi.run.site().to_owned();
            match came {
                Err(failure) if failure.is_away() && multi.run.pass() => {
                    multi.watch.remove(&site);
                    run.pass_over(&site, &failure);
                }
                other => return other,
            }
        }
    }

    /// Signs in to the site that is next. Where a host was waited for one is signed in already.
    async fn arrive(&self, multi: &mut MultiSiteRun, run: &mut Run) -> Result<(), Failure> {
        if multi.site.name != multi.run.site() {
            multi.site = match multi.watch.site(multi.run.site()) {
                Some(site) => site,
                None => {
                    let site = multi.run.site();
                    self.sign_in(site, run).await.map_err(|failure| failure.at_site(site, self.sites.len()))?
                }
            };
        }
        Ok(())
    }

    /// Forgets where the run is, if nothing of it can be gone on with.
    fn end(&self, begun: &Begun, came: &Result<Tried, Failure>, was_there: bool, run: &mut Run) {
        let is_over = match came {
            Ok(tried) => tried.outcome.is_over,
            // It is there still: anyone who goes on later goes on with all of it.
            Err(_) if was_there => false,
            Err(failure) => failure.class != Class::Fatal && !matches!(&*failure.code, "unavailable" | "locked"),
        };
        if is_over && let Err(error) = Record::remove(&self.context.state_dir, &begun.name) {
            run.warnings.push(format!("the record of the run cannot be removed: {error}"));
        }
    }

    /// A deployment of this name is there: it goes on, or is reported as it is.
    async fn go_on(
        &self,
        known: StoredDeployment,
        begun: &Begun,
        multi: &MultiSiteRun,
        run: &mut Run,
    ) -> Result<Tried, Failure> {
        let site = &*multi.site;
        let name = known.saga.order().server_name.clone();
        let journal = self.context.open(&known)?;
        let notes = &known.notes;
        run.take_warnings(known.trouble.as_slice());
        let other;
        let site = if notes.site == site.name || notes.site.is_empty() {
            site
        } else {
            other = self.context.sign_in(self.sources, &known, run).await?;
            &other
        };
        let surroundings =
            DeploymentSurroundings::new(&self.context, known.folder.clone(), known.notes.clone(), journal, 3..10);
        match &self.fleet {
            Some(asked) => surroundings.asks(Some(&asked.fleet)),
            None if known.saga.order().verify == Verify::Join => {
                surroundings.asks(Some(&fleet(&self.args.fleet, self.settings, known.notes.fleet.as_deref())?.fleet));
            }
            None => {}
        }
        drop(surroundings.watch.set(multi.watch.but(&site.name)));
        let saga = self.context.carry(site, &surroundings, Work::TakeUp(Event::Resume), run).await?;
        let past = self.past(&known.saga, &saga);
        let saga = if past.is_some() { self.swept(saga, site, &surroundings, run).await? } else { saga };
        let is_past = past.is_some() && matches!(saga.state(), SagaState::Destroyed | SagaState::Failed);
        run.warnings.extend(past.filter(|_| is_past).map(|past| format!("{name} {past}; creating another deployment")));
        let differs = known.differences(&begun.request);
        if !is_past && !differs.is_empty() {
            let what = differs.join(", ");
            run.warnings.push(format!("{name} already exists, with {what}; destroy it first, or use --new"));
        }
        let mut tried = self.context.tried(&saga, &surroundings, run);
        tried.outcome.is_past = is_past;
        Ok(tried)
    }

    /// What became of a deployment that was over or being removed before this run, if another one takes its place.
    fn past(&self, before: &Saga, now: &Saga) -> Option<String> {
        use SagaState as S;
        // `resume` makes no other one, and after a signal nothing begins.
        if self.record.is_some() || self.context.signals.exit().is_some() {
            return None;
        }
        match (before.state(), now.state()) {
            (_, S::Expired) => {
                let why = now.warnings().last().cloned().unwrap_or_default();
                Some(format!("no longer exists ({why}), and what is left of it is removed"))
            }
            (S::RollingBack | S::Leftover, S::Destroyed) => Some("was being destroyed, which is done now".to_owned()),
            (S::RollingBack | S::Leftover, S::Failed) => Some("was being rolled back, which is done now".to_owned()),
            _ => None,
        }
    }

    /// Removes what is left of a deployment that has ended.
    async fn swept(
        &self,
        saga: Saga,
        site: &Site,
        surroundings: &Arc<DeploymentSurroundings>,
        run: &mut Run,
    ) -> Result<Saga, Failure> {
        if saga.state() != SagaState::Expired {
            return Ok(saga);
        }
        run.take_warnings(saga.warnings());
        self.context.carry(site, surroundings, Work::TakeUp(Event::Destroy), run).await
    }
}
