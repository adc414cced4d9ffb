//! Whether a performer may be stored: its translation must exist. Owns which changes are asked about; the translation stands
//! with the controller, which relies on no webhook.

use serde_json::json;

use super::review::{Ask, Verdict, short};
use crate::hourglass::Config;
use crate::hourglass::children::is_terminating;
use crate::performer::review;

/// Whether a request is allowed.
pub(super) fn verdict(ask: &Ask, config: &Config) -> Verdict {
    // What is stored already is reported in its status: labels, finalizers and the way out stay open.
    let same = ask.is_update() && ask.object.get("spec") == ask.old_object.get("spec");
    if same || is_terminating(&ask.object) {
        return Verdict::default();
    }
    match review(&ask.object, config) {
        Ok(remarks) => Verdict { warnings: short(remarks.into_iter()), ..Verdict::default() },
        Err(invalid) => {
            let cause = json!({"reason": "FieldValueInvalid", "field": "spec", "message": invalid.message});
            let message = format!("spec: {} [{}]", invalid.message, invalid.reason);
            Verdict { refused: Some((422, message, vec![cause])), ..Verdict::default() }
        }
    }
}
