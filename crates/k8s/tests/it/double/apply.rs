//! Server-side apply.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::{config_maps, refusal, widget, widgets, with_widgets};

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn managers(object: &DynamicObject) -> Value {
    let entries = object.metadata.managed_fields.iter().flatten();
    entries
        .map(|entry| {
            json!([entry.manager, entry.operation, entry.subresource, entry.fields_v1.as_ref().map(|fields| &fields.0)])
        })
        .collect()
}

#[tokio::test]
async fn managers_own_what_they_apply_and_what_they_drop_goes() {
    let maps = config_maps(ApiServer::new().client());
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    maps.patch("a", &one, &Patch::Apply(map(json!({"x": "1", "y": "1"})))).await.expect("created");
    let both = maps.patch("a", &two, &Patch::Apply(map(json!({"y": "1", "z": "2"})))).await.expect("applied");
    assert_eq!(both.data["data"], json!({"x": "1", "y": "1", "z": "2"}));
    assert_eq!(
        managers(&both),
        json!([["one", "Apply", null, {"f:data": {"f:x": {}, "f:y": {}}}], ["two", "Apply", null, {"f:data": {"f:y": {}, "f:z": {}}}]])
    );
    let (code, reason, message) = refusal(maps.patch("a", &two, &Patch::Apply(map(json!({"x": "2", "y": "1"})))).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    let forced = maps.patch("a", &two.clone().force(), &Patch::Apply(map(json!({"x": "2"})))).await.expect("forced");
    assert_eq!(forced.data["data"], json!({"x": "2", "y": "1"}), "z went, y is still of one");
    assert_eq!(
        managers(&forced),
        json!([["one", "Apply", null, {"f:data": {"f:y": {}}}], ["two", "Apply", null, {"f:data": {"f:x": {}}}]])
    );
    let again = maps.patch("a", &two, &Patch::Apply(map(json!({"x": "2"})))).await.expect("applied");
    assert_eq!(again.metadata.resource_version, forced.metadata.resource_version, "nothing to do is no write");
}

#[tokio::test]
async fn plain_writes_are_managed_too() {
    let server = ApiServer::new();
    server.record_all_managers();
    let maps = config_maps(server.client());
    let params = PostParams { field_manager: Some("maker".to_owned()), ..PostParams::default() };
    let object: DynamicObject = serde_json::from_value(map(json!({"x": "1"}))).expect("an object");
    let made = maps.create(&params, &object).await.expect("created");
    assert_eq!(managers(&made), json!([["maker", "Update", null, {"f:data": {".": {}, "f:x": {}}}]]));
    let (_, _, message) =
        refusal(maps.patch("a", &PatchParams::apply("two"), &Patch::Apply(map(json!({"x": "2"})))).await);
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"maker\" using v1: .data.x");
}

#[tokio::test]
async fn lists_with_keys_merge_by_them() {
    let widgets = widgets(with_widgets().client());
    let part = |name: &str, count: u64| widget("a", json!({"size": 1, "parts": [{"name": name, "count": count}]}));
    widgets.patch("a", &PatchParams::apply("one"), &Patch::Apply(part("p", 1))).await.expect("created");
    let both = widgets.patch("a", &PatchParams::apply("two"), &Patch::Apply(part("q", 2))).await.expect("applied");
    assert_eq!(both.data["spec"]["parts"], json!([{"name": "p", "count": 1}, {"name": "q", "count": 2}]));
    let (_, _, message) = refusal(widgets.patch("a", &PatchParams::apply("two"), &Patch::Apply(part("p", 2))).await);
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"one\": .spec.parts[name=\"p\"].count");
    let bare = widgets
        .patch("a", &PatchParams::apply("two"), &Patch::Apply(widget("a", json!({"size": 1}))))
        .await
        .expect("applied");
    assert_eq!(bare.data["spec"]["parts"], json!([{"name": "p", "count": 1}]));
}

#[tokio::test]
async fn an_apply_to_an_older_version_is_refused_also_on_the_status() {
    let widgets = widgets(with_widgets().client());
    let first = widgets.patch("a", &PatchParams::apply("one"), &Patch::Apply(widget("a", json!({"size": 1})))).await;
    let first = first.expect("created").metadata.resource_version.expect("a version");
    let at = |version: &str| {
        let mut status = widget("a", json!({}));
        status.metadata.resource_version = Some(version.to_owned());
        status.data = json!({"status": {"phase": "x"}});
        Patch::Apply(status)
    };
    let params = PatchParams::apply("status");
    let second = widgets.patch_status("a", &params, &at(&first)).await.expect("applied").metadata.resource_version;
    let (code, reason, _) = refusal(widgets.patch_status("a", &params, &at(&first)).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    widgets.patch_status("a", &params, &at(&second.expect("a version"))).await.expect("applied");
}
