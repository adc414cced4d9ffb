//! Levels, sizes and round trips of stored statuses.

use std::collections::BTreeMap;

use orlop_core::machine::step::StepPhase;
use orlop_core::name;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{ApprovalRecord, Decision, InstanceCounts, OutputValue, StepOutputs, StepStatus};
use orlop_core::time::Time;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const UID: &str = "6d0d7a5e-0000-4000-8000-000000000000";
/// Seconds since the epoch at which these flows run.
const START: i64 = 1_795_300_000;

fn spec(items: u32) -> FlowSpec {
    let template = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {}}}});
    serde_json::from_value(json!({
        "steps": [
            {"name": "prepare", "template": template},
            {"name": "work", "template": template, "withItems": (0..items).collect::<Vec<_>>()},
            {"name": "gate", "type": "Manual"},
        ],
        "finally": [{"name": "tidy", "template": {"spec": {"completionMode": "Indexed", "completions": 12}}}],
    }))
    .unwrap()
}

fn names(spec: &FlowSpec) -> Names<'_> {
    Names { spec, flow: "etl", namespace: "default", uid: UID }
}

fn at(seconds: i64) -> Option<Time> {
    Some(Time::from_millis((START + seconds) * 1000))
}

fn job(step: &str, attempt: u32, indexed: Option<u32>) -> ObjectReference {
    ObjectReference {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        name: name::job("etl", step, UID, attempt, indexed),
        namespace: "default".into(),
        uid: String::new(),
    }
}

/// What ran as most steps do: some seconds, once.
fn plain(step: &str, number: u32) -> StepStatus {
    // Numbers without a pattern a compressor could find, the same every time.
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B1);
    for (shift, factor) in [(15, 0x85EB_CA77_u32), (13, 0xC2B2_AE3D), (16, 1)] {
        mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
    }
    let noise = i64::from(mixed);
    StepStatus {
        name: step.to_owned(),
        phase: StepPhase::Succeeded,
        start_time: at(i64::from(number / 50) + noise % 7),
        completion_time: at(i64::from(number / 50) + noise % 7 + 20 + noise % 300),
        job_ref: Some(job(step, 1, None)),
        attempt: 1,
        ..StepStatus::default()
    }
}

fn records(items: u32) -> Vec<StepStatus> {
    let mut records =
        vec![plain("prepare", 0), StepStatus { instances: Some(InstanceCounts::default()), ..plain("work", 1) }];
    records.extend((0..items).map(|k| plain(&name::instance("work", k), k)));
    records.push(StepStatus { name: "gate".into(), phase: StepPhase::PendingApproval, ..StepStatus::default() });
    records.push(StepStatus { job_ref: Some(job("tidy", 1, Some(12))), ..plain("tidy", 7) });
    records
}

fn whole(items: u32) -> FlowStatus {
    FlowStatus { steps: records(items), message: "m".into(), start_time: at(0), ..FlowStatus::default() }
}

fn pending(spec: &FlowSpec, items: u32, least: Level) -> PendingStatus<'_> {
    PendingStatus { whole: whole(items), revision: 5, names: names(spec), other_bytes: 20_000, least, refs: Vec::new() }
}

fn read_back(spec: &FlowSpec, stored: &Stored) -> Vec<StepStatus> {
    let pieces = stored.before.iter().map(|piece| (piece.name.clone(), piece.bytes.clone())).collect();
    Records::read(names(spec), &stored.status, &pieces).unwrap().whole(&stored.status).steps
}

#[test]
fn level_0_holds_all_records_and_small_flows() {
    let spec = spec(20);
    let stored = arrange(pending(&spec, 20, Level::Inline), SizeLimits::default()).unwrap();
    assert_eq!((stored.level, &stored.status), (Level::Inline, &whole(20)));
    assert_eq!(Level::of(&stored.status), Level::Inline);
}

#[test]
fn ten_thousand_plain_steps_take_under_150_kib_at_level_1() {
    let spec = spec(9_996);
    let stored = arrange(pending(&spec, 9_996, Level::Inline), SizeLimits::default()).unwrap();
    let data = stored.status.steps_packed.as_ref().unwrap().data.as_ref().unwrap();
    assert_eq!(stored.status.steps_packed.as_ref().unwrap().count, 10_000);
    println!("10,000 plain steps: {} bytes packed, {} bytes of status", data.len(), stored.bytes);
    assert!(data.len() < 150 << 10, "{} bytes", data.len());
    assert_eq!((stored.level, Level::of(&stored.status)), (Level::Packed, Level::Packed));
    assert_eq!(read_back(&spec, &stored), records(9_996));
    // Only what needs attention stays in sight.
    assert_eq!(stored.status.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["gate"]);
}

#[test]
fn level_2_spills_into_pieces_named_by_content() {
    let spec = spec(2_000);
    let limits = SizeLimits { inline: 0, object: 21_000 };
    let stored = arrange(pending(&spec, 2_000, Level::Inline), limits).unwrap();
    assert_eq!((stored.level, Level::of(&stored.status)), (Level::Spilled, Level::Spilled));
    assert!(stored.bytes < 1_000, "{}", stored.bytes);
    let listed = &stored.status.steps_packed.as_ref().unwrap().refs;
    assert_eq!(*listed, stored.before.iter().map(|piece| piece.name.clone()).collect::<Vec<_>>());
    assert!(listed.iter().all(|name| is_state("etl", name) && !is_state("other", name)), "{listed:?}");
    assert_eq!(read_back(&spec, &stored), records(2_000));

    // The same content is neither written nor deleted again; other content replaces it.
    let again = PendingStatus { refs: listed.clone(), ..pending(&spec, 2_000, Level::Spilled) };
    let again = arrange(again, limits).unwrap();
    assert_eq!((again.status, again.before, again.after), (stored.status.clone(), vec![], vec![]));
    let mut changed = PendingStatus { refs: listed.clone(), ..pending(&spec, 2_000, Level::Spilled) };
    changed.whole.steps[0].message = "changed".into();
    let changed = arrange(changed, limits).unwrap();
    assert_eq!((changed.before.len(), &changed.after), (1, listed));
}

#[test]
fn the_level_only_rises() {
    let spec = spec(3);
    for (least, want) in [(Level::Packed, Level::Packed), (Level::Spilled, Level::Spilled)] {
        let stored = arrange(pending(&spec, 3, least), SizeLimits::default()).unwrap();
        assert_eq!(stored.level, want);
        assert_eq!(read_back(&spec, &stored), records(3));
    }
    assert_eq!(Level::Spilled.next(), None);
}

#[test]
fn every_level_carries_the_same_besides_the_records() {
    let spec = spec(30);
    let of = |least| {
        let stored = arrange(pending(&spec, 30, least), SizeLimits::default()).unwrap();
        FlowStatus { steps: vec![], steps_packed: None, ..stored.status }
    };
    assert_eq!(of(Level::Inline), of(Level::Packed));
    assert_eq!(of(Level::Inline), of(Level::Spilled));
}

#[test]
fn at_most_200_records_stay_in_sight_those_that_wait_for_people_first() {
    let spec = spec(500);
    let mut pending = pending(&spec, 500, Level::Packed);
    for record in pending.whole.steps.iter_mut().skip(2).take(500) {
        record.phase = StepPhase::Running;
    }
    pending.whole.steps[480].phase = StepPhase::Failed;
    let stored = arrange(pending, SizeLimits::default()).unwrap();
    let kept = &stored.status.steps;
    assert_eq!(kept.len(), 200);
    assert!(kept.iter().any(|step| step.name == "gate") && kept.iter().any(|step| step.phase == StepPhase::Failed));
}

#[test]
fn what_is_damaged_or_of_another_spec_is_refused() {
    let spec = spec(3);
    let packed = pack(names(&spec), &records(3)).unwrap();
    assert!(matches!(unpack(names(&spec), b"nonsense"), Err(UnpackError::Damaged(_))));
    assert!(matches!(unpack(names(&spec), &packed[..packed.len() / 2]), Err(UnpackError::Damaged(_))));
    let other = FlowSpec { finally: vec![], ..spec.clone() };
    assert!(matches!(unpack(names(&other), &packed), Err(UnpackError::Misfit(_))));
    assert!(matches!(pack(names(&other), &records(3)), Err(UnpackError::Misfit(_))));
    let mut status = arrange(pending(&spec, 3, Level::Packed), SizeLimits::default()).unwrap().status;
    status.steps_packed.as_mut().unwrap().encoding = "columns-v9".into();
    let error = Records::read(names(&spec), &status, &BTreeMap::new()).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"step records are packed as `columns-v9`, which this version does not read; use a newer one");
    let spilled = arrange(pending(&spec, 3, Level::Spilled), SizeLimits::default()).unwrap().status;
    let error = Records::read(names(&spec), &spilled, &BTreeMap::new()).unwrap_err().to_string();
    assert!(error.starts_with("ConfigMap `etl-state-"), "{error}");
}

#[test]
fn a_bomb_is_not_unpacked() {
    let zeros = vec![b' '; (64 << 20) + 100];
    let bomb = zstd::bulk::compress(&zeros, 1).unwrap();
    assert!(bomb.len() < 100_000);
    assert!(matches!(unpack(names(&spec(1)), &bomb), Err(UnpackError::Damaged(_))));
}

#[test]
fn a_piece_that_was_changed_is_not_taken() {
    let piece = RecordChunk { name: format!("etl-state-{}", name::sha256_hex(b"abc", 16)), bytes: b"abc".to_vec() };
    let mut object = json!({"binaryData": piece.binary_data()});
    assert_eq!(piece_bytes(&piece.name, &object), Some(b"abc".to_vec()));
    object["binaryData"]["records"] = json!("AAAA");
    assert_eq!(piece_bytes(&piece.name, &object), None);
}

fn any_record() -> impl Strategy<Value = StepStatus> {
    let times = (prop::option::of(0_i64..5_000), prop::option::of(0_i64..5_000), prop::option::of(0_i64..5_000));
    let counts = (0_u32..5, 0_u32..5, 0_u32..3, 0_u32..3);
    let words = ("[A-Z][a-z]{0,8}|", ".{0,12}", "[a-z]{1,5}");
    let parts = (0_usize..6, 0_u8..3, any::<bool>(), any::<bool>(), any::<bool>());
    (times, counts, words, parts).prop_map(|((start, end, next), counts, (reason, message, word), parts)| {
        let (phase, reference, outputs, approval, instances) = parts;
        let outputs = outputs.then(|| StepOutputs {
            parameters: vec![OutputValue { name: "p".into(), value: message.clone() }],
            projections: [("$.x".to_owned(), word.clone())].into(),
            artifacts: vec![],
        });
        let record = ApprovalRecord {
            decision: Decision::Rejected,
            by: Some(word.clone()),
            verified: true,
            at: at(3),
            reason: None,
        };
        let foreign = ObjectReference { kind: "Process".into(), name: word, ..ObjectReference::default() };
        StepStatus {
            name: String::new(),
            phase: [
                StepPhase::Pending,
                StepPhase::Running,
                StepPhase::Succeeded,
                StepPhase::Failed,
                StepPhase::Skipped,
                StepPhase::PendingApproval,
            ][phase],
            reason,
            message,
            start_time: start.and_then(at),
            completion_time: end.and_then(at),
            next_retry_time: next.and_then(at),
            job_ref: match reference {
                0 => None,
                1 => Some(job("work", 1, None)),
                _ => Some(foreign),
            },
            retry_count: counts.0,
            attempt: counts.1,
            lost_count: counts.2,
            counted_failures: counts.3,
            outputs,
            approval: approval.then_some(record),
            instances: instances.then(|| InstanceCounts { total: 5, running: 1, ..InstanceCounts::default() }),
            waiting: instances.then(|| orlop_core::spec::status::Waiting {
                on: orlop_core::spec::status::WaitsOn::FirstPod,
                reason: "Unschedulable".to_owned(),
                message: "no node".to_owned(),
                since: at(5),
            }),
            waited_seconds: u64::from(counts.3),
        }
    })
}

/// What failed and left all that it may, in text that takes four bytes a character.
fn heavy(record: StepStatus, message: usize, value: usize) -> StepStatus {
    let parameters = vec![OutputValue { name: "log".into(), value: "𝄞".repeat(value) }];
    let outputs = Some(StepOutputs { parameters, ..StepOutputs::default() });
    StepStatus { phase: StepPhase::Failed, message: "𝄞".repeat(message), outputs, ..record }
}

#[test]
fn failed_steps_with_outputs_of_any_size_stay_in_sight_without_them() {
    let spec = spec(40);
    let mut pending = pending(&spec, 40, Level::Inline);
    // 256 KiB of outputs a step, 8 MiB of a flow.
    for record in pending.whole.steps.iter_mut().skip(2).take(32) {
        *record = heavy(record.clone(), 1_024, 64 << 10);
    }
    let whole = pending.whole.steps.clone();
    let limits = SizeLimits::default();
    let stored = arrange(pending, limits).unwrap();
    assert!(stored.bytes + 20_000 <= limits.object, "{} bytes", stored.bytes);
    assert_eq!(stored.status.steps.len(), 33);
    assert!(
        stored
            .status
            .steps
            .iter()
            .all(|step| step.outputs.is_none() && (step.name == "gate") == step.message.is_empty())
    );
    assert_eq!(read_back(&spec, &stored), whole);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever failed steps left behind, the object keeps to its limit and nothing is lost.
    #[test]
    fn the_object_is_under_its_limit_whatever_steps_left_behind(
        failed in 0_usize..300,
        (message, value) in (0_usize..=1_024, 0_usize..3_000),
        one in 0_usize..=(64 << 10),
        object in 24_000_usize..1 << 20,
        least in 0..3,
    ) {
        let spec = spec(300);
        let least = [Level::Inline, Level::Packed, Level::Spilled][least as usize];
        let mut pending = pending(&spec, 300, least);
        for (number, record) in pending.whole.steps.iter_mut().skip(2).take(failed).enumerate() {
            *record = heavy(record.clone(), message, if number == 0 { one } else { value });
        }
        let whole = pending.whole.steps.clone();
        let stored = arrange(pending, SizeLimits { object, ..SizeLimits::default() }).unwrap();
        prop_assert_eq!(stored.bytes, serde_json::to_vec(&stored.status).unwrap().len());
        prop_assert!(stored.bytes + 20_000 <= object, "{} bytes at {:?}", stored.bytes, stored.level);
        prop_assert_eq!(read_back(&spec, &stored), whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_packed_is_read_back(items in 0_u32..8, any in prop::collection::vec(any_record(), 12)) {
        let spec = spec(8);
        let shape = records(items);
        let records: Vec<StepStatus> = shape.into_iter().zip(any).map(|(shape, any)| StepStatus { name: shape.name, ..any }).collect();
        let packed = pack(names(&spec), &records).unwrap();
        prop_assert_eq!(unpack(names(&spec), &packed).unwrap(), records);
    }

    #[test]
    fn no_bytes_make_unpacking_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let compressed = zstd::bulk::compress(&bytes, 1).unwrap();
        let _ = (unpack(names(&spec(2)), &bytes), unpack(names(&spec(2)), &compressed));
    }
}
