//! The provisioner as one value, for programs that need machines, such as a scheduler: it plans, makes, observes and removes
//! deployments. A machine whose worker may still run jobs is not removed.
//!
//! ```
//! # #[cfg(feature = "testing")]
//! # {
//! # use orlop_cloud::provision::{drive::Hands, order::{KeyOrder, Pace, Verify}};
//! # use orlop_cloud::analyze::{FileKind, analyze};
//! # use orlop_cloud::repository::{Scan, ScannedFile};
//! # use orlop_cloud::testing::openstack::{MemoryCloud, VirtualClock};
//! use std::sync::Arc;
//! use orlop_cloud::provision::front::{Gone, Provisioner};
//! use orlop_cloud::provision::plan::Request;
//! use orlop_cloud::provision::prepare::DeploymentOptions;
//! use orlop_core::machine::saga::SagaState;
//! # let folder = tempfile::tempdir().unwrap();
//! # let clock = VirtualClock::default();
//! # let memory = MemoryCloud::new(clock.clone());
//! # struct Nothing;
//! # #[async_trait::async_trait]
//! # impl orlop_cloud::provision::drive::Surroundings for Nothing {
//! #     async fn probe(&self, _: &str, _: Option<&orlop_cloud::provision::saga::Login>) -> orlop_cloud::provision::saga::Probe {
//! #         orlop_cloud::provision::saga::Probe::Answered
//! #     }
//! # }
//! # let (cloud, clock, around) = (memory.open().0, Arc::new(clock), Arc::new(Nothing));
//! # let file = ScannedFile { path: "requirements.txt".into(), kind: FileKind::of("requirements.txt").unwrap(), text: "flask".into() };
//! # let analysis = analyze(&Scan { files: vec![file], ..Scan::default() });
//! # let key = KeyOrder { name: "k".into(), public_key: Some("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA".into()), must_match: false, made_file: None };
//! # let options = DeploymentOptions {
//! #     server_name: "demo".into(), lease_name: None, key, network: "sharednet1".into(), external: Some("public".into()),
//! #     flavor: "baremetal".into(), groups: Vec::new(), ssh_from: None, max_attempts: 1, verify: Verify::Port, pace: Pace::default(),
//! #     keep_on_failure: false, user_data: None, join: None, max_su: None, max_hours: None,
//! # };
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # let account = cloud.identity.authenticate().await.unwrap();
//! # use orlop_cloud::openstack::port::Clock as _;
//! # let start = jiff::Timestamp::from_millisecond(clock.now().millis()).unwrap();
//! # let request = Request { sites: vec!["test".into()], ..Request::new(start) };
//! // `cloud`, `clock` and `around` are ports; `analysis`, `request` and `options` say what is wanted.
//! let machines = Provisioner::new(folder.path(), (cloud, clock, around), ("test", &account.project_id), None);
//! let planned = machines.plan(&analysis, &request, options, "a nonce").await.unwrap();
//! assert_eq!(planned.plan.best().unwrap().node_type, "compute_haswell");
//! let made = machines.apply(&planned).await.unwrap();
//! assert_eq!(made.state(), SagaState::Ready);
//! assert_eq!(machines.observe(&planned.order.id).await.unwrap().unwrap().state(), SagaState::Ready);
//! let Gone::Removed(gone) = machines.destroy(&planned.order.id).await.unwrap() else { panic!() };
//! assert_eq!(gone.state(), SagaState::Destroyed);
//! # });
//! # }
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use orlop_core::error::Problem;

use super::deployments::DeploymentStore;
use super::drive::{Hands, Surroundings, apply, take_up};
use super::fleet::Fleet;
use super::journal::{FileJournal, JournalError};
use super::mark::DeploymentId;
use super::notes::Notes;
use super::order::DeploymentOrder;
use super::plan::{Plan, PlanError, Request, World, plan};
use super::prepare::{DeploymentOptions, prepare};
use super::saga::{Event, Failure, Saga};
use super::site::look;
use crate::analyze::Analysis;
use crate::catalog::embedded;
use crate::openstack::port::{Cloud, CloudError, Timer};

/// Why there is no machine, or it is not gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The site cannot be asked.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// What a plan needs is not there.
    #[error("{}; {}", .0.message, .0.hint)]
    Refused(Failure),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The fleet cannot be asked whether the worker is drained.
    #[error(transparent)]
    Fleet(#[from] Problem),
    /// Nobody knows such a deployment.
    #[error("there is no deployment {0}")]
    Unknown(DeploymentId),
    /// It has a worker, and there is no fleet to ask.
    #[error("the worker of deployment {0} may still work, and no fleet is there to ask")]
    NoFleet(DeploymentId),
}

/// A plan, and what is carried out of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// For people.
    pub plan: Plan,
    /// For the cloud.
    pub order: DeploymentOrder,
    nonce: String,
}

/// What came of removing a machine.
#[derive(Debug, Clone)]
pub enum Gone {
    /// Its worker was told to leave and has not yet: ask again later.
    Draining {
        /// Which worker.
        worker: String,
    },
    /// It was removed, or the saga tells why not all of it.
    Removed(Box<Saga>),
}

/// Plans, makes, observes and removes machines of one site.
pub struct Provisioner {
    deployments: DeploymentStore,
    cloud: Cloud,
    clock: Arc<dyn Timer>,
    around: Arc<dyn Surroundings>,
    site: String,
    project_id: String,
    fleet: Option<Arc<dyn Fleet>>,
}

impl std::fmt::Debug for Provisioner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provisioner")
            .field("site", &self.site)
            .field("project", &self.project_id)
            .finish_non_exhaustive()
    }
}

impl Provisioner {
    /// Machines of a site, for a project; what becomes of each is written down below a folder. The fleet is the one that machines
    /// may join.
    #[must_use]
    pub fn new(
        folder: impl Into<PathBuf>,
        (cloud, clock, around): (Cloud, Arc<dyn Timer>, Arc<dyn Surroundings>),
        (site, project_id): (&str, &str),
        fleet: Option<Arc<dyn Fleet>>,
    ) -> Self {
        let (site, project_id) = (site.to_owned(), project_id.to_owned());
        Self { deployments: DeploymentStore::new(folder), cloud, clock, around, site, project_id, fleet }
    }

    /// Asks the site what is free and plans; makes nothing. The nonce must differ for each machine.
    ///
    /// # Errors
    /// Nothing fits or is free, something is missing, or the site cannot be asked.
    pub async fn plan(
        &self,
        analysis: &Analysis,
        request: &Request,
        options: DeploymentOptions,
        nonce: &str,
    ) -> Result<Planned, Error> {
        let seen = look(&self.cloud, &self.site).await?;
        let (catalogue, images) = (seen.catalogue(embedded()), seen.images(request.image.as_deref()));
        let world = World { catalogue: &catalogue, allocations: seen.allocations.as_deref(), images: Some(&images) };
        let plan = plan(analysis, &world, request)?;
        let id = DeploymentId::new(&options.server_name, &self.project_id, nonce);
        let offered = (plan.offerings.as_slice(), plan.hours);
        let order = prepare(id, &self.project_id, offered, &seen, &catalogue, options).map_err(Error::Refused)?;
        Ok(Planned { plan, order, nonce: nonce.to_owned() })
    }

    /// Makes the planned machine, or goes on where an earlier call was interrupted.
    ///
    /// # Errors
    /// The journal cannot be written; nothing was asked for that is not written down.
    pub async fn apply(&self, planned: &Planned) -> Result<Saga, Error> {
        let id = &planned.order.id;
        if self.deployments.read(id)?.is_some() {
            return self.take_up(id, Event::Resume).await;
        }
        let document = serde_json::to_value(&planned.plan).unwrap_or_default();
        let notes = Notes {
            server_name: planned.order.server_name.clone(),
            project_id: planned.order.project_id.clone(),
            site: self.site.clone(),
            created_at: Some(self.clock.now()),
            ..Notes::default()
        };
        // Whoever holds the journal lives; what is noted without one that lives is swept by the next run.
        let hands = self.hands(id)?;
        self.deployments.note(id, &notes, Some(&document))?;
        Ok(apply(&hands, planned.order.clone(), &planned.nonce, Vec::new()).await?)
    }

    /// Compares the deployment with what exists at the site, and gives its state; none for an unknown deployment.
    ///
    /// # Errors
    /// The journal cannot be read, believed or written.
    pub async fn observe(&self, id: &DeploymentId) -> Result<Option<Saga>, Error> {
        match self.deployments.read(id)? {
            Some(_) => self.take_up(id, Event::Look).await.map(Some),
            None => Ok(None),
        }
    }

    /// Removes a machine: at once where no worker is on it, else once its worker has left the fleet, which it is told to here.
    /// Doing so again goes on, and once all is gone changes nothing.
    ///
    /// # Errors
    /// Nobody knows the deployment, the fleet cannot be asked, or the journal cannot be written; then the machine is still there.
    pub async fn destroy(&self, id: &DeploymentId) -> Result<Gone, Error> {
        let known = self.deployments.read(id)?.ok_or_else(|| Error::Unknown(id.clone()))?;
        if known.saga.order().join.is_some() && known.is_alive() {
            let fleet = self.fleet.as_ref().ok_or_else(|| Error::NoFleet(id.clone()))?;
            if let Some(worker) = fleet.worker(id).await?.filter(|worker| !worker.has_left()) {
                fleet.drain(&worker.id).await?;
                return Ok(Gone::Draining { worker: worker.id });
            }
        }
        Ok(Gone::Removed(Box::new(self.take_up(id, Event::Destroy).await?)))
    }

    async fn take_up(&self, id: &DeploymentId, event: Event) -> Result<Saga, Error> {
        let saga = take_up(&self.hands(id)?, event).await?;
        saga.ok_or_else(|| Error::Unknown(id.clone()))
    }

    fn hands(&self, id: &DeploymentId) -> Result<Hands, Error> {
        let journal = Arc::new(FileJournal::open(&self.deployments.place(id), id.as_str())?);
        let (clock, around) = (Arc::clone(&self.clock), Arc::clone(&self.around));
        Ok(Hands { cloud: self.cloud.clone(), journal, clock, around })
    }
}

#[cfg(feature = "testing")]
#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use orlop_core::error::Class;
    use orlop_core::machine::saga::SagaState;
    use orlop_core::machine::worker::WorkerState;

    use super::*;
    use crate::provision::fleet::WorkerSeen;
    use crate::provision::join::{Join, JoinOrder, Token};
    use crate::provision::order::{Choice, DeploymentOrder, OrderImage};
    use crate::provision::saga::{Login, Probe};
    use crate::testing::openstack::{MemoryCloud, Remains, VirtualClock};

    struct Around;

    #[async_trait::async_trait]
    impl Surroundings for Around {
        async fn probe(&self, _: &str, _: Option<&Login>) -> Probe {
            Probe::Answered
        }

        async fn join_token(&self, _: &str) -> Result<Token, String> {
            Token::read("orlopj.a.b.c").map_err(|error| error.to_string())
        }
    }

    /// A fleet with one worker, or one that cannot be asked.
    struct Workers(Mutex<Result<WorkerState, ()>>, Mutex<Vec<String>>);

    #[async_trait::async_trait]
    impl Fleet for Workers {
        async fn worker(&self, _: &DeploymentId) -> Result<Option<WorkerSeen>, Problem> {
            let state = self.0.lock().unwrap().map_err(|()| Problem::new(Class::Transient, "away"))?;
            Ok(Some(WorkerSeen { id: "w".into(), state, since: String::new(), attempts: 0, connected: true }))
        }

        async fn drain(&self, worker: &str) -> Result<(), Problem> {
            self.1.lock().unwrap().push(worker.to_owned());
            Ok(())
        }
    }

    fn order() -> DeploymentOrder {
        let url = |text: &str| text.parse().unwrap();
        let join =
            Join::new(url("https://fleet"), url("https://get.example/w"), "ab".repeat(32).parse().unwrap()).unwrap();
        let reserve = crate::openstack::port::Reserve::Host {
            hypervisor_properties: String::new(),
            resource_properties: serde_json::json!(["=", "$node_type", "compute_haswell"]).to_string(),
        };
        let mut order = DeploymentOrder::to_remove(DeploymentId::new("demo", "project", "n"), "project");
        order.server_name = "demo".into();
        order.key.public_key = Some("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA".into());
        order.network = ("net-shared".into(), "sharednet1".into());
        order.join = Some(JoinOrder { join, token_file: "/t".into() });
        order.max_attempts = 1;
        order.choices = vec![Choice {
            site: "test".into(),
            node_type: "compute_haswell".into(),
            reserve: Some(reserve),
            hosts: vec!["1".into()],
            start: None,
            hours: 1,
            images: vec![OrderImage { id: "image-0".into(), name: "i".into(), user: None }],
            flavor: "baremetal".into(),
            su_milli: 1,
            su_known: true,
            taken: false,
            expects: None,
            gpu_model: None,
        }];
        order
    }

    #[tokio::test]
    async fn a_machine_is_removed_only_once_its_worker_has_left() {
        let folder = tempfile::tempdir().unwrap();
        let clock = VirtualClock::default();
        let memory = MemoryCloud::new(clock.clone());
        let workers = Arc::new(Workers(Mutex::new(Ok(WorkerState::Running)), Mutex::default()));
        let machines = |fleet: Option<Arc<dyn Fleet>>| {
            let ports = (memory.open().0, Arc::new(clock.clone()) as Arc<dyn Timer>, Arc::new(Around) as _);
            Provisioner::new(folder.path(), ports, ("test", "project"), fleet)
        };
        let hands = machines(None);
        let order = order();
        let id = order.id.clone();
        hands.deployments.note(&id, &Notes::default(), None).unwrap();
        let made = apply(&hands.hands(&id).unwrap(), order, "n", Vec::new()).await.unwrap();
        assert_eq!(made.state(), SagaState::Ready, "{:?}", made.failure());
        let there = || memory.world().remains() != Remains::default();
        assert!(matches!(hands.destroy(&id).await, Err(Error::NoFleet(_))) && there());
        let hands = machines(Some(Arc::clone(&workers) as _));
        *workers.0.lock().unwrap() = Err(());
        assert!(matches!(hands.destroy(&id).await, Err(Error::Fleet(_))) && there());
        for state in [WorkerState::Running, WorkerState::Draining, WorkerState::Unhealthy] {
            *workers.0.lock().unwrap() = Ok(state);
            assert!(matches!(hands.destroy(&id).await, Ok(Gone::Draining { .. })) && there(), "{state}");
        }
        assert_eq!(workers.1.lock().unwrap().len(), 3);
        *workers.0.lock().unwrap() = Ok(WorkerState::Terminated);
        let Ok(Gone::Removed(gone)) = hands.destroy(&id).await else { panic!() };
        assert!(gone.state() == SagaState::Destroyed && !there());
        *workers.0.lock().unwrap() = Err(());
        assert!(matches!(hands.destroy(&id).await, Ok(Gone::Removed(_))), "what is gone needs nobody");
        let nobody = DeploymentId::new("x", "y", "z");
        assert!(matches!(hands.destroy(&nobody).await, Err(Error::Unknown(_))));
        assert!(hands.observe(&nobody).await.unwrap().is_none());
    }
}
