//! What is read of an answer, and which faults are sent back.

use serde_json::json;

use super::{answer, read};
use crate::analyze::advice::{Answer, Pick, Point};

#[test]
fn objects_are_found_fenced_bare_and_within_words() {
    let hours = |text: &str| read(Point::Duration, text);
    for text in [
        r#"{"duration_hours": 12, "reasoning": "r"}"#,
        "Here:\n```json\n{\"duration_hours\": 12, \"reasoning\": \"r\"}\n```\nand {\"x\": 1}",
        "I think {\"duration_hours\": 12, \"reasoning\": \"a } in \\\" text\"} is right",
        "{\"duration_hours\": 12, \"reasoning\": \"r\",}",
        "{\"duration_hours\": 99, \"duration_hours\": 12, \"reasoning\": \"the last one counts\"}",
    ] {
        assert_eq!(hours(text), Ok(Answer::Duration(Some(12))), "{text}");
    }
    for text in ["", "null", "[]", "12", "{", "}{", "{\"a\":", "<html>", &"{".repeat(100_000), &"[".repeat(100_000)] {
        assert!(hours(text).is_err());
    }
    let late = format!("{}{{\"duration_hours\": 12, \"reasoning\": \"r\"}}", " ".repeat(70_000));
    assert!(hours(&late).is_err(), "beyond 64 KiB nothing is read");
}

#[test]
fn all_keys_are_required_and_no_others() {
    let faults = read(Point::Duration, r#"{"hours": 3, "x": 1}"#).unwrap_err().join("\n");
    insta::assert_snapshot!(faults, @r"
    the key `duration_hours` is missing
    the key `reasoning` is missing
    2 keys are not in the schema; there are: duration_hours, reasoning
    ");
    let text = answer(&[
        ("gpu_required", json!("yes")),
        ("cpu_cores", json!([1])),
        ("evidence", json!([{"file": 1}])),
        ("special_requirements", json!("x")),
    ]);
    insta::assert_snapshot!(read(Point::Requirements, &text).unwrap_err().join("\n"), @r"
    `cpu_cores` must be an integer or null
    `gpu_required` must be true or false
    `special_requirements` must be a list
    `evidence` must be a list of objects with `file`, `line` and `quote`
    ");
    let wrong = r#"{"candidates": [{}], "reasoning": 3}"#;
    insta::assert_snapshot!(read(Point::ImageCandidates, wrong).unwrap_err().join("\n"), @r"
    `reasoning` must be text
    `candidates` must be a list of 1 to 5 indexes
    ");
    assert!(read(Point::FinalImage, r#"{"selected": null, "reasoning": ""}"#).is_err());
}

#[test]
fn null_zero_negative_and_words_are_no_numbers() {
    for value in [json!(null), json!(0), json!(-3), json!("many"), json!("64"), json!(-1e300)] {
        let Answer::Requirements(advised) = read(Point::Requirements, &answer(&[("ram_gb", value.clone())])).unwrap()
        else {
            panic!()
        };
        assert_eq!(advised.ram_gib, None, "{value}");
    }
    for (value, wanted) in [(json!(1.2), 2), (json!(1e300), u32::MAX), (json!(64), 64)] {
        let Answer::Requirements(advised) = read(Point::Requirements, &answer(&[("ram_gb", value)])).unwrap() else {
            panic!()
        };
        assert_eq!(advised.ram_gib, Some(wanted));
    }
}

#[test]
fn hours_are_numbers_or_begin_texts() {
    let hours =
        |value: &str| match read(Point::Duration, &format!("{{\"duration_hours\": {value}, \"reasoning\": \"\"}}")) {
            Ok(Answer::Duration(hours)) => hours.map_or("none".to_owned(), |hours| hours.to_string()),
            other => format!("{}", other.is_err()),
        };
    let reported =
        ["12", "1.01", "0", "-4", "null", "\"36 hours\"", "\"7.5h\"", "\"about 3\"", "1e9", "[]", "true"].map(hours);
    insta::assert_snapshot!(reported.join(" "), @"12 2 1 1 none 36 8 true 1000000000 true true");
}

#[test]
fn images_are_named_by_index_or_name() {
    let Answer::ImageCandidates(picks) = read(
        Point::ImageCandidates,
        r#"{"candidates": [2, "CC-Ubuntu22.04-CUDA (ID: 3f)", -1, 1.5, null, 1e12], "reasoning": ""}"#,
    )
    .unwrap() else {
        panic!()
    };
    let name = Pick::Name("cc-ubuntu22.04-cuda".into());
    assert_eq!(picks, [Pick::Index(2), name, Pick::Index(u32::MAX as usize)]);
}

#[test]
fn texts_are_cut_and_hold_no_control_characters_and_no_secrets() {
    let key = format!("ghp_{}", "Q7wE9rT2yU5iO8pA1sD4fG6hJ3kL0zXc");
    let text = answer(&[
        ("special_requirements", json!(["\u{1b}[2Jclear", format!("use {key}"), "x".repeat(500), ""])),
        ("reasoning", json!("a\u{202e}b\n".repeat(2000))),
        ("os_type", json!("UBUNTU")),
        ("os_version", json!(22.04)),
    ]);
    let Answer::Requirements(advised) = read(Point::Requirements, &text).unwrap() else { panic!() };
    assert_eq!(advised.special.len(), 3);
    assert_eq!((advised.special[0].as_str(), advised.special[1].as_str()), ("[2Jclear", "use [scrubbed:token]"));
    assert_eq!(advised.special[2].chars().count(), 80);
    assert!(
        advised.reasoning.chars().count() <= 600
            && advised.reasoning.chars().all(|ch| ch == ' ' || ch.is_ascii_alphabetic())
    );
    assert_eq!((advised.os_type.as_deref(), advised.os_version.as_deref()), (Some("ubuntu"), Some("22.04")));
}
