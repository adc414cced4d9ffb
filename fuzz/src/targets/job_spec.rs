//! Job specifications: what is accepted has a canonical form that is accepted again, and what is refused is refused at a
//! place and in order.

use orlop_core::spec::job::placeholder::{Filling, fill, unknown};
use orlop_core::spec::job::{Indices, JobSpec, SPEC_MAX};

use super::text;

/// A specification as JSON; of what is no JSON the text is read as indices and as a text with placeholders.
pub fn job_spec(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(indices) = text.parse::<Indices>() {
        assert_eq!(indices.to_string().parse(), Ok(indices.clone()));
        assert!(indices.ranges().windows(2).all(|pair| matches!(pair, [(_, end), (next, _)] if end < next)));
    }
    let filling = Filling { index: 1, job: orlop_core::id::JobId::from_u64(2), attempt: 3 };
    let filled = fill(text, &filling);
    assert!(filled == text || text.contains("{{"), "{text:?} became {filled:?}");
    assert!(unknown(text).is_none_or(|word| text.contains(word)));
    let Ok(value) = serde_json::from_str(text) else { return };
    match JobSpec::from_json(&value) {
        Ok(spec) => {
            let written = spec.encode();
            assert!(written.len() <= SPEC_MAX && spec.check().is_ok());
            let again: Result<JobSpec, _> = serde_json::from_slice(&written);
            assert_eq!(again.as_ref().ok(), Some(&spec), "{again:?}");
            assert_eq!(spec.shared().shared(), spec.shared());
            assert!(spec.array.as_ref().is_none_or(|array| array.elements().is_some()));
        }
        Err(errors) => {
            assert!(!errors.list().is_empty() && !errors.to_string().is_empty());
            assert!(errors.list().is_sorted());
        }
    }
}
