//! Texts and the trees they become: types, places, aliases, merge keys, limits and errors.

use serde_json::{Value, json};

use super::*;
use crate::code::Code;
use crate::manifest::report::Report;

fn values(text: &str) -> Vec<Value> {
    let (source, found) = Source::parse("f.yaml", text, &TextLimits::default());
    assert!(found.is_empty(), "{}", Report::new(found));
    source.documents().map(Node::to_value).collect()
}

fn errors(text: &str) -> String {
    errors_within(text, &TextLimits::default())
}

fn errors_within(text: &str, limits: &TextLimits) -> String {
    Report::new(Source::parse("f.yaml", text, limits).1).to_string()
}

#[test]
fn scalars_keep_their_types_and_quoted_texts_stay_texts() {
    let text = "a: 1\nb: \"1\"\nc: '1'\nd: 0.7\ne: true\nf: ~\ng: yep\nh: |\n  x\n  y\ni: >-\n  p\n  q\nj: !!str 5\nk: \"a\\u0041\\n\"\n1: x\n";
    let expected = json!({"a": 1, "b": "1", "c": "1", "d": 0.7, "e": true, "f": null, "g": "yep", "h": "x\ny\n",
        "i": "p q", "j": "5", "k": "aA\n", "1": "x"});
    assert_eq!(values(text), [expected]);
}

#[test]
fn texts_that_kubectl_reads_otherwise_are_warned_about() {
    insta::assert_snapshot!(errors("a: yes\nb: 'no'\nc: [1_000, on]\ny: 1\n"), @r#"
    warning[syntax]: `yes` is a text here, and true to kubectl
     --> f.yaml:1:4
      |
    1 | a: yes
      |    ^^^
      = help: quote it: "yes"; or write true if that is meant

    warning[syntax]: `1_000` is a text here, and a number to kubectl
     --> f.yaml:3:5
      |
    3 | c: [1_000, on]
      |     ^^^^^
      = help: quote it: "1_000"; or write a number if that is meant

    warning[syntax]: `on` is a text here, and true to kubectl
     --> f.yaml:3:12
      |
    3 | c: [1_000, on]
      |            ^^
      = help: quote it: "on"; or write true if that is meant

    warning[syntax]: `y` is a text here, and true to kubectl
     --> f.yaml:4:1
      |
    4 | y: 1
      | ^
      = help: quote it: "y"; or write true if that is meant

    4 warnings
    "#);
    let (source, _) = Source::parse("f.yaml", "a: yes\n", &TextLimits::default());
    assert_eq!(source.documents().next().map(Node::to_value), Some(json!({"a": "yes"})));
}

#[test]
fn json_is_read_as_it_is() {
    let text = "{\n\t\"a\": [1, 2.5e1, -3, null, true, \"\\ud834\\udd1e \\/ \\\"\"],\n\t\"b\": {\"c\":{}}\n}\n";
    assert_eq!(values(text), [serde_json::from_str::<Value>(text).unwrap()]);
    assert_eq!(values(""), [] as [Value; 0]);
    assert_eq!(values("\u{feff}a: 1\r\nb: x\r\n"), [json!({"a": 1, "b": "x"})]);
}

#[test]
fn several_documents_are_several_trees() {
    assert_eq!(values("--- a\n---\n---\nb: 1\n...\n# end\n"), [json!("a"), json!(null), json!({"b": 1})]);
}

#[test]
fn aliases_and_merge_keys_share_their_anchors() {
    let text =
        "base: &b {x: 1, w: 2}\nmore: &m {w: 3, z: 4}\na: *b\nc:\n  <<: [*b, *m]\n  w: 9\nd:\n  <<: *m\ne: {'<<': 1}\n";
    let value = values(text).remove(0);
    assert_eq!(value["a"], json!({"x": 1, "w": 2}));
    assert_eq!(value["c"], json!({"w": 9, "x": 1, "z": 4}));
    assert_eq!(value["d"], json!({"w": 3, "z": 4}));
    assert_eq!(value["e"], json!({"<<": 1}));
}

#[test]
fn places_are_those_of_the_field() {
    let text = "spec:\n  steps:\n    - name: a\n      template: {spec: {containers: [{image: \"é\", command: [x]}]}}\n    - name: b\n      when:\n";
    let (source, _) = Source::parse("f.yaml", text, &TextLimits::default());
    let root = source.documents().next().unwrap();
    let at = |path: &str| {
        let location = source.locate(root, &path.parse().unwrap());
        (location.line, location.column)
    };
    assert_eq!(at("spec.steps[0].name"), (3, 13));
    assert_eq!(at("spec.steps[0].template.spec.containers[0].image"), (4, 46));
    assert_eq!(at("spec.steps[0].template.spec.containers[0].command[0]"), (4, 61));
    assert_eq!(at("spec.steps[0].template"), (4, 7), "collections are at their key");
    assert_eq!(at("spec.steps[1]"), (5, 7), "items at their first key");
    assert_eq!(at("spec.steps[1].when"), (6, 7), "nulls at their key");
    assert_eq!(at("spec.steps[1].template.spec"), (5, 7), "missing fields at their owner");
    assert_eq!(at("spec.steps[9].name"), (2, 3));
    assert_eq!(at("metadata.name"), (1, 1));
    assert_eq!(at(""), (1, 1));
}

#[test]
fn violations_get_the_place_of_their_field_or_key() {
    let text = "a:\n  b_c: [1,\n    2]\n";
    let (source, mut found) = Source::parse("f.yaml", text, &TextLimits::default());
    let (a, root) = (super::super::path::Path::ROOT, source.documents().next().unwrap());
    found.error(Code::UnknownField, &a.field("a").field("b_c"), || Note::new("unknown field `b_c`", None).on_key());
    found.error(Code::Parameter, &a.field("a").field("b_c").index(1), || "too large");
    source.place(root, &mut found);
    insta::assert_snapshot!(Report::new(found), @"
    error[unknown-field]: unknown field `b_c`
     --> f.yaml:2:3
      |
    2 |   b_c: [1,
      |   ^^^
      = field: a.b_c

    error[parameter]: too large
     --> f.yaml:3:5
      |
    3 |     2]
      |     ^
      = field: a.b_c[1]

    2 errors
    ");
}

#[test]
fn syntax_errors_say_where_and_what_to_do() {
    insta::assert_snapshot!(errors("a: b: c\n"), @"
    error[syntax]: the text is neither YAML nor JSON: mapping values are not allowed in this context
     --> f.yaml:1:5
      |
    1 | a: b: c
      |     ^
      = help: check the indentation of this line; a text that holds `: ` must be quoted

    1 error
    ");
    insta::assert_snapshot!(errors("a:\n\t- b\n"), @"
    error[syntax]: the text is neither YAML nor JSON: tabs disallowed within this context (block indentation)
     --> f.yaml:2:2
      |
    2 |  - b
      |  ^
      = help: indent with spaces; YAML refuses tabs there

    1 error
    ");
    insta::assert_snapshot!(errors("a: [1, 2\nb: 3\n"), @"
    error[syntax]: the text is neither YAML nor JSON: illegal placement of ':' indicator
     --> f.yaml:2:2
      |
    2 | b: 3
      |  ^
      = help: check the indentation of this line; a text that holds `: ` must be quoted

    1 error
    ");
    insta::assert_snapshot!(errors("a: \"x\nb: 3\n"), @"
    error[syntax]: the text is neither YAML nor JSON: invalid indentation in multiline quoted scalar
     --> f.yaml:2:1
      |
    2 | b: 3
      | ^

    1 error
    ");
    insta::assert_snapshot!(errors("a: @x\n"), @"
    error[syntax]: the text is neither YAML nor JSON: unexpected character: `@'
     --> f.yaml:1:4
      |
    1 | a: @x
      |    ^
      = help: quote the text; `@`, `` ` `` and control characters cannot begin one

    1 error
    ");
}

#[test]
fn errors_in_aliases_tags_and_keys_say_where_and_what_to_do() {
    insta::assert_snapshot!(errors("a: *nowhere\n"), @"
    error[syntax]: the alias names an anchor that is not defined before it
     --> f.yaml:1:4
      |
    1 | a: *nowhere
      |    ^
      = help: define it with `&name` above, or quote the text if the `*` is part of it

    1 error
    ");
    insta::assert_snapshot!(errors("a: &a [*a]\n"), @"
    error[syntax]: the alias is inside the value it names
     --> f.yaml:1:8
      |
    1 | a: &a [*a]
      |        ^^
      = help: write the value out

    1 error
    ");
    insta::assert_snapshot!(errors("a: !thing x\nb: !!int x\nc: .inf\n"), @"
    error[syntax]: the tag `!thing` does not fit here or has no meaning in a manifest
     --> f.yaml:1:11
      |
    1 | a: !thing x
      |           ^
      = help: remove it; quote the value if a text is meant

    error[syntax]: `x` is not what its tag `!!int` says
     --> f.yaml:2:10
      |
    2 | b: !!int x
      |          ^
      = help: remove the tag

    error[syntax]: the number `.inf` has no finite value
     --> f.yaml:3:4
      |
    3 | c: .inf
      |    ^^^^
      = help: quote it if a text is meant

    3 errors
    ");
    insta::assert_snapshot!(errors("? [a]\n: 1\n~: 2\n"), @"
    error[syntax]: a list or mapping cannot be a key
     --> f.yaml:1:3
      |
    1 | ? [a]
      |   ^^^
      = help: keys are texts; a text with brackets must be quoted

    error[syntax]: a key is empty
     --> f.yaml:3:1
      |
    3 | ~: 2
      | ^
      = help: write a name before the `:`; quote `null` if that is the name

    2 errors
    ");
    insta::assert_snapshot!(errors("a: {<<: 1}\n"), @"
    error[syntax]: `<<` merges mappings only
     --> f.yaml:1:9
      |
    1 | a: {<<: 1}
      |         ^
      = help: give it an alias of a mapping, or a list of them

    1 error
    ");
}

#[test]
fn repeated_keys_name_both_lines() {
    insta::assert_snapshot!(errors("name: a\nspec:\n  x: 1\n  w: 2\n  x: 3\n"), @"
    error[syntax]: the key `x` appears twice, first in line 3
     --> f.yaml:5:3
      |
    5 |   x: 3
      |   ^
      = help: remove one of them

    1 error
    ");
}

#[test]
fn a_broken_document_leaves_the_others_readable() {
    let (source, found) = Source::parse("f.yaml", "a: [\n---\nb: 1\n---\nc: ]\n---\nd: 2\n", &TextLimits::default());
    assert_eq!(found.count(Severity::Error), 2);
    assert_eq!(source.documents().map(Node::to_value).collect::<Vec<_>>(), [json!({"b": 1}), json!({"d": 2})]);
}

#[test]
fn limits_are_named() {
    let limits = TextLimits { bytes: 100, depth: 4, nodes: 20, documents: 2 };
    insta::assert_snapshot!(errors_within(&"x".repeat(101), &limits), @"
    error[limit]: the file has 101 bytes; at most 100 are read
     --> f.yaml:1:1
      |
    1 | xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
      | ^
      = help: split it, or write many similar steps as one step with `withItems`

    1 error
    ");
    insta::assert_snapshot!(errors_within("[[[[[", &limits), @"
    error[syntax]: lists and mappings are nested deeper than 4 levels
     --> f.yaml:1:5
      |
    1 | [[[[[
      |     ^
      = help: flatten the document; no field of a flow needs that

    1 error
    ");
    insta::assert_snapshot!(errors_within("a: &a {b: {c: 1}}\nd: {e: {f: *a}}\n", &limits), @"
    error[limit]: lists and mappings are nested deeper than 4 levels behind this alias
     --> f.yaml:2:12
      |
    2 | d: {e: {f: *a}}
      |            ^^
      = help: split it, or write many similar steps as one step with `withItems`

    1 error
    ");
    insta::assert_snapshot!(errors_within("[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,0,1]", &limits), @"
    error[limit]: the file holds more than 20 values, those behind aliases counted at every use
     --> f.yaml:1:40
      |
    1 | [1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,0,1]
      |                                        ^
      = help: split it, or write many similar steps as one step with `withItems`

    1 error
    ");
}

#[test]
fn documents_are_counted_and_so_are_problems_past_the_cap() {
    let limits = TextLimits { documents: 2, ..TextLimits::default() };
    insta::assert_snapshot!(errors_within("a: 1\n---\nb: 2\n---\nc: 3\n", &limits), @"
    error[limit]: the file holds more than 2 documents
     --> f.yaml:4:1
      |
    4 | ---
      | ^^^
      = help: split it, or write many similar steps as one step with `withItems`

    1 error
    ");
    assert_eq!(errors_within("a: 1\n---\nb: 2\n", &limits), "no violations");
    let report = errors(&format!("{{{}}}", "~: 1,".repeat(30_000)));
    assert!(report.ends_with("and 59899 errors more\n\n59999 errors"), "{}", &report[report.len() - 100..]);
}

#[test]
fn expansion_by_aliases_counts_as_size() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..10 {
        text += &format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(", "));
    }
    assert!(errors(&text).contains("19 values expand to more than"), "{}", errors(&text));
    let mut text = String::from("m: &m {a: 1, b: 2, c: 3}\nlist:\n");
    text += &"- {<<: *m}\n".repeat(100_000);
    assert_eq!(errors(&text), "no violations");
}

#[test]
fn hostile_nesting_neither_overflows_the_stack_nor_takes_long() {
    for opener in ["[", "{a: ", "- ", "? ", "{[", "a:\n ", "- - ", "!!seq [", "&a ["] {
        let report = errors(&opener.repeat(100_000));
        assert!(report.starts_with("error["), "{opener}: {report}");
    }
    let deep: String = (0..1500).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    assert!(errors(&deep).contains("nested deeper than 64 levels"), "{}", errors(&deep));
    let limits = TextLimits { depth: usize::MAX, ..TextLimits::default() };
    assert!(errors_within(&"[".repeat(100_000), &limits).contains("deeper than 256"));
}

#[test]
fn long_lines_are_shown_in_part() {
    let text = format!(
        "{{{}, \"a\": 1, \"a\": 2, {}}}",
        "\"k\": [1, 2, 3]",
        (0..200).map(|n| format!("\"x{n}\": 0")).collect::<Vec<_>>().join(", ")
    );
    insta::assert_snapshot!(errors(&text), @r#"
    error[syntax]: the key `a` appears twice, first in line 1
     --> f.yaml:1:26
      |
    1 | {"k": [1, 2, 3], "a": 1, "a": 2, "x0": 0, "x1": 0, "x2": 0, "x3": 0, "x4…
      |                          ^^^
      = help: remove one of them

    1 error
    "#);
}
