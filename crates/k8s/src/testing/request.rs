//! From an HTTP request to a call: which verb, which resource, which options. Reads nothing that is stored.

use bytes::Bytes;
use http::Method;

use super::refusal::{Refusal, Result};

/// What a request does, in the words of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection.
    Watch,
    /// POST of an object.
    Create,
    /// PUT of an object.
    Update,
    /// PATCH of an object.
    Patch,
    /// DELETE of an object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

impl Verb {
    /// The word that RBAC rules and metrics use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it can change what is stored.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// How a PATCH body is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// What is done with fields that the schema does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options from the query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) limit: usize,
    pub(crate) token: String,
    pub(crate) version: String,
    pub(crate) version_match: String,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) manager: String,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: bool,
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: String,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: String,
}

/// A request for objects.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) path: Path,
    pub(crate) options: Options,
    pub(crate) patch: Option<PatchKind>,
    /// Whether only metadata is wanted.
    pub(crate) metadata_only: bool,
    pub(crate) body: Bytes,
    /// The name of the client.
    pub(crate) client: String,
    /// Whether webhooks cannot be asked.
    pub(crate) webhooks_down: bool,
    /// Who asks; `None` may do everything.
    pub(crate) user: Option<String>,
    /// The field manager where the query names none.
    pub(crate) agent: String,
}

/// Splits the path of a resource; `None` where it is no such path.
pub(crate) fn path(path: &str) -> Option<Path> {
    let mut parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
    let prefix = match parts.first().map(String::as_str) {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return None,
    };
    if parts.len() <= prefix + 1 {
        return None;
    }
    let mut rest = parts.split_off(prefix);
    let group = if prefix == 2 { parts.pop()? } else { String::new() };
    let version = rest.remove(0);
    let mut namespace = None;
    // `namespaces/x` alone, and its subresources, are the namespace itself.
    let own = rest.len() == 3 && rest.get(2).is_some_and(|last| last == "status" || last == "finalize");
    if rest.len() >= 3 && rest.first().is_some_and(|first| first == "namespaces") && !own {
        rest.remove(0);
        namespace = Some(rest.remove(0));
    }
    if rest.len() > 3 {
        return None;
    }
    let mut rest = rest.into_iter();
    let resource = rest.next()?;
    let name = rest.next().filter(|name| !name.is_empty());
    Some(Path { group, version, resource, namespace, name, subresource: rest.next().unwrap_or_default() })
}

/// The verb of a method on a path.
pub(crate) fn verb(method: &Method, path: &Path, options: &Options) -> Result<Verb> {
    let named = path.name.is_some();
    Ok(match *method {
        Method::GET if named && !options.watch => Verb::Get,
        Method::GET if options.watch => Verb::Watch,
        Method::GET => Verb::List,
        Method::POST if !named || !path.subresource.is_empty() => Verb::Create,
        Method::PUT if named => Verb::Update,
        Method::PATCH if named => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => return Err(Refusal::method_not_allowed()),
    })
}

/// The patch kind of a content type.
pub(crate) fn patch_kind(content_type: &str) -> Option<PatchKind> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "application/json-patch+json" => Some(PatchKind::Json),
        "application/merge-patch+json" => Some(PatchKind::Merge),
        "application/strategic-merge-patch+json" => Some(PatchKind::Strategic),
        "application/apply-patch+yaml" => Some(PatchKind::Apply),
        _ => None,
    }
}

/// Reads the query; what it does not know it ignores, as an API server does.
pub(crate) fn options(query: &str) -> Result<Options> {
    let mut options = Options::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode(value);
        let yes = !matches!(value.as_str(), "false" | "0");
        match key {
            "labelSelector" => options.label_selector = value,
            "fieldSelector" => options.field_selector = value,
            "limit" => {
                options.limit = usize::try_from(number::<i64>(key, &value)?.unwrap_or_default()).unwrap_or_default();
            }
            "continue" => options.token = value,
            "resourceVersion" => options.version = value,
            "resourceVersionMatch" => options.version_match = value,
            "watch" => options.watch = yes,
            "allowWatchBookmarks" => options.bookmarks = yes,
            "sendInitialEvents" => options.initial_events = Some(yes),
            "timeoutSeconds" => options.timeout_seconds = number(key, &value)?,
            "dryRun" if value == "All" => options.dry_run = true,
            "dryRun" => return Err(Refusal::bad_request(format!("dryRun: Unsupported value: {value:?}"))),
            "fieldManager" => options.manager = value,
            "fieldValidation" => options.field_validation = field_validation(&value)?,
            "force" => options.force = yes,
            "gracePeriodSeconds" => options.grace = number(key, &value)?,
            "propagationPolicy" => options.propagation = value,
            _ => {}
        }
    }
    Ok(options)
}

fn number<T: std::str::FromStr>(key: &str, text: &str) -> Result<Option<T>> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| Refusal::bad_request(format!("invalid value {text:?} of query parameter {key}"));
    text.parse().map(Some).map_err(wrong)
}

fn field_validation(text: &str) -> Result<FieldValidation> {
    match text {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(Refusal::bad_request(format!(
            "fieldValidation: Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
        ))),
    }
}

/// Undoes percent encoding, and `+` for a blank.
fn decode(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).unwrap_or_default();
                let (high, low) = (digit(), digit());
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_group_namespace_object_and_subresource() {
        let job = path("/apis/batch/v1/namespaces/a/jobs/b/status").expect("a path");
        assert_eq!((job.group.as_str(), job.version.as_str(), job.resource.as_str()), ("batch", "v1", "jobs"));
        assert_eq!(
            (job.namespace.as_deref(), job.name.as_deref(), job.subresource.as_str()),
            (Some("a"), Some("b"), "status")
        );
        let namespace = path("/api/v1/namespaces/a").expect("a path");
        assert_eq!(
            (namespace.resource.as_str(), namespace.name.as_deref(), namespace.namespace),
            ("namespaces", Some("a"), None)
        );
        let finalize = path("/api/v1/namespaces/a/finalize").expect("a path");
        assert_eq!((finalize.resource.as_str(), finalize.subresource.as_str()), ("namespaces", "finalize"));
        let pods = path("/api/v1/namespaces/a/pods").expect("a path");
        assert_eq!((pods.resource.as_str(), pods.namespace.as_deref(), pods.name), ("pods", Some("a"), None));
        assert_eq!(path("/api/v1"), None);
        assert_eq!(path("/healthz"), None);
    }

    #[test]
    fn queries_are_decoded() {
        let options = options("labelSelector=a%3Db%2Cc+in+%28d%29&limit=5&watch=1&dryRun=All").expect("options");
        assert_eq!(options.label_selector, "a=b,c in (d)");
        assert_eq!((options.limit, options.watch, options.dry_run), (5, true, true));
        assert!(super::options("limit=x").is_err());
    }
}
