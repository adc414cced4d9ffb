//! Hardware: names of devices and of trusted execution environments, tables, and merging with what users ask for. What
//! parses reads back; merging again changes nothing; a conflict is an error that says what to do.

use orlop_core::hardware::gpu::{GpuType, MigProfile, parse_gpu_type};
use orlop_core::hardware::{
    HardwareError, HardwareInput, Resources, Substrate, Tables, UserConstraints, merge, parse_tee_type, place, resolve,
};
use orlop_core::id::{label_key, label_value};
use orlop_core::named::Named as _;
use orlop_k8s::hourglass::tables::overlaid;

use super::{first_line, text};

fn says_why(error: &HardwareError) {
    assert!(!error.to_string().is_empty() && !error.help().is_empty(), "{error:?}");
}

/// The name of a device.
pub fn gpu_type(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(profile) = text.parse::<MigProfile>() {
        assert_eq!(profile.to_string().parse(), Ok(profile));
    }
    match parse_gpu_type(text) {
        Err(error) => says_why(&error),
        Ok(gpu) => {
            assert_eq!(parse_gpu_type(&gpu.to_string()).as_ref(), Ok(&gpu), "{gpu}");
            let json = serde_json::to_string(&gpu).unwrap_or_default();
            assert!(serde_json::from_str::<GpuType>(&json).is_ok_and(|again| again == gpu), "{json}");
        }
    }
}

/// The name of a kind of trusted execution environment.
pub fn tee_type(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    match parse_tee_type(text) {
        Err(error) => says_why(&error),
        Ok(kind) => assert_eq!(parse_tee_type(kind.as_str()), Ok(kind)),
    }
}

/// A need as JSON, then a file of tables as an operator reads it: what is wrong in it has a place; on every substrate it is refused with a reason, or placed twice alike.
pub fn hardware_tables(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let (need, file) = first_line(text);
    let Ok(input) = serde_json::from_str::<HardwareInput>(need) else { return };
    let tables = match overlaid(file) {
        Err(error) => return assert!(!error.is_empty()),
        Ok(tables) => tables,
    };
    let resolved = match input.requirements(&tables).and_then(|needs| resolve(&needs, &tables)) {
        Err(error) => return says_why(&error),
        Ok(resolved) => resolved,
    };
    for substrate in Substrate::ALL {
        let words = tables.vocabulary(*substrate);
        match place(&resolved, &Resources::default(), &words) {
            Err(error) => says_why(&error),
            Ok(placement) => {
                let clauses = placement.required.iter().flat_map(|clause| &clause.any_of);
                for expression in clauses.flat_map(|alternative| &alternative.all_of) {
                    assert_eq!(label_key(&expression.key), Ok(()), "{expression}");
                    assert!(expression.values.iter().all(|value| label_value(value).is_ok()), "{expression}");
                }
                assert_eq!(place(&resolved, &Resources::default(), &words), Ok(placement));
            }
        }
    }
}

/// A need as JSON, then what a user asks for besides.
pub fn hardware_merge(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let (need, user) = first_line(text);
    let Ok(input) = serde_json::from_str::<HardwareInput>(need) else { return };
    let Ok(user) = serde_json::from_str::<UserConstraints>(user) else { return };
    let tables = Tables::default();
    let words = tables.vocabulary(Substrate::Kubernetes);
    let resolved = input.requirements(&tables).and_then(|needs| resolve(&needs, &tables));
    let Ok(placement) = resolved.and_then(|need| place(&need, &Resources::default(), &words)) else { return };
    match merge(&user, &placement) {
        Err(error) => says_why(&error),
        Ok(merged) => assert_eq!(merge(&merged.as_user(), &placement), Ok(merged)),
    }
}
