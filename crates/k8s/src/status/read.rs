//! Reading the records of a stored status, whatever its level, page by page. Owns what is needed for that; fetches nothing.

use std::collections::BTreeMap;
use std::ops::Range;

use orlop_core::spec::status::{FlowStatus, StepStatus};

use super::columns::{ENCODING, Names, UnpackError, unpack};
use super::spill;

/// Why the records of a status cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A ConfigMap that the status lists is not there, or is not what it was.
    #[error("ConfigMap `{0}` with step records is missing or was changed")]
    RecordChunk(String),
    /// What is there cannot be read.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
}

/// All records of a stored status.
///
/// ```
/// use orlop_core::spec::flow::FlowSpec;
/// use orlop_core::spec::status::{FlowStatus, StepStatus};
/// use orlop_k8s::status::{Names, Records};
/// let spec = FlowSpec::default();
/// let names = Names { spec: &spec, flow: "etl", namespace: "default", uid: "6d0d7a5e" };
/// let status = FlowStatus { steps: vec![StepStatus { name: "a".into(), ..StepStatus::default() }], ..FlowStatus::default() };
/// assert!(Records::needs(&status).is_empty());
/// let records = Records::read(names, &status, &Default::default()).unwrap();
/// assert_eq!(records.page(0..10)[0].name, "a");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    all: Vec<StepStatus>,
}

impl Records {
    /// ConfigMaps that must be fetched to read a status.
    #[must_use]
    pub fn needs(status: &FlowStatus) -> &[String] {
        status.steps_packed.as_ref().map_or(&[], |packed| &packed.refs)
    }

    /// Reads the records. `pieces` holds what [`piece_bytes`](super::piece_bytes) gives of each needed ConfigMap, by name.
    ///
    /// # Errors
    /// When a piece is missing or what is there cannot be read.
    pub fn read(names: Names<'_>, status: &FlowStatus, pieces: &BTreeMap<String, Vec<u8>>) -> Result<Self, ReadError> {
        let Some(packed) = &status.steps_packed else { return Ok(Self { all: status.steps.clone() }) };
        if packed.encoding != ENCODING {
            return Err(UnpackError::Encoding(packed.encoding.clone()).into());
        }
        let columns = match &packed.data {
            Some(data) => {
                spill::from_base64(data).ok_or_else(|| UnpackError::Damaged("the data is not base64".to_owned()))?
            }
            None => {
                let mut columns = Vec::new();
                for name in &packed.refs {
                    columns.extend_from_slice(pieces.get(name).ok_or_else(|| ReadError::RecordChunk(name.clone()))?);
                }
                columns
            }
        };
        let mut all = unpack(names, &columns)?;
        // What the status shows besides is the same, with uids of Jobs; without what it had no room for.
        let mut shown = status.steps.iter().peekable();
        for record in &mut all {
            if let Some(own) = shown.next_if(|own| own.name == record.name) {
                let packed = std::mem::replace(record, own.clone());
                record.outputs = record.outputs.take().or(packed.outputs);
                if record.message.is_empty() {
                    record.message = packed.message;
                }
            }
        }
        Ok(Self { all })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The records of a page; what lies past the end is left out.
    #[must_use]
    pub fn page(&self, page: Range<usize>) -> &[StepStatus] {
        let end = page.end.min(self.all.len());
        self.all.get(page.start.min(end)..end).unwrap_or_default()
    }

    /// The status with all its records in it.
    #[must_use]
    pub fn whole(self, status: &FlowStatus) -> FlowStatus {
        FlowStatus { steps: self.all, steps_packed: None, ..status.clone() }
    }
}
