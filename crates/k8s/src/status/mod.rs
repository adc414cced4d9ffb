//! How the status of a flow is stored, depending on its size: with all step records in the object, with records packed and compressed in
//! the object, or with packed records in ConfigMaps. Owns which of these levels a status needs and what is written and deleted for it, as
//! values; sends no requests.
//!
//! The level of a flow only rises. Every level has the same phase, progress, conditions and message.

mod columns;
mod read;
mod select;
mod spill;
#[cfg(test)]
mod tests;

use orlop_core::spec::status::{FlowStatus, StepsPacked};

pub use columns::{ENCODING, Names, UnpackError, pack, unpack};
pub use read::{ReadError, Records};
pub use spill::{CHUNK_MAX, RecordChunk, is_state, piece_bytes};

/// Where the records of a status are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All in `steps`.
    #[default]
    Inline,
    /// Packed in the status; `steps` holds those that need attention.
    Packed,
    /// Packed in ConfigMaps that the status lists.
    Spilled,
}

impl Level {
    /// The level of a stored status.
    #[must_use]
    pub fn of(status: &FlowStatus) -> Self {
        match &status.steps_packed {
            None => Self::Inline,
            Some(packed) if packed.refs.is_empty() => Self::Packed,
            Some(_) => Self::Spilled,
        }
    }

    /// The next one; none after the last.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Inline => Some(Self::Packed),
            Self::Packed => Some(Self::Spilled),
            Self::Spilled => None,
        }
    }
}

/// Limits of the size of a status, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// The largest status with all records in it.
    pub inline: usize,
    /// The largest object: spec, status and metadata together.
    pub object: usize,
}

impl Default for SizeLimits {
    /// 256 KiB and 1 MiB.
    fn default() -> Self {
        Self { inline: 256 << 10, object: 1 << 20 }
    }
}

/// A status that is about to be stored.
#[derive(Clone, Debug)]
pub struct PendingStatus<'a> {
    /// The status with all its records, as the engine shows it.
    pub whole: FlowStatus,
    /// Number of the last change that it shows.
    pub revision: u64,
    /// What names follow from.
    pub names: Names<'a>,
    /// Bytes of the object without its status.
    pub other_bytes: usize,
    /// The lowest level it may have: that of the stored status, or one more after a refusal for its size.
    pub least: Level,
    /// ConfigMaps that the stored status lists.
    pub refs: Vec<String>,
}

/// A status as it is stored, with what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Its level.
    pub level: Level,
    /// The status itself.
    pub status: FlowStatus,
    /// Its size in bytes.
    pub bytes: usize,
    /// ConfigMaps to be written before it; those the stored status lists are not among them.
    pub before: Vec<RecordChunk>,
    /// ConfigMaps to be deleted after it: the stored status lists them, this one does not.
    pub after: Vec<String>,
}

/// Chooses the lowest level at which a status fits.
///
/// # Errors
/// When the records are not those of the spec.
pub(crate) fn arrange(pending: PendingStatus<'_>, limits: SizeLimits) -> Result<Stored, UnpackError> {
    let PendingStatus { mut whole, revision, names, other_bytes, least, refs } = pending;
    let room = limits.object.saturating_sub(other_bytes);
    if least == Level::Inline {
        let bytes = size(&whole);
        if bytes <= limits.inline.min(room) {
            return Ok(Stored { level: Level::Inline, status: whole, bytes, before: Vec::new(), after: refs });
        }
    }
    let records = std::mem::take(&mut whole.steps);
    let columns = pack(names, &records)?;
    let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
    let packed = StepsPacked { encoding: ENCODING.to_owned(), count, revision, data: None, refs: Vec::new() };
    if least <= Level::Packed {
        whole.steps_packed = Some(StepsPacked { data: Some(spill::base64(&columns)), ..packed.clone() });
        let free = room.checked_sub(size(&whole));
        if let Some(shown) = free.and_then(|free| select::shown(&records, free, false)) {
            whole.steps = shown;
            let bytes = size(&whole);
            return Ok(Stored { level: Level::Packed, status: whole, bytes, before: Vec::new(), after: refs });
        }
    }
    let pieces = spill::pieces(names.flow, &columns);
    let listed: Vec<String> = pieces.iter().map(|piece| piece.name.clone()).collect();
    let after = refs.iter().filter(|name| !listed.contains(name)).cloned().collect();
    let before = pieces.into_iter().filter(|piece| !refs.contains(&piece.name)).collect();
    whole.steps_packed = Some(StepsPacked { refs: listed, ..packed });
    whole.steps = select::shown(&records, room.saturating_sub(size(&whole)), true).unwrap_or_default();
    let bytes = size(&whole);
    Ok(Stored { level: Level::Spilled, status: whole, bytes, before, after })
}

/// Bytes of a status as JSON.
fn size(status: &FlowStatus) -> usize {
    serde_json::to_vec(status).map_or(usize::MAX, |text| text.len())
}
