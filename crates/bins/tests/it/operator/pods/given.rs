//! What containers of a pod are given: volumes as folders, and variables with values from the pod and from ConfigMaps. Owns
//! where it comes from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, DynamicObject};
use serde_json::Value;

use super::super::cluster::resource;
use super::{items, word};

/// How often something is looked for that a pod waits for.
const TRIES: u32 = 200;

/// What a pod can be given.
pub(super) struct Given<'p> {
    client: &'p kube::Client,
    pod: &'p Value,
    volumes: PathBuf,
    claims: PathBuf,
}

impl<'p> Given<'p> {
    pub(super) fn new(client: &'p kube::Client, pod: &'p Value, root: &Path, folder: &Path) -> Self {
        let claims = root.join("claims").join(word(pod, "/metadata/namespace"));
        Self { client, pod, volumes: folder.join("volumes"), claims }
    }

    /// The folder of a volume.
    pub(super) fn volume(&self, name: &str) -> PathBuf {
        let volume = items(self.pod, "/spec/volumes").iter().find(|volume| volume["name"] == name).expect("a volume");
        match word(volume, "/persistentVolumeClaim/claimName") {
            "" => self.volumes.join(name),
            claim => self.claims.join(claim),
        }
    }

    /// Makes a volume with what is in it. Tokens of accounts are not: nothing here asks the API server.
    pub(super) async fn fill(&self, volume: &Value) {
        let folder = self.volume(word(volume, "/name"));
        std::fs::create_dir_all(&folder).unwrap();
        let projected = items(volume, "/projected/sources").iter().map(|source| &source["configMap"]);
        for source in projected.chain([&volume["configMap"]]).filter(|source| source.is_object()) {
            let Some(found) = self.config_map(source).await else { continue };
            for (key, bytes) in entries(&found) {
                let chosen = items(source, "/items").iter().find(|item| word(item, "/key") == key);
                let path = match chosen {
                    Some(item) => word(item, "/path"),
                    None if source["items"].is_null() => key.as_str(),
                    None => continue,
                };
                std::fs::write(folder.join(path), bytes).unwrap();
            }
        }
    }

    /// A ConfigMap, waited for where the pod cannot do without it.
    async fn config_map(&self, source: &Value) -> Option<Value> {
        let namespace = word(self.pod, "/metadata/namespace");
        let kind = resource("", "v1", "ConfigMap", "configmaps");
        let maps: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind);
        for _ in 0..TRIES {
            if let Ok(found) = maps.get(word(source, "/name")).await {
                return Some(found.data);
            }
            if source["optional"] == true {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("a pod waits for ever for {source}");
    }

    /// A value of a Secret.
    async fn secret(&self, source: &Value) -> String {
        let kind = resource("", "v1", "Secret", "secrets");
        let secrets: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), word(self.pod, "/metadata/namespace"), &kind);
        let found = secrets.get(word(source, "/name")).await.expect("the Secret is there").data;
        let text = STANDARD.decode(word(&found["data"], &format!("/{}", word(source, "/key")))).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Variables of a container, with what earlier ones are put into later ones.
    pub(super) async fn variables(&self, container: &Value) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        for variable in items(container, "/env") {
            let value = if let Some(path) = variable.pointer("/valueFrom/fieldRef/fieldPath") {
                field(self.pod, path.as_str().unwrap())
            } else if let Some(source) = variable.pointer("/valueFrom/configMapKeyRef") {
                let found = self.config_map(source).await.unwrap_or_default();
                word(&found["data"], &format!("/{}", word(source, "/key"))).to_owned()
            } else if let Some(source) = variable.pointer("/valueFrom/secretKeyRef") {
                self.secret(source).await
            } else {
                expanded(word(variable, "/value"), &all)
            };
            all.push((word(variable, "/name").to_owned(), value));
        }
        all
    }
}

/// What a ConfigMap holds.
fn entries(map: &Value) -> Vec<(String, Vec<u8>)> {
    let of = |member: &str| map[member].as_object().cloned().unwrap_or_default().into_iter();
    let text = of("data").map(|(key, value)| (key, value.as_str().unwrap().as_bytes().to_vec()));
    let binary = of("binaryData").map(|(key, value)| (key, STANDARD.decode(value.as_str().unwrap()).unwrap()));
    text.chain(binary).collect()
}

/// A field of the pod: a member of its metadata, or one label or annotation.
fn field(pod: &Value, path: &str) -> String {
    let metadata = path.strip_prefix("metadata.").unwrap_or_else(|| panic!("fieldPath {path}"));
    let value = match metadata.strip_suffix("']").and_then(|path| path.split_once("['")) {
        Some((map, key)) => &pod["metadata"][map][key],
        None => &pod["metadata"][metadata],
    };
    value.as_str().unwrap_or_default().to_owned()
}

/// A text in which `$(NAME)` is a variable, if there is one of that name, and `$$` is `$`.
pub(super) fn expanded(text: &str, variables: &[(String, String)]) -> String {
    let mut reported = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        reported.push_str(before);
        rest = after;
        let named = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        if let Some(after) = after.strip_prefix('$') {
            reported.push('$');
            rest = after;
        } else if let Some((name, after)) = named
            && let Some((_, value)) = variables.iter().rev().find(|(known, _)| known == name)
        {
            reported.push_str(value);
            rest = after;
        } else {
            reported.push('$');
        }
    }
    reported + rest
}
