//! `apply` where a deployment of the name was there before: it goes on with one that is under way, tells one that is there, and
//! sweeps one that is no more. Owns which of them it is; what the cloud has of it the saga finds out.

use std::sync::Arc;

use orlop_cloud::provision::order::Verify;
use orlop_cloud::provision::saga::{Event, Saga};
use orlop_core::machine::saga::SagaState;

use super::apply::{Existing, Job};
use super::carry::Work;
use super::examine::Run;
use super::failure::Failure;
use super::fleet::fleet;
use super::multi_site::MultiSiteRun;
use super::sign_in::Site;
use super::site_order::Tried;
use super::surroundings::DeploymentSurroundings;

impl Job<'_> {
    /// A deployment of this name is there: it goes on, or is reported as it is.
    pub(super) async fn go_on(
        &self,
        existing: Existing,
        multi: &MultiSiteRun,
        run: &mut Run,
    ) -> Result<Tried, Failure> {
        let site = &*multi.site;
        let known = existing.known;
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
        let surroundings = self.context.stage(known.folder.clone(), known.notes.clone(), journal, 3..10);
        match &self.fleet {
            Some(asked) => surroundings.asks(Some(&asked.fleet)),
            None if known.saga.order().verify == Verify::Join => {
                surroundings.asks(Some(&fleet(&self.args.fleet, self.settings, known.notes.fleet.as_deref())?.fleet));
            }
            None => {}
        }
        drop(surroundings.watch.set(multi.watch.but(&site.name)));
        let saga = self.context.carry(site, &surroundings, Work::TakeUp(vec![Event::Resume]), run).await?;
        let saga = saga.ok_or_else(|| Failure::internal("the journal holds no plan"))?;
        let past = self.past(&known.saga, &saga);
        let saga = if past.is_some() { self.swept(saga, site, &surroundings, run).await? } else { saga };
        let is_past = past.is_some() && matches!(saga.state(), SagaState::Destroyed | SagaState::Failed);
        run.warnings.extend(past.filter(|_| is_past).map(|past| format!("{name} {past}; another deployment is made")));
        if !is_past && !existing.differs.is_empty() {
            let what = existing.differs.join(", ");
            run.warnings.push(format!("{name} is there already, with {what}; destroy it first, or use --new"));
        }
        let mut tried = self.context.tried(&saga, &surroundings, run);
        tried.is_past = is_past;
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
                Some(format!("is no more ({why}), and what is left of it is removed"))
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
        let swept = self.context.carry(site, surroundings, Work::TakeUp(vec![Event::Destroy]), run).await?;
        swept.ok_or_else(|| Failure::internal("the journal holds no plan"))
    }
}
