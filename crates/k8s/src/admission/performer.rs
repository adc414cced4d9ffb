//! Whether a performer may be stored: its translation must exist. Owns which changes are asked about; the translation stands
//! with the controller, which relies on no webhook.

use serde_json::json;

use super::review::{AdmissionRequest, AdmissionResponse, short};
use crate::hourglass::Config;
use crate::hourglass::children::is_terminating;
use crate::performer::review;

/// Whether a request is allowed.
pub(super) fn respond(request: &AdmissionRequest, config: &Config) -> AdmissionResponse {
    // What is already stored is reported in its status: labels, finalizers and the way out stay open.
    let same = request.is_update() && request.object.get("spec") == request.old_object.get("spec");
    if same || is_terminating(&request.object) {
        return AdmissionResponse::default();
    }
    match review(&request.object, config) {
        Ok(remarks) => AdmissionResponse { warnings: short(remarks.into_iter()), ..AdmissionResponse::default() },
        Err(invalid) => {
            let cause = json!({"reason": "FieldValueInvalid", "field": "spec", "message": invalid.message});
            let message = format!("spec: {} [{}]", invalid.message, invalid.reason);
            AdmissionResponse { refused: Some((422, message, vec![cause])), ..AdmissionResponse::default() }
        }
    }
}
