//! Names that are taken, images that are not there, and what images say.

use bollard::models::ContainerCreateBody;
use bollard::query_parameters as query;
use orlop_cloud::runtime::pod::{PodResult, PodRuntime as _};
use orlop_core::error::Class;

use super::bench::{texts, with};

#[tokio::test]
async fn a_foreign_container_of_the_name_is_a_conflict_and_stays() {
    with("a_foreign_container_of_the_name_is_a_conflict_and_stays", |bench| async move {
        for (what, taken) in [("main", String::new()), ("init", "_init-0".to_owned())] {
            let mut plan = bench.plan(&format!("taken-{what}"), "true");
            plan.init = vec![bench.container("init", "true")];
            let name = format!("{}{taken}", plan.name);
            let options = query::CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
            let labels = [("workflow.kube-zen.io/flow-uid".to_owned(), bench.flow.clone())].into();
            let body = ContainerCreateBody { image: Some(bench.image()), labels: Some(labels), ..Default::default() };
            let foreign = bench.docker.create_container(Some(options), body).await.unwrap().id;
            let runtime = bench.runtime().await;
            let error = runtime.start(&plan).await.unwrap_err();
            assert_eq!((error.class, error.reason), (Class::Exists, Some("NameConflict")));
            let reported = error.to_string().replace(&name, "NAME").replace(&foreign, "ID");
            insta::allow_duplicates! {
                insta::assert_snapshot!(reported, @"the name `NAME` is taken by container ID of somebody else; delete or rename that container, nothing was changed");
            }
            assert_eq!(bench.inspect(&name).await.id.unwrap(), foreign);
            assert_eq!(bench.containers().await, std::slice::from_ref(&name));
            let options = query::RemoveContainerOptions { v: true, ..Default::default() };
            bench.docker.remove_container(&name, Some(options)).await.unwrap();
            // When the name is free again, the pod runs.
            runtime.start(&plan).await.unwrap();
            assert_eq!(runtime.wait(&plan.key, &plan.directory).await.unwrap().result, PodResult::Succeeded);
            runtime.remove(&plan.key, &plan.directory).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn the_name_of_another_attempt_is_a_conflict_too() {
    with("the_name_of_another_attempt_is_a_conflict_too", |bench| async move {
        let plan = bench.plan("one", "true");
        let mut other = bench.plan("two", "true");
        other.name.clone_from(&plan.name);
        let runtime = bench.runtime().await;
        runtime.start(&plan).await.unwrap();
        let error = runtime.start(&other).await.unwrap_err();
        assert_eq!(error.reason, Some("NameConflict"));
        assert!(error.to_string().contains(&format!("of pod {};", plan.key)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_says_so() {
    with("an_image_that_cannot_be_pulled_says_so", |bench| async move {
        let runtime = bench.runtime().await;
        let refused = |name: &str, image: Option<&str>, policy: Option<&str>| {
            let mut plan = bench.plan(name, "true");
            plan.main.image = image.map(str::to_owned);
            plan.main.image_pull_policy = policy.map(str::to_owned);
            let runtime = &runtime;
            async move { runtime.start(&plan).await.unwrap_err() }
        };
        // Nothing listens there, so there is nothing to be had but that.
        let error = refused("no-registry", Some("127.0.0.1:9/none:1"), None).await;
        assert_eq!((error.class, error.reason), (Class::Transient, Some("ErrImagePull")), "{error}");
        assert!(error.to_string().starts_with("pulling image `127.0.0.1:9/none:1` failed: "), "{error}");
        let error = refused("never", Some("127.0.0.1:9/none:1"), Some("Never")).await;
        assert_eq!((error.class, error.reason), (Class::Invalid, Some("ErrImageNeverPull")));
        insta::assert_snapshot!(error, @"image `127.0.0.1:9/none:1` is not on this machine, and imagePullPolicy Never forbids to pull it");
        let error = refused("always", Some(&bench.image()), Some("Always")).await;
        assert_eq!(error.reason, Some("ErrImagePull"), "{error}");
        let error = refused("bad-name", Some("A Bad Name"), None).await;
        assert_eq!((error.class, error.reason), (Class::Invalid, Some("InvalidImageName")), "{error}");
        let error = refused("no-image", None, None).await;
        insta::assert_snapshot!(error, @"container `main` names no image; a container engine needs one");
        assert!(bench.containers().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_engine_without_a_default_network_runs_pods_without_one() {
    with("an_engine_without_a_default_network_runs_pods_without_one", |bench| async move {
        let plan = bench.plan("network", "true");
        assert_eq!(bench.run(&plan).await.result, PodResult::Succeeded);
        let mode = bench.inspect(&plan.name).await.host_config.unwrap().network_mode.unwrap();
        let networks = bench.docker.list_networks(None).await.unwrap();
        let has_default = networks.iter().any(|network| matches!(network.name.as_deref(), Some("bridge" | "podman")));
        assert_eq!(mode == "none", !has_default, "{mode}");
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
