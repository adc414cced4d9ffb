//! The grammar of segments, selectors and strings of RFC 9535, rule by rule: what it takes and what it refuses.

use serde_json::json;

use super::{refused, select, taken};

#[test]
fn a_path_begins_at_its_root_and_ends_behind_its_last_segment() {
    taken(&["$", "$.a", "$\t[0]", "$\r\n.a \n ..b"]);
    refused(&[" $", "$ ", "$.a\n", "@", "@.a", "$a", "$$", "$.a$", "$.a,$.b", "$[0]]", "$)", "\u{feff}$", "$\u{a0}.a"]);
}

#[test]
fn names_without_quotes_are_letters_digits_underscores_and_all_beyond_ascii() {
    taken(&[
        "$.a1",
        "$._",
        "$.A_b",
        "$.ünï",
        "$.☺",
        "$.😀9",
        "$.\u{80}",
        "$.a\u{a0}b",
        "$.true",
        "$.null",
        "$..length",
    ]);
    refused(&[
        "$.1a",
        "$.a-b",
        "$.-",
        "$.a.",
        "$..",
        "$...a",
        "$.'a'",
        "$.\"a\"",
        "$.[0]",
        "$.&",
        "$.a\\u0041",
        "$. a",
        "$.. a",
        "$.\u{7f}",
    ]);
    assert_eq!(select("$.a .b", &json!({"a": {"b": 1}})), json!([1]));
}

#[test]
fn descendant_segments_take_names_wildcards_and_brackets() {
    taken(&["$..a", "$..*", "$..[0]", "$..['a','b']", "$ ..a", "$..[?@.a]", "$..ü"]);
    refused(&["$..", "$.. ['a']", "$...*", "$..*..", "$..'a'", "$..1", "$. .a"]);
}

#[test]
fn brackets_hold_at_least_one_selector_and_commas_between_them() {
    taken(&["$[0,1]", "$[ 0 , 'a' , * , ?@ , : ]", "$[*,*]", "$['a'][\"b\"]", "$[?@.a,?@.b]", "$[\n0\n]"]);
    refused(&[
        "$[]", "$[ ]", "$[,]", "$[0,]", "$[,0]", "$[0 1]", "$[0", "$['a'", "$[a]", "$[a.b]", "$[$]", "$[@]", "$[(0)]",
        "$[**]", "$[true]",
    ]);
}

#[test]
fn indexes_are_integers_that_every_double_holds() {
    taken(&["$[0]", "$[-1]", "$[9007199254740991]", "$[-9007199254740991]", "$[100]"]);
    refused(&[
        "$[-0]",
        "$[00]",
        "$[01]",
        "$[-01]",
        "$[+1]",
        "$[1.0]",
        "$[1e2]",
        "$[0x1]",
        "$[- 1]",
        "$[-]",
        "$[--1]",
        "$[1_0]",
        "$[١]",
        "$[9007199254740992]",
        "$[-9007199254740992]",
        "$[99999999999999999999999999]",
    ]);
}

#[test]
fn slices_have_up_to_three_integers_with_blanks_between() {
    taken(&[
        "$[:]",
        "$[::]",
        "$[1:]",
        "$[:1]",
        "$[::1]",
        "$[1:2:3]",
        "$[-1:-2:-3]",
        "$[1 :\t2\n: 3 ]",
        "$[: : ]",
        "$[0:0:0]",
    ]);
    refused(&[
        "$[:::]",
        "$[1:2:3:4]",
        "$[1:-0]",
        "$[01:]",
        "$[::-0]",
        "$[:00]",
        "$[1:2:9007199254740992]",
        "$[-9007199254740992:]",
        "$[:9007199254740992]",
        "$['a':]",
        "$[:'a']",
        "$[1:*]",
        "$[1.0:2]",
        "$[1 2:3]",
    ]);
}

#[test]
fn strings_stand_in_either_quotes_and_say_what_their_escapes_name() {
    let value = json!({"'\"": 1, "\"'": 2, "\\/": 3, "\u{8}\u{c}\n\r\t": 4, "é€": 5, "😀": 6, "\u{7f}": 7, "\u{0}": 8, "a b": 9, "\u{ffff}": 10, "\u{10ffff}": 11});
    for (path, want) in [
        (r#"$['\'"']"#, 1),
        (r#"$["'\""]"#, 1),
        (r#"$["\"'"]"#, 2),
        (r"$['\\\/']", 3),
        (r"$['\\/']", 3),
        (r#"$["\b\f\n\r\t"]"#, 4),
        (r"$['\u0008\u000C\u000a\u000D\u0009']", 4),
        (r"$['\u00E9\u20ac']", 5),
        (r"$['\ud83d\ude00']", 6),
        (r#"$["\uD83D\uDE00"]"#, 6),
        ("$['😀']", 6),
        ("$['\u{7f}']", 7),
        (r"$['\u0000']", 8),
        (r"$['a\u0020b']", 9),
        (r"$['\uffff']", 10),
        (r"$['\uDBFF\uDFFF']", 11),
    ] {
        assert_eq!(select(path, &value), json!([want]), "{path}");
    }
}

#[test]
fn strings_refuse_other_escapes_halves_of_surrogate_pairs_and_control_characters() {
    refused(&[
        r"$['\a']",
        r"$['\v']",
        r"$['\0']",
        r"$['\x41']",
        r"$['\U0041']",
        r"$['\ ']",
        r#"$['\"']"#,
        r#"$["\'"]"#,
        r"$['\u']",
        r"$['\u004']",
        r"$['\u00g0']",
        r"$['\u+041']",
        r"$['\u{41}']",
        r"$['\u00é']",
        r"$['\ud83d']",
        r"$['\ude00']",
        r"$['\ud83dx']",
        r"$['\ud83d\n']",
        r"$['\ud83d\u0041']",
        r"$['\ud83d\ud83d']",
        r"$['\ud83d\Ude00']",
        r"$['\ude00\ud83d']",
        r"$['\ud83d \ude00']",
        r"$['\']",
        "$['a\nb']",
        "$['a\tb']",
        "$['\u{0}']",
        "$[\"\u{1f}\"]",
        "$['a\"]",
        "$['",
        "$['a'b]",
        "$[''']",
    ]);
}
