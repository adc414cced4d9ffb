//! Init containers, main, exit codes and restarts in place.

use std::time::Duration;

use orlop_cloud::runtime::pod::{Mount, PodResult, PodRuntime as _};

use super::bench::{reason, texts, with};

#[tokio::test]
async fn a_pod_that_ends_with_zero_succeeded() {
    with("a_pod_that_ends_with_zero_succeeded", |bench| async move {
        let plan = bench.plan("zero", "echo out; echo err >&2");
        let runtime = bench.runtime().await;
        assert_eq!(runtime.kind(Some("image")), "Container");
        let handle = runtime.start(&plan).await.unwrap();
        assert_eq!(handle.name, plan.name);
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Succeeded);
        let main = &exit.containers[0];
        assert_eq!((main.name.as_str(), main.exit_code, main.signal, main.restarts), ("main", 0, None, 0));
        assert_eq!(exit.started_at, Some(main.started_at));
        assert!(main.started_at <= main.ended_at && main.ended_at == exit.ended_at);
        assert_eq!((texts(&plan.stdout), texts(&plan.stderr)), (vec!["out".to_owned()], vec!["err".to_owned()]));
        assert_eq!(bench.inspect(&plan.name).await.id.unwrap(), handle.id);
    })
    .await;
}

#[tokio::test]
async fn exit_codes_arrive_as_they_are() {
    with("exit_codes_arrive_as_they_are", |bench| async move {
        for code in [1, 42, 200] {
            let exit = bench.run(&bench.plan(&format!("code-{code}"), &format!("exit {code}"))).await;
            assert_eq!((reason(&exit), exit.containers[0].exit_code), ("NonZeroExit", code));
            assert_eq!(exit.containers[0].signal, None);
        }
    })
    .await;
}

#[tokio::test]
async fn a_signal_is_128_and_its_number() {
    with("a_signal_is_128_and_its_number", |bench| async move {
        let plan = bench.plan("signal", "echo up; sleep 60");
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "up").await;
        bench.docker.kill_container(&plan.name, None).await.unwrap();
        let exit = runtime.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!((reason(&exit), exit.containers[0].exit_code), ("Signalled", 137));
        assert_eq!(exit.containers[0].signal, Some(9));
    })
    .await;
}

#[tokio::test]
async fn a_command_that_is_not_there_fails_the_pod_with_127() {
    with("a_command_that_is_not_there_fails_the_pod_with_127", |bench| async move {
        let mut plan = bench.plan("no-command", "");
        plan.main.command = vec!["/bin/does-not-exist".to_owned()];
        let exit = bench.run(&plan).await;
        assert_eq!((reason(&exit), exit.containers[0].exit_code), ("NonZeroExit", 127));
        let message = &exit.containers[0].message;
        assert!(message.contains("does-not-exist"), "{message}");
        let PodResult::Failed { message, .. } = &exit.result else { panic!("{exit:?}") };
        assert!(message.contains("could not be started"), "{message}");
    })
    .await;
}

#[tokio::test]
async fn without_a_command_the_image_says_what_runs() {
    with("without_a_command_the_image_says_what_runs", |bench| async move {
        let mut plan = bench.plan("default", "");
        (plan.main.command, plan.main.args) = (Vec::new(), Vec::new());
        assert_eq!(bench.run(&plan).await.result, PodResult::Succeeded);
        assert_eq!(texts(&plan.stdout), ["default"]);
        let mut plan = bench.plan("only-args", "");
        (plan.main.command, plan.main.args) = (Vec::new(), vec!["echo".to_owned(), "args".to_owned()]);
        assert_eq!(bench.run(&plan).await.result, PodResult::Succeeded);
        assert_eq!(texts(&plan.stdout), ["args"]);
    })
    .await;
}

#[tokio::test]
async fn init_containers_run_one_after_the_other_before_main() {
    with("init_containers_run_one_after_the_other_before_main", |bench| async move {
        let mut plan = bench.plan("init", "echo main >> /shared/order; cat /shared/order");
        let shared = bench.directory.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        let mount = Mount { source: shared, target: "/shared".to_owned(), read_only: false };
        plan.init = vec![
            bench.container("first", "sleep 1; echo first >> /shared/order"),
            bench.container("second", "echo second >> /shared/order"),
        ];
        for container in plan.init.iter_mut().chain([&mut plan.main]) {
            container.mounts.push(mount.clone());
        }
        let exit = bench.run(&plan).await;
        assert_eq!(exit.result, PodResult::Succeeded);
        assert_eq!(texts(&plan.stdout), ["first", "second", "main"]);
        let names: Vec<&str> = exit.containers.iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["first", "second", "main"]);
        let name = &plan.name;
        assert_eq!(bench.containers().await, [name.clone(), format!("{name}_init-0"), format!("{name}_init-1")]);
    })
    .await;
}

#[tokio::test]
async fn the_first_init_container_that_fails_fails_the_pod() {
    with("the_first_init_container_that_fails_fails_the_pod", |bench| async move {
        let mut plan = bench.plan("bad-init", "echo main");
        plan.init = vec![bench.container("bad", "exit 7"), bench.container("never", "echo never")];
        let exit = bench.run(&plan).await;
        insta::assert_debug_snapshot!(exit.result, @r#"
        Failed {
            reason: "NonZeroExit",
            message: "container `bad` ended with exit code 7",
        }
        "#);
        assert_eq!(exit.containers.len(), 1);
        assert!(texts(&plan.stdout).is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_failed_container_is_started_again_in_place_after_ten_seconds_also_by_another_process() {
    with("a_failed_container_is_started_again_in_place", |bench| async move {
        let mut plan = bench.plan("restart", "test -f /tmp/again && exit 0; touch /tmp/again; echo first; exit 3");
        (plan.restart_on_failure, plan.restart_limit) = (true, 1);
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        bench.until_logged(&plan.stdout, "first").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(runtime);
        let exit = bench.runtime().await.wait(&plan.key, &plan.directory).await.unwrap();
        assert_eq!(exit.result, PodResult::Succeeded);
        assert_eq!((exit.containers[0].restarts, exit.containers[0].exit_code), (1, 0));
        assert!(exit.containers[0].started_at.millis() > 10_000);
        assert_eq!(texts(&plan.stdout), ["first"]);
    })
    .await;
}

#[tokio::test]
async fn the_failure_after_the_last_restart_fails_the_pod() {
    with("the_failure_after_the_last_restart_fails_the_pod", |bench| async move {
        let mut plan = bench.plan("no-restart", "echo once; exit 3");
        (plan.restart_on_failure, plan.restart_limit) = (true, 0);
        let exit = bench.run(&plan).await;
        assert_eq!((reason(&exit), exit.containers[0].restarts), ("NonZeroExit", 0));
        let mut plan = bench.plan("one-restart", "echo once; exit 3");
        (plan.restart_on_failure, plan.restart_limit) = (true, 1);
        let exit = bench.run(&plan).await;
        insta::assert_debug_snapshot!(exit.result, @r#"
        Failed {
            reason: "NonZeroExit",
            message: "container `main` ended with exit code 3 after 1 restart",
        }
        "#);
        assert_eq!(texts(&plan.stdout), ["once", "once"]);
    })
    .await;
}
