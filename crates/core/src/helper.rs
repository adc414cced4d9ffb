//! The contract with the artifact helper, the program that moves the files of an attempt inside its Kubernetes pod: its orders,
//! which it reads from an environment variable, and the report that it writes as termination message.
//!
//! ```
//! use orlop_core::helper::{Content, FetchOrder, Kept, Report, VERSION, order_text};
//! let order = FetchOrder { v: VERSION, scratch: "/orlop/tmp".into(), max_bytes: 1 << 30, ..FetchOrder::default() };
//! assert!(order_text(&order).is_ok_and(|text| text.starts_with('{')));
//!
//! let kept = Kept { name: "model".into(), content: Content { size_bytes: 3, ..Content::default() }, stored: true };
//! let report = Report { v: VERSION, artifacts: vec![kept], ..Report::default() };
//! assert_eq!(Report::read(&report.text()), Ok(report));
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::attempt::{FileTrouble, OutputFile};
use crate::spec::artifact::{Archive, HttpSource};

/// Version of the form of orders and reports.
pub const VERSION: u32 = 1;
/// Environment variable of a container with its order, as JSON.
pub const ORDER: &str = "ORLOP_PORTER";
/// Environment variable of a container with the token of its attempt. Never part of an order, so that orders may be shown.
pub const TOKEN: &str = "ORLOP_PORTER_TOKEN";
/// Prefix of the environment variables with access keys of stores. These are never part of an order, and never passed to a command.
pub const KEYS: &str = "ORLOP_PORTER_KEY_";
/// The longest order, in bytes: an environment variable may have 128 KiB.
pub const ORDER_MAX: usize = 100 * 1024;
/// The longest report, in bytes: at 4,096 a kubelet cuts a termination message.
pub(crate) const REPORT_MAX: usize = 4095;
/// The longest sentence of a trouble, in characters.
const TROUBLE_MAX: usize = 500;
/// The largest artifact that goes through the operator unless an order says otherwise, in bytes.
pub const SMALL_MAX: u64 = 1_048_576;

/// Name under which a report is uploaded that does not fit into a termination message. No artifact has this name.
pub const REPORT: &str = ".report";

/// An order of the init container: the inputs to fetch before the command starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FetchOrder {
    /// [`VERSION`].
    pub v: u32,
    /// A directory for unfinished downloads; it is created, and empty in the end.
    pub scratch: String,
    /// The most bytes an artifact may have, stored or unpacked.
    pub max_bytes: u64,
    /// The file of the termination message, which says why an input could not be fetched.
    pub message: String,
    /// Path to which the helper copies itself, so that the container of the command can run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
    /// The artifacts to fetch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fetch: Vec<Fetch>,
    /// Permissions of what is made.
    #[serde(default, skip_serializing_if = "Modes::are_usual")]
    pub modes: Modes,
}

/// Permissions of folders that the program makes, and of files that have none of their own: downloads, and what it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modes {
    /// Of folders.
    pub dir: u32,
    /// Of files.
    pub file: u32,
}

impl Default for Modes {
    /// `rwxr-xr-x` and `rw-r--r--`.
    fn default() -> Self {
        Self { dir: 0o755, file: 0o644 }
    }
}

impl Modes {
    fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// An artifact to fetch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fetch {
    /// Name of the input.
    pub name: String,
    /// Path it is put at. What is there is replaced.
    pub target: String,
    /// Whether an archive is delivered as the original file or tree.
    pub unpack: bool,
    /// Whether the target is the root of a volume, which itself cannot be replaced: then its content is, by the entries of the tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub into: bool,
    /// Where it comes from.
    pub from: Source,
}

/// Where a fetched artifact comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Source {
    /// A file that is mounted.
    File {
        /// Where it is.
        path: String,
        /// What it must be.
        content: Content,
    },
    /// A download.
    Http(HttpSource),
    /// An object of an S3 store.
    S3 {
        /// Which one.
        object: S3Location,
        /// What it must be.
        content: Content,
    },
}

/// An object of an S3 store, and where the keys to it are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct S3Location {
    /// URL of the store. Where its host does not name the region, a query `region=…` does.
    pub endpoint: String,
    /// Bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Environment variables with the access keys; none: requests are not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyVariables>,
}

/// Names of the environment variables with an access key. Both begin with [`KEYS`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyVariables {
    /// Variable with the access key id.
    pub id: String,
    /// Variable with the secret access key.
    pub secret: String,
}

/// Size and digest of stored bytes, wherever they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Content {
    /// Their number.
    pub size_bytes: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    /// How they are packed, as a suffix of file names such as `.tar.gz`; empty for a plain file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub packing: String,
}

/// An order of the main container: the outputs to collect when the command has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunOrder {
    /// [`VERSION`].
    pub v: u32,
    /// A directory for unfinished archives; it is created.
    pub scratch: String,
    /// The most bytes an artifact may have.
    pub max_bytes: u64,
    /// The file of the termination message: the helper reads the message of the command from it and replaces it by the report.
    pub message: String,
    /// URL to which the report is uploaded when it does not fit into a termination message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<String>,
    /// Files whose contents are output parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<OutputFile>,
    /// Artifacts to store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Keep>,
    /// Whether the Job has completion mode `Indexed`: then only the pod of index 0 collects outputs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub indexed: bool,
    /// The most bytes of an artifact that goes through the operator; absent: [`SMALL_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub small_max: Option<u64>,
    /// Media type of stored objects; absent: `application/octet-stream`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Permissions of what is made.
    #[serde(default, skip_serializing_if = "Modes::are_usual")]
    pub modes: Modes,
}

impl RunOrder {
    /// The most bytes of an artifact that goes through the operator.
    #[must_use]
    pub fn small_max(&self) -> u64 {
        self.small_max.unwrap_or(SMALL_MAX).min(SMALL_MAX)
    }
}

/// An artifact to store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keep {
    /// Name of the output.
    pub name: String,
    /// Where the command writes it.
    pub path: String,
    /// How it is packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<Archive>,
    /// Where it is stored.
    pub to: KeepTarget,
}

/// Where an artifact is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum KeepTarget {
    /// With the operator, which keeps small artifacts in ConfigMaps: the bytes are uploaded to a URL with the token of the attempt.
    #[serde(rename = "desk")]
    Operator {
        /// The URL.
        url: String,
    },
    /// A file of a mounted volume.
    File {
        /// Where it is to be.
        path: String,
    },
    /// An object of an S3 store.
    S3(S3Location),
    /// Nowhere else: it is on a volume that the steps which read it mount too.
    InPlace,
}

/// The report that the helper writes as termination message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// [`VERSION`].
    pub v: u32,
    /// The termination message of the command itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Contents of output files by name, without one trailing newline. Missing ones are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The artifacts that were found; missing ones are absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Kept>,
    /// Output files whose content cannot be an output value, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unfit: BTreeMap<String, FileTrouble>,
    /// What failed, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<ReportedFailure>,
    /// Size and digest of the full report, where it was uploaded as [`REPORT`] because it does not fit here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Content>,
}

/// An artifact that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// Name of the output.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub content: Content,
    /// Whether it is stored; one that is too large for its store is not.
    pub stored: bool,
}

/// A failure of the helper, as a report has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedFailure {
    /// Reason of the step.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Why a termination message is not a report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// It has the greatest length, so the kubelet may have cut it.
    #[error("the termination message fills the 4,096 bytes it may have; give larger outputs as artifacts")]
    Full,
    /// It is some other text.
    #[error(
        "the termination message is not a report of the helper ({0}): it was ended before its time, or something \
         else writes there"
    )]
    Other(String),
    /// Another version of the helper wrote it.
    #[error("the helper speaks version {0} and the operator version {VERSION}; give both the same version")]
    Version(u32),
}

/// An order is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the instructions for the helper take {0} bytes, and {ORDER_MAX} fit; give the step fewer artifacts, or pass \
     many as one tree"
)]
pub struct TooLong(pub usize);

/// The text of an order, as JSON. It has no `$`, which a kubelet would read as a reference to another variable.
///
/// # Errors
/// The text is longer than [`ORDER_MAX`] bytes.
pub fn order_text<O: Serialize>(order: &O) -> Result<String, TooLong> {
    // Maps of texts and plain values are always JSON.
    let text = serde_json::to_string(order).unwrap_or_default().replace('$', "\\u0024");
    if text.len() > ORDER_MAX { Err(TooLong(text.len())) } else { Ok(text) }
}

impl Report {
    /// A report that only says what failed.
    #[must_use]
    pub fn of_trouble(reason: &str, message: &str) -> Self {
        let trouble =
            ReportedFailure { reason: reason.to_owned(), message: message.chars().take(TROUBLE_MAX).collect() };
        Self { v: VERSION, trouble: Some(trouble), ..Self::default() }
    }

    /// Its text, whatever its length; none where it fits into a termination message.
    #[must_use]
    pub fn overflow(&self) -> Option<String> {
        Some(serde_json::to_string(self).unwrap_or_default()).filter(|whole| whole.len() > REPORT_MAX)
    }

    /// Its text, which always fits into a termination message: a report that is too long is replaced by one that says so.
    #[must_use]
    pub fn text(&self) -> String {
        let text = |report: &Self| serde_json::to_string(report).unwrap_or_default();
        let whole = text(self);
        if whole.len() <= REPORT_MAX {
            return whole;
        }
        // What failed is told before what does not fit, and what is kept is known without its values.
        let failure = self.trouble.clone().unwrap_or_else(|| ReportedFailure {
            reason: "OutputTooLarge".to_owned(),
            message: format!(
                "message, parameters and artifacts of the attempt take {} bytes, and {REPORT_MAX} fit into a termination \
                 message; give large outputs as artifacts",
                whole.len()
            ),
        });
        text(&Self::of_trouble(&failure.reason, &failure.message))
    }

    /// Reads a termination message.
    ///
    /// # Errors
    /// The text is not a report.
    pub fn read(text: &str) -> Result<Self, ReportError> {
        if text.len() > REPORT_MAX { Err(ReportError::Full) } else { Self::read_whole(text) }
    }

    /// Reads a report that was uploaded.
    ///
    /// # Errors
    /// The text is not a report.
    pub fn read_whole(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Versioned {
            v: u32,
        }
        let other = |error: serde_json::Error| ReportError::Other(error.to_string());
        let Versioned { v } = serde_json::from_str(text).map_err(other)?;
        if v != VERSION {
            return Err(ReportError::Version(v));
        }
        serde_json::from_str(text).map_err(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(bytes: usize) -> Report {
        let parameters = BTreeMap::from([("rows".to_owned(), "x".repeat(bytes))]);
        Report { v: VERSION, parameters, ..Report::default() }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let content = Content { size_bytes: 5, sha256: "ab".into(), packing: ".tar".into() };
        let mut report = report(3);
        report.message = "done \"well\"\n".into();
        report.artifacts = vec![Kept { name: "out".into(), content, stored: true }];
        report.unfit = BTreeMap::from([("blob".to_owned(), FileTrouble::NotText)]);
        insta::assert_snapshot!(report.text(), @r#"{"v":1,"message":"done \"well\"\n","parameters":{"rows":"xxx"},"artifacts":[{"name":"out","sizeBytes":5,"sha256":"ab","packing":".tar","stored":true}],"unfit":{"blob":"NotText"}}"#);
        assert_eq!(Report::read(&report.text()).unwrap(), report);
    }

    #[test]
    fn a_report_that_does_not_fit_says_so_and_fits() {
        let least = report(0).text().len();
        let full = report(REPORT_MAX - least);
        assert_eq!((full.text().len(), Report::read(&full.text()).unwrap()), (REPORT_MAX, full));
        let reported = Report::read(&report(REPORT_MAX - least + 1).text()).unwrap();
        assert_eq!((reported.parameters.len(), reported.trouble.unwrap().reason.as_str()), (0, "OutputTooLarge"));
        let worst = Report::of_trouble("OutputMissing", &"\u{1}".repeat(9000)).text();
        assert!(worst.len() <= REPORT_MAX, "{}", worst.len());
    }

    #[test]
    fn other_texts_are_no_reports() {
        assert_eq!(Report::read(&"x".repeat(REPORT_MAX + 1)), Err(ReportError::Full));
        assert_eq!(Report::read(r#"{"v":2,"later":true}"#), Err(ReportError::Version(2)));
        for text in ["", "done", "[]", "{}", r#"{"v":1,"parameters":[1]}"#] {
            assert!(matches!(Report::read(text), Err(ReportError::Other(_))), "{text}");
        }
    }

    #[test]
    fn an_order_is_no_reference_to_variables_and_has_a_limit() {
        let mut order = RunOrder { v: VERSION, message: "/a/$(B)$$".into(), ..RunOrder::default() };
        let text = order_text(&order).unwrap();
        assert!(!text.contains('$'), "{text}");
        assert_eq!(serde_json::from_str::<RunOrder>(&text).unwrap(), order);
        order.message = "m".repeat(ORDER_MAX);
        assert!(matches!(order_text(&order), Err(TooLong(_))));
    }
}
