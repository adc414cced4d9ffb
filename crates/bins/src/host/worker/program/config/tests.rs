//! Precedence of file, variables and flags, and what is refused.

use orlop_cloud::runtime::process::{ResourceLimit, ResourceLimits};
use orlop_core::error::Class;

use super::*;

fn parse(args: &[&str]) -> Result<Config, ProgramError> {
    parse_in(&[], args)
}

fn parse_in(variables: &[(&str, &str)], args: &[&str]) -> Result<Config, ProgramError> {
    let args = std::iter::once("orlop-worker").chain(args.iter().copied()).map(OsString::from);
    let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    read(args, variables).map(|settings| settings.value)
}

#[test]
fn variables_come_before_the_file_and_after_flags() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("worker.yaml");
    fs::write(&path, "max_jobs: 3\nid: a\nextras: {licence: 1}\nno_containers: true\n").unwrap();
    let variables = [
        ("ORLOP_WORKER_CONFIG", path.to_str().unwrap()),
        ("ORLOP_WORKER", "w7"),
        ("ORLOP_WORKER_SERVER", "http://127.0.0.1:1,http://127.0.0.1:2"),
        ("ORLOP_WORKER_ID", "b"),
        ("ORLOP_WORKER_EXTRAS", "licence=2,tape=1"),
        ("ORLOP_WORKER_LABELS", "zone=a"),
        ("ORLOP_WORKER_DRAIN_SECONDS", "30"),
        ("ORLOP_WORKER_KEEP_CLAIMS_DAYS", "2"),
        ("ORLOP_JOB_ID", "j1"),
    ];
    let config = parse_in(&variables, &["--id", "c", "--extra", "licence=3", "--min-free=5"]).unwrap();
    let options = config.options().unwrap();
    assert_eq!((options.worker.unwrap().to_string(), options.offer.max_jobs), ("c".to_owned(), Some(3)));
    assert_eq!((options.offer.extras["licence"], options.offer.extras["tape"]), (3, 1));
    assert!(options.containers.is_none() && config.servers().unwrap().len() == 2);
    assert_eq!(options.backoff.as_secs(), 60);
    let sooner = parse_in(&[("ORLOP_WORKER_RECONNECT_SECONDS", "9")], &[]).unwrap().options().unwrap();
    assert_eq!(sooner.backoff.as_secs(), 9);
    assert_eq!((options.drain.as_secs(), options.claims.as_secs(), options.min_free), (30, 2 * 86_400, 5));
    let unknown = parse_in(&[("ORLOP_WORKER_SERVERS", "x")], &[]).unwrap_err();
    insta::assert_snapshot!(unknown, @"ORLOP_WORKER_SERVERS: there is no key `servers`; `--print-config` shows all");
    assert!(parse(&["--extra", "x=y"]).unwrap().options().is_err());
    let storm = parse_in(&[("ORLOP_WORKER_RECONNECT_SECONDS", "0")], &[]).unwrap_err();
    insta::assert_snapshot!(storm, @"ORLOP_WORKER_RECONNECT_SECONDS: invalid value '0' for '--reconnect-seconds <RECONNECT_SECONDS>': 0 is not in 1..18446744073709551615");
    assert!(matches!(parse(&["--reconnect-seconds", "0"]), Err(ProgramError::Usage(_))));
}

#[test]
fn how_much_of_a_disk_is_to_be_free_may_be_chosen() {
    let free = |config: Config| config.options().map(|options| (options.min_free, options.min_free_percent));
    assert_eq!(free(parse(&[]).unwrap()).unwrap(), (1 << 30, 5));
    let variables = [("ORLOP_WORKER_MIN_FREE", "7"), ("ORLOP_WORKER_MIN_FREE_PERCENT", "0")];
    assert_eq!(free(parse_in(&variables, &[]).unwrap()).unwrap(), (7, 0));
    assert_eq!(free(parse_in(&variables, &["--min-free-percent=100"]).unwrap()).unwrap(), (7, 100));
    let more = parse_in(&[("ORLOP_WORKER_MIN_FREE_PERCENT", "101")], &[]).unwrap_err();
    insta::assert_snapshot!(more, @"ORLOP_WORKER_MIN_FREE_PERCENT: invalid value '101' for '--min-free-percent <MIN_FREE_PERCENT>': 101 is not in 0..=100");
    assert!(matches!(parse(&["--min-free-percent", "101"]), Err(ProgramError::Usage(_))));
}

#[test]
fn flags_come_before_the_file_and_unknown_keys_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("worker.yaml");
    fs::write(&path, "server: [http://127.0.0.1:1]\nmax_jobs: 3\nid: a\nlabels: {zone: a, rack: r}\n").unwrap();
    let file = path.to_str().unwrap();
    let config = parse(&["--config", file, "--id", "b", "--label", "zone=b"]).unwrap();
    let options = config.options().unwrap();
    assert_eq!((options.worker.unwrap().to_string(), options.offer.max_jobs), ("b".to_owned(), Some(3)));
    assert_eq!(options.offer.labels.get("zone").map(String::as_str), Some("b"));
    assert_eq!(config.servers().unwrap().len(), 1);
    let shown = serde_saphyr::to_string(&config).unwrap();
    assert!(shown.contains("max_jobs: 3") && shown.contains("zone: b"), "{shown}");
    fs::write(&path, "maxjobs: 3\n").unwrap();
    assert!(parse(&["--config", file]).unwrap_err().to_string().contains("there is no key"));
    let label = parse(&["--label", "x"]).unwrap_err().to_string();
    assert!(label.contains("--label <KEY=VALUE>': `x` is not key=value"), "{label}");
    assert!(parse(&["--server", "ftp://x"]).unwrap().servers().is_err());
}

#[test]
fn a_token_that_was_used_up_is_missed_only_where_nobody_said_that_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let args = ["--join-token-file", file.to_str().unwrap()];
    assert!(parse(&args).unwrap().token().unwrap_err().message.contains("cannot be read"));
    assert!(parse(&args).unwrap().used_up().is_none(), "a user's file stays unless somebody says otherwise");
    let going = parse(&[&args[..], &["--delete-join-token"]].concat()).unwrap();
    assert!(going.token().unwrap().is_none() && going.used_up() == Some(file.as_path()));
    fs::write(&file, "no token").unwrap();
    assert_eq!(going.token().unwrap_err().class, Class::Invalid);
    assert!(parse(&["--delete-join-token"]).unwrap().used_up().is_none());
}

#[test]
fn limits_and_users_are_read_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("worker.yaml");
    fs::write(&path, "rlimits: {nofile: 99, core: unlimited}\nusers: {physics: 2000, maths: '2001:3000'}\n").unwrap();
    let file = path.to_str().unwrap();
    let options =
        parse(&["--config", file, "--rlimit", "nofile=100", "--user", "arts=2002"]).unwrap().options().unwrap();
    assert_eq!(options.limits, ResourceLimits::from([(ResourceLimit::Core, u64::MAX), (ResourceLimit::Nofile, 100)]));
    let users: Vec<_> = options.users.iter().map(|(tenant, user)| (tenant.as_str(), user.uid, user.gid)).collect();
    assert_eq!(users, [("arts", 2002, 2002), ("maths", 2001, 3000), ("physics", 2000, 2000)]);
    assert_eq!(options.offer.tenants, options.users.into_keys().collect(), "others' jobs are not taken");
    let variables = [("ORLOP_WORKER_USERS", "a=5"), ("ORLOP_WORKER_RLIMITS", "nproc=7")];
    let options = parse_in(&variables, &[]).unwrap().options().unwrap();
    assert_eq!((options.users.len(), options.limits[&ResourceLimit::Nproc]), (1, 7));
    let refused = |args: &[&str]| parse(args).unwrap().options().unwrap_err().to_string();
    insta::assert_snapshot!(refused(&["--rlimit", "files=1"]), @"rlimits: unknown resource limit `files`, use one of as, core, cpu, data, fsize, memlock, nofile, nproc, stack");
    insta::assert_snapshot!(refused(&["--rlimit", "nofile=many"]), @"rlimits: `nofile` has no limit; write a number, or `unlimited`");
    insta::assert_snapshot!(refused(&["--user", "a=0"]), @"users: `a` has no user; write the number of one other than root, or uid:gid");
    insta::assert_snapshot!(refused(&["--user", "a=5", "--user", "b=5:6"]), @"users: `b` and `a` have the same user 5; give each its own");
    insta::assert_snapshot!(refused(&["--user", "a=5", "--tenant", "b"]), @"tenants: `b` has no user, and others have; name one under `users`");
}
