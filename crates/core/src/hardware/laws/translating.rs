//! Laws of resolution, placement and fit: sound, monotone, deterministic, legal, total. Owns no production code.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{input, node, resolved, substrates, tables, worker};
use crate::hardware::device::DeviceClass;
use crate::hardware::gpu::Form;
use crate::hardware::placement::{Clause, Note, Placement};
use crate::hardware::{
    GpuFacts, HardwareFacts, HardwareInput, Resolved, Resources, Substrate, Tables, TeeKind, TeeLevel, TeeNeed,
    Vocabulary, describe, place, resolve, satisfies,
};
use crate::id::{dns1123_subdomain, label_key, label_value};
use crate::named::Named as _;

fn fits(placement: &Placement, facts: &HardwareFacts, words: &Vocabulary) -> bool {
    placement.check(&describe(facts, words)).fits()
}

/// Whether a substrate says of a machine all that decides about a need.
fn is_exact(resolved: &Resolved, facts: &HardwareFacts, words: &Vocabulary, tables: &Tables) -> bool {
    use crate::hardware::table::LabelFamily;
    let Some(need) = &resolved.gpu else { return true };
    let whole_story = facts.gpus.iter().all(|gpu| gpu.users == 1 && gpu.mig.is_empty());
    let slice = matches!(need.class, DeviceClass::Slice(_));
    let native = words.substrate != Substrate::Kubernetes || tables.families.gpu.contains(&LabelFamily::Native);
    // Labels name products, so that the links of one that no table knows are not told.
    let is_known = |gpu: &GpuFacts| tables.catalogue.product_named(&gpu.model).is_some();
    let tells_links = words.substrate != Substrate::Kubernetes || facts.gpus.iter().all(is_known);
    native && (whole_story || need.class != DeviceClass::Unit) && (!need.kind.nvlink || (!slice && tells_links))
}

fn sound(
    input: &HardwareInput,
    facts: &HardwareFacts,
    words: &Vocabulary,
    tables: &Tables,
) -> Result<(), TestCaseError> {
    let Ok(resolved) = resolved(input, tables) else { return Ok(()) };
    let Ok(placement) = place(&resolved, &Resources::default(), words) else { return Ok(()) };
    let (fits, satisfied) = (fits(&placement, facts, words), satisfies(facts, &resolved));
    prop_assert!(!fits || satisfied, "{placement:#?} takes {:#?}", describe(facts, words));
    let narrowed = placement.notes.contains(&Note::Narrowed);
    if satisfied && !narrowed && is_exact(&resolved, facts, words, tables) {
        prop_assert!(fits, "{}", placement.check(&describe(facts, words)));
    }
    Ok(())
}

/// Another need that asks for more in one way.
fn stronger(resolved: &Resolved, how: u8, word: Form) -> Resolved {
    let mut more = resolved.clone();
    match (how % 7, &mut more.gpu) {
        (0, Some(gpu)) => gpu.count = gpu.count.saturating_add(1),
        (1, Some(gpu)) => gpu.kind.memory_gib = Some(gpu.kind.memory_gib.unwrap_or(0) + 8),
        (2, Some(gpu)) => drop(gpu.kind.form.insert(word)),
        (3, Some(gpu)) => gpu.kind.nvlink = true,
        // Another zone in place of one asked for would be something else, not more.
        (4, _) => drop(more.labels.entry("zone".to_owned()).or_insert_with(|| "a".to_owned())),
        (5, _) => {
            let level = TeeLevel::Required;
            more.tee = more.tee.map(|tee| TeeNeed { level, ..tee }).or(Some(TeeNeed { kind: TeeKind::Sgx, level }));
        }
        _ => {
            let kind = match more.tee.map(|tee| tee.kind) {
                Some(TeeKind::Sev) => TeeKind::SevEs,
                Some(TeeKind::SevEs) => TeeKind::SevSnp,
                _ => return more,
            };
            more.tee = more.tee.map(|tee| TeeNeed { kind, ..tee });
        }
    }
    more
}

/// What a need is resolved from again, so that products and class follow.
fn again(resolved: &Resolved, tables: &Tables) -> Option<Resolved> {
    let gpu = resolved.gpu.as_ref().map(|gpu| crate::hardware::gpu::GpuNeed {
        count: gpu.count,
        kind: gpu.kind.clone(),
        allocation: gpu.allocation,
    });
    let requirements = crate::hardware::HardwareRequirements {
        gpu,
        tee: resolved.tee,
        arch: resolved.arch,
        labels: resolved.labels.clone(),
    };
    resolve(&requirements, tables).ok()
}

fn legal(clauses: &[Clause]) -> Result<(), TestCaseError> {
    for expression in clauses.iter().flat_map(|clause| &clause.any_of).flat_map(|one| &one.all_of) {
        prop_assert_eq!(label_key(&expression.key), Ok(()));
        for value in &expression.values {
            prop_assert_eq!(label_value(value), Ok(()));
        }
    }
    Ok(())
}

/// Whether a condition of a claim is one: its texts are closed, its attribute is a word of the language, nothing is unprintable.
fn is_condition(selector: &str) -> bool {
    let plain = selector.replace("\\\\", "").replace("\\\"", "");
    let word = |rest: &str| {
        let attribute = rest.split([' ', '.']).next().unwrap_or_default();
        attribute.starts_with(|ch: char| ch.is_ascii_alphabetic() || ch == '_')
            && attribute.chars().all(|ch| ch.is_ascii_alphanumeric() || ch == '_')
    };
    plain.matches('"').count().is_multiple_of(2)
        && !selector.chars().any(char::is_control)
        && plain.split("\"].").skip(1).all(word)
}

proptest! {
    #[test]
    fn a_node_that_fits_satisfies_the_need(input in input(), facts in node(), tables in tables()) {
        for words in substrates(&tables) {
            sound(&input, &facts, &words, &tables)?;
        }
    }

    #[test]
    fn a_worker_that_fits_satisfies_the_need(input in input(), facts in worker(), tables in tables()) {
        for words in substrates(&tables).iter().filter(|words| words.substrate != Substrate::Kubernetes) {
            sound(&input, &facts, words, &tables)?;
        }
    }

    #[test]
    fn asking_for_more_admits_no_more_machines(
        input in input(), facts in node(), tables in tables(), how in any::<u8>(), word in select(Form::ALL),
    ) {
        let Ok(less) = resolved(&input, &tables) else { return Ok(()) };
        let Some(more) = again(&stronger(&less, how, word), &tables) else { return Ok(()) };
        if less.gpu.as_ref().map(|gpu| gpu.class) != more.gpu.as_ref().map(|gpu| gpu.class) {
            return Ok(());
        }
        for words in substrates(&tables) {
            let (Ok(less), Ok(more)) =
                (place(&less, &Resources::default(), &words), place(&more, &Resources::default(), &words))
            else {
                continue;
            };
            prop_assert!(!fits(&more, &facts, &words) || fits(&less, &facts, &words), "{less:#?} {more:#?} {facts:#?}");
        }
    }

    #[test]
    fn placements_are_deterministic_legal_and_read_back(input in input(), tables in tables()) {
        let Ok(need) = resolved(&input, &tables) else { return Ok(()) };
        prop_assert_eq!(&serde_json::from_str::<Resolved>(&serde_json::to_string(&need).unwrap()).unwrap(), &need);
        for words in substrates(&tables) {
            let Ok(placement) = place(&need, &Resources::default(), &words) else { continue };
            let json = serde_json::to_string(&placement).unwrap();
            let again = place(&resolved(&input, &tables).unwrap(), &Resources::default(), &words).unwrap();
            prop_assert_eq!(&serde_json::to_string(&again).unwrap(), &json);
            prop_assert_eq!(&serde_json::from_str::<Placement>(&json).unwrap(), &placement);
            legal(&placement.required)?;
            for toleration in &placement.tolerations {
                prop_assert_eq!(label_key(toleration.key.as_deref().unwrap()), Ok(()));
            }
            for class in placement.claims.iter().map(|claim| &claim.class).chain(placement.runtime.as_ref().map(|need| &need.name)) {
                prop_assert_eq!(dns1123_subdomain(class), Ok(()));
            }
            let gpus = placement.resources.iter().filter(|(name, _)| crate::hardware::merge::is_gpu(name.as_str()));
            prop_assert!(gpus.count() + placement.claims.len() <= 1);
        }
    }

    #[test]
    fn any_name_in_a_file_of_tables_is_an_error_or_legal(
        text in prop_oneof!["\\PC{0,12}", "[A-Za-z0-9 ._-]{0,70}", "[a-zA-Z][a-zA-Z0-9_]{0,34}"], gib in 0..4200_u32, at in 0..9_usize,
        kind in select(&["ours", "ours-mig-1g.10gb", "nvidia-8gb", "amd", "nvidia"][..]), how in select(&["devicePlugin", "dra"][..]),
        strategy in select(&["mixed", "single"][..]), vendor in select(&["nvidia", "Amd", "INTEL"][..]),
    ) {
        let said = |spot: usize, otherwise: &str| if spot == at { text.clone() } else { otherwise.to_owned() };
        let gib = if at == 8 { gib } else { 8 };
        let model = json!({
            "vendor": vendor,
            "products": [{"name": said(0, "OURS"), "memoryGib": gib, "mig": ["1g.10gb"]}],
            "gke": [{"value": said(1, "nvidia-ours"), "memoryGib": 8}],
            "karpenter": said(2, "ours"),
        });
        let row = json!({
            "productAttribute": said(3, "productName"), "wholeType": said(4, "gpu"), "present": said(5, "example.org/gpu"),
            "deviceClass": said(6, "gpu.example.org"), "resource": said(7, "example.org/gpu"),
        });
        let file = json!({"gpu": {
            "models": {"ours": model}, "vendors": {vendor: row}, "migStrategy": strategy,
            "labelFamilies": ["native", "gke", "karpenter", "eks"],
        }});
        let Ok(file) = serde_json::from_value(file) else { return Ok(()) };
        let tables = Tables::default().overlaid(file);
        let allocation = how.parse().ok();
        let input = HardwareInput { gpu_type: Some(kind.to_owned()), allocation, ..HardwareInput::default() };
        let Ok(need) = resolved(&input, &tables) else { return Ok(()) };
        for words in substrates(&tables) {
            let Ok(placement) = place(&need, &Resources::default(), &words) else { continue };
            legal(&placement.required)?;
            for (name, _) in placement.resources.iter() {
                prop_assert_eq!(label_key(name.as_str()), Ok(()));
            }
            for claim in &placement.claims {
                prop_assert_eq!(dns1123_subdomain(&claim.class), Ok(()));
                prop_assert!(claim.selectors.iter().all(|selector| is_condition(selector)), "{claim:#?}");
            }
        }
    }

    #[test]
    fn any_text_is_an_error_or_legal(
        text in "\\PC{0,40}|[a-z0-9 ._/-]{0,40}|[ -~]{1,70}", claimed in any::<bool>(), tee in "\\PC{0,12}", key in "\\PC{0,90}|[a-z./A-Z0-9_-]{0,80}", value in "\\PC{0,70}",
    ) {
        let tables = Tables::default();
        let input = HardwareInput {
            gpu_type: Some(text),
            tee_type: Some(tee).filter(|tee| tee.len() > 3),
            custom_labels: [(key, value)].into(),
            allocation: claimed.then_some(crate::hardware::gpu::Allocation::Dra),
            ..HardwareInput::default()
        };
        match resolved(&input, &tables) {
            Err(error) => prop_assert!(!error.to_string().is_empty() && !error.help().is_empty()),
            Ok(need) => {
                for words in substrates(&tables) {
                    if let Ok(placement) = place(&need, &Resources::default(), &words) {
                        legal(&placement.required)?;
                        let mut selectors = placement.claims.iter().flat_map(|claim| &claim.selectors);
                        prop_assert!(selectors.all(|selector| is_condition(selector)), "{:#?}", placement.claims);
                    }
                }
            }
        }
    }
}
