//! Reading and writing objects.

use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use orlop_k8s::testing::{ApiServer, Verb};
use serde_json::json;

use super::{config_map, config_maps, object, refusal, widget, widgets, with_widgets};

#[tokio::test]
async fn what_is_created_can_be_read_and_not_created_again() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let made = maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    assert_eq!(
        made.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()).as_deref(),
        Some("2026-01-01T00:00:00Z")
    );
    assert_eq!(maps.get("a").await.expect("there"), made);
    let (code, reason, message) = refusal(maps.create(&PostParams::default(), &config_map("a", "1")).await);
    assert_eq!((code, reason.as_str(), message.as_str()), (409, "AlreadyExists", "configmaps \"a\" already exists"));
    let (code, reason, message) = refusal(maps.get("b").await);
    assert_eq!((code, reason.as_str(), message.as_str()), (404, "NotFound", "configmaps \"b\" not found"));
    let elsewhere: Api<kube::api::DynamicObject> = Api::namespaced_with(
        server.client(),
        "nowhere",
        &kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap")),
    );
    assert_eq!(
        refusal(elsewhere.create(&PostParams::default(), &config_map("a", "1")).await).2,
        "namespaces \"nowhere\" not found"
    );
}

#[tokio::test]
async fn generated_names_and_uids_follow_the_seed() {
    let generated = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}));
    let mut seen = Vec::new();
    for seed in [1, 1, 2] {
        let maps = config_maps(ApiServer::seeded(seed).client());
        let made = maps.create(&PostParams::default(), &generated).await.expect("created");
        seen.push((made.metadata.name, made.metadata.uid));
    }
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[0], seen[2]);
}

#[tokio::test]
async fn an_update_of_an_old_version_conflicts_and_one_without_change_writes_nothing() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let made = maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    let mut new = made.clone();
    new.data["data"]["key"] = json!("2");
    let second = maps.replace("a", &PostParams::default(), &new).await.expect("replaced");
    let (code, reason, message) = refusal(maps.replace("a", &PostParams::default(), &new).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(
        message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let same = maps.replace("a", &PostParams::default(), &second).await.expect("replaced");
    assert_eq!(same.metadata.resource_version, second.metadata.resource_version);
    assert_eq!(server.writes().iter().filter(|write| write.changed).count(), 2);
    assert_eq!(
        server
            .requests()
            .iter()
            .filter(|class| class.verb == Verb::Update && class.code == 409)
            .map(|class| class.count)
            .sum::<u64>(),
        1
    );
}

#[tokio::test]
async fn status_and_spec_are_written_apart_and_only_the_spec_counts_generations() {
    let widgets = widgets(with_widgets().client());
    let mut new = widget("a", json!({"size": 1}));
    new.data["status"] = json!({"phase": "Made"});
    let made = widgets.create(&PostParams::default(), &new).await.expect("created");
    assert_eq!((made.data.get("status"), made.metadata.generation), (None, Some(1)));
    let patch =
        Patch::Merge(json!({"spec": {"size": 2}, "status": {"phase": "Done"}, "metadata": {"labels": {"a": "b"}}}));
    let status = widgets.patch_status("a", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!((&status.data["spec"]["size"], &status.data["status"]["phase"]), (&json!(1), &json!("Done")));
    assert_eq!((status.metadata.generation, status.metadata.labels), (Some(1), None));
    let spec = widgets.patch("a", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(
        (&spec.data["spec"]["size"], &spec.data["status"]["phase"], spec.metadata.generation),
        (&json!(2), &json!("Done"), Some(2))
    );
    let stale = Patch::Merge(
        json!({"metadata": {"resourceVersion": made.metadata.resource_version}, "status": {"phase": "Old"}}),
    );
    assert_eq!(refusal(widgets.patch_status("a", &PatchParams::default(), &stale).await).0, 409);
    let scale = widgets.get_scale("a").await.expect("a scale");
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(2));
    widgets
        .patch_scale("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 5}})))
        .await
        .expect("scaled");
    assert_eq!(widgets.get("a").await.expect("there").data["spec"]["size"], json!(5));
}

#[tokio::test]
async fn dry_runs_store_nothing() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry, &config_map("a", "1")).await.expect("would be created");
    assert!(maps.get_opt("a").await.expect("an answer").is_none());
    maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    maps.delete("a", &DeleteParams { dry_run: true, ..DeleteParams::default() }).await.expect("would be deleted");
    assert!(maps.get_opt("a").await.expect("an answer").is_some());
}

#[tokio::test]
async fn lists_select_and_come_in_pages_of_one_version() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    for index in 0..7 {
        let mut map = config_map(&format!("m{index}"), "1");
        map.metadata.labels = Some([("odd".to_owned(), (index % 2).to_string())].into());
        maps.create(&PostParams::default(), &map).await.expect("created");
    }
    let odd = maps.list(&ListParams::default().labels("odd=1")).await.expect("a list");
    assert_eq!(odd.items.len(), 3);
    let one = maps.list(&ListParams::default().fields("metadata.name=m3")).await.expect("a list");
    assert_eq!(one.items.len(), 1);
    let first = maps.list(&ListParams::default().limit(3)).await.expect("a page");
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (3, Some(4)));
    let token = first.metadata.continue_.clone().expect("more");
    maps.delete("m5", &DeleteParams::default()).await.expect("deleted");
    let second = maps.list(&ListParams::default().limit(10).continue_token(&token)).await.expect("a page");
    assert_eq!(second.items.len(), 4, "the page shows the version of the first one");
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    server.compact();
    let (code, reason, _) = refusal(maps.list(&ListParams::default().limit(10).continue_token(&token)).await);
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn deletes_respect_preconditions_and_wait_for_finalizers() {
    let server = ApiServer::new();
    let maps = config_maps(server.client());
    let mut map = config_map("a", "1");
    map.metadata.finalizers = Some(vec!["example.org/keep".to_owned()]);
    let made = maps.create(&PostParams::default(), &map).await.expect("created");
    let wrong = DeleteParams {
        preconditions: Some(Preconditions { uid: Some("x".to_owned()), resource_version: None }),
        ..DeleteParams::default()
    };
    let (code, _, message) = refusal(maps.delete("a", &wrong).await.map(|_| ()));
    let uid = made.metadata.uid.clone().unwrap_or_default();
    assert_eq!(
        (code, message),
        (
            409,
            format!(
                "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            )
        )
    );
    let kept = maps.delete("a", &DeleteParams::default()).await.expect("accepted").left().expect("the object");
    assert!(kept.metadata.deletion_timestamp.is_some());
    let (code, _, message) = refusal(
        maps.patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": {"finalizers": ["example.org/keep", "example.org/b"]}})),
        )
        .await,
    );
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.org/b\"}"
    );
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await
        .expect("let go");
    assert!(maps.get_opt("a").await.expect("an answer").is_none());
    maps.create(&PostParams::default(), &config_map("b", "1")).await.expect("created");
    let gone = maps.delete("b", &DeleteParams::default()).await.expect("deleted").right().expect("a status");
    assert_eq!(
        gone.details.map(|details| (details.name, details.kind)),
        Some(("b".to_owned(), "configmaps".to_owned()))
    );
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let maps = config_maps(ApiServer::new().client());
    for name in ["a", "b"] {
        let mut map = config_map(name, "1");
        map.metadata.labels = Some([("name".to_owned(), name.to_owned())].into());
        maps.create(&PostParams::default(), &map).await.expect("created");
    }
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("name=a")).await.expect("deleted");
    let left = maps.list(&ListParams::default()).await.expect("a list");
    assert_eq!(left.items.iter().filter_map(|map| map.metadata.name.as_deref()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn foreground_and_orphan_are_finalizers() {
    let server = with_widgets();
    let widgets = widgets(server.client());
    for (policy, finalizer) in
        [(PropagationPolicy::Foreground, "foregroundDeletion"), (PropagationPolicy::Orphan, "orphan")]
    {
        widgets
            .create(&PostParams::default(), &widget(finalizer.to_lowercase().as_str(), json!({"size": 1})))
            .await
            .expect("created");
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        let kept =
            widgets.delete(&finalizer.to_lowercase(), &params).await.expect("accepted").left().expect("the object");
        assert_eq!(kept.metadata.finalizers, Some(vec![finalizer.to_owned()]));
    }
}

#[tokio::test]
async fn terminating_namespaces_take_nothing_new() {
    let server = ApiServer::new();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.client());
    namespaces.delete("default", &DeleteParams::default()).await.expect("accepted");
    let maps = config_maps(server.client());
    let (code, reason, message) = refusal(maps.create(&PostParams::default(), &config_map("a", "1")).await);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        message,
        "configmaps \"a\" is forbidden: unable to create new content in namespace default because it is being terminated"
    );
}

#[tokio::test]
async fn quotas_refuse_what_does_not_fit() {
    let server = ApiServer::new();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "1"}}});
    server.create("", "resourcequotas", "default", &quota).expect("a quota");
    let maps = config_maps(server.client());
    maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("the first fits");
    let (code, reason, message) = refusal(maps.create(&PostParams::default(), &config_map("b", "1")).await);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        message,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1"
    );
}

#[tokio::test]
async fn rights_are_those_of_the_roles() {
    let server = ApiServer::new();
    let user = "system:serviceaccount:default:robot";
    let maps = config_maps(server.client_as(user));
    let (code, _, message) = refusal(maps.list(&ListParams::default()).await);
    assert_eq!(code, 403);
    assert_eq!(
        message,
        format!(
            "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
        )
    );
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "create"]}]});
    server.create("rbac.authorization.k8s.io", "roles", "default", &role).expect("a role");
    let binding = json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]});
    server.create("rbac.authorization.k8s.io", "rolebindings", "default", &binding).expect("a binding");
    maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("allowed");
    assert_eq!(maps.list(&ListParams::default()).await.expect("allowed").items.len(), 1);
    assert_eq!(refusal(maps.get("a").await).0, 403);
    assert_eq!(refusal(maps.delete("a", &DeleteParams::default()).await.map(|_| ())).0, 403);
}

#[tokio::test]
async fn objects_over_the_limit_of_the_store_are_refused() {
    let widgets = widgets(with_widgets().client());
    let big = widget("a", json!({"size": 1, "open": {"x": "x".repeat(1_600_000)}}));
    let (code, _, message) = refusal(widgets.create(&PostParams::default(), &big).await);
    assert_eq!((code, message.as_str()), (500, "etcdserver: request is too large"));
}
