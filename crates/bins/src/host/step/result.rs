//! How an attempt ended, as an output of its job.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use orlop_core::attempt::{AttemptEnd, EndResult};
use orlop_core::error::{Class, Problem};
use serde_json::json;

use crate::host::flow::fleet::END;
use crate::wire::bound::OUTPUTS_MAX;

/// The longest end in bytes: what a result may hold, less the name.
const MAX: usize = OUTPUTS_MAX - 256;

/// Appends the end to the file of outputs.
pub(super) fn write(output: &Path, end: &AttemptEnd) -> io::Result<()> {
    let text = text(end)?;
    let mut file = OpenOptions::new().create(true).append(true).open(output)?;
    file.write_all(format!("{END}={text}\n").as_bytes())
}

fn text(end: &AttemptEnd) -> io::Result<String> {
    let text = serde_json::to_string(end)?;
    if text.len() <= MAX {
        return Ok(text);
    }
    let message = format!(
        "the outputs of the step have {} bytes, at most {MAX} can be handed on in the fleet; use artifacts",
        text.len()
    );
    let short = AttemptEnd {
        result: EndResult::Failed { reason: "OutputTooLarge".to_owned(), message },
        document: json!({ "apiVersion": "batch/v1", "kind": "Job", "status": {} }),
        failed_pods: Vec::new(),
        files: Vec::new(),
        artifacts: Vec::new(),
        ended_at: end.ended_at,
    };
    Ok(serde_json::to_string(&short)?)
}

/// The end of an attempt that could not be started.
pub(super) fn refused(error: &Problem) -> AttemptEnd {
    let reason = error.reason.unwrap_or(match error.class {
        Class::Denied => "Forbidden",
        Class::Invalid => "TemplateInvalid",
        Class::Exists => "NameConflict",
        _ => "StartFailed",
    });
    AttemptEnd {
        result: EndResult::Failed { reason: reason.to_owned(), message: error.chain() },
        document: json!({ "apiVersion": "batch/v1", "kind": "Job", "status": {} }),
        failed_pods: Vec::new(),
        files: Vec::new(),
        artifacts: Vec::new(),
        ended_at: orlop_cloud::runtime::logs::now(),
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::time::Time;

    use super::*;

    #[test]
    fn an_end_is_one_line_that_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out");
        let end = AttemptEnd { ended_at: Time::from_millis(7), ..refused(&Problem::new(Class::Invalid, "a\nb")) };
        write(&file, &end).unwrap();
        let written = std::fs::read_to_string(&file).unwrap();
        let text = written.strip_prefix(&format!("{END}=")).unwrap().strip_suffix('\n').unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<AttemptEnd>(text).unwrap(), end);
    }

    #[test]
    fn outputs_beyond_what_a_job_may_tell_fail_the_step() {
        let mut end = refused(&Problem::new(Class::Invalid, ""));
        end.document = json!("x".repeat(MAX));
        let short: AttemptEnd = serde_json::from_str(&text(&end).unwrap()).unwrap();
        assert!(matches!(short.result, EndResult::Failed { reason, .. } if reason == "OutputTooLarge"));
    }
}
