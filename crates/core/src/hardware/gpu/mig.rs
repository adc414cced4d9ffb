//! Slices of NVIDIA devices. Owns the text form of profiles; which device has which profile is a table's matter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hardware::HardwareError;

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

    /// The profile of such a part.
    pub(super) fn of_resource(part: &str) -> Result<Self, HardwareError> {
        part.replacen(".me", "+me", 1).parse()
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
