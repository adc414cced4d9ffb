//! Item 6: what is refused at validation, and the words it is refused with.

use super::{MAX_SOURCE, assert_decides, compiled, refusal, refusals};

const OUTSIDE: &[&str] = &[
    "Always",
    "TRUE",
    "yes",
    "on success",
    "1",
    "'true'",
    "build",
    "env == 'prod'",
    "item == 'x'",
    "always && true",
    "steps",
    "steps.build",
    "steps.",
    "steps['build'",
    "steps.build.status == 'x'",
    "steps.build.outputs == 'x'",
    "steps.build.outputs['nope'] == 'x'",
    "flow.nam == 'x'",
    "flow",
    "parameters",
    "parameters. == 'x'",
    "job.status == 'x'",
    "null == null",
    "steps.build.phase == Succeeded",
    "steps.build.phase.Failed",
];

#[test]
fn nothing_outside_the_language_is_accepted() {
    insta::assert_snapshot!(refusals(OUTSIDE), @r#"
    "Always": unknown word `Always` at byte 0; did you mean `always`?
    "TRUE": unknown word `TRUE` at byte 0; did you mean `true`?
    "yes": unknown word `yes` at byte 0; put text in quotes; values are steps.…, parameters.… and flow.…
    "on success": unknown word `on` at byte 0; put text in quotes; values are steps.…, parameters.… and flow.…
    "1": a condition is true or false, this is an int at byte 0
    "'true'": a condition is true or false, this is a string at byte 0
    "build": unknown word `build` at byte 0; write steps.build.phase for the step's phase
    "env == 'prod'": unknown word `env` at byte 0; write parameters.env
    "item == 'x'": unknown word `item` at byte 0; write parameters.item
    "always && true": unknown word `always` at byte 0; `always` must be used alone, without operators
    "steps": `steps` is not a value at byte 0; write steps.NAME.phase
    "steps.build": step `build` is not a value at byte 0; name a field: .phase, .reason, .retryCount or .outputs.NAME
    "steps.": a step name is missing at byte 6; write steps.NAME.phase or steps["NAME"].phase
    "steps['build'": a name in brackets is one quoted text at byte 6; write ["NAME"]
    "steps.build.status == 'x'": unknown step field `status` at byte 12; the fields are phase, reason, retryCount and outputs.NAME
    "steps.build.outputs == 'x'": `outputs` is not a value at byte 0; write .outputs.NAME or .outputs["NAME"]
    "steps.build.outputs['nope'] == 'x'": step `build` has no output `nope` at byte 20; its outputs are absent, count, count-max, digest, json
    "flow.nam == 'x'": unknown flow field `nam` at byte 5; did you mean `name`?
    "flow": `flow` is not a value at byte 0; write flow.name, flow.namespace, flow.uid or, in finally, flow.outcome
    "parameters": `parameters` is not a value at byte 0; write parameters.NAME
    "parameters. == 'x'": a parameter name is missing at byte 12; write parameters.NAME
    "job.status == 'x'": unknown word `job.status` at byte 0; put text in quotes; values are steps.…, parameters.… and flow.…
    "null == null": unknown word `null` at byte 0; write has(…) to ask whether a value exists
    "steps.build.phase == Succeeded": unknown word `Succeeded` at byte 21; put text in quotes; values are steps.…, parameters.… and flow.…
    "steps.build.phase.Failed": a string has no field `Failed` at byte 18; only functions can follow, as in .size()
    "#);
}

const UNBALANCED: &[&str] = &[
    "true = true",
    "true & true",
    "true | true",
    "true and false",
    "true or false",
    "true ^ false",
    "1 < 2 < 3",
    "(true",
    "true)",
    "[1, 2 == 1",
    "size('a' == 1",
    "'abc == 'abc'",
    "\"abc",
    "'a\nb' == 'x'",
    "'''abc''' == 'abc'",
    "r'abc' == 'abc'",
    "b'abc' == 'abc'",
    "'\\q' == 'q'",
    "'\\ud800' == 'q'",
    "'\\477' == 'q'",
    "true }}",
    "{'a': 1} == 1",
    "true ?",
    "true ? false",
    "true &&",
    "&& true",
    "true true",
    "1 + == 1",
    "12abc == 1",
    "1u == 1",
    "1e == 1",
    "9223372036854775808 > 0",
    "1e999 > 0",
    "!-1 > 0",
    "x.y",
    "true // comment",
    "“a” == 'a'",
];

#[test]
fn unknown_signs_and_unbalanced_pairs_are_refused() {
    insta::assert_snapshot!(refusals(UNBALANCED), @r#"
    "true = true": unknown sign `=` at byte 5; write == to compare
    "true & true": unknown sign `&` at byte 5; write && for "and"
    "true | true": unknown sign `|` at byte 5; write || for "or"
    "true and false": expected an operator or the end, found `and` at byte 5; write && for "and"
    "true or false": expected an operator or the end, found `or` at byte 5; write || for "or"
    "true ^ false": unknown sign `^` at byte 5; quote text with ' or "; names and operators are plain ASCII
    "1 < 2 < 3": expected `&&` between comparisons, found `<` at byte 6; comparisons do not chain: write a < b && b < c
    "(true": `(` is never closed at byte 0; close it with `)`
    "true)": expected an operator or the end, found `)` at byte 4
    "[1, 2 == 1": `[` is never closed at byte 0; close it with `]`
    "size('a' == 1": == does not take a string and an int at byte 5; convert it: int('a')
    "'abc == 'abc'": expected an operator or the end, found `abc` at byte 9
    "\"abc": a string is not closed with " at byte 0; close it on the same line
    "'a\nb' == 'x'": a string is not closed with ' at byte 0; close it on the same line
    "'''abc''' == 'abc'": strings with three quotes are not part of conditions at byte 0; write one quote and \n for a line break
    "r'abc' == 'abc'": string prefixes are not part of conditions at byte 0; write \\ for one backslash
    "b'abc' == 'abc'": string prefixes are not part of conditions at byte 0; write \\ for one backslash
    "'\\q' == 'q'": unknown escape sequence `\q` at byte 1; write \\ for one backslash
    "'\\ud800' == 'q'": unknown escape sequence `\u` at byte 1; write \\ for one backslash
    "'\\477' == 'q'": unknown escape sequence `\4` at byte 1; write \\ for one backslash
    "true }}": unknown sign `}` at byte 5; braces come in pairs, as in {{.parameters.NAME}}
    "{'a': 1} == 1": unknown sign `{` at byte 0; maps are not part of conditions; placeholders are {{.parameters.NAME}}
    "true ?": the condition ends where a value is needed at byte 6
    "true ? false": the condition ends where `:` is needed at byte 12
    "true &&": the condition ends where a value is needed at byte 7
    "&& true": expected a value, found `&&` at byte 0
    "true true": expected an operator or the end, found `true` at byte 5
    "1 + == 1": expected a value, found `==` at byte 4
    "12abc == 1": not a number at byte 0; write a decimal int, 0x and hex digits, or a double
    "1u == 1": not a number at byte 0; write a decimal int, 0x and hex digits, or a double
    "1e == 1": not a number in the range of ints and doubles at byte 0; ints have 64 bits
    "9223372036854775808 > 0": not an int of 64 bits at byte 0; ints end at 9223372036854775807
    "1e999 > 0": not a number in the range of ints and doubles at byte 0; ints have 64 bits
    "!-1 > 0": ! and - cannot be combined at byte 1; ! is for true and false, - for numbers
    "x.y": unknown word `x.y` at byte 0; put text in quotes; values are steps.…, parameters.… and flow.…
    "true // comment": expected a value, found `/` at byte 6
    "“a” == 'a'": unknown sign `“` at byte 0; quote text with ' or "
    "#);
}

const UNFIT: &[&str] = &[
    "steps.build.outputs.count > 10",
    "steps.build.outputs.score >= 0.5",
    "3 == parameters.replicas",
    "parameters.my-flag",
    "parameters.my-flag && true",
    "parameters.my-flag == true",
    "!parameters.my-flag",
    "!steps.build.retryCount",
    "-parameters.replicas > 0",
    "-true",
    "1 + 1.5 == 2.5",
    "'a' - 'b' == ''",
    "'a' + 1 == 'a1'",
    "1.5 % 1.0 == 0.5",
    "true + true == true",
    "'a' in 'abc'",
    "1 in ['a']",
    "1 in 1",
    "[1, 'a'] == [1]",
    "[1] < [2]",
    "true ? 1 : 'a'",
    "(true ? 1 : 2)",
    "1 ? true : false",
    "[1]['a'] == 1",
    "'abc'[0] == 'a'",
    "[][0] == 1",
    "1[0] == 1",
    "true || 1",
];

#[test]
fn types_that_do_not_fit_are_refused_with_the_conversion() {
    insta::assert_snapshot!(refusals(UNFIT), @r#"
    "steps.build.outputs.count > 10": > does not take a string and an int at byte 0; convert it: int(steps.build.outputs.count)
    "steps.build.outputs.score >= 0.5": >= does not take a string and a double at byte 0; convert it: double(steps.build.outputs.score)
    "3 == parameters.replicas": == does not take an int and a string at byte 0; convert it: int(parameters.replicas)
    "parameters.my-flag": a condition is true or false, this is a string at byte 0; compare it, as in parameters.my-flag == 'true'
    "parameters.my-flag && true": && takes true or false, this is a string at byte 0; compare it, as in parameters.my-flag == 'true'
    "parameters.my-flag == true": == does not take a string and a bool at byte 0; convert it: bool(parameters.my-flag)
    "!parameters.my-flag": ! takes true or false, this is a string at byte 1; compare it, as in parameters.my-flag == 'true'
    "!steps.build.retryCount": ! takes true or false, this is an int at byte 1; compare it, as in steps.build.retryCount > 0
    "-parameters.replicas > 0": - takes a number, this is a string at byte 1; convert it: int(parameters.replicas)
    "-true": - takes a number, this is a bool at byte 1
    "1 + 1.5 == 2.5": + does not take an int and a double at byte 0; convert it: double(1)
    "'a' - 'b' == ''": - does not take a string and a string at byte 0
    "'a' + 1 == 'a1'": + does not take a string and an int at byte 0; convert it: int('a')
    "1.5 % 1.0 == 0.5": % does not take a double and a double at byte 0
    "true + true == true": + does not take a bool and a bool at byte 0
    "'a' in 'abc'": in does not take a string and a string at byte 0; write 'abc'.contains('a')
    "1 in ['a']": in does not take an int and a list of string at byte 0
    "1 in 1": in does not take an int and an int at byte 0; write VALUE in [VALUE, VALUE]
    "[1, 'a'] == [1]": list elements differ: an int and a string at byte 4; all elements of a list need one type
    "[1] < [2]": < does not take a list of int and a list of int at byte 0
    "true ? 1 : 'a'": alternatives differ: an int and a string at byte 11; both sides of : need one type
    "(true ? 1 : 2)": a condition is true or false, this is an int at byte 0; compare it, as in (true ? 1 : 2) > 0
    "1 ? true : false": ? takes true or false, this is an int at byte 0
    "[1]['a'] == 1": an index is an int, this is a string at byte 4
    "'abc'[0] == 'a'": [ ] needs a list, this is a string at byte 0
    "[][0] == 1": an empty list has no elements at byte 0
    "1[0] == 1": [ ] needs a list, this is an int at byte 0
    "true || 1": || takes true or false, this is an int at byte 8
    "#);
}

#[test]
fn errors_point_into_the_right_line_and_cut_long_ones() {
    insta::assert_snapshot!(refusal("true &&\n\tsteps.buidl.phase == 'x' &&\n true"), @"
    unknown step `buidl`
      	steps.buidl.phase == 'x' &&
      	      ^^^^^
      did you mean `build`?
    ");
    let long = format!("{}steps.buidl.phase == 'x'{}", "true && ".repeat(20), " && true".repeat(20));
    insta::assert_snapshot!(refusal(&long), @"
    unknown step `buidl`
       && true && true && true && true && true && steps.buidl.phase == 'x' && true && true && true && true
                                                        ^^^^^
      did you mean `build`?
    ");
    insta::assert_snapshot!(refusal("'ééé' == steps.buidl.phase"), @"
    unknown step `buidl`
      'ééé' == steps.buidl.phase
                     ^^^^^
      did you mean `build`?
    ");
}

#[test]
fn sources_over_4096_bytes_are_refused() {
    let fits = format!("true{}", " ".repeat(MAX_SOURCE - 4));
    assert_decides(&[(&fits, true)]);
    let chain = format!("true{}", " && true".repeat(511));
    assert_eq!(chain.len(), 4092);
    assert_decides(&[(&chain, true)]);
    let error = compiled(&format!("{fits} ")).expect_err("too long");
    insta::assert_snapshot!(error, @"a condition of 4097 bytes, 4096 are allowed at byte 4096; let a step compute it and compare its output");
    assert_eq!(error.range(), 4096..4097);
}
