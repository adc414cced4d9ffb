//! ConfigMaps as directories of this machine, `<name>/<key>`.

use std::path::PathBuf;

use async_trait::async_trait;
use orlop_cloud::runtime::plan::source::{Sources, Store};
use orlop_core::error::{Class, Problem};
use serde_json::{Map, Value, json};

use crate::host::flow::ConfigMaps;

/// ConfigMaps below one directory.
#[derive(Clone, Debug, Default)]
pub struct DirectoryConfigMaps {
    sources: Sources,
}

impl DirectoryConfigMaps {
    /// ConfigMaps below a directory; none of them without one.
    #[must_use]
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { sources: Sources { config_maps: directory.into_iter().collect(), secrets: Vec::new() } }
    }
}

#[async_trait]
impl ConfigMaps for DirectoryConfigMaps {
    async fn get(&self, name: &str) -> Result<Option<Value>, Problem> {
        let (sources, name) = (self.sources.clone(), name.to_owned());
        let read = tokio::task::spawn_blocking(move || sources.keys(Store::ConfigMap, &name)).await;
        let keys =
            read.map_err(|error| Problem::new(Class::Fatal, "reading a ConfigMap was interrupted").because(error))??;
        Ok(keys.map(|keys| {
            let (mut data, mut other) = (Map::new(), Map::new());
            for (key, bytes) in keys {
                match String::from_utf8(bytes) {
                    Ok(text) => data.insert(key, Value::String(text)),
                    // A value that is no text cannot be a parameter; it is only said that it is there.
                    Err(_) => other.insert(key, json!("/w==")),
                };
            }
            json!({"data": data, "binaryData": other})
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_are_files_and_bytes_are_no_text() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("settings")).unwrap();
        std::fs::write(dir.path().join("settings/size"), "9\n").unwrap();
        std::fs::write(dir.path().join("settings/raw"), [0xff, 0]).unwrap();
        let configs = DirectoryConfigMaps::new(Some(dir.path().to_owned()));
        let found = configs.get("settings").await.unwrap().unwrap();
        assert_eq!(found, json!({"data": {"size": "9\n"}, "binaryData": {"raw": "/w=="}}));
        assert_eq!(configs.get("other").await.unwrap(), None);
        assert_eq!(DirectoryConfigMaps::new(None).get("settings").await.unwrap(), None);
    }
}
