//! Item 3: string literals and functions.

use super::{assert_decides, refusal, run_error};

#[test]
fn strings_take_both_quotes_and_cel_escapes() {
    assert_decides(&[
        (r#"'it\'s' == "it's""#, true),
        (r#""say \"hi\"" == 'say "hi"'"#, true),
        (r"'\x41\u00e9\U0001F600\101' == 'Aé😀A'", true),
        (r"size('\a\b\f\n\r\t\v\\\?\`') == 10", true),
        ("'' == \"\"", true),
    ]);
}

#[test]
fn conversions() {
    assert_decides(&[
        ("int('42') == 42 && int('-7') == -7 && int('+7') == 7", true),
        ("int(2.9) == 2 && int(-2.9) == -2 && int(5) == 5", true),
        ("double('0.7') == 0.7 && double(2) == 2.0 && double('1e3') == 1000.0", true),
        ("string(12) == '12' && string(0.5) == '0.5' && string(true) == 'true' && string('x') == 'x'", true),
        ("bool('true') && bool('True') && bool('1') && bool('t') && bool('T') && bool('TRUE')", true),
        ("bool('false') || bool('False') || bool('0') || bool('f') || bool('F') || bool('FALSE')", false),
        ("bool(true)", true),
    ]);
    insta::assert_snapshot!(run_error("bool('yes')"), @r#""yes" is not a bool at byte 0 of the condition"#);
    insta::assert_snapshot!(run_error("int('1.5') == 1"), @r#""1.5" is not an int at byte 0 of the condition"#);
    insta::assert_snapshot!(run_error("int(' 1') == 1"), @r#"" 1" is not an int at byte 0 of the condition"#);
    insta::assert_snapshot!(run_error("double('') > 0"), @r#""" is not a double at byte 0 of the condition"#);
    insta::assert_snapshot!(
        run_error("int(1e19) > 0"),
        @"10000000000000000000 is outside the range of an int at byte 0 of the condition"
    );
    insta::assert_snapshot!(run_error("int(double('NaN')) > 0"), @"NaN is outside the range of an int at byte 0 of the condition");
}

#[test]
fn text_functions() {
    assert_decides(&[
        ("size('héllo') == 5 && 'héllo'.size() == 5 && size([1, 2]) == 2 && [1].size() == 1", true),
        ("'abc'.contains('b') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc')", true),
        ("'abc'.contains('') && 'abc'.startsWith('')", true),
        ("'abc'.contains('B')", false),
        ("'v1.22.3'.matches('^v[0-9]+[.]') && matches('abc', 'b')", true),
        (r"'release-7'.matches('^release-\\d+$')", true),
        ("'abc'.matches('^b')", false),
        ("'abc'.matches('a' + parameters.env)", false),
    ]);
}

#[test]
fn has_asks_whether_a_value_exists() {
    assert_decides(&[
        ("has(steps.build.outputs.digest)", true),
        ("has(steps.build.outputs.absent)", false),
        ("has(steps.build.reason)", false),
        ("has(steps.build-image.reason)", true),
        ("has(steps.build.phase) && has(steps.build.retryCount) && has(flow.name)", true),
        ("has(steps.unsettled.phase)", false),
        ("has(parameters.env) && has({{.parameters.env}}) && has((parameters.env))", true),
        ("has(parameters.unresolved)", false),
        ("has(parameters.item.name)", true),
        ("has(parameters.item.other)", false),
        ("has({{.JobFlow.Labels.team}})", true),
        ("has({{.JobFlow.Labels.other}})", false),
        ("has(steps.build.outputs.absent) && steps.build.outputs.absent == 'x'", false),
    ]);
}

#[test]
fn wrong_calls_show_the_right_form() {
    insta::assert_snapshot!(refusal("contains('abc', 'b')"), @"
    no function contains(string, string)
      contains('abc', 'b')
      ^^^^^^^^^^^^^^^^^^^^
      write text.contains(string)
    ");
    insta::assert_snapshot!(refusal("steps.build.retryCount.contains('1')"), @"
    no function int.contains(string)
      steps.build.retryCount.contains('1')
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      write text.contains(string)
    ");
    insta::assert_snapshot!(refusal("size() == 1"), @"
    no function size()
      size() == 1
      ^^^^^^
      write size(string or list), or text.size()
    ");
    insta::assert_snapshot!(refusal("has('x')"), @"
    has takes a reference
      has('x')
          ^^^
      write has(steps.NAME.outputs.NAME) or has(parameters.NAME)
    ");
    insta::assert_snapshot!(refusal("'a'.startWith('b')"), @"
    unknown function `startWith`
      'a'.startWith('b')
          ^^^^^^^^^
      did you mean `startsWith`?
    ");
    insta::assert_snapshot!(refusal("[1, 2].exists(x, x > 1)"), @"
    unknown function `exists`
      [1, 2].exists(x, x > 1)
             ^^^^^^
      macros are not part of conditions
    ");
    insta::assert_snapshot!(refusal("'a'.matches('[')"), @"
    not a regular expression: unclosed character class
      'a'.matches('[')
                  ^^^
    ");
    insta::assert_snapshot!(refusal(r"'a'.matches('\\w{500}')"), @r"
    a pattern for matches is too large; shorten its repetitions, and write [0-9A-Za-z_] for \w
      'a'.matches('\\w{500}')
                  ^^^^^^^^^^
    ");
}
