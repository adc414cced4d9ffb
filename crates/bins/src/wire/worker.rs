//! What workers say of themselves: registration and what they offer. Never admits a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use orlop_core::hardware::gpu::{GpuShape, ModelKey, Vendor};
use orlop_core::id::{Epoch, Incarnation, SessionId, TenantName, WorkerId, label_key, label_value};
use orlop_scheduler::event::{Capabilities, GpuDevices, GpuUnit};
use orlop_scheduler::job::Runtime;

use super::bound::{
    ATTEMPTS_MAX, LIST_MAX, NAME_MAX, OnWire, WireError, at_most, checked, each, same_values, session, text, worker_id,
};
use super::proto::v1;
use super::status::WorkerStatus;

pub use super::proto::v1::{Limits, ProtocolRange};

same_values! { Runtime = v1::Runtime, "runtimes" { Process, Docker, Noop } }

impl ProtocolRange {
    /// What this program speaks.
    pub const OURS: Self = Self { min: 2, max: super::PROTOCOL };

    /// The highest number that both speak.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u32> {
        let (low, high) = (self.min.max(other.min), self.max.min(other.max));
        (low <= high && low > 0).then_some(high)
    }
}

impl fmt::Display for ProtocolRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

/// An agent that wants to work. `Debug` never shows the join token.
#[derive(Clone, PartialEq, Eq)]
pub struct Registration {
    /// The worker.
    pub worker: WorkerId,
    /// The text of its join token; empty when its certificate speaks for it.
    pub join_token: String,
    /// PKCS #10 in DER; empty = it wants no certificate.
    pub csr: Vec<u8>,
    /// Protocols it speaks.
    pub protocol: ProtocolRange,
    /// Features of the protocol it can use.
    pub features: BTreeSet<String>,
    /// What it offers, its labels among it.
    pub capabilities: Capabilities,
    /// The version of its program.
    pub agent_version: String,
    /// Changes with every boot of its host.
    pub boot_id: String,
    /// Names its state directory.
    pub state_id: String,
    /// Where that directory is on its host: another value for a copy of it. Empty = not said.
    pub state_place: String,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, protocol, features, capabilities, agent_version, boot_id, state_id, .. } = self;
        f.debug_struct("Registration")
            .field("worker", worker)
            .field("protocol", protocol)
            .field("features", features)
            .field("capabilities", capabilities)
            .field("agent_version", agent_version)
            .field("boot_id", boot_id)
            .field("state_id", state_id)
            .finish_non_exhaustive()
    }
}

impl From<Registration> for v1::RegisterWorkerRequest {
    fn from(registration: Registration) -> Self {
        let labels = registration.capabilities.labels.clone();
        Self {
            worker_id: registration.worker.into(),
            join_token: registration.join_token,
            csr: registration.csr,
            protocol: Some(registration.protocol),
            features: registration.features.into_iter().collect(),
            capabilities: Some(registration.capabilities.into()),
            labels,
            agent_version: registration.agent_version,
            boot_id: registration.boot_id,
            state_id: registration.state_id,
            state_place: registration.state_place,
        }
    }
}

fn names(field: &'static str, list: Vec<String>) -> Result<BTreeSet<String>, WireError> {
    at_most(field, list.len(), LIST_MAX)?;
    list.into_iter().map(|name| text(field, name, NAME_MAX)).collect()
}

impl TryFrom<v1::RegisterWorkerRequest> for Registration {
    type Error = WireError;

    fn try_from(wire: v1::RegisterWorkerRequest) -> Result<Self, WireError> {
        at_most("csr", wire.csr.len(), 16 << 10)?;
        at_most("labels", wire.labels.len(), 64)?;
        for (key, value) in &wire.labels {
            label_key(key).and_then(|()| label_value(value)).map_err(|error| WireError::of("labels")(&error))?;
        }
        let protocol = wire.protocol.ok_or_else(|| WireError::missing("protocol"))?;
        let capabilities = wire.capabilities.ok_or_else(|| WireError::missing("capabilities"))?;
        Ok(Self {
            worker: worker_id(wire.worker_id)?,
            join_token: text("join_token", wire.join_token, 1024)?,
            csr: wire.csr,
            protocol,
            features: names("features", wire.features)?,
            capabilities: Capabilities { labels: wire.labels, ..capabilities.try_into()? },
            agent_version: text("agent_version", wire.agent_version, NAME_MAX)?,
            boot_id: text("boot_id", wire.boot_id, NAME_MAX)?,
            state_id: text("state_id", wire.state_id, NAME_MAX)?,
            state_place: text("state_place", wire.state_place, NAME_MAX)?,
        })
    }
}

impl From<Capabilities> for v1::Capabilities {
    fn from(offer: Capabilities) -> Self {
        let gpu = |gpu: GpuDevices| v1::GpuDevices {
            vendor: gpu.vendor.to_string(),
            model: gpu.model.into(),
            memory_bytes: gpu.memory_bytes,
            count: gpu.count,
        };
        let unit = |GpuUnit { vendor, model, index, uuid }| v1::GpuUnit {
            vendor: vendor.to_string(),
            model: model.into(),
            index,
            uuid,
        };
        Self {
            cpu_m: offer.cpu_m,
            memory_bytes: offer.memory_bytes,
            gpus: offer.gpus.into_iter().map(gpu).collect(),
            gpu_units: offer.gpu_units.into_iter().map(unit).collect(),
            extras: offer.extras,
            features: offer.features.into_iter().collect(),
            runtimes: offer.runtimes.into_iter().map(OnWire::number).collect(),
            max_jobs: offer.max_jobs,
            tenants: offer.tenants.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::GpuDevices> for GpuDevices {
    type Error = WireError;

    fn try_from(wire: v1::GpuDevices) -> Result<Self, WireError> {
        let v1::GpuDevices { vendor, model, memory_bytes, count } = wire;
        let GpuShape { vendor, model, memory_bytes } = v1::GpuShape { vendor, model, memory_bytes }.try_into()?;
        Ok(Self { vendor, model, memory_bytes, count })
    }
}

impl TryFrom<v1::GpuUnit> for GpuUnit {
    type Error = WireError;

    fn try_from(wire: v1::GpuUnit) -> Result<Self, WireError> {
        let v1::GpuUnit { vendor, model, index, uuid } = wire;
        let GpuShape { vendor, model, .. } = v1::GpuShape { vendor, model, memory_bytes: 0 }.try_into()?;
        Ok(Self { vendor, model, index, uuid: text("gpu_units.uuid", uuid, NAME_MAX)? })
    }
}

impl From<GpuShape> for v1::GpuShape {
    fn from(gpu: GpuShape) -> Self {
        Self { vendor: gpu.vendor.to_string(), model: gpu.model.into(), memory_bytes: gpu.memory_bytes }
    }
}

impl TryFrom<v1::GpuShape> for GpuShape {
    type Error = WireError;

    fn try_from(wire: v1::GpuShape) -> Result<Self, WireError> {
        let vendor: Result<Vendor, _> = wire.vendor.parse();
        let model = ModelKey::new(wire.model);
        Ok(Self {
            vendor: vendor.map_err(|error| WireError::of("gpus.vendor")(&error))?,
            model: model.map_err(|error| WireError::of("gpus.model")(&error))?,
            memory_bytes: wire.memory_bytes,
        })
    }
}

impl TryFrom<v1::Capabilities> for Capabilities {
    type Error = WireError;

    fn try_from(wire: v1::Capabilities) -> Result<Self, WireError> {
        at_most("capabilities.gpus", wire.gpus.len(), 16)?;
        at_most("capabilities.gpu_units", wire.gpu_units.len(), LIST_MAX)?;
        at_most("capabilities.extras", wire.extras.len(), 16)?;
        at_most("capabilities.tenants", wire.tenants.len(), LIST_MAX)?;
        if wire.max_jobs == 0 || wire.max_jobs as usize > ATTEMPTS_MAX {
            return Err(WireError::new(
                "capabilities.max_jobs",
                format!("is {}; use 1 to {ATTEMPTS_MAX}", wire.max_jobs),
            ));
        }
        wire.extras.keys().try_for_each(|name| at_most("capabilities.extras", name.len(), NAME_MAX))?;
        let tenant =
            |name: String| TenantName::new(name).map_err(|error| WireError::of("capabilities.tenants")(&error));
        Ok(Self {
            cpu_m: wire.cpu_m,
            memory_bytes: wire.memory_bytes,
            gpus: each(wire.gpus)?,
            gpu_units: each(wire.gpu_units)?,
            extras: wire.extras,
            labels: BTreeMap::new(),
            features: names("capabilities.features", wire.features)?,
            // A runtime of a later version is of no use here, and no reason to refuse the worker.
            runtimes: wire.runtimes.into_iter().filter_map(|number| Runtime::read(number).ok()).collect(),
            max_jobs: wire.max_jobs,
            tenants: wire.tenants.into_iter().map(tenant).collect::<Result<_, _>>()?,
        })
    }
}

impl Limits {
    /// What this server holds an agent to.
    pub const OURS: Self = Self {
        frame_bytes: super::bound::FRAME_BYTES as u64,
        frame_entries: super::bound::FRAME_ENTRIES as u32,
        message_bytes: super::MESSAGE_MAX as u64,
        log_credit: super::bound::LOG_CREDIT,
        specs: super::bound::SPECS as u32,
    };
}

/// A worker that is known, and its session.
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    /// The worker.
    pub worker: WorkerId,
    /// How often it came back.
    pub incarnation: Incarnation,
    /// Its session.
    pub session: SessionId,
    /// The server's epoch.
    pub epoch: Epoch,
    /// The protocol both speak.
    pub protocol: u32,
    /// Features of the protocol both use.
    pub features: BTreeSet<String>,
    /// Between two heartbeats, in milliseconds.
    pub heartbeat_ms: u32,
    /// What a heartbeat renews, in milliseconds.
    pub lease_ms: u32,
    /// What the server holds it to.
    pub limits: Limits,
    /// Its certificate in DER; empty = none was asked for.
    pub certificate: Vec<u8>,
    /// The certificate of the fleet's authority in DER; empty = there is none.
    pub ca: Vec<u8>,
    /// What the server knew of it.
    pub status: Option<WorkerStatus>,
}

impl From<Registered> for v1::RegisterWorkerResponse {
    fn from(registered: Registered) -> Self {
        Self {
            worker_id: registered.worker.into(),
            incarnation: registered.incarnation.get(),
            session_id: registered.session.as_bytes().to_vec(),
            epoch: registered.epoch.0,
            protocol: registered.protocol,
            features: registered.features.into_iter().collect(),
            heartbeat_ms: registered.heartbeat_ms,
            lease_ms: registered.lease_ms,
            limits: Some(registered.limits),
            certificate: registered.certificate,
            ca: registered.ca,
            status: registered.status,
        }
    }
}

impl TryFrom<v1::RegisterWorkerResponse> for Registered {
    type Error = WireError;

    fn try_from(wire: v1::RegisterWorkerResponse) -> Result<Self, WireError> {
        let incarnation = Incarnation::new(wire.incarnation);
        let limits = wire.limits.ok_or_else(|| WireError::missing("limits"))?;
        Ok(Self {
            worker: worker_id(wire.worker_id)?,
            incarnation: incarnation.map_err(|error| WireError::of("incarnation")(&error))?,
            session: session(&wire.session_id)?,
            epoch: Epoch(wire.epoch),
            protocol: wire.protocol,
            features: names("features", wire.features)?,
            heartbeat_ms: wire.heartbeat_ms,
            lease_ms: wire.lease_ms,
            limits,
            certificate: wire.certificate,
            ca: wire.ca,
            status: wire.status.map(checked).transpose()?,
        })
    }
}
