//! Volumes of pods as directories of this machine. Owns making and finding them and the promise that nothing a template
//! or a job writes leads out of them.

pub mod beneath;
pub(in crate::runtime) mod give;
pub mod locate;
pub mod mount;
pub mod prepare;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

/// A volume on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRoot {
    /// Where it is: a directory, for `hostPath` perhaps a file.
    pub path: PathBuf,
    /// Whether no mount of it may write.
    pub read_only: bool,
}
