//! What the host does and whether it is well: CPU, memory, disk, network, free room, the clock. Never decides what happens to
//! a worker that is not well.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use orlop_core::time::Time;

use super::machine::{meminfo, memory_total};
use crate::wire::status::{HealthCheck, Measured};

/// The clock on the wall may run this far from the one that never jumps between two looks.
const CLOCK_STEP: Duration = Duration::from_secs(2);

/// Counters at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    busy: u64,
    all: u64,
    disk: u64,
    net: u64,
}

/// How much of a disk is to be free for a worker to take work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Least {
    pub(super) bytes: u64,
    /// Of the bytes that this program may ever use, and of the inodes.
    pub(super) percent: u8,
}

/// What a file system says of itself: bytes and inodes.
#[derive(Clone, Copy, Debug)]
struct Space {
    used: u64,
    /// Free for this program: what is reserved for others is not.
    free: u64,
    inodes: u64,
    free_inodes: u64,
}

impl Space {
    fn of(place: &Path) -> nix::Result<Self> {
        let found = statvfs(place)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
        Ok(Self {
            used: bytes(found.blocks().saturating_sub(found.blocks_free())),
            free: bytes(found.blocks_available()),
            inodes: found.files(),
            free_inodes: found.files_available(),
        })
    }

    /// What there is too little of; nothing, if there is enough.
    fn lacks(&self, least: Least) -> Option<String> {
        let part = |of: u64| u64::try_from(u128::from(of) * u128::from(least.percent) / 100).unwrap_or(u64::MAX);
        // As `df` counts: a disk of which most is kept for others is not full because of that.
        let all = self.used.saturating_add(self.free);
        let wanted = least.bytes.max(part(all));
        if self.free < wanted {
            return Some(format!(
                "{} MiB of {} MiB are free, at least {} have to be",
                self.free >> 20,
                all >> 20,
                wanted >> 20
            ));
        }
        // Some file systems count no inodes, and have none to spare then.
        (self.free_inodes < part(self.inodes)).then(|| {
            format!(
                "{} of {} inodes are free, at least {} have to be",
                self.free_inodes,
                self.inodes,
                part(self.inodes)
            )
        })
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Monitor {
    places: Vec<PathBuf>,
    /// What is to be free of each.
    least: Least,
    before: Option<(Instant, Time, Counters)>,
    /// Places that were too full at the last look.
    full: BTreeSet<PathBuf>,
}

impl Monitor {
    /// Looks after these directories, in which so much is to be free.
    pub(super) const fn new(places: Vec<PathBuf>, least: Least) -> Self {
        Self { places, least, before: None, full: BTreeSet::new() }
    }

    /// Measures since the last look.
    pub(super) fn look(&mut self, at: Instant, wall: Time) -> (Measured, Vec<HealthCheck>) {
        let now = counters();
        let (mut measured, mut checks) = (Measured::default(), Vec::new());
        if let Some((then, then_wall, before)) = self.before {
            let passed = at.saturating_duration_since(then);
            let each_second = |now: u64, before: u64| {
                let millis = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1);
                now.saturating_sub(before).saturating_mul(1000) / millis
            };
            let all = now.all.saturating_sub(before.all).max(1);
            measured.cpu_percent = now.busy.saturating_sub(before.busy) as f64 * 100.0 / all as f64;
            measured.disk_io = each_second(now.disk, before.disk);
            measured.net_io = each_second(now.net, before.net);
            checks.push(clock(passed, then_wall, wall));
        }
        measured.memory_bytes = memory_total().saturating_sub(meminfo("MemAvailable:"));
        measured.load = first_number("/proc/loadavg");
        measured.disk_free = u64::MAX;
        for place in &self.places {
            let (free, check) = room(place, self.least);
            let was_full = self.full.contains(place);
            if check.ok && was_full {
                tracing::info!(place = %place.display(), "enough free disk space again: this worker accepts work");
                self.full.remove(place);
            } else if !check.ok && !was_full {
                let (place, why) = (place.clone(), &check.detail);
                tracing::warn!(place = %place.display(), why, "not enough free disk space: this worker accepts no work");
                self.full.insert(place);
            }
            measured.disk_free = measured.disk_free.min(free);
            checks.push(check);
        }
        self.before = Some((at, wall, now));
        (measured, checks)
    }
}

fn check(name: &str, ok: bool, detail: String) -> HealthCheck {
    HealthCheck { check: name.to_owned(), ok, detail }
}

/// Whether the clock on the wall went as far as time did.
fn clock(passed: Duration, then: Time, now: Time) -> HealthCheck {
    let walked = i128::from(now.millis()) - i128::from(then.millis());
    let passed = i128::try_from(passed.as_millis()).unwrap_or(i128::MAX);
    let apart = Duration::from_millis(u64::try_from(walked.saturating_sub(passed).unsigned_abs()).unwrap_or(u64::MAX));
    let jumped = apart > CLOCK_STEP;
    if jumped {
        tracing::warn!(seconds = apart.as_secs_f64(), "the clock of this host jumped; no limit depends on it");
    }
    // Told once; nothing that runs here is the worse for it.
    let detail = if jumped { format!("it jumped by {:.1} s", apart.as_secs_f64()) } else { String::new() };
    check("clock", true, detail)
}

/// Free room of a directory, in bytes, and whether it is enough.
fn room(place: &Path, least: Least) -> (u64, HealthCheck) {
    let name = format!("room {}", place.file_name().unwrap_or_default().to_string_lossy());
    match Space::of(place) {
        Ok(space) => {
            let lacks = space.lacks(least);
            (space.free, check(&name, lacks.is_none(), lacks.unwrap_or_default()))
        }
        Err(error) => (0, check(&name, false, format!("`{}`: {error}", place.display()))),
    }
}

fn counters() -> Counters {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let disks = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let net = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let (busy, all) = cpu(&stat);
    Counters { busy, all, disk: disk(&disks), net: network(&net) }
}

/// Ticks in which CPUs worked, and all ticks.
fn cpu(stat: &str) -> (u64, u64) {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).filter_map(|tick| tick.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    // Idle and waiting for disks.
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (all.saturating_sub(idle), all)
}

/// Bytes read and written by whole disks.
fn disk(text: &str) -> u64 {
    let sectors = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = *fields.get(2)?;
        // A partition's traffic is its disk's, and a loop device's that of the disk below.
        if !Path::new("/sys/block").join(name).exists() || name.starts_with("loop") || name.starts_with("dm-") {
            return None;
        }
        let sectors = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        Some(sectors(5)?.saturating_add(sectors(9)?))
    });
    sectors.sum::<u64>().saturating_mul(512)
}

/// Bytes received and sent by all interfaces but the loopback.
fn network(text: &str) -> u64 {
    let bytes = text.lines().skip(2).filter_map(|line| {
        let (name, fields) = line.split_once(':')?;
        let fields: Vec<u64> = fields.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
        (name.trim() != "lo").then_some(fields.first()?.saturating_add(*fields.get(8)?))
    });
    bytes.sum()
}

fn first_number(path: &str) -> f64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpu("cpu  10 1 5 80 4 0 0 0 0 0\ncpu0 1 1 1\n"), (16, 100));
        let net = "a\nb\n    lo: 5 0 0 0 0 0 0 0 5 0\n  eth0: 100 1 0 0 0 0 0 0 20 1\n";
        assert_eq!(network(net), 120);
    }

    #[test]
    fn room_is_at_least_one_gibibyte_and_five_percent() {
        const GI: u64 = 1 << 30;
        let least = Least { bytes: GI, percent: 5 };
        let lacks = |used, free| Space { used, free, inodes: 0, free_inodes: 0 }.lacks(least);
        assert_eq!(lacks(9 * GI, GI), None);
        insta::assert_snapshot!(lacks(9 * GI, GI - 1).unwrap(), @"1023 MiB of 10239 MiB are free, at least 1024 have to be");
        assert_eq!(lacks(95 * GI, 5 * GI), None);
        insta::assert_snapshot!(lacks(96 * GI, 4 * GI).unwrap(), @"4096 MiB of 102400 MiB are free, at least 5120 have to be");
        assert!(lacks(u64::MAX, u64::MAX).is_none() && lacks(u64::MAX, 0).is_some());
        let inodes = |inodes, free_inodes| Space { used: 0, free: 2 * GI, inodes, free_inodes }.lacks(least);
        assert_eq!((inodes(0, 0), inodes(100, 5)), (None, None));
        insta::assert_snapshot!(inodes(100, 4).unwrap(), @"4 of 100 inodes are free, at least 5 have to be");
        let any = Least { bytes: 1, percent: 0 };
        assert_eq!(Space { used: u64::MAX, free: 1, inodes: 9, free_inodes: 0 }.lacks(any), None);
    }

    #[test]
    fn what_is_kept_for_others_is_neither_used_nor_free() {
        let dir = tempfile::tempdir().unwrap();
        let (space, found) = (Space::of(dir.path()).unwrap(), statvfs(dir.path()).unwrap());
        let all = found.blocks() * found.fragment_size();
        assert!(space.free > 0 && space.used + space.free <= all, "{space:?} of {all}");
    }

    #[test]
    fn a_place_that_is_not_there_has_no_room() {
        let (free, check) = room(Path::new("/no/such/place"), Least { bytes: 0, percent: 0 });
        assert!(free == 0 && !check.ok && check.detail.contains("/no/such/place"));
    }

    #[test]
    fn a_clock_that_jumps_is_noticed_and_harms_nothing() {
        let at = Time::from_millis;
        let second = Duration::from_secs(1);
        assert_eq!(clock(second, at(0), at(2_500)).detail, "");
        let back = clock(second, at(10_000), at(0));
        assert!(back.ok && back.detail.contains("11.0 s"));
        assert!(clock(second, at(0), at(60_000)).detail.contains("59.0 s"));
    }

    #[test]
    fn two_looks_measure_what_is_between() {
        let dir = tempfile::tempdir().unwrap();
        let mut monitor = Monitor::new(vec![dir.path().to_owned()], Least { bytes: 1, percent: 0 });
        let (at, wall) = (Instant::now(), Time::from_millis(1_000_000));
        let (first, _) = monitor.look(at, wall);
        assert!(first.memory_bytes > 0 && first.disk_free > 0);
        let (second, checks) = monitor.look(at + Duration::from_secs(5), wall.plus(Duration::from_secs(5)));
        assert!((0.0..=100.0).contains(&second.cpu_percent));
        assert_eq!(checks.len(), 2);
    }
}
