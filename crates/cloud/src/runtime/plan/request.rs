//! Resources: what containers ask for and may use, and what the machine has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use orlop_core::error::{Class, Problem};
use orlop_core::quantity::Quantity;

use super::field::Field;

/// The resource that stands for GPUs here.
pub const GPU: &str = "nvidia.com/gpu";

/// Resources of a container as its template gives them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// What it may use.
    pub limits: BTreeMap<String, Quantity>,
    /// What it asks for.
    pub requests: BTreeMap<String, Quantity>,
}

impl Resources {
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Problem> {
        field.get("claims").refuse("claims on devices need a scheduler")?;
        Ok(Self { limits: amounts(&field.get("limits"))?, requests: amounts(&field.get("requests"))? })
    }

    /// What it asks for of a resource; where it does not say, its limit.
    #[must_use]
    pub fn request(&self, resource: &str) -> Option<Quantity> {
        self.requests.get(resource).or_else(|| self.limits.get(resource)).copied()
    }

    /// All it asks for that is counted.
    #[must_use]
    pub fn asked(&self) -> Request {
        Request {
            cpu_milli: self.request("cpu").and_then(Quantity::millicores).unwrap_or(0),
            memory_bytes: self.request("memory").and_then(Quantity::bytes).unwrap_or(0),
            gpus: self.request(GPU).and_then(Quantity::count).map_or(0, |gpus| u32::try_from(gpus).unwrap_or(u32::MAX)),
        }
    }
}

fn amounts(field: &Field<'_>) -> Result<BTreeMap<String, Quantity>, Problem> {
    let mut map = BTreeMap::new();
    for (name, value) in field.members()? {
        let amount = value.quantity()?.unwrap_or(Quantity::ZERO);
        if amount.is_negative() {
            return Err(value.invalid("must not be negative"));
        }
        map.insert(name.to_owned(), amount);
    }
    Ok(map)
}

/// What a pod asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// GPUs.
    pub gpus: u32,
}

impl Request {
    /// The larger of two per resource: containers that run one after the other.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.max(other.cpu_milli),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            gpus: self.gpus.max(other.gpus),
        }
    }
}

/// What this machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Its GPUs by index.
    pub gpus: Vec<u32>,
}

impl Machine {
    /// Looks at this machine: cores this process may use, memory up to the limit of its control group, `/dev/nvidia<n>`.
    /// What cannot be found out does not limit anything.
    #[must_use]
    pub fn detect() -> Self {
        Self::detect_below(Path::new("/"))
    }

    fn detect_below(root: &Path) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let total = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| total_memory(&text));
        let limit =
            fs::read_to_string(root.join("sys/fs/cgroup/memory.max")).ok().and_then(|text| text.trim().parse().ok());
        let name = fs::read_to_string(root.join("proc/sys/kernel/hostname")).unwrap_or_default();
        let name = name.trim();
        Self {
            name: if name.is_empty() { "localhost".to_owned() } else { name.to_owned() },
            cpu_milli: (cores as u64).saturating_mul(1000),
            memory_bytes: total.unwrap_or(u64::MAX).min(limit.unwrap_or(u64::MAX)),
            gpus: devices(&root.join("dev")),
        }
    }

    /// How much it has of a resource.
    #[must_use]
    pub fn amount(&self, resource: &str) -> Quantity {
        match resource {
            "cpu" => Quantity::from_milli(self.cpu_milli),
            "memory" => Quantity::from_bytes(self.memory_bytes),
            GPU => Quantity::from_count(self.gpus.len() as u64),
            _ => Quantity::ZERO,
        }
    }

    /// Checks that a pod could ever run here.
    ///
    /// # Errors
    /// Invalid with reason Unschedulable, naming the resource.
    pub fn check(&self, request: &Request) -> Result<(), Problem> {
        let gpus = self.gpus.len() as u64;
        for (resource, asked, has) in [
            ("cpu", Quantity::from_milli(request.cpu_milli), Quantity::from_milli(self.cpu_milli)),
            ("memory", Quantity::from_bytes(request.memory_bytes), Quantity::from_bytes(self.memory_bytes)),
            (GPU, Quantity::from_count(u64::from(request.gpus)), Quantity::from_count(gpus)),
        ] {
            if asked > has {
                let message = format!("the pod asks for {resource} {asked}, this machine has {has}; ask for less");
                return Err(Problem::new(Class::Invalid, message).with_reason("Unschedulable"));
            }
        }
        Ok(())
    }
}

/// `MemTotal` in bytes.
fn total_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Numbers of the device files `nvidia<n>`.
fn devices(directory: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let number = |name: &str| name.strip_prefix("nvidia")?.parse::<u32>().ok();
    let mut gpus: Vec<u32> = entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    gpus.sort_unstable();
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine { name: "m".into(), cpu_milli: 4_000, memory_bytes: 8 << 30, gpus: vec![0] }
    }

    #[test]
    fn requests_beyond_the_machine_are_unschedulable() {
        let request = |cpu_milli, memory_bytes, gpus| Request { cpu_milli, memory_bytes, gpus };
        assert!(machine().check(&request(4_000, 8 << 30, 1)).is_ok());
        let error = machine().check(&request(4_500, 0, 0)).unwrap_err();
        assert_eq!((error.class, error.reason), (Class::Invalid, Some("Unschedulable")));
        insta::assert_snapshot!(error, @"the pod asks for cpu 4500m, this machine has 4; ask for less");
        insta::assert_snapshot!(machine().check(&request(0, 9 << 30, 0)).unwrap_err(), @"the pod asks for memory 9Gi, this machine has 8Gi; ask for less");
        insta::assert_snapshot!(machine().check(&request(0, 0, 2)).unwrap_err(), @"the pod asks for nvidia.com/gpu 2, this machine has 1; ask for less");
    }

    #[test]
    fn a_machine_is_what_its_files_say() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["proc/sys/kernel", "sys/fs/cgroup", "dev"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let write = |path: &str, text: &str| fs::write(root.path().join(path), text).unwrap();
        write("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
        write("proc/sys/kernel/hostname", "box\n");
        for device in ["nvidia10", "nvidia0", "nvidiactl", "nvidia-uvm"] {
            write(&format!("dev/{device}"), "");
        }
        let machine = Machine::detect_below(root.path());
        assert_eq!((machine.name.as_str(), machine.memory_bytes), ("box", 16 << 20));
        assert_eq!(machine.gpus, [0, 10]);
        write("sys/fs/cgroup/memory.max", "1048576\n");
        assert_eq!(Machine::detect_below(root.path()).memory_bytes, 1 << 20);
        write("sys/fs/cgroup/memory.max", "max\n");
        assert_eq!(Machine::detect_below(root.path()).memory_bytes, 16 << 20);
        assert!(Machine::detect().cpu_milli >= 1_000);
    }
}
