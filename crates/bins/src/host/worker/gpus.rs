//! Which GPUs of this machine, and slices of them, attempts have.

use std::collections::BTreeMap;

use orlop_cloud::runtime::worker::GpuDevice;
use orlop_core::hardware::gpu::{GpuShape, ModelKey};
use orlop_core::named::Named as _;
use orlop_core::spec::job::{GpuKind, Gpus};
use orlop_core::task::TaskRef;

/// A device and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// By what it is given to attempts.
    pub device: GpuDevice,
    /// Model, as it is advertised.
    pub model: String,
    /// Its UUID, where the vendor's tools tell it.
    pub uuid: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Whether it is connected with all others of the machine by NVLink.
    pub nvlink: bool,
}

/// Whether a device is of this kind.
fn is_of(kind: &GpuKind, gpu: &Gpu) -> bool {
    let named = gpu.device.vendor.parse().ok().zip(ModelKey::new(gpu.model.as_str()).ok());
    named.is_some_and(|(vendor, model)| kind.accepts(vendor, &model, gpu.memory_bytes))
}

/// Which devices the server has charged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Charged<'a> {
    /// Numbers that would suit.
    pub(super) hint: &'a [u32],
    /// Their kind; none: any that is asked for.
    pub(super) kind: Option<&'a GpuShape>,
}

impl Charged<'_> {
    fn is(&self, gpu: &Gpu) -> bool {
        self.kind.is_none_or(|kind| {
            let named = (kind.vendor.as_str(), kind.model.as_str(), kind.memory_bytes);
            named == (gpu.device.vendor.as_str(), gpu.model.as_str(), gpu.memory_bytes)
        })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    all: Vec<Gpu>,
    taken: BTreeMap<GpuDevice, TaskRef>,
}

impl Ledger {
    pub(super) fn new(all: Vec<Gpu>) -> Self {
        Self { all, taken: BTreeMap::new() }
    }

    /// Picks devices of the kind that was charged, or of one kind: those of the hint where they are free and do, else the
    /// lowest free ones. None when there are not enough.
    pub(super) fn take(&mut self, id: TaskRef, ask: &Gpus, charged: Charged<'_>) -> Option<Vec<GpuDevice>> {
        let count = ask.count as usize;
        if count == 0 {
            return Some(Vec::new());
        }
        let picked = if ask.any_of.is_empty() {
            self.pick(count, charged.hint, |gpu| charged.is(gpu) && !gpu.device.is_slice())
        } else {
            let does = |kind: &GpuKind, gpu: &Gpu| is_of(kind, gpu) && charged.is(gpu);
            ask.any_of.iter().find_map(|kind| self.pick(count, charged.hint, |gpu| does(kind, gpu)))
        }?;
        for device in &picked {
            self.taken.insert(device.clone(), id);
        }
        Some(picked)
    }

    fn pick(&self, count: usize, hint: &[u32], does: impl Fn(&Gpu) -> bool) -> Option<Vec<GpuDevice>> {
        let free: Vec<&Gpu> = self.all.iter().filter(|gpu| does(gpu) && !self.is_taken(&gpu.device)).collect();
        // All of one attempt are of one kind.
        let kinds: Vec<(&str, &str)> =
            free.iter().map(|gpu| (gpu.device.vendor.as_str(), gpu.model.as_str())).collect();
        kinds.iter().find_map(|kind| {
            let mut same: Vec<&GpuDevice> = free
                .iter()
                .filter(|gpu| (gpu.device.vendor.as_str(), gpu.model.as_str()) == *kind)
                .map(|gpu| &gpu.device)
                .collect();
            same.sort_by_key(|device| (!hint.contains(&device.index), device.index));
            (same.len() >= count).then(|| same.into_iter().take(count).cloned().collect())
        })
    }

    /// Whether an attempt has a device or, by its number alone, the whole of which it is a slice: an earlier agent may have known no
    /// slices.
    fn is_taken(&self, device: &GpuDevice) -> bool {
        let is_same = |held: &GpuDevice| (&held.vendor, held.index) == (&device.vendor, device.index);
        let overlaps = |held: &GpuDevice| held.uuid == device.uuid || held.uuid.is_none() || device.uuid.is_none();
        self.taken.keys().any(|held| is_same(held) && overlaps(held))
    }

    /// An attempt that ended passes its devices on.
    pub(super) fn pass(&mut self, from: &TaskRef, to: TaskRef) -> Vec<GpuDevice> {
        let passed = self.taken.iter_mut().filter(|(_, holder)| **holder == *from);
        passed.map(|(device, holder)| (*holder = to, device.clone()).1).collect()
    }

    /// Notes devices of an attempt that ran before this agent.
    pub(super) fn hold(&mut self, id: TaskRef, devices: &[GpuDevice]) {
        for device in devices {
            self.taken.insert(device.clone(), id);
        }
    }

    /// Gives back what an attempt has.
    pub(super) fn give_back(&mut self, id: &TaskRef) {
        self.taken.retain(|_, holder| holder != id);
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};

    use super::*;

    fn id(job: u64) -> TaskRef {
        TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
    }

    fn gpu(vendor: &str, index: u32, model: &str) -> Gpu {
        let device = GpuDevice::numbered(vendor, index);
        Gpu { device, model: model.to_owned(), uuid: None, memory_bytes: 80 << 30, nvlink: false }
    }

    fn kind(vendor: &str, model: Option<&str>) -> GpuKind {
        let model = model.map(|model| model.parse().unwrap());
        GpuKind { vendor: vendor.parse().unwrap(), model, memory_min: None }
    }

    fn numbers(devices: &[GpuDevice]) -> Vec<u32> {
        devices.iter().map(|device| device.index).collect()
    }

    #[test]
    fn lowest_free_devices_of_one_kind_or_those_of_the_hint() {
        let all = vec![gpu("nvidia", 0, "a"), gpu("nvidia", 1, "b"), gpu("nvidia", 2, "b"), gpu("nvidia", 3, "b")];
        let mut ledger = Ledger::new(all);
        let ask = |count, model: Option<&str>| Gpus { count, any_of: vec![kind("nvidia", model)] };
        let any = Charged::default();
        assert_eq!(numbers(&ledger.take(id(1), &ask(2, None), any).unwrap()), [1, 2], "two of one kind");
        assert_eq!(ledger.take(id(2), &ask(2, None), any), None);
        assert_eq!(numbers(&ledger.take(id(2), &ask(1, Some("b")), any).unwrap()), [3]);
        ledger.give_back(&id(1));
        let two = Charged { hint: &[2], kind: None };
        assert_eq!(numbers(&ledger.take(id(3), &ask(1, Some("b")), two).unwrap()), [2]);
        assert_eq!(ledger.taken(), 2);
        assert_eq!(ledger.take(id(4), &ask(0, None), any), Some(Vec::new()));
        ledger.hold(id(5), &[GpuDevice::numbered("nvidia", 0)]);
        assert_eq!(ledger.take(id(6), &ask(1, Some("a")), any), None);
    }

    /// Else the server would think devices free that are not.
    #[test]
    fn devices_are_of_the_kind_that_the_server_has_charged() {
        let mut ledger = Ledger::new(vec![gpu("nvidia", 0, "a"), gpu("nvidia", 1, "b"), gpu("nvidia", 2, "b")]);
        let ask = Gpus { count: 1, any_of: vec![kind("nvidia", None)] };
        let shape = |model: &str, gibi: u64| GpuShape {
            vendor: "nvidia".parse().unwrap(),
            model: model.parse().unwrap(),
            memory_bytes: gibi << 30,
        };
        for ask in [ask, Gpus { count: 1, any_of: Vec::new() }] {
            let (b, small) = (shape("b", 80), shape("b", 40));
            assert_eq!(ledger.take(id(1), &ask, Charged { hint: &[], kind: Some(&small) }), None, "another memory");
            let charged = Charged { hint: &[], kind: Some(&b) };
            assert_eq!(numbers(&ledger.take(id(1), &ask, charged).unwrap()), [1]);
            assert_eq!(numbers(&ledger.take(id(2), &ask, charged).unwrap()), [2]);
            assert_eq!(ledger.take(id(3), &ask, charged), None, "the other kind is somebody else's");
            ledger.give_back(&id(2));
            assert_eq!(numbers(&ledger.pass(&id(1), id(4))), [1]);
            ledger.give_back(&id(1));
            assert_eq!(ledger.taken(), 1, "they were passed on");
            ledger.give_back(&id(4));
        }
    }

    #[test]
    fn slices_are_for_those_who_name_their_model_and_each_is_given_once() {
        let slice = |uuid: &str| {
            let whole = gpu("nvidia", 0, "a100mig3g40gb");
            let device = GpuDevice { uuid: Some(format!("MIG-{uuid}")), ..whole.device };
            Gpu { device, memory_bytes: 40 << 30, ..whole }
        };
        let all = vec![slice("a"), slice("b"), gpu("nvidia", 1, "a100")];
        let mut ledger = Ledger::new(all.clone());
        let ask = |model: Option<&str>| Gpus { count: 1, any_of: vec![kind("nvidia", model)] };
        let any = Charged::default();
        assert_eq!(numbers(&ledger.take(id(1), &ask(None), any).unwrap()), [1], "the whole one");
        assert_eq!(ledger.take(id(2), &ask(None), any), None);
        assert_eq!(ledger.take(id(2), &Gpus { count: 1, any_of: Vec::new() }, any), None);
        let mut given = |job| ledger.take(id(job), &ask(Some("a100mig3g40gb")), any).map(|given| given[0].id());
        assert_eq!((given(2).as_deref(), given(3).as_deref(), given(4)), (Some("MIG-a"), Some("MIG-b"), None));
        // An attempt of an agent that knew no slices may use any of them.
        let mut ledger = Ledger::new(all);
        ledger.hold(id(5), &[GpuDevice::numbered("nvidia", 0)]);
        assert_eq!(ledger.take(id(6), &ask(Some("a100mig3g40gb")), any), None);
    }

    #[test]
    fn alternatives_are_tried_in_order() {
        let mut ledger = Ledger::new(vec![gpu("amd", 0, "m"), gpu("nvidia", 0, "n")]);
        let large = GpuKind { memory_min: Some(100 << 30), ..kind("nvidia", None) };
        let ask = Gpus { count: 1, any_of: vec![large, kind("amd", None)] };
        assert_eq!(ledger.take(id(1), &ask, Charged::default()).unwrap()[0].vendor, "amd");
    }
}
