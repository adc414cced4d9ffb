//! The part of the configuration that is about files of steps.

use clap::Args;
use orlop_core::error::Problem;
use orlop_core::helper::{Modes, SMALL_MAX};
use orlop_core::id::dns1123_subdomain;
use orlop_core::spec::artifact::{ArtifactStore, ClaimStore, S3Store};
use orlop_core::spec::meta::KeyRef;
use orlop_k8s::render::helper::{HelperOptions, Tokens};
use serde::Serialize;

use super::config::{at_least_one, wrong_flag};
use super::listen::Listen;

/// Where it listens by default.
const PORT: u16 = 9444;
/// 100 GiB.
const MAX_BYTES: u64 = 100 << 30;
/// The helper of this version.
const HELPER: &str = concat!("orlop-helper:", env!("CARGO_PKG_VERSION"));
/// What `--artifact-store` may say besides `configmap`.
const CLAIM: &str = "persistentVolumeClaim/";
/// The same for S3.
const BUCKET: &str = "s3://";
/// Keys of the Secret with keys to a store.
const KEY_NAMES: (&str, &str) = ("accessKeyId", "secretAccessKey");

/// Flags about files of steps.
#[derive(Args, Debug)]
pub(super) struct ArtifactFlags {
    /// Image of orlop-helper, which moves files of steps in their pods; empty, or without --artifact-url: none, and steps with
    /// artifacts are refused
    #[arg(long, default_value = HELPER, hide_default_value = true, value_name = "IMAGE")]
    helper_image: String,
    /// Where artifacts are kept: `configmap` (at most 1 MiB each), `persistentVolumeClaim/CLAIM[/FOLDER]` of each namespace, or
    /// `s3://BUCKET[/PREFIX]`
    #[arg(long, default_value = "configmap", value_name = "STORE")]
    artifact_store: String,
    /// URL of the S3 store, with `?region=REGION` where its host does not name that
    #[arg(long, default_value = "https://s3.amazonaws.com", value_name = "URL")]
    artifact_s3_endpoint: String,
    /// Secret of each namespace with `accessKeyId` and `secretAccessKey` of the S3 store; default: none, and it is asked without
    #[arg(long, value_name = "NAME")]
    artifact_s3_secret: Option<String>,
    /// Address where pods hand in artifacts for ConfigMaps, or `off`; default: :9444 in a pod, else 127.0.0.1:9444
    #[arg(long, value_name = "HOST:PORT")]
    artifact_addr: Option<String>,
    /// URL under which pods reach that address, such as http://orlop-operator-artifacts.orlop-system.svc:9444
    #[arg(long, value_name = "URL")]
    artifact_url: Option<String>,
    /// Most bytes of an artifact
    #[arg(long, default_value_t = MAX_BYTES, value_name = "BYTES", value_parser = at_least_one::<u64>)]
    artifact_max_bytes: u64,
    /// Media type of artifacts that do not set one
    #[arg(long, value_name = "TYPE", value_parser = media_type)]
    default_content_type: Option<String>,
    /// Permissions of folders of artifacts, in octal digits
    #[arg(long, value_name = "MODE", value_parser = |text: &str| Mode::with(text, 0o700))]
    default_dir_perm: Option<Mode>,
    /// Permissions of files of artifacts, in octal digits
    #[arg(long, value_name = "MODE", value_parser = |text: &str| Mode::with(text, 0o600))]
    default_file_perm: Option<Mode>,
    /// Most bytes of an artifact that a ConfigMap holds
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=SMALL_MAX))]
    configmap_size_limit: Option<u64>,
}

/// Settings about files of steps in effect.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ArtifactConfig {
    helper_image: Option<String>,
    artifact_store: String,
    artifact_s3_endpoint: String,
    artifact_s3_secret: Option<String>,
    #[serde(serialize_with = "super::listen::or_off")]
    pub(super) artifact_addr: Option<Listen>,
    artifact_url: Option<String>,
    artifact_max_bytes: u64,
    default_content_type: Option<String>,
    default_dir_perm: Option<Mode>,
    default_file_perm: Option<Mode>,
    pub(super) configmap_size_limit: Option<u64>,
    #[serde(skip)]
    store: Option<ArtifactStore>,
}

impl ArtifactFlags {
    pub(super) fn config(self, default: impl FnOnce(u16) -> Listen) -> Result<ArtifactConfig, Problem> {
        let url = self.artifact_url.map(|url| url.trim().trim_end_matches('/').to_owned());
        let image = Some(self.helper_image.trim().to_owned()).filter(|image| !image.is_empty());
        // That of this version is not set by the user.
        let image = image.filter(|image| url.is_some() || image != HELPER);
        let address = match self.artifact_addr.as_deref().map(str::trim) {
            _ if image.is_none() => None,
            None => Some(default(PORT)),
            Some("off" | "0" | "") => None,
            Some(text) => Some(text.parse().map_err(|error: String| wrong("artifact-addr", error.to_string()))?),
        };
        let secret = self.artifact_s3_secret.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let endpoint = self.artifact_s3_endpoint.trim();
        let store = store(self.artifact_store.trim(), endpoint, secret.as_deref())?;
        if let Some(url) = &url
            && !url.starts_with("http://")
            && !url.starts_with("https://")
        {
            return Err(wrong("artifact-url", format!("`{url}` is not an http or https URL")));
        }
        if image.is_some() && url.is_none() {
            let why = "is required with --helper-image: give the URL under which pods reach this operator, such as \
                       http://orlop-operator-artifacts.orlop-system.svc:9444";
            return Err(wrong("artifact-url", why.to_owned()));
        }
        Ok(ArtifactConfig {
            helper_image: image,
            artifact_s3_endpoint: endpoint.to_owned(),
            artifact_s3_secret: secret,
            artifact_store: self.artifact_store,
            artifact_addr: address,
            artifact_url: url,
            artifact_max_bytes: self.artifact_max_bytes,
            default_content_type: self.default_content_type,
            default_dir_perm: self.default_dir_perm,
            default_file_perm: self.default_file_perm,
            configmap_size_limit: self.configmap_size_limit,
            store,
        })
    }
}

/// Permissions, in octal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode(u32);

impl Mode {
    /// Reads octal digits that give their owner these rights.
    fn with(text: &str, rights: u32) -> Result<Self, String> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777 && digits.len() <= 4);
        let mode = mode.filter(|mode| mode & rights == rights).map(Self);
        mode.ok_or_else(|| "use octal digits like 0755, with all rights that their owner needs".to_owned())
    }
}

impl Serialize for Mode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:04o}", self.0))
    }
}

fn media_type(text: &str) -> Result<String, String> {
    let token = |part: &str| {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
        !part.is_empty() && part.chars().all(legal)
    };
    let legal = text.len() <= 127 && text.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub));
    legal.then(|| text.to_owned()).ok_or_else(|| "use a media type like application/octet-stream".to_owned())
}

fn wrong(name: &'static str, why: String) -> Problem {
    wrong_flag(name, why)
}

/// The store that a text names; none for ConfigMaps.
fn store(text: &str, endpoint: &str, secret: Option<&str>) -> Result<Option<ArtifactStore>, Problem> {
    if text == "configmap" {
        return Ok(None);
    }
    if let Some(place) = text.strip_prefix(BUCKET) {
        let s3 = Some(bucket(place, endpoint, secret)?);
        return Ok(Some(ArtifactStore { s3, ..ArtifactStore::default() }));
    }
    let Some(place) = text.strip_prefix(CLAIM) else {
        let why = format!(
            "`{text}` is not an artifact store; use configmap, {CLAIM}CLAIM[/FOLDER] or {BUCKET}BUCKET[/PREFIX]"
        );
        return Err(wrong("artifact-store", why));
    };
    let (claim, folder) = parts(place);
    dns1123_subdomain(claim).map_err(|error| wrong("artifact-store", error.to_string()))?;
    if folder.is_some_and(leads_away) {
        return Err(wrong("artifact-store", format!("`{place}` has no folder of a claim in it; write CLAIM/FOLDER")));
    }
    let claim = ClaimStore { claim_name: claim.to_owned(), sub_path: folder.map(str::to_owned) };
    Ok(Some(ArtifactStore { persistent_volume_claim: Some(claim), ..ArtifactStore::default() }))
}

fn parts(place: &str) -> (&str, Option<&str>) {
    place.split_once('/').map_or((place, None), |(name, folder)| (name, Some(folder)))
}

fn leads_away(folder: &str) -> bool {
    folder.split('/').any(|part| matches!(part, "" | "." | ".."))
}

fn bucket(place: &str, endpoint: &str, secret: Option<&str>) -> Result<S3Store, Problem> {
    let (bucket, prefix) = parts(place);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if bucket.is_empty() || !bucket.chars().all(legal) || prefix.is_some_and(leads_away) {
        let why = format!("`{place}` is not a bucket with a prefix; write {BUCKET}BUCKET/PREFIX");
        return Err(wrong("artifact-store", why));
    }
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        return Err(wrong("artifact-s3-endpoint", format!("`{endpoint}` is not an http or https URL")));
    }
    if let Some(secret) = secret {
        dns1123_subdomain(secret).map_err(|error| wrong("artifact-s3-secret", error.to_string()))?;
    }
    let key = |key: &str| secret.map(|name| KeyRef { name: name.to_owned(), key: key.to_owned(), optional: None });
    Ok(S3Store {
        endpoint: endpoint.to_owned(),
        bucket: bucket.to_owned(),
        prefix: prefix.map(str::to_owned),
        access_key_id_secret_ref: key(KEY_NAMES.0),
        secret_access_key_secret_ref: key(KEY_NAMES.1),
    })
}

impl ArtifactConfig {
    /// What places the helper; nothing without an image.
    pub(super) fn helper(&self) -> Option<HelperOptions> {
        let (image, url) = (self.helper_image.as_ref()?, self.artifact_url.as_ref()?);
        // Two of them are more than anybody guesses.
        let token = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let mut helper = HelperOptions::new(image, url, Tokens::new(token));
        helper.max_bytes = self.artifact_max_bytes;
        helper.store.clone_from(&self.store);
        helper.small_max = self.configmap_size_limit;
        helper.content_type.clone_from(&self.default_content_type);
        let usual = Modes::default();
        let mode = |mode: Option<Mode>, usual: u32| mode.map_or(usual, |mode| mode.0);
        helper.modes.dir = mode(self.default_dir_perm, usual.dir);
        helper.modes.file = mode(self.default_file_perm, usual.file);
        Some(helper)
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::read_with;
    use super::*;
    use crate::host::program::ProgramError;

    fn with(words: &[&str], variables: &[(&str, &str)]) -> Result<ArtifactConfig, ProgramError> {
        read_with(words, variables, true).map(|config| config.artifacts)
    }

    fn of(words: &[&str]) -> Result<ArtifactConfig, ProgramError> {
        with(words, &[])
    }

    const ON: [&str; 2] = ["--helper-image=orlop-helper:1", "--artifact-url=http://o.svc:9444/"];

    fn on(words: &[&str]) -> Result<ArtifactConfig, ProgramError> {
        of(&[&ON, words].concat())
    }

    #[test]
    fn the_helper_of_this_version_moves_files_where_it_is_known_how_pods_reach_the_operator() {
        let config = of(&ON[1..]).unwrap();
        assert_eq!(config.helper().unwrap().image, concat!("orlop-helper:", env!("CARGO_PKG_VERSION")));
        assert_eq!(config.artifact_addr.unwrap().to_string(), ":9444");
        for off in [of(&[]), of(&["--artifact-url=http://o.svc:9444/", "--helper-image="])] {
            let off = off.unwrap();
            assert!(off.helper().is_none() && off.artifact_addr.is_none());
        }
    }

    #[test]
    fn variables_of_other_controllers_say_how_files_are_made() {
        let variables = [
            ("ZEN_FLOW_DEFAULT_CONTENT_TYPE", "text/csv"),
            ("ZEN_FLOW_DEFAULT_DIR_PERM", "0700"),
            ("ZEN_FLOW_DEFAULT_FILE_PERM", "0o600"),
            ("ZEN_FLOW_CONFIGMAP_SIZE_LIMIT", "1000"),
        ];
        let helper = with(&ON, &variables).unwrap().helper().unwrap();
        assert_eq!((helper.content_type.as_deref(), helper.small_max), (Some("text/csv"), Some(1000)));
        assert_eq!(helper.modes, Modes { dir: 0o700, file: 0o600 });
        let usual = on(&[]).unwrap().helper().unwrap();
        assert_eq!((usual.content_type, usual.small_max, usual.modes), (None, None, Modes::default()));
        let wrong = [
            ("ZEN_FLOW_DEFAULT_CONTENT_TYPE", "text"),
            ("ZEN_FLOW_DEFAULT_DIR_PERM", "0600"),
            ("ZEN_FLOW_DEFAULT_FILE_PERM", "9"),
            ("ZEN_FLOW_CONFIGMAP_SIZE_LIMIT", "1048577"),
        ];
        let refused: Vec<String> = wrong.iter().map(|pair| with(&ON, &[*pair]).unwrap_err().to_string()).collect();
        insta::assert_snapshot!(refused.join("\n"), @"
        ZEN_FLOW_DEFAULT_CONTENT_TYPE: invalid value 'text' for '--default-content-type <TYPE>': use a media type like application/octet-stream
        ZEN_FLOW_DEFAULT_DIR_PERM: invalid value '0600' for '--default-dir-perm <MODE>': use octal digits like 0755, with all rights that their owner needs
        ZEN_FLOW_DEFAULT_FILE_PERM: invalid value '9' for '--default-file-perm <MODE>': use octal digits like 0755, with all rights that their owner needs
        ZEN_FLOW_CONFIGMAP_SIZE_LIMIT: invalid value '1048577' for '--configmap-size-limit <BYTES>': 1048577 is not in 1..=1048576
        ");
    }

    #[test]
    fn where_files_go_is_said_by_flags() {
        let config = on(&[]).unwrap();
        assert_eq!(config.artifact_addr.as_ref().unwrap().to_string(), ":9444");
        let helper = config.helper().unwrap();
        assert_eq!((helper.image.as_str(), helper.url.as_str()), ("orlop-helper:1", "http://o.svc:9444"));
        assert_eq!((helper.max_bytes, helper.store), (100 << 30, None));
    }

    #[test]
    fn artifacts_of_all_flows_may_go_to_a_claim() {
        let store = |text: &str| on(&[&format!("--artifact-store={text}")]).unwrap().helper().unwrap().store;
        let claim = |folder: Option<&str>| {
            let claim = ClaimStore { claim_name: "shelf".into(), sub_path: folder.map(str::to_owned) };
            Some(ArtifactStore { persistent_volume_claim: Some(claim), s3: None })
        };
        assert_eq!(store("configmap"), None);
        assert_eq!(store("persistentVolumeClaim/shelf"), claim(None));
        assert_eq!(store("persistentVolumeClaim/shelf/a/b"), claim(Some("a/b")));
    }

    #[test]
    fn artifacts_of_all_flows_may_go_to_a_bucket() {
        let store = |words: &[&str]| on(words).unwrap().helper().unwrap().store.unwrap().s3.unwrap();
        let plain = store(&["--artifact-store=s3://lake"]);
        assert_eq!((plain.endpoint.as_str(), plain.bucket.as_str()), ("https://s3.amazonaws.com", "lake"));
        assert_eq!(
            (plain.prefix, plain.access_key_id_secret_ref, plain.secret_access_key_secret_ref),
            (None, None, None)
        );
        let full = [
            "--artifact-store=s3://lake/flows/a",
            "--artifact-s3-endpoint=https://s3.example?region=eu",
            "--artifact-s3-secret=keys",
        ];
        let full = store(&full);
        assert_eq!((full.endpoint.as_str(), full.prefix.as_deref()), ("https://s3.example?region=eu", Some("flows/a")));
        let key = |key: Option<KeyRef>| key.map(|key| format!("{}/{}", key.name, key.key)).unwrap_or_default();
        assert_eq!(key(full.access_key_id_secret_ref), "keys/accessKeyId");
        assert_eq!(key(full.secret_access_key_secret_ref), "keys/secretAccessKey");
    }

    #[test]
    fn wrong_values_are_refused_with_their_flag() {
        let refused = [
            of(&ON[..1]),
            on(&["--artifact-store=gs://bucket"]),
            on(&["--artifact-store=s3:///prefix"]),
            on(&["--artifact-store=s3://b/a//c"]),
            on(&["--artifact-store=s3://b", "--artifact-s3-endpoint=s3.example"]),
            on(&["--artifact-store=s3://b", "--artifact-s3-secret=Keys"]),
            on(&["--artifact-store=persistentVolumeClaim/A"]),
            on(&["--artifact-store=persistentVolumeClaim/a/../b"]),
            on(&["--artifact-addr=9444"]),
            of(&["--helper-image=x", "--artifact-url=operator:9444"]),
        ];
        let lines: Vec<String> = refused.into_iter().map(|refused| refused.unwrap_err().to_string()).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
