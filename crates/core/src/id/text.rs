//! Identities that are texts. Owns the newtypes, their rules and their serde; never trims, folds case or repairs.

use super::error::{IdError, IdFault};
use super::names::{LABEL, Rule, SUBDOMAIN};

/// Declares a checked text: cheap to clone, ordered by its bytes, a plain string in JSON.
macro_rules! text_id {
    ($(#[$meta:meta])* pub struct $name:ident($check:expr);) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(::std::sync::Arc<str>);

        impl $name {
            /// Checks `text` and keeps it.
            ///
            /// # Errors
            /// Says what is wrong, where, and what is allowed.
            pub fn new(text: impl AsRef<str> + Into<::std::sync::Arc<str>>) -> Result<Self, $crate::id::IdError> {
                $check(text.as_ref())?;
                Ok(Self(text.into()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl ::std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::id::IdError;

            fn from_str(text: &str) -> Result<Self, $crate::id::IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $crate::id::IdError;

            fn try_from(text: &str) -> Result<Self, $crate::id::IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::id::IdError;

            fn try_from(text: String) -> Result<Self, $crate::id::IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <::std::sync::Arc<str>>::deserialize(deserializer)?;
                Self::new(text).map_err(::serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_id;

text_id! {
    /// The UID of a flow: 1 to 253 printable ASCII characters without `/`, which separates the parts of effect keys.
    pub struct FlowUid(|text: &str| FLOW_UID.check(text));
}

text_id! {
    /// The name of a flow: a DNS-1123 subdomain of at most 253 bytes.
    pub struct FlowName(|text: &str| SUBDOMAIN.check(text).map_err(|error| error.about("flow name")));
}

text_id! {
    /// The name of a step: a DNS-1123 subdomain of at most 253 bytes.
    pub struct StepName(|text: &str| SUBDOMAIN.check(text).map_err(|error| error.about("step name")));
}

text_id! {
    /// A namespace: a DNS-1123 label of at most 63 bytes.
    pub struct Namespace(|text: &str| LABEL.check(text).map_err(|error| error.about("namespace")));
}

text_id! {
    /// The name of a tenant: 1 to 128 letters, digits, `-`, `_`, `.`, alphanumeric at both ends, since it is part of paths.
    pub struct TenantName(|text: &str| TENANT.check(text));
}

text_id! {
    /// The id of a worker: `[a-z0-9.-]{1,63}`, also its certificate's name.
    pub struct WorkerId(|text: &str| WORKER.check(text));
}

text_id! {
    /// The id a reservation service gave to a lease; opaque, but safe as one segment of a URL path.
    pub struct LeaseId(|text: &str| OPAQUE.check(text).map_err(|error| error.about("lease id")));
}

text_id! {
    /// The id a compute service gave to a server; opaque, but safe as one segment of a URL path.
    pub struct ServerId(|text: &str| OPAQUE.check(text).map_err(|error| error.about("server id")));
}

text_id! {
    /// The id of a provisioner deployment: 10 lower case base-32 characters (`a`–`z`, `2`–`7`).
    pub struct DeploymentId(deployment_id);
}

impl FlowUid {
    /// The first 8 characters, which are part of the names of Jobs; the whole UID if it is shorter.
    #[must_use]
    pub fn uid8(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

const ANY_EDGE: fn(char) -> bool = |_| true;

const FLOW_UID: Rule = Rule {
    what: "flow UID",
    max: 253,
    inner: |ch| ch.is_ascii_graphic() && ch != '/',
    edge: ANY_EDGE,
    allowed: "printable ASCII characters other than `/`",
    edges: "",
    separator: None,
};

const TENANT: Rule = Rule {
    what: "tenant name",
    max: 128,
    inner: |ch| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '_' | '.'),
    edge: |ch| ch.is_ascii_alphanumeric(),
    allowed: "letters, digits, `-`, `_` and `.`",
    edges: "a letter or digit",
    separator: None,
};

const WORKER: Rule = Rule {
    what: "worker id",
    max: 63,
    inner: |ch| ch.is_ascii_lowercase() || ch.is_ascii_digit() || matches!(ch, '.' | '-'),
    edge: ANY_EDGE,
    allowed: "lower case letters, digits, `.` and `-`",
    edges: "",
    separator: None,
};

const OPAQUE: Rule = Rule {
    what: "id",
    max: 255,
    inner: |ch| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '_' | '.'),
    edge: |ch| ch.is_ascii_alphanumeric(),
    allowed: "letters, digits, `-`, `_` and `.`",
    edges: "a letter or digit",
    separator: None,
};

const DEPLOYMENT: Rule = Rule {
    what: "deployment id",
    max: 10,
    inner: |ch| matches!(ch, 'a'..='z' | '2'..='7'),
    edge: ANY_EDGE,
    allowed: "10 characters of `a` to `z` and `2` to `7`",
    edges: "",
    separator: None,
};

fn deployment_id(text: &str) -> Result<(), IdError> {
    DEPLOYMENT.check(text)?;
    if text.len() == DEPLOYMENT.max {
        return Ok(());
    }
    let fault = IdFault::Length { len: text.len(), wanted: DEPLOYMENT.max, allowed: DEPLOYMENT.allowed };
    Err(IdError::new(DEPLOYMENT.what, text, fault))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn uid8_is_the_first_eight_characters() {
        let uid: FlowUid = "0f8fad5b-d9cb-469f-a165-70867728950e".parse().unwrap();
        assert_eq!(uid.uid8(), "0f8fad5b");
        assert_eq!(FlowUid::new("abc").unwrap().uid8(), "abc");
    }

    #[test]
    fn each_identity_keeps_its_rule() {
        assert!(FlowUid::new("a".repeat(253)).is_ok());
        for bad in ["", "a/b", "a b", "ü", "a\n", &"a".repeat(254)] {
            assert!(FlowUid::new(bad).is_err(), "{bad:?}");
        }
        assert!(FlowName::new("a.b").is_ok() && FlowName::new("A").is_err());
        assert!(StepName::new("build.image").is_ok() && StepName::new("build image").is_err());
        assert!(Namespace::new("default").is_ok() && Namespace::new("a.b").is_err());
        assert!(TenantName::new("Team_A.1").is_ok());
        for bad in ["*", "", "..", "a/b", &"a".repeat(129)] {
            assert!(TenantName::new(bad).is_err(), "{bad:?}");
        }
        assert!(WorkerId::new("gpu-7.rack.2").is_ok() && WorkerId::new("-").is_ok());
        for bad in ["GPU", "a_b", "", &"a".repeat(64)] {
            assert!(WorkerId::new(bad).is_err(), "{bad:?}");
        }
        assert!(LeaseId::new("6ee55c78-ac52-41a6-99af-2d2d73bcc466").is_ok());
        for bad in ["..", "a/b", "a?b", "", "a%2f"] {
            assert!(LeaseId::new(bad).is_err() && ServerId::new(bad).is_err(), "{bad:?}");
        }
        assert!(DeploymentId::new("k4x7q2mzwa").is_ok());
        for bad in ["k4x7q2mzw", "k4x7q2mzwaa", "k4x7q2mzw1", "K4x7q2mzwa"] {
            assert!(DeploymentId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn json_is_the_plain_text_and_is_checked_on_the_way_in() {
        let name = StepName::new("build").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), r#""build""#);
        assert_eq!(serde_json::from_str::<StepName>(r#""build""#).unwrap(), name);
        let error = serde_json::from_str::<StepName>(r#""Build""#).unwrap_err();
        insta::assert_snapshot!(error, @"step name `Build` is not valid: character 'B' at position 1 is not allowed; use lower case letters, digits, `-` and `.`");
        let by_name: BTreeMap<StepName, u8> = serde_json::from_str(r#"{"b": 1, "a": 2}"#).unwrap();
        assert_eq!(by_name.get("a"), Some(&2));
        assert_eq!(serde_json::to_string(&by_name).unwrap(), r#"{"a":2,"b":1}"#);
        assert!(serde_json::from_str::<BTreeMap<StepName, u8>>(r#"{"A": 1}"#).is_err());
    }

    #[test]
    fn texts_compare_with_plain_strings_and_keep_their_order() {
        let id = WorkerId::try_from("w1".to_owned()).unwrap();
        assert_eq!(id, "w1");
        assert_eq!(id, *"w1");
        assert_eq!(String::from(id.clone()), "w1");
        assert_eq!(format!("[{id:>4}]"), "[  w1]");
        assert!(id < WorkerId::try_from("w2").unwrap());
    }

    #[test]
    fn errors_name_the_identity() {
        insta::assert_snapshot!(WorkerId::new("GPU").unwrap_err(), @"worker id `GPU` is not valid: character 'G' at position 1 is not allowed; use lower case letters, digits, `.` and `-`");
        insta::assert_snapshot!(DeploymentId::new("k4x7").unwrap_err(), @"deployment id `k4x7` is not valid: it is 4 bytes long, exactly 10 are needed: 10 characters of `a` to `z` and `2` to `7`");
        insta::assert_snapshot!(TenantName::new("*").unwrap_err(), @"tenant name `*` is not valid: character '*' at position 1 is not allowed; use letters, digits, `-`, `_` and `.`");
    }
}
