//! Values of ConfigMaps. Owns which member holds the value of a key; never reads a ConfigMap itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::spec::meta::KeyRef;
use serde_json::Value;

/// Why a key of a ConfigMap gives no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigMapFault {
    /// There is no such ConfigMap.
    #[error("ConfigMap `{0}` does not exist; create it, or mark the reference `optional: true`")]
    NoConfigMap(String),
    /// It has no such key.
    #[error("ConfigMap `{name}` has no key `{key}`; add it, or mark the reference `optional: true`")]
    NoKey {
        /// Name of the ConfigMap.
        name: String,
        /// The key.
        key: String,
    },
    /// The key holds bytes that are no text.
    #[error("key `{key}` of ConfigMap `{name}` is not UTF-8 text, so it cannot be a parameter; mount it as a file")]
    NotText {
        /// Name of the ConfigMap.
        name: String,
        /// The key.
        key: String,
    },
}

/// The value of a key: its text in `data`, else its bytes in `binaryData` read as UTF-8. An optional reference to a
/// ConfigMap or key that does not exist is empty.
///
/// # Errors
/// When there is no value, or it is not text.
pub fn config_map_value(config_map: Option<&Value>, key_ref: &KeyRef) -> Result<String, ConfigMapFault> {
    let KeyRef { name, key, optional } = key_ref;
    let missing = |fault| if *optional == Some(true) { Ok(String::new()) } else { Err(fault) };
    let Some(config_map) = config_map else { return missing(ConfigMapFault::NoConfigMap(name.clone())) };
    let member = |list: &str| config_map.get(list).and_then(|members| members.get(key)?.as_str());
    if let Some(text) = member("data") {
        return Ok(text.to_owned());
    }
    let Some(encoded) = member("binaryData") else {
        return missing(ConfigMapFault::NoKey { name: name.clone(), key: key.clone() });
    };
    let bytes = STANDARD.decode(encoded).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| ConfigMapFault::NotText { name: name.clone(), key: key.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(key: &str, optional: Option<bool>) -> Result<String, ConfigMapFault> {
        let config_map = json!({
            "data": {"text": "a\nb", "both": "data wins", "empty": ""},
            "binaryData": {"bytes": "w7w=", "both": "eA==", "image": "/9j/", "broken": "%%"},
        });
        config_map_value(Some(&config_map), &KeyRef { name: "cfg".into(), key: key.into(), optional })
    }

    #[test]
    fn text_data_then_binary_data_as_utf8() {
        for (key, want) in [("text", "a\nb"), ("both", "data wins"), ("empty", ""), ("bytes", "ü")] {
            assert_eq!(value(key, None).unwrap(), want, "{key}");
        }
    }

    #[test]
    fn without_a_value_it_is_unresolved_unless_optional() {
        let text = |result: Result<String, ConfigMapFault>| result.unwrap_err().to_string();
        insta::assert_snapshot!(text(value("absent", None)), @"ConfigMap `cfg` has no key `absent`; add it, or mark the reference `optional: true`");
        insta::assert_snapshot!(text(value("absent", Some(false))), @"ConfigMap `cfg` has no key `absent`; add it, or mark the reference `optional: true`");
        insta::assert_snapshot!(text(value("image", None)), @"key `image` of ConfigMap `cfg` is not UTF-8 text, so it cannot be a parameter; mount it as a file");
        insta::assert_snapshot!(text(value("broken", Some(true))), @"key `broken` of ConfigMap `cfg` is not UTF-8 text, so it cannot be a parameter; mount it as a file");
        assert_eq!(value("absent", Some(true)).unwrap(), "");
        let gone = |optional| config_map_value(None, &KeyRef { name: "cfg".into(), key: "k".into(), optional });
        insta::assert_snapshot!(text(gone(None)), @"ConfigMap `cfg` does not exist; create it, or mark the reference `optional: true`");
        assert_eq!(gone(Some(true)).unwrap(), "");
        assert!(
            config_map_value(Some(&json!({})), &KeyRef { name: "c".into(), key: "k".into(), optional: None }).is_err()
        );
    }
}
