//! Where a model is asked, and how. Owns the names of the settings and their
//! defaults; the key is never shown.

use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::ports::secret::SecretValue;
use url::Url;

use crate::private_url::{is_here, private_url};

/// Settings of an endpoint.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address below which `chat/completions` is.
    pub base_url: Url,
    /// The model.
    pub model: String,
    /// The key; none for an endpoint of this machine.
    pub key: Option<SecretValue>,
    /// The organisation that is billed.
    pub organisation: Option<String>,
    /// How long one request may take.
    pub timeout: Duration,
    /// Tokens that an answer may have.
    pub max_tokens: u32,
}

const BASE_URL: &str = "OPENAI_BASE_URL must be an https URL without user and password; http is for this machine only";

fn wrong(message: impl Into<String>) -> Problem {
    Problem::new(Class::Invalid, message)
}

impl Settings {
    /// Reads settings by their names; empty ones count as absent.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, Problem> {
        let get = |name: &str| get(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let plain = |name: &'static str| match get(name) {
            Some(text) if !text.bytes().all(|b| b.is_ascii_graphic() || b == b' ') => {
                Err(wrong(format!("{name} holds characters that cannot be sent")))
            }
            other => Ok(other),
        };
        let number = |name, default: u32, least: u32, most: u32| match get(name) {
            None => Ok(default),
            Some(text) => {
                let value = text.parse().ok().filter(|value| (least..=most).contains(value));
                value.ok_or_else(|| wrong(format!("{name} must be a number from {least} to {most}")))
            }
        };
        let base_url = get("OPENAI_BASE_URL").unwrap_or_else(|| "https://api.openai.com/v1".to_owned());
        Ok(Self {
            base_url: base(&base_url).ok_or_else(|| wrong(BASE_URL))?,
            model: plain("OPENAI_MODEL")?.unwrap_or_else(|| "gpt-4o".to_owned()),
            key: plain("OPENAI_API_KEY")?.map(|key| SecretValue::new(key.into_bytes())),
            organisation: plain("OPENAI_ORG_ID")?,
            timeout: Duration::from_secs(u64::from(number("OPENAI_TIMEOUT_S", 30, 1, 120)?)),
            max_tokens: number("OPENAI_MAX_TOKENS", 1500, 16, 100_000)?,
        })
    }

    /// Whether there is somebody to ask: a key, or an endpoint of this machine, which needs none.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.key.is_some() || is_here(&self.base_url)
    }

    /// The host that text of the repository is sent to.
    #[must_use]
    pub fn host(&self) -> String {
        self.base_url.host_str().unwrap_or_default().to_owned()
    }

    /// What makes answers differ beside the question: address, model and parameters, without the key.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("{}\n{}\nmax_tokens={} temperature=0 seed=1", self.base_url, self.model, self.max_tokens)
    }

    /// The address that questions are posted to.
    pub(super) fn url(&self) -> Url {
        let mut url = self.base_url.clone();
        let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }
}

fn base(text: &str) -> Option<Url> {
    private_url(text).ok().filter(|url| url.query().is_none() && url.fragment().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, Problem> {
        Settings::read(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn model_settings_have_their_defaults_and_an_empty_key_is_none() {
        let settings = read(&[("OPENAI_API_KEY", " ")]).unwrap();
        assert!(!settings.is_on());
        assert_eq!(settings.url().as_str(), "https://api.openai.com/v1/chat/completions");
        assert_eq!((settings.model.as_str(), settings.timeout.as_secs(), settings.max_tokens), ("gpt-4o", 30, 1500));
        assert!(read(&[("OPENAI_API_KEY", "k")]).unwrap().is_on());
        assert!(
            read(&[("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/")]).unwrap().is_on(),
            "this machine needs no key"
        );
        let settings = read(&[("OPENAI_API_KEY", "hush"), ("OPENAI_BASE_URL", "https://h.example/x")]).unwrap();
        assert!(!format!("{settings:?} {}", settings.identity()).contains("hush"));
    }

    #[test]
    fn keys_go_over_https_or_stay_on_this_machine() {
        for url in
            ["http://h.example/v1", "ftp://h/", "https://u:p@h.example/", "https://h.example/?k=v", "x", "file:///x"]
        {
            assert_eq!(read(&[("OPENAI_BASE_URL", url)]).unwrap_err().message, BASE_URL, "{url}");
        }
        assert!(read(&[("OPENAI_BASE_URL", "http://localhost:1/v1"), ("OPENAI_TIMEOUT_S", "5")]).is_ok());
        insta::assert_snapshot!(read(&[("OPENAI_TIMEOUT_S", "0")]).unwrap_err(), @"OPENAI_TIMEOUT_S must be a number from 1 to 120");
        insta::assert_snapshot!(read(&[("OPENAI_API_KEY", "a\nb")]).unwrap_err(), @"OPENAI_API_KEY holds characters that cannot be sent");
    }
}
