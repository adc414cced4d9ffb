//! Precedence of file, variables and flags, and what is refused.

use super::*;

fn parse(args: &[&str]) -> Result<Config, ConfigError> {
    parse_in(&[], args)
}

fn parse_in(variables: &[(&str, &str)], args: &[&str]) -> Result<Config, ConfigError> {
    let args = std::iter::once("orlop-worker").chain(args.iter().copied()).map(OsString::from);
    read(args, variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())))
}

#[test]
fn s10_variables_come_before_the_file_and_after_flags() {
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
    assert_eq!((options.drain.as_secs(), options.claims.as_secs(), options.min_free), (30, 2 * 86_400, 5));
    let unknown = parse_in(&[("ORLOP_WORKER_SERVERS", "x")], &[]).unwrap_err();
    insta::assert_snapshot!(unknown, @"ORLOP_WORKER_SERVERS: there is no key `worker.servers`; `--print-config` shows all");
    assert!(parse(&["--extra", "x=y"]).unwrap().options().is_err());
}

#[test]
fn s10_flags_come_before_the_file_and_unknown_keys_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("worker.yaml");
    fs::write(&path, "server: [http://127.0.0.1:1]\nmax_jobs: 3\nid: a\nlabels: {zone: a, rack: r}\n").unwrap();
    let file = path.to_str().unwrap();
    let config = parse(&["--config", file, "--id", "b", "--label", "zone=b"]).unwrap();
    let options = config.options().unwrap();
    assert_eq!((options.worker.unwrap().to_string(), options.offer.max_jobs), ("b".to_owned(), Some(3)));
    assert_eq!(options.offer.labels.get("zone").map(String::as_str), Some("b"));
    assert_eq!(config.servers().unwrap().len(), 1);
    assert!(config.masked().contains("max_jobs: 3"), "{}", config.masked());
    fs::write(&path, "maxjobs: 3\n").unwrap();
    assert!(matches!(parse(&["--config", file]), Err(ConfigError::Layer(_))));
    assert!(matches!(parse(&["--label", "x"]), Err(ConfigError::Value("label", _))));
    assert!(parse(&["--server", "ftp://x"]).unwrap().servers().is_err());
}
