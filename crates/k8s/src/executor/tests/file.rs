//! What executors are told, and what of it is shown.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::spec;
use crate::executor::{File, REDACTED};
use crate::hourglass::spec::ExecutorSpec;

fn read(value: Value) -> ExecutorSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_file_has_its_members_in_their_order_and_quotes_what_others_take_for_numbers() {
    let mut spec = spec();
    spec["config"]["kubernetes"] = json!({"defaultScheduling": {"nodeSelector": {"pool": "no"}, "tolerations": []}});
    let file = File::of(&read(spec).config);
    insta::assert_snapshot!(file.redacted().to_yaml().unwrap());
}

#[test]
fn only_addresses_with_credentials_are_hidden() {
    let file = File::of(&read(spec()).config);
    assert!(file.is_secret());
    let shown = file.redacted().to_yaml().unwrap();
    assert!(shown.contains("https://eth.example") && shown.contains(REDACTED) && !shown.contains("0123456789abcdef"));
    let mut plain = spec();
    plain["config"]["chains"][1]["rpc"] = json!("https://base.example");
    assert!(!File::of(&read(plain).config).is_secret());
}

proptest! {
    #[test]
    fn any_value_round_trips(
        name in "\\PC{1,20}|no|0x10|1e3|~|null|[\"'#:\n\\- ]{1,9}", rpc in "\\PC{0,40}", id in 1_i64..i64::MAX, level in "[a-z]{1,16}",
    ) {
        let mut value = spec();
        value["config"]["logLevel"] = json!(level);
        value["config"]["chains"][0] = json!({"name": name, "rpc": rpc, "chainId": id, "taskMailboxAddress": "0x1e3"});
        let file = File::of(&read(value).config);
        let text = file.to_yaml().unwrap();
        let back: File = serde_saphyr::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        prop_assert!(back == file, "{text}");
    }
}
