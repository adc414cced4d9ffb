//! `retryPolicy`, cell by cell.

use std::time::Duration;

use orlop_core::spec::policy::BackoffSpec;
use orlop_core::time::GoDuration;

use super::context::At;
use super::policy::{at_least, choice};
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::violation::{Note, Violations};

/// Longest delay, in hours.
const HOURS_MAX: u64 = 720;

pub(super) fn check(at: At<'_>, found: &mut Violations) {
    let Some(policy) = &at.step.retry_policy else { return };
    let path = at.path.field("retryPolicy");
    at_least(found, &path.field("limit"), policy.limit, 0);
    if let Some(backoff) = &policy.backoff {
        check_backoff(backoff, &path.field("backoff"), found);
    }
}

fn check_backoff(backoff: &BackoffSpec, path: &Path<'_>, found: &mut Violations) {
    if let Some(kind) = backoff.kind.as_deref().filter(|kind| !kind.is_empty()) {
        choice(found, &path.field("type"), kind, &["Exponential", "Linear", "Fixed"]);
    }
    at_least(found, &path.field("factor"), backoff.factor, 1.0);
    if let Some(jitter) = backoff.jitter.filter(|jitter| !(0.0..=1.0).contains(jitter)) {
        found.error(Code::Value, &path.field("jitter"), || (format!("{jitter} is not a fraction"), "use 0 to 1"));
    }
    let base = duration(backoff.duration.as_deref(), &path.field("duration"), found);
    let ceiling = duration(backoff.max_duration.as_deref(), &path.field("maxDuration"), found);
    if let (Ok(base), Ok(Some(ceiling))) = (base, ceiling) {
        let base = base.unwrap_or(Duration::from_secs(1));
        if base > ceiling {
            found.error(Code::Value, &path.field("maxDuration"), || {
                let message = format!(
                    "maxDuration {} is below the delay it limits, {}",
                    GoDuration::new(ceiling),
                    GoDuration::new(base)
                );
                (message, "set duration to at most maxDuration; absent it is 1s")
            });
        }
    }
}

/// The duration of a field: none when absent or empty, an error when it is reported as wrong.
fn duration(text: Option<&str>, path: &Path<'_>, found: &mut Violations) -> Result<Option<Duration>, ()> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    match text.parse::<GoDuration>().map(GoDuration::get) {
        Err(error) => found.error(Code::Value, path, || Note::of(&error)),
        Ok(duration) if duration.is_zero() => {
            found.error(Code::Value, path, || ("a delay of zero", "use a duration above 0, or leave it out for 1s"));
        }
        Ok(duration) if duration > Duration::from_secs(HOURS_MAX * 3600) => {
            found.error(Code::Value, path, || ("the delay is too long", format!("use at most {HOURS_MAX}h")));
        }
        Ok(duration) => return Ok(Some(duration)),
    }
    Err(())
}
