//! Processes of tenants as users of their own and under limits of resources, on the real programs, where this test is root's.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::programs::{Programs, until};

/// Users without names; those of the second have a group of another number.
const USERS: [&str; 2] = ["--user=maths=54321", "--user=physics=54331:54332"];

#[test]
fn tenants_run_as_their_users_under_limits_and_see_nothing_of_each_other() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: s6_tenants_run_as_their_users…: only root runs processes as other users");
    }
    let programs = Programs::new();
    // Others may pass through it, and no more.
    fs::set_permissions(programs.path(""), fs::Permissions::from_mode(0o711)).expect("it is ours");
    let scheduler = programs.leader("s1", &[]);
    let limits = ["--rlimit=nofile=99", "--rlimit=fsize=4096"];
    let mut worker = programs.worker("w1", &[&scheduler.grpc], &[&USERS[..], &limits].concat());
    let rest = scheduler.rest.as_str();
    for tenant in ["maths", "physics", "chemistry"] {
        programs.good(rest, &["quota", "set", tenant, "weight=100"]);
    }
    let submit = |tenant: &str, more: &[&str], script: &str| {
        let shape = ["submit", "--tenant", tenant, "--cpu", "10m", "--memory", "1Mi"];
        programs.orlop(rest, &[&shape, more, &["--", "sh", "-c", script]].concat())
    };

    let who = submit(
        "maths",
        &["--follow"],
        "id -u; id -g; id -G; ulimit -n; ulimit -Hn; pwd; echo own > note; cat note; sleep 0",
    );
    assert_eq!(who.code, 0, "{who:?}\n{}", programs.log("w1"));
    let lines: Vec<&str> = who.out.lines().filter(|line| !line.starts_with('j')).collect();
    assert_eq!((&lines[..5], lines[6]), (&["54321", "54321", "54321", "99", "99"][..], "own"), "{who:?}");
    let big =
        submit("physics", &["--wait"], "id -u | grep 54331 && id -G | grep '^54332$' && head -c 9000 /dev/zero > big");
    assert_eq!(big.code, 1, "its file is longer than it may be: {big:?}");

    // While one runs, the other's job finds its directory and cannot look into it.
    let hidden = submit(
        "maths",
        &["-o", "name"],
        "pwd > where; cat where; echo planted > secret; chmod 644 secret; exec sleep 1000",
    );
    let id = hidden.out.trim().to_owned();
    let place = until("where the job works", || {
        let said = programs.orlop(rest, &["logs", "--tenant", "maths", &id]);
        said.out.lines().find(|line| line.starts_with('/')).map(str::to_owned)
    });
    let secret = until("its file", || Some(format!("{place}/secret")).filter(|file| fs::metadata(file).is_ok()));
    let peek = submit(
        "physics",
        &["--follow"],
        &format!("cat {secret}; ls {place}; kill -0 $(pgrep -u 54321 -o sleep); echo done"),
    );
    let said = peek.out + &peek.err;
    assert!(said.contains("done") && !said.contains("planted"), "{said}");
    assert_eq!(said.matches("Permission denied").count(), 2, "the file and its directory: {said}");
    assert!(said.contains("Operation not permitted"), "the process: {said}");

    let nobody = submit("chemistry", &["-o", "name"], "true");
    until("why it waits", || {
        let why = programs.orlop(rest, &["job", "get", "--tenant", "chemistry", nobody.out.trim(), "--explain"]);
        why.out.contains("tenant").then_some(())
    });
    assert!(!worker.has_ended());
}
