//! Slices of NVIDIA devices. Owns the text form of profiles; which device has which profile is a table's matter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{MODEL_KEY, ModelKey};
use crate::hardware::HardwareError;

/// What stands between the model of a device and the profile in the key of its slices.
const SLICE: &str = "mig";

/// Media engines that come with a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MediaExtensions {
    /// None beyond the profile's own.
    #[default]
    None,
    /// One (`+me`).
    One,
    /// All of the device (`+me.all`).
    All,
}

/// A MIG profile, text `<g>g.<gb>gb[+me[.all]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigProfile {
    /// Compute slices.
    pub slices: u8,
    /// Memory in GB, as the profile's name counts it.
    pub memory_gb: u16,
    /// Media engines.
    pub media: MediaExtensions,
}

impl MigProfile {
    /// The same profile without media engines of its own.
    #[must_use]
    pub const fn plain(self) -> Self {
        Self { media: MediaExtensions::None, ..self }
    }

    /// Its name as a part of label keys and resource names, where `+` may not stand.
    #[must_use]
    pub fn resource_name(self) -> String {
        self.to_string().replace('+', ".")
    }

    /// The key by which slices of this profile are counted and asked for, such as `a100mig1g10gb`; none where the device's model is no key.
    ///
    /// ```
    /// use orlop_core::hardware::gpu::MigProfile;
    /// let key = "1g.10gb".parse::<MigProfile>()?.model_key("a100").unwrap();
    /// assert!(key.as_str() == "a100mig1g10gb" && key.is_slice());
    /// # Ok::<(), orlop_core::hardware::HardwareError>(())
    /// ```
    #[must_use]
    pub fn model_key(self, model: &str) -> Option<ModelKey> {
        let profile: String = self.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
        let model: String = model.chars().take(MODEL_KEY.max.saturating_sub(SLICE.len() + profile.len())).collect();
        ModelKey::new(format!("{model}{SLICE}{profile}")).ok()
    }

    /// The profile of such a part.
    pub(super) fn of_resource(part: &str) -> Result<Self, HardwareError> {
        part.replacen(".me", "+me", 1).parse()
    }
}

impl ModelKey {
    /// Whether it is the key of slices of a model.
    #[must_use]
    pub fn is_slice(&self) -> bool {
        let Some((_, profile)) = self.as_str().rsplit_once(SLICE) else { return false };
        let plain = profile.trim_end_matches("all").trim_end_matches("me");
        plain.replacen('g', "g.", 1).parse::<MigProfile>().is_ok()
    }
}

impl fmt::Display for MigProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let media = match self.media {
            MediaExtensions::None => "",
            MediaExtensions::One => "+me",
            MediaExtensions::All => "+me.all",
        };
        write!(f, "{}g.{}gb{media}", self.slices, self.memory_gb)
    }
}

/// A number above zero, written with digits only and without leading zeros.
fn number<N: FromStr>(digits: &str) -> Option<N> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    plain.then(|| digits.parse().ok()).flatten()
}

impl FromStr for MigProfile {
    type Err = HardwareError;

    fn from_str(text: &str) -> Result<Self, HardwareError> {
        let (profile, media) = match text.split_once('+') {
            None => (text, Some(MediaExtensions::None)),
            Some((profile, "me")) => (profile, Some(MediaExtensions::One)),
            Some((profile, "me.all")) => (profile, Some(MediaExtensions::All)),
            Some((profile, _)) => (profile, None),
        };
        let read = || {
            let (slices, memory) = profile.strip_suffix("gb")?.split_once("g.")?;
            Some(Self { slices: number(slices)?, memory_gb: number(memory)?, media: media? })
        };
        read().ok_or_else(|| HardwareError::BadMigProfile { given: text.chars().take(64).collect() })
    }
}

impl Serialize for MigProfile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MigProfile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
