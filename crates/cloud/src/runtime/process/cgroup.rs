//! Control groups, version 2: limits of a pod and the list of its processes. Owns where groups may be made and what is
//! written into their files; never touches a group that was not delegated to this program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};
use serde::{Deserialize, Serialize};

use super::failure::{During, Failure};

/// The leaf a program moves itself to when controllers cannot be passed on with it in the group above.
const OWN_LEAF: &str = "orlop";
/// Period of CPU limits in microseconds.
const PERIOD: u64 = 100_000;

/// What control groups do for pods on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Group in which the groups of pods are made; none: no groups, and no limit is enforced.
    pub parent: Option<PathBuf>,
    /// Whether CPU limits are enforced.
    pub cpu: bool,
    /// Whether memory limits are enforced.
    pub memory: bool,
    /// Whether the number of processes and threads is limited.
    #[serde(default)]
    pub pids: bool,
}

impl Limits {
    /// What is not limited here.
    #[cfg(feature = "worker")]
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let all = [("CPU", self.cpu), ("memory", self.memory), ("processes", self.pids)];
        all.into_iter().filter_map(|(what, enforced)| (!enforced).then_some(what)).collect()
    }
}

/// Finds out what control groups do here; `configured` is a group that the program may use, else its own is taken if it
/// was delegated.
pub(crate) fn probe(configured: Option<&Path>) -> Limits {
    let Some(parent) = configured.map(Path::to_owned).or_else(delegated) else { return Limits::default() };
    if access(&parent, AccessFlags::W_OK | AccessFlags::X_OK).is_err() || !parent.join("cgroup.procs").exists() {
        return Limits::default();
    }
    let enable = |name: &str| fs::write(parent.join("cgroup.subtree_control"), format!("+{name}"));
    for name in ["cpu", "memory", "pids"] {
        let offered = words(&parent.join("cgroup.controllers")).iter().any(|word| word == name);
        let busy = |error: io::Error| error.kind() == io::ErrorKind::ResourceBusy;
        if offered && enable(name).is_err_and(busy) && step_aside(&parent).is_ok() {
            // What it comes to is read below.
            drop(enable(name));
        }
    }
    let enabled = words(&parent.join("cgroup.subtree_control"));
    let has = |name: &str| enabled.iter().any(|word| word == name);
    Limits { cpu: has("cpu"), memory: has("memory"), pids: has("pids"), parent: Some(parent) }
}

/// This program's own group, if it was delegated to it.
fn delegated() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        after.starts_with("cgroup2 ").then(|| before.split(' ').nth(4)).flatten()
    })?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let group = Path::new(mount).join(own.trim_start_matches('/'));
    let marked = ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0_u8; 8];
        rustix::fs::getxattr(&group, *name, &mut value[..]).is_ok_and(|len| value.get(..len) == Some(b"1"))
    });
    // Without systemd nobody else manages groups; with it, only marked ones and those given to a user are free to use.
    let free = own == "/" && !Path::new("/run/systemd/system").exists();
    let given =
        !nix::unistd::geteuid().is_root() && access(&group.join("cgroup.subtree_control"), AccessFlags::W_OK).is_ok();
    (marked || free || given).then_some(group)
}

/// Moves this program to a leaf of its group, if it is alone in it.
fn step_aside(group: &Path) -> io::Result<()> {
    let own = std::process::id().to_string();
    if words(&group.join("cgroup.procs")) != [own.as_str()] {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let leaf = group.join(OWN_LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    fs::write(leaf.join("cgroup.procs"), own)
}

fn words(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Limits of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// CPU limit in millicores; none for no limit.
    pub(crate) cpu_milli: Option<u64>,
    /// CPU asked for in millicores, for its share when there is not enough.
    pub(crate) weight_milli: Option<u64>,
    /// Memory in bytes, swap included; none for no limit.
    pub(crate) memory_bytes: Option<u64>,
    /// Processes and threads; none for no limit.
    pub(crate) pids: Option<u64>,
}

/// The control group of a pod or an attempt.
#[derive(Clone, Debug)]
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// Where the group of a pod is.
    pub(crate) fn path(parent: &Path, token: &str) -> PathBuf {
        parent.join(format!("orlop-{token}"))
    }

    /// A group, which need not exist.
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Makes the group.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        fs::create_dir(&self.0).during(|| format!("making the control group `{}`", self.0.display()))
    }

    /// Sets the limits of what is about to start. Controllers that are not there are passed over: that
    /// they enforce nothing was said when the machine was probed.
    pub(crate) fn limit(&self, bounds: &Bounds) -> Result<(), Failure> {
        let quota = bounds.cpu_milli.map(|milli| milli.saturating_mul(PERIOD / 1000).max(1000));
        self.set(
            "cpu.max",
            &format!("{} {PERIOD}", quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string())),
        )?;
        let weight = bounds.weight_milli.map_or(100, |milli| (milli / 10).clamp(1, 10_000));
        self.set("cpu.weight", &weight.to_string())?;
        let memory = bounds.memory_bytes.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
        self.set("memory.max", &memory)?;
        self.set("memory.swap.max", if bounds.memory_bytes.is_some() { "0" } else { "max" })?;
        self.set("memory.oom.group", "1")?;
        let pids = bounds.pids.map_or_else(|| "max".to_owned(), |pids| pids.to_string());
        self.set("pids.max", &pids)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), Failure> {
        let path = self.0.join(file);
        if !path.exists() {
            return Ok(());
        }
        fs::write(&path, value).during(|| format!("writing `{value}` to `{}`", path.display()))
    }

    /// Moves this process into the group. The kernel may take milliseconds for that.
    pub(crate) fn join(&self) -> Result<(), Failure> {
        let path = self.0.join("cgroup.procs");
        // The process that writes.
        fs::write(&path, "0").during(|| format!("writing `{}`", path.display()))
    }

    /// Processes killed in the group for lack of memory so far.
    pub(crate) fn oom_kills(&self) -> u64 {
        let events = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        let count = events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
        count.unwrap_or(0)
    }

    /// CPU time in milliseconds and the most memory in bytes that the group had so far; 0 where it is not counted.
    #[cfg(feature = "worker")]
    pub(crate) fn used(&self) -> (u64, u64) {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).unwrap_or_default();
        let usec = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse::<u64>().ok());
        let peak = fs::read_to_string(self.0.join("memory.peak")).unwrap_or_default();
        (usec.unwrap_or(0) / 1000, peak.trim().parse().unwrap_or(0))
    }

    /// CPU time in milliseconds that the group has used so far, and memory in bytes that it holds now; none where that is not
    /// counted.
    #[cfg(feature = "worker")]
    pub(crate) fn in_use(&self) -> Option<(u64, u64)> {
        let memory = fs::read_to_string(self.0.join("memory.current")).ok()?.trim().parse().ok()?;
        Some((self.used().0, memory))
    }

    /// The processes in the group.
    pub(crate) fn processes(&self) -> Vec<i32> {
        words(&self.0.join("cgroup.procs")).iter().filter_map(|word| word.parse().ok()).collect()
    }

    /// Kills all processes of the group at once, where the kernel can (5.14).
    pub(crate) fn kill(&self) {
        // Every process is also killed by its id; this only leaves none time to fork.
        drop(fs::write(self.0.join("cgroup.kill"), "1"));
    }

    /// Removes the group, which is empty; that there is none is fine.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        match fs::remove_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.during(|| format!("removing the control group `{}`", self.0.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with the files of a control group.
    fn group(files: &[&str]) -> (tempfile::TempDir, Cgroup) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let group = Cgroup::at(dir.path().to_owned());
        (dir, group)
    }

    #[test]
    fn limits_are_written_in_the_units_of_the_kernel() {
        let (dir, group) =
            group(&["cpu.max", "cpu.weight", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max"]);
        let read = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap();
        let bounds =
            Bounds { cpu_milli: Some(1500), weight_milli: Some(250), memory_bytes: Some(64 << 20), pids: None };
        group.limit(&bounds).unwrap();
        assert_eq!((read("cpu.max").as_str(), read("cpu.weight").as_str()), ("150000 100000", "25"));
        assert_eq!((read("memory.max").as_str(), read("memory.swap.max").as_str()), ("67108864", "0"));
        group.limit(&Bounds::default()).unwrap();
        assert_eq!((read("cpu.max").as_str(), read("memory.max").as_str()), ("max 100000", "max"));
        assert_eq!(read("pids.max"), "max");
        group.limit(&Bounds { pids: Some(4096), ..Bounds::default() }).unwrap();
        assert_eq!(read("pids.max"), "4096");
    }

    #[test]
    fn out_of_memory_is_counted() {
        let (dir, group) = group(&[]);
        assert_eq!(group.oom_kills(), 0);
        fs::write(dir.path().join("memory.events"), "low 0\noom 3\noom_kill 2\noom_group_kill 1\n").unwrap();
        assert_eq!(group.oom_kills(), 2);
    }

    #[test]
    fn what_a_group_used_is_read_as_the_kernel_writes_it() {
        let (dir, group) = group(&[]);
        assert_eq!(group.used(), (0, 0));
        fs::write(dir.path().join("cpu.stat"), "usage_usec 12345\nuser_usec 1\n").unwrap();
        fs::write(dir.path().join("memory.peak"), "4096\n").unwrap();
        assert_eq!(group.used(), (12, 4096));
        assert_eq!(group.in_use(), None);
        fs::write(dir.path().join("memory.current"), "1024\n").unwrap();
        assert_eq!(group.in_use(), Some((12, 1024)));
    }

    #[test]
    fn a_directory_that_is_no_group_limits_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(probe(Some(dir.path())), Limits::default());
        assert_eq!(probe(Some(&dir.path().join("missing"))), Limits::default());
    }
}
