//! Packed records in ConfigMaps: cut into pieces that are named by what they hold. Owns names and sizes; writes nothing.
//!
//! A piece never changes: other content has another name. So pieces can be written before the status that lists them, and
//! a crash in between leaves nothing wrong behind.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::name::{Parts, bounded, sha256_hex};
use serde_json::Value;

/// Most bytes of a piece.
pub const CHUNK_MAX: usize = 512 << 10;
/// The longest object name, in characters.
const NAME_MAX: usize = 253;
/// Key in `binaryData`.
const KEY: &str = "records";
/// What stands between the flow's name and the digest.
const MARK: &str = "state";

/// A ConfigMap with a piece of packed records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChunk {
    /// Its name: `<flow>-state-<digest>`.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl RecordChunk {
    /// `binaryData` of the ConfigMap.
    #[must_use]
    pub fn binary_data(&self) -> Value {
        serde_json::json!({KEY: base64(&self.bytes)})
    }
}

/// The pieces of packed records, in order.
pub(super) fn pieces(flow: &str, columns: &[u8]) -> Vec<RecordChunk> {
    let name = |bytes: &[u8]| {
        let suffix = format!("-{}", sha256_hex(bytes, 16));
        bounded(Parts { flow, part: MARK, suffix: &suffix }, NAME_MAX)
    };
    columns.chunks(CHUNK_MAX).map(|bytes| RecordChunk { name: name(bytes), bytes: bytes.to_vec() }).collect()
}

/// Content of a piece, from its ConfigMap. None where it is not one, or not the one of its name.
#[must_use]
pub fn piece_bytes(name: &str, config_map: &Value) -> Option<Vec<u8>> {
    let text = config_map.get("binaryData")?.get(KEY)?.as_str()?;
    let bytes = STANDARD.decode(text).ok()?;
    name.ends_with(&sha256_hex(&bytes, 16)).then_some(bytes)
}

/// Whether a ConfigMap of a flow, by its name, holds a piece of its records.
#[must_use]
pub fn is_state(flow: &str, name: &str) -> bool {
    let Some((base, digest)) = name.rsplit_once('-') else { return false };
    let ours = bounded(Parts { flow, part: MARK, suffix: &format!("-{digest}") }, NAME_MAX);
    digest.len() == 16 && base.len() < name.len() && ours == name
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}
