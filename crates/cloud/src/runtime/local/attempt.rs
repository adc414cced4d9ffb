//! What all parts of following an attempt share: the substrate behind it, its spec and its directory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orlop_core::attempt::{AttemptKey, AttemptSpec};
use orlop_core::error::Problem;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::time::Time;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::deliver::{delivered, own_mounts};
use super::layout::{AttemptDir, Layout, PodDir};
use super::ledger::Ledger;
use super::memory;
use super::options::{LocalOptions, LocalPorts};
use super::records::PodIntent;
use super::reports::Reports;
use crate::runtime::plan::JobTemplate;
use crate::runtime::plan::container::ContainerTemplate;
use crate::runtime::plan::env::Missing;
use crate::runtime::plan::resolve::{PodIdentity, PodPlace, pod_plan};
use crate::runtime::plan::source::Sources;
use crate::runtime::pod::{ContainerPlan, Mount, PROCESS, PodKey, PodPlan, PodRuntime};
use crate::runtime::volume::mount::in_order;
use crate::runtime::volume::prepare::{VolumeOwner, VolumePlaces, prepare, roots};

/// A substrate without its face.
pub(super) struct Inner<R: ?Sized> {
    pub(super) runtime: Arc<R>,
    pub(super) options: LocalOptions,
    pub(super) ports: LocalPorts,
    pub(super) layout: Layout,
    pub(super) sources: Sources,
    pub(super) ledger: Ledger,
    pub(super) reports: Reports,
    live: Mutex<BTreeMap<AttemptKey, Live>>,
}

/// An attempt that is followed by a task of this process.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) answer: watch::Receiver<Option<Answer>>,
    pub(super) task: AbortHandle,
}

/// Answer to the start of an attempt: its reference, or why there is none.
pub(super) type Answer = Result<ObjectReference, Problem>;

/// An order of the host to an attempt; answered once it is written down and under way.
pub(super) enum Command {
    /// End it, killing after this grace; none: the template's.
    Cancel(Option<Duration>, oneshot::Sender<Result<(), Problem>>),
    /// Stop its clock, or let it go on.
    Freeze(bool, oneshot::Sender<Result<(), Problem>>),
    /// Follow it no more: nothing of it runs, whatever the runtime says.
    Release,
}

impl<R: PodRuntime + ?Sized> Inner<R> {
    pub(super) fn new(runtime: Arc<R>, options: LocalOptions, ports: LocalPorts) -> Self {
        let layout = Layout::new(&options.run_dir, options.memory_dir.as_deref());
        let config_maps = [Some(layout.config_maps()), options.configs_dir.clone()];
        Self {
            runtime,
            ports,
            sources: Sources {
                config_maps: config_maps.into_iter().flatten().collect(),
                secrets: options.secrets_dir.iter().cloned().collect(),
            },
            ledger: Ledger::new(options.machine.clone()),
            reports: Reports::default(),
            live: Mutex::default(),
            layout,
            options,
        }
    }
}

impl<R: ?Sized> Inner<R> {
    /// Attempts that are followed now.
    pub(super) fn live(&self) -> MutexGuard<'_, BTreeMap<AttemptKey, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Time {
        self.ports.clock.now()
    }
}

/// An attempt as it is followed.
pub(super) struct Attempt<R: ?Sized> {
    pub(super) inner: Arc<Inner<R>>,
    pub(super) spec: AttemptSpec,
    pub(super) template: JobTemplate,
    pub(super) dir: AttemptDir,
    pub(super) started_at: Time,
}

impl<R: PodRuntime + ?Sized> Attempt<R> {
    pub(super) fn pod_key(&self, number: u32) -> PodKey {
        PodKey { attempt: self.spec.key.clone(), pod: number }
    }

    /// Who a pod is.
    fn identity(&self, intent: &PodIntent) -> PodIdentity {
        let job = (self.spec.job_name.as_str(), self.spec.namespace.as_str());
        PodIdentity::new(self.pod_key(intent.record.number), intent.record.index, job, &self.template)
    }

    pub(super) fn places(&self, pod: &PodDir) -> VolumePlaces {
        let options = &self.inner.options;
        VolumePlaces {
            pod: pod.volumes(),
            memory: pod.memory.clone(),
            claims: [Some(self.inner.layout.volumes()), options.volumes_dir.clone()].into_iter().flatten().collect(),
            allow_host_path: options.policy.allow_host_path.clone(),
        }
    }

    /// Makes the volumes of a pod that has not started. Blocks.
    pub(super) fn prepare(&self, intent: &PodIntent) -> Result<(), Problem> {
        self.inner.layout.memory().map_or(Ok(()), memory::secure)?;
        let pod = &self.template.pod;
        if pod.volumes.is_empty() {
            return Ok(());
        }
        let owner = VolumeOwner { user: pod.main.security.user, group: pod.fs_group };
        let identity = self.identity(intent);
        let containers: Vec<&ContainerTemplate> = pod.containers().collect();
        let facts = identity.facts(&self.template, &containers, &self.inner.options.machine);
        let places = self.places(&self.dir.pod(intent.record.number));
        prepare(&pod.volumes, &places, owner, &facts, &self.inner.sources).map(drop)
    }

    /// The plan of a pod whose volumes are made, with the mounts of its artifacts. Blocks.
    pub(super) fn plan(&self, intent: &PodIntent, missing: Missing) -> Result<PodPlan, Problem> {
        let mut plan = self.bare_plan(intent, missing)?;
        let pod = self.dir.pod(intent.record.number);
        plan.delivered = delivered(&self.spec.inputs, &plan.main.mounts, &pod);
        let own = own_mounts(&self.spec.inputs, &plan.main.mounts, &pod);
        plan.main.mounts.extend(own);
        in_order(&mut plan.main.mounts);
        Ok(plan)
    }

    /// The plan of a pod as its template alone gives it. Blocks.
    pub(super) fn bare_plan(&self, intent: &PodIntent, missing: Missing) -> Result<PodPlan, Problem> {
        let pod = self.dir.pod(intent.record.number);
        let identity = self.identity(intent);
        let (stdout, stderr) = self.inner.layout.logs(&self.spec.key);
        let files = self.spec.output_files.iter().map(|file| &file.path);
        let artifacts = self.spec.output_artifacts.iter().map(|artifact| &artifact.path);
        let place = PodPlace {
            identity: &identity,
            machine: &self.inner.options.machine,
            sources: &self.inner.sources,
            missing,
            volumes: &roots(&self.template.pod.volumes, &self.places(&pod))?,
            gpus: intent.gpus.clone(),
            restart_limit: intent.restart_limit,
            stdout,
            stderr,
            outputs: files.chain(artifacts).cloned().collect(),
            directory: pod.runtime.clone(),
        };
        let mut plan = pod_plan(&self.template, &place)?;
        for container in plan.init.iter_mut().chain([&mut plan.main]) {
            self.place_in_workdir(container);
        }
        Ok(plan)
    }

    /// Has a plain process begin in the directory that is chosen for all of them.
    fn place_in_workdir(&self, container: &mut ContainerPlan) {
        let Some(workdir) = &self.inner.options.workdir else { return };
        if container.working_dir.is_some() || self.inner.runtime.kind(container.image.as_deref()) != PROCESS {
            return;
        }
        let target = workdir.display().to_string();
        container.working_dir = Some(target.clone());
        if container.mounts.iter().all(|mount| mount.target != target) {
            container.mounts.push(Mount { source: workdir.clone(), target, read_only: false });
            in_order(&mut container.mounts);
        }
    }
}
