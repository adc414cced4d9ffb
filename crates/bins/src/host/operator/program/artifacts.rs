//! The part of the configuration that is about files of steps. Owns its flags, in the words of the flow contract, and the way
//! to what places the helper in pods; without an image of it there is none.

use clap::Args;
use orlop_core::id::dns1123_subdomain;
use orlop_core::spec::artifact::ClaimStore;
use orlop_k8s::render::porter::{Porter, Tokens};
use serde::Serialize;

use super::config::ConfigError;
use super::listen::{Listen, NoAddress};

/// Where it listens where nothing else is said.
const PORT: u16 = 9444;
/// 100 GiB.
const MAX_BYTES: u64 = 100 << 30;
/// What `--artifact-store` may say besides `configmap`.
const CLAIM: &str = "persistentVolumeClaim/";

/// Flags about files of steps.
#[derive(Args, Debug)]
pub(super) struct ArtifactFlags {
    /// Image of orlop-helper, which moves files of steps in their pods; default: none, and steps with artifacts are refused
    #[arg(long, env = "ORLOP_HELPER_IMAGE", value_name = "IMAGE")]
    helper_image: Option<String>,
    /// Where artifacts are kept: `configmap` (at most 1 MiB each), or `persistentVolumeClaim/CLAIM[/FOLDER]` of each namespace
    #[arg(long, env = "ORLOP_ARTIFACT_STORE", default_value = "configmap", value_name = "STORE")]
    artifact_store: String,
    /// Address where pods hand in artifacts for ConfigMaps, or `off`; default: :9444 in a pod, else 127.0.0.1:9444
    #[arg(long, env = "ORLOP_ARTIFACT_ADDR", value_name = "HOST:PORT")]
    artifact_addr: Option<String>,
    /// URL under which pods reach that address, such as http://orlop-operator-artifacts.orlop-system.svc:9444
    #[arg(long, env = "ORLOP_ARTIFACT_URL", value_name = "URL")]
    artifact_url: Option<String>,
    /// Most bytes of an artifact
    #[arg(long, env = "ORLOP_ARTIFACT_MAX_BYTES", default_value_t = MAX_BYTES, value_name = "BYTES")]
    artifact_max_bytes: u64,
}

/// Settings about files of steps in effect.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ArtifactConfig {
    helper_image: Option<String>,
    artifact_store: String,
    pub(super) artifact_addr: Option<Listen>,
    artifact_url: Option<String>,
    artifact_max_bytes: u64,
    #[serde(skip)]
    claim: Option<ClaimStore>,
}

impl ArtifactFlags {
    pub(super) fn config(self, default: impl FnOnce(u16) -> Listen) -> Result<ArtifactConfig, ConfigError> {
        let image = self.helper_image.map(|image| image.trim().to_owned()).filter(|image| !image.is_empty());
        let address = match self.artifact_addr.as_deref().map(str::trim) {
            _ if image.is_none() => None,
            None => Some(default(PORT)),
            Some("off" | "0" | "") => None,
            Some(text) => Some(text.parse().map_err(|error: NoAddress| wrong("artifact-addr", error.to_string()))?),
        };
        if self.artifact_max_bytes == 0 {
            return Err(wrong("artifact-max-bytes", "must be at least 1".to_owned()));
        }
        let claim = store(self.artifact_store.trim())?;
        let url = self.artifact_url.map(|url| url.trim().trim_end_matches('/').to_owned());
        if let Some(url) = &url
            && !url.starts_with("http://")
            && !url.starts_with("https://")
        {
            return Err(wrong("artifact-url", format!("`{url}` is no http or https URL")));
        }
        if image.is_some() && url.is_none() {
            let why = "is needed beside --helper-image: say under which URL pods reach this operator, such as \
                       http://orlop-operator-artifacts.orlop-system.svc:9444";
            return Err(wrong("artifact-url", why.to_owned()));
        }
        Ok(ArtifactConfig {
            helper_image: image,
            artifact_store: self.artifact_store,
            artifact_addr: address,
            artifact_url: url,
            artifact_max_bytes: self.artifact_max_bytes,
            claim,
        })
    }
}

fn wrong(name: &'static str, why: String) -> ConfigError {
    ConfigError::Value(name, why)
}

/// The claim that a store names; none for ConfigMaps.
fn store(text: &str) -> Result<Option<ClaimStore>, ConfigError> {
    if text == "configmap" {
        return Ok(None);
    }
    let Some(place) = text.strip_prefix(CLAIM) else {
        let why = format!("`{text}` is not carried by this version; use configmap, or {CLAIM}CLAIM[/FOLDER]");
        return Err(wrong("artifact-store", why));
    };
    let (claim, folder) = place.split_once('/').map_or((place, None), |(claim, folder)| (claim, Some(folder)));
    dns1123_subdomain(claim).map_err(|error| wrong("artifact-store", error.to_string()))?;
    if folder.is_some_and(|folder| folder.split('/').any(|part| matches!(part, "" | "." | ".."))) {
        return Err(wrong("artifact-store", format!("`{place}` has no folder of a claim in it; write CLAIM/FOLDER")));
    }
    Ok(Some(ClaimStore { claim_name: claim.to_owned(), sub_path: folder.map(str::to_owned) }))
}

impl ArtifactConfig {
    /// What places the helper; nothing without an image.
    pub(super) fn porter(&self) -> Option<Porter> {
        let (image, url) = (self.helper_image.as_ref()?, self.artifact_url.as_ref()?);
        // Two of them are more than anybody guesses.
        let token = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let mut porter = Porter::new(image, url, Tokens::new(token));
        porter.max_bytes = self.artifact_max_bytes;
        porter.store.clone_from(&self.claim);
        Some(porter)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ArtifactFlags,
    }

    fn of(words: &[&str]) -> Result<ArtifactConfig, ConfigError> {
        Line::try_parse_from(["orlop-operator"].iter().chain(words))?.flags.config(Listen::everywhere)
    }

    const ON: [&str; 2] = ["--helper-image=orlop-helper:1", "--artifact-url=http://o.svc:9444/"];

    fn on(words: &[&str]) -> Result<ArtifactConfig, ConfigError> {
        of(&[&ON, words].concat())
    }

    #[test]
    fn s5_3_nothing_moves_files_until_there_is_an_image() {
        let config = of(&[]).unwrap();
        assert!(config.porter().is_none() && config.artifact_addr.is_none());
        let config = on(&[]).unwrap();
        assert_eq!(config.artifact_addr.as_ref().unwrap().to_string(), ":9444");
        let porter = config.porter().unwrap();
        assert_eq!((porter.image.as_str(), porter.url.as_str()), ("orlop-helper:1", "http://o.svc:9444"));
        assert_eq!((porter.max_bytes, porter.store), (100 << 30, None));
    }

    #[test]
    fn s5_3_artifacts_of_all_flows_may_go_to_a_claim() {
        let store = |text: &str| on(&[&format!("--artifact-store={text}")]).unwrap().porter().unwrap().store;
        let claim =
            |folder: Option<&str>| Some(ClaimStore { claim_name: "shelf".into(), sub_path: folder.map(str::to_owned) });
        assert_eq!(store("configmap"), None);
        assert_eq!(store("persistentVolumeClaim/shelf"), claim(None));
        assert_eq!(store("persistentVolumeClaim/shelf/a/b"), claim(Some("a/b")));
    }

    #[test]
    fn wrong_values_are_refused_with_their_flag() {
        let told = [
            of(&ON[..1]),
            on(&["--artifact-store=s3://bucket"]),
            on(&["--artifact-store=persistentVolumeClaim/A"]),
            on(&["--artifact-store=persistentVolumeClaim/a/../b"]),
            on(&["--artifact-addr=9444"]),
            on(&["--artifact-max-bytes=0"]),
            of(&["--helper-image=x", "--artifact-url=operator:9444"]),
        ];
        let lines: Vec<String> = told.into_iter().map(|told| told.unwrap_err().to_string()).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
