//! Defaults, names and refusals of the settings.

use super::*;

fn of(args: &[&str]) -> Result<Config, ProgramError> {
    read_with(args, &[], false)
}

#[test]
fn flags_have_the_defaults_of_the_contract() {
    let config = of(&[]).unwrap();
    insta::assert_snapshot!(serde_saphyr::to_string(&config).unwrap(), @r#"
    kubeconfig: null
    context: null
    master: null
    controllers:
    - jobflow
    - performer
    - executor
    namespaces: []
    leader_elect: true
    lease_name: orlop-operator
    leader_election_lease_name: zen-flow-controller-leader-election
    lease_namespace: null
    metrics_addr: 127.0.0.1:8080
    health_addr: 127.0.0.1:8081
    metrics_zen_aliases: false
    metrics_namespace_label: false
    webhook_addr: "off"
    webhook_cert_file: /etc/webhook/certs/tls.crt
    webhook_key_file: /etc/webhook/certs/tls.key
    insecure_webhook: false
    helper_image: null
    artifact_store: configmap
    artifact_s3_endpoint: https://s3.amazonaws.com
    artifact_s3_secret: null
    artifact_addr: "off"
    artifact_url: null
    artifact_max_bytes: 107374182400
    default_content_type: null
    default_dir_perm: null
    default_file_perm: null
    configmap_size_limit: null
    workers: 8
    resync: 5m0s
    kube_qps: 50
    kube_burst: 100
    max_live_jobs: 2000
    max_live_jobs_per_flow: 500
    schedule_kinds: []
    status_inline_limit: 262144
    max_object_bytes: 1048576
    strict: false
    secret_mode: env
    default_concurrency_policy: null
    default_ttl_seconds: null
    default_backoff_limit: null
    default_retry_limit: null
    default_backoff_base: null
    default_backoff_factor: null
    default_container_name: null
    default_configmap_key: null
    default_archive_format: null
    default_compression: null
    hardware_config: null
    cluster_domain: cluster.local
    security_profile: restricted
    log_level: info
    log_format: json
    "#);
    let plan = config.plan("home").unwrap();
    let election = plan.election.unwrap();
    assert_eq!(election.leases, ["orlop-operator", "zen-flow-controller-leader-election"]);
    assert_eq!((plan.passes, plan.resync.as_secs()), (8, 300));
    assert!(plan.webhook.is_none() && !plan.flows.identities_verified);
}

#[test]
fn each_flag_is_a_variable_of_its_name_too() {
    let command = command();
    let other = ["config", "print-config"].map(Some);
    let flags: Vec<_> = command.get_arguments().filter(|flag| !other.contains(&flag.get_long())).collect();
    assert!(flags.len() >= 40, "{}", flags.len());
    for flag in flags {
        let name = flag.get_long().unwrap();
        let wanted = format!("[env: ORLOP_{}]", name.to_uppercase().replace('-', "_"));
        assert!(flag.get_help().unwrap().to_string().ends_with(&wanted), "--{name}");
    }
    for (variable, id) in SCOPE.others {
        assert!(command.get_arguments().any(|flag| flag.get_id() == id), "{variable}");
    }
}

#[test]
fn flags_of_other_controllers_of_flows_are_taken() {
    let config = of(&[
        "--leader-election-mode=disabled",
        "--leader-election-id=mine",
        "--max-concurrent-reconciles=3",
        "--metrics-addr=:9090",
        "--health-addr=off",
        "--namespaces=b, a,b",
    ]);
    let config = config.unwrap();
    assert_eq!((config.leader_elect, config.workers), (false, 3));
    assert_eq!(config.leader_election_lease_name, "mine");
    assert_eq!((config.metrics_addr.unwrap().to_string().as_str(), config.health_addr), (":9090", None));
    assert_eq!(config.namespaces, ["a", "b"]);
}

#[test]
fn without_an_election_there_may_be_no_others() {
    for count in [None, Some("0"), Some(" 1 ")] {
        alone(count).unwrap();
    }
    insta::assert_snapshot!(alone(Some("2")).unwrap_err().to_string(), @"--leader-elect: REPLICA_COUNT is 2, and without an election they would all write");
    insta::assert_snapshot!(alone(Some("two")).unwrap_err().to_string(), @"--leader-elect: REPLICA_COUNT is not a number, so other replicas may write too; leave it out or set it to 1");
}

#[test]
fn wrong_values_are_refused_with_their_flag() {
    insta::assert_snapshot!(of(&["--namespaces=Team"]).unwrap_err().to_string(), @"--namespaces: name `Team` is not valid: character 'T' at position 1 is not allowed; use lower case letters, digits, `-` and `.`");
    insta::assert_snapshot!(of(&["--metrics-addr=x"]).unwrap_err().to_string(), @"--metrics-addr: `x` is not an address; write host:port, or :port for all addresses of the machine");
    for flag in ["--workers=0", "--resync=0s", "--kube-qps=0", "--max-live-jobs=0", "--artifact-max-bytes=0"] {
        let refused = of(&[flag]).unwrap_err().to_string();
        assert!(refused.contains("use a number, 1 or more") || refused.contains("use more than 0"), "{refused}");
    }
    let refused = read_with(&[], &[("ORLOP_WORKERS", "0")], false).unwrap_err().to_string();
    insta::assert_snapshot!(refused, @"ORLOP_WORKERS: invalid value '0' for '--workers <COUNT>': use a number, 1 or more");
    assert!(matches!(of(&["--controllers=performers"]), Err(ProgramError::Usage(_))));
    assert!(matches!(of(&["--leader-election-mode=zenlead"]), Err(ProgramError::Usage(_))));
}

#[test]
fn what_is_printed_reads_back() {
    let name = OsString::from("orlop-operator");
    let words = vec![name.clone(), "--metrics-addr=off".into(), "--namespaces=a,b".into(), "--strict".into()];
    let Settings { value, sources, .. } =
        settings::read::<Flags>(&command(), &SCOPE, words, std::iter::empty()).unwrap();
    let effective = config(value, false).unwrap();
    let printed = sources.show(&effective).unwrap();
    assert!(printed.contains("metrics_addr: \"off\"  # --metrics-addr\n"), "{printed}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &printed).unwrap();
    let again = read_with(&["--config", file.path().to_str().unwrap()], &[], false).unwrap();
    assert_eq!(sources.show(&again).unwrap(), printed);
}

#[test]
fn variables_reach_the_command_that_releases_finalizers() {
    let release = |words: &[&str], variables: &[(&str, &str)]| {
        let words = ["orlop-operator", "release-finalizers"].iter().chain(words).map(OsString::from).collect();
        let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        match read(words, variables).unwrap() {
            Invocation::Release(flags) => format!("{flags:?}"),
            _ => panic!("it releases"),
        }
    };
    let given = release(&[], &[("ORLOP_NAMESPACES", "a,b"), ("ORLOP_WORKERS", "none of its settings")]);
    assert!(given.contains(r#"namespaces: ["a", "b"]"#), "{given}");
    let flag = release(&["--namespaces=c"], &[("ORLOP_NAMESPACES", "a")]);
    assert!(flag.contains(r#"namespaces: ["c"]"#), "{flag}");
}

#[test]
fn in_a_pod_probes_come_from_outside() {
    let config = read_with(&[], &[], true).unwrap();
    assert_eq!(config.health_addr.unwrap().to_string(), ":8081");
}
