//! What the programs limit: themselves, and the jobs of a server in one process.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::bench::Bench;
use super::programs::{Programs, until};

/// A control group of this test's own, removed at its end.
pub(super) struct Group(pub(super) PathBuf);

impl Group {
    pub(super) fn make(name: &str) -> Option<Self> {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root = roots.into_iter().find(|root| root.join("cgroup.controllers").exists())?;
        let path = root.join(format!("orlop-test-{name}-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.0));
    }
}

#[test]
fn jobs_of_orlop_up_are_under_limits() {
    let bench = Bench::up(&["--memory-store", "--rlimit", "nofile=99"]);
    let gave = bench.orlop(&["submit", "--memory", "1Mi", "--follow", "--", "sh", "-c", "ulimit -n; ulimit -Hn"]);
    assert!(gave.code == 0 && gave.out.contains("99\n99\n"), "{gave:?}");
    drop(bench);

    let Some(group) = Group::make("up") else {
        println!("skipped: jobs_of_orlop_up_are_under_limits: no control group (version 2) can be made here");
        return;
    };
    let place = group.0.display().to_string();
    let bench = Bench::up(&["--memory-store", "--cgroup", &place]);
    let gave = bench.orlop(&["submit", "--memory", "1Mi", "--follow", "--", "cat", "/proc/self/cgroup"]);
    let name = group.0.file_name().expect("a name").display().to_string();
    assert!(gave.code == 0 && gave.out.contains(&format!("{name}/orlop-")), "{gave:?}");
}

#[test]
fn orlop_up_does_not_start_where_required_limits_cannot_be() {
    let bench = Bench::nowhere();
    let nowhere = bench.place("no-group").display().to_string();
    let args = ["up", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--memory-store"];
    let gave = bench.orlop_at("", &[&args[..], &["--enforce", "require", "--cgroup", &nowhere]].concat());
    assert!(gave.code != 0 && gave.err.contains("limits are required"), "{gave:?}");
    assert!(gave.err.contains("processes"), "their number is one of them: {gave:?}");
}

#[test]
fn programs_that_hold_secrets_write_no_core_dumps() {
    // They could, if they did nothing against it.
    let most =
        if nix::unistd::geteuid().is_root() { u64::MAX } else { getrlimit(Resource::RLIMIT_CORE).expect("a limit").1 };
    setrlimit(Resource::RLIMIT_CORE, most, most).expect("the limit is this test's");
    if most == 0 {
        println!("skipped: s9_programs_that_hold_secrets…: nothing may write a core dump here");
        return;
    }
    let none = |what: &str, pid: u32| {
        until(&format!("no core dumps of {what}"), || {
            let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
            let line = limits.lines().find(|line| line.starts_with("Max core file size")).expect("the limit");
            let words: Vec<&str> = line.split_whitespace().collect();
            words.ends_with(&["0", "0", "bytes"]).then_some(())
        });
    };
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    none("orlop up", bench.pid());
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &[]);
    none("orlop-scheduler", scheduler.process.pid());
    // It is without even before it can run anything.
    let worker = programs.worker("w1", &["http://127.0.0.1:9"], &["--no-processes"]);
    none("orlop-worker", worker.pid());
}
