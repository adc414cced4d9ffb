//! Laws of merging: both sides hold, nothing more and nothing less; twice is once; one device. Owns no production code.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::select;

use super::users::user;
use super::{input, node, resolved, tables};
use crate::hardware::merge::{TERMS_MAX, UserConstraints, is_gpu, merge};
use crate::hardware::placement::{DeviceSource, Placement, RuntimeNeed, Taint, TaintEffect, Toleration, untolerated};
use crate::hardware::{HardwareError, Machine, Resources, Substrate, describe, place};
use crate::named::Named as _;
use crate::resource::ResourceVector;

fn user_labels(user: &UserConstraints, machine: &Machine) -> bool {
    let selected = user.node_selector.iter().all(|(key, value)| machine.labels.get(key) == Some(value));
    selected && user.required.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(machine)))
}

fn placement_labels(placement: &Placement, machine: &Machine) -> bool {
    placement.admits_labels(&machine.labels) && placement.arch.as_ref().is_none_or(|arch| arch.matches(&machine.labels))
}

/// Devices that are claimed are those a machine lists; of the others its labels and resources tell.
fn placement_devices(placement: &Placement, machine: &Machine) -> bool {
    let claimed = placement.device.as_ref().filter(|need| need.source == DeviceSource::Inventory);
    claimed.is_none_or(|need| need.choose(&machine.devices).is_some())
}

/// What a user's requests and limits come to: a limit without a request is one, and extended resources have both alike.
fn effective(user: &UserConstraints) -> ResourceVector {
    let mut all = user.requests.clone();
    for (name, limit) in user.limits.iter() {
        let asked = all.get(name.as_str());
        if asked == 0 || name.as_str().contains('/') {
            all.set(name.clone(), asked.max(limit));
        }
    }
    all
}

fn tolerated(all: &[Toleration], machine: &Machine) -> bool {
    untolerated(all, &machine.taints).next().is_none()
}

/// Whether a runtime class gives what is needed.
fn runs(need: &RuntimeNeed, class: &String) -> bool {
    need.any || *class == need.name || need.accepted.contains(class)
}

/// Whether both sides cannot be had together, apart from labels.
fn is_justified(error: &HardwareError, user: &UserConstraints, placement: &Placement) -> bool {
    match error {
        HardwareError::ResourceConflict { .. } => {
            let all = [&user.requests, &user.limits, &placement.resources];
            let names = all.iter().flat_map(|amounts| amounts.iter()).map(|(name, _)| name.as_str());
            let devices: BTreeSet<&str> = names.filter(|name| is_gpu(name)).collect();
            devices.len() + placement.claims.len() > 1
        }
        HardwareError::RuntimeClassConflict { .. } => {
            placement.runtime.as_ref().zip(user.runtime_class.as_ref()).is_some_and(|(need, class)| !runs(need, class))
        }
        HardwareError::TooManyTerms { .. } => {
            let alternatives: usize = placement.required.iter().map(|clause| clause.any_of.len()).product();
            user.required.as_ref().map_or(1, Vec::len) * alternatives > TERMS_MAX
        }
        _ => false,
    }
}

fn taints() -> impl Strategy<Value = Vec<Taint>> {
    let key = select(&["nvidia.com/gpu", "tdx", "sgx", "busy"][..]);
    let one = (key, select(TaintEffect::ALL));
    proptest::collection::vec(
        one.prop_map(|(key, effect)| Taint { key: key.to_owned(), value: String::new(), effect }),
        0..2,
    )
}

proptest! {
    #[test]
    fn merged_admits_exactly_what_both_admit(
        input in input(), tables in tables(), user in user(), facts in node(), taints in taints(),
        said in proptest::option::of((select(&["zone", "nvidia.com/gpu.product"][..]), select(&["a", "Tesla-T4"][..]))),
    ) {
        let words = tables.vocabulary(Substrate::Kubernetes);
        let Ok(need) = resolved(&input, &tables) else { return Ok(()) };
        let Ok(placement) = place(&need, &Resources::default(), &words) else { return Ok(()) };
        let mut machine = describe(&facts, &words);
        machine.taints = taints;
        machine.labels.extend(said.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let labels = user_labels(&user, &machine) && placement_labels(&placement, &machine);
        match merge(&user, &placement) {
            Ok(merged) => {
                let fit = |asked: &ResourceVector| asked.saturating_add(&placement.overhead).fits(&machine.allocatable);
                let both = labels
                    && placement_devices(&placement, &machine)
                    && fit(&effective(&user)) && fit(&placement.resources)
                    && tolerated(&[user.tolerations.clone(), placement.tolerations.clone()].concat(), &machine);
                prop_assert_eq!(merged.check(&machine).fits(), both, "{:#?} {:#?}", merged, machine);
                let class = merged.runtime_class.as_ref();
                let serves = |need: &RuntimeNeed| class.is_some_and(|class| runs(need, class));
                prop_assert!(placement.runtime.as_ref().is_none_or(serves), "{:#?} {:#?}", merged, placement);
            }
            Err(HardwareError::LabelConflict { .. } | HardwareError::UnsatisfiableAffinity) => {
                prop_assert!(!labels, "{user:#?} and {placement:#?} both take {machine:#?}");
            }
            Err(error) => prop_assert!(is_justified(&error, &user, &placement), "{error}: {user:#?} {placement:#?}"),
        }
    }

    #[test]
    fn merging_again_changes_nothing_and_there_is_one_device(
        input in input(), tables in tables(), user in user(),
    ) {
        let words = tables.vocabulary(Substrate::Kubernetes);
        let Ok(need) = resolved(&input, &tables) else { return Ok(()) };
        let Ok(placement) = place(&need, &Resources::default(), &words) else { return Ok(()) };
        let Ok(merged) = merge(&user, &placement) else { return Ok(()) };
        prop_assert_eq!(&merge(&merged.as_user(), &placement).unwrap(), &merged);
        // What no user can ask for is that of the placement; of the rest nothing gets lost.
        prop_assert_eq!((&merged.claims, &merged.overhead), (&placement.claims, &placement.overhead));
        prop_assert!(placement.tolerations.iter().chain(&user.tolerations).all(|one| merged.tolerations.contains(one)));
        prop_assert_eq!(merged.requests.larger_of(&placement.resources), merged.requests.clone());
        let amounts = |all: &ResourceVector| -> BTreeMap<String, u64> {
            all.iter().filter(|(name, _)| name.as_str().contains('/')).map(|(name, n)| (name.to_string(), n)).collect()
        };
        prop_assert_eq!(amounts(&merged.requests), amounts(&merged.limits));
        let resources = amounts(&merged.requests).keys().filter(|name| is_gpu(name)).count();
        prop_assert!(resources + merged.claims.len() <= 1, "{merged:#?}");
        let sizes = merged.required.len() <= TERMS_MAX;
        prop_assert!(sizes);
    }
}
