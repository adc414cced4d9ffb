//! What a container sees and may do: environment, user, mounts, limits, rights.

use orlop_cloud::runtime::pod::{HostNamespaces, Mount, PodResult, PodRuntime as _};

use super::bench::{plain, reason, secret, skip, texts, with};

#[tokio::test]
async fn environment_user_groups_directory_and_host_name_are_as_planned() {
    with("environment_user_groups_directory_and_host_name_are_as_planned", |bench| async move {
        let script = "echo $A; id -u; id -g; id -G; pwd; hostname; tr '\\t' ' ' < /etc/hosts | grep ^10.1.2.3";
        let mut plan = bench.plan("env", script);
        plan.main.env = vec![("A".to_owned(), plain("a = b $HOME"))];
        (plan.main.user, plan.main.group, plan.further_groups) = (Some(7), Some(8), vec![9, 10]);
        plan.main.working_dir = Some("/tmp/work".to_owned());
        plan.hostname = Some("box".to_owned());
        plan.host_aliases = vec![("10.1.2.3".to_owned(), vec!["one".to_owned(), "two".to_owned()])];
        let exit = bench.run(&plan).await;
        assert_eq!(exit.result, PodResult::Succeeded, "{:?}", texts(&plan.stderr));
        insta::assert_snapshot!(texts(&plan.stdout).join("\n"), @r"
        a = b $HOME
        7
        8
        8 9 10
        /tmp/work
        box
        10.1.2.3 one
        10.1.2.3 two
        ");
    })
    .await;
}

#[tokio::test]
async fn a_group_alone_keeps_the_user_of_the_image() {
    with("a_group_alone_keeps_the_user_of_the_image", |bench| async move {
        let mut plan = bench.plan("group", "id -u; id -g");
        plan.main.group = Some(77);
        bench.run(&plan).await;
        assert_eq!(texts(&plan.stdout), ["0", "77"]);
    })
    .await;
}

#[tokio::test]
async fn mounts_show_the_host_and_only_writable_ones_take_writes() {
    with("mounts_show_the_host_and_only_writable_ones_take_writes", |bench| async move {
        let source = bench.directory.path().join("volume");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("in"), "from the host\n").unwrap();
        let mount = |target: &str, read_only| Mount { source: source.clone(), target: target.to_owned(), read_only };
        let script =
            "cat /ro/in; echo x > /rw/out; echo x > /ro/no || echo refused; echo x > /root-file || echo locked";
        let mut plan = bench.plan("mounts", script);
        plan.main.mounts = vec![mount("/ro", true), mount("/rw", false)];
        plan.main.read_only_root = true;
        let exit = bench.run(&plan).await;
        assert_eq!(exit.result, PodResult::Succeeded);
        assert_eq!(texts(&plan.stdout), ["from the host", "refused", "locked"]);
        assert!(source.join("out").exists() && !source.join("no").exists());
    })
    .await;
}

#[tokio::test]
async fn a_mount_of_nothing_is_refused_and_leaves_nothing() {
    with("a_mount_of_nothing_is_refused_and_leaves_nothing", |bench| async move {
        let mut plan = bench.plan("no-source", "true");
        plan.init = vec![bench.container("init", "true")];
        let source = bench.directory.path().join("does-not-exist");
        plan.init[0].mounts = vec![Mount { source, target: "/x".to_owned(), read_only: false }];
        let error = bench.runtime().await.start(&plan).await.unwrap_err();
        assert_eq!(error.class, orlop_core::error::Class::Invalid);
        assert!(error.to_string().contains("bind source path does not exist"), "{error}");
        assert!(bench.containers().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn capabilities_and_seccomp_are_as_planned() {
    with("capabilities_and_seccomp_are_as_planned", |bench| async move {
        let script = "grep -E '^(CapEff|Seccomp):' /proc/self/status | tr '\\t' ' '";
        let mut plan = bench.plan("drop", script);
        plan.main.drop_capabilities = vec!["ALL".to_owned()];
        plan.main.add_capabilities = vec!["NET_BIND_SERVICE".to_owned()];
        bench.run(&plan).await;
        assert_eq!(texts(&plan.stdout), ["CapEff: 0000000000000400", "Seccomp: 2"]);
        let mut plan = bench.plan("unconfined", script);
        plan.main.seccomp = Some("Unconfined".to_owned());
        bench.run(&plan).await;
        assert_eq!(texts(&plan.stdout)[1], "Seccomp: 0");
    })
    .await;
}

#[tokio::test]
async fn only_a_privileged_container_may_mount() {
    with("only_a_privileged_container_may_mount", |bench| async move {
        let script = "mount -t tmpfs none /tmp && echo mounted";
        let plan = bench.plan("plain", script);
        assert_eq!(reason(&bench.run(&plan).await), "NonZeroExit");
        let mut plan = bench.plan("privileged", script);
        plan.main.privileged = true;
        let exit = bench.run(&plan).await;
        if exit.containers[0].message.contains("unable to apply caps") {
            skip("only_a_privileged_container_may_mount", "this engine may not give all capabilities itself");
            return;
        }
        assert_eq!(texts(&plan.stdout), ["mounted"]);
    })
    .await;
}

#[tokio::test]
async fn namespaces_of_the_host_are_shared_when_planned() {
    with("namespaces_of_the_host_are_shared_when_planned", |bench| async move {
        let script = "for ns in net pid ipc; do readlink /proc/self/ns/$ns; done";
        let mut plan = bench.plan("host-ns", script);
        plan.host_namespaces = HostNamespaces { network: true, pid: true, ipc: true };
        plan.hostname = Some("box".to_owned());
        bench.run(&plan).await;
        let ours = ["net", "pid", "ipc"].map(|ns| std::fs::read_link(format!("/proc/self/ns/{ns}")).unwrap());
        assert_eq!(texts(&plan.stdout), ours.map(|ns| ns.to_string_lossy().into_owned()));
    })
    .await;
}

#[tokio::test]
async fn limits_reach_the_engine() {
    with("limits_reach_the_engine", |bench| async move {
        let mut plan = bench.plan("limits", "true");
        (plan.main.cpu_limit_milli, plan.main.cpu_request_milli) = (Some(100_000), Some(250));
        plan.main.memory_limit_bytes = Some(64 << 20);
        assert_eq!(bench.run(&plan).await.result, PodResult::Succeeded);
        let host = bench.inspect(&plan.name).await.host_config.unwrap();
        let cpus = bench.docker.info().await.unwrap().ncpu.unwrap();
        assert_eq!(host.nano_cpus, Some(cpus * 1_000_000_000));
        assert_eq!((host.cpu_shares, host.memory), (Some(256), Some(64 << 20)));
    })
    .await;
}

#[tokio::test]
async fn running_out_of_memory_is_its_own_reason() {
    with("running_out_of_memory_is_its_own_reason", |bench| async move {
        if bench.docker.info().await.unwrap().memory_limit != Some(true) {
            skip("running_out_of_memory_is_its_own_reason", "the engine cannot limit memory");
            return;
        }
        // The engine watches the memory of a container only once it runs: an end before that is a signal to it.
        let script = "echo runs; while [ ! -e /go/go ]; do sleep 0.02; done; exec tail /dev/zero";
        let mut plan = bench.plan("oom", script);
        plan.main.memory_limit_bytes = Some(16 << 20);
        let source = plan.directory.join("go");
        std::fs::create_dir(&source).unwrap();
        plan.main.mounts = vec![Mount { source: source.clone(), target: "/go".to_owned(), read_only: true }];
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        let (exit, ()) = tokio::join!(runtime.wait(&plan.key, &plan.directory), async {
            bench.until_logged(&plan.stdout, "runs").await;
            std::fs::write(source.join("go"), "").unwrap();
        });
        let exit = exit.unwrap();
        assert_eq!(reason(&exit), "OOMKilled", "{exit:?}");
        assert_eq!((exit.containers[0].exit_code, exit.containers[0].oom_killed), (137, true));
    })
    .await;
}

#[tokio::test]
async fn a_gpu_that_is_not_there_fails_the_pod_and_says_so() {
    with("a_gpu_that_is_not_there_fails_the_pod_and_says_so", |bench| async move {
        let info = bench.docker.info().await.unwrap();
        if info.runtimes.is_some_and(|runtimes| runtimes.contains_key("nvidia")) {
            skip("a_gpu_that_is_not_there_fails_the_pod_and_says_so", "this engine has GPUs");
            return;
        }
        let mut plan = bench.plan("gpu", "true");
        plan.main.gpus = vec![0];
        let exit = bench.run(&plan).await;
        assert_eq!(reason(&exit), "NonZeroExit");
        let message = &exit.containers[0].message;
        assert!(message.contains("could not select device driver"), "{message}");
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_quotes_a_secret_is_not_quoted() {
    with("an_engine_that_quotes_a_secret_is_not_quoted", |bench| async move {
        let mut plan = bench.plan("quoted", "true");
        plan.main.env = vec![(String::new(), secret("hunter-two"))];
        let error = bench.runtime().await.start(&plan).await.unwrap_err();
        assert!(!error.chain().contains("hunter") && error.to_string().contains("***"), "{}", error.chain());
    })
    .await;
}
