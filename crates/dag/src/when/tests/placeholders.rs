//! Item 5, first half: placeholders and plain references as operands and inside string literals.

use super::{assert_decides, refusal, run_error};

#[test]
fn the_three_notations_are_operands() {
    assert_decides(&[
        ("{{.parameters.env}} == 'prod'", true),
        ("{{parameters.env}} == 'prod'", true),
        ("${parameters.env} == 'prod'", true),
        ("int(${parameters.replicas}) > 2 && {{.parameters.env}} in ['prod', 'test']", true),
        ("{{.parameters.my-flag}}=='true'", true),
        ("{{.parameters.a.b}} == 'dotted'", true),
        ("{{.parameters.env}}.startsWith('p')", true),
    ]);
}

#[test]
fn plain_references_are_operands() {
    assert_decides(&[
        ("{{.StepStatus.build.Phase}} == 'Succeeded'", true),
        ("{{ .StepStatus.build-image.Phase }} == 'Failed'", true),
        ("{{.StepStatus.a.b.Phase}} == 'Succeeded'", true),
        ("{{.StepStatus.build-image.RetryCount}} == 2", true),
        ("{{.StepStatus.build-image.Message}}.contains('\"too\"')", true),
        ("{{.JobFlow.Name}} == 'nightly' && {{.JobFlow.Namespace}} == 'ml' && {{.JobFlow.UID}} == '0f0e'", true),
        ("{{.JobFlow.Status.Phase}} == 'Running'", true),
        ("{{.JobFlow.Labels.team}} == 'core' && {{.JobFlow.Labels.none}} == ''", true),
        ("{{.JobFlow.Annotations.note}} == 'true'", true),
    ]);
}

#[test]
fn inside_a_string_they_are_concatenated() {
    assert_decides(&[
        ("'{{.parameters.env}}' == 'prod'", true),
        ("'x-{{.parameters.env}}-${parameters.replicas}{{parameters.my-flag}}' == \"x-prod-3true\"", true),
        ("'{{.JobFlow.Name}}/{{.StepStatus.build-image.RetryCount}}' == 'nightly/2'", true),
        ("'a'.contains('{{.JobFlow.Labels.none}}')", true),
        ("'${HOME} $x $(y) }}' == '$' + '{HOME} $x $(y) }}'", true),
    ]);
}

#[test]
fn a_value_is_never_parsed_again() {
    assert_decides(&[
        ("'{{.parameters.evil}}' == 'x'", false),
        ("{{.parameters.evil}} == 'x'", false),
        ("'${parameters.evil}' == \"' || true || '\"", true),
        ("size('{{.parameters.braces}}') == 17", true),
        ("'{{.parameters.braces}}' == '{' + '{.JobFlow.Name}' + '}'", true),
    ]);
}

#[test]
fn a_pattern_made_of_a_placeholder_is_checked_at_run_time() {
    assert_decides(&[("'prod-1'.matches('^{{.parameters.env}}-')", true)]);
    insta::assert_snapshot!(
        run_error("'x'.matches('[' + parameters.env)"),
        @"not a regular expression: unclosed character class at byte 0 of the condition"
    );
}

#[test]
fn a_lone_placeholder_is_a_string_and_no_condition() {
    insta::assert_snapshot!(refusal("{{.parameters.env}}"), @"
    a condition is true or false, this is a string
      {{.parameters.env}}
      ^^^^^^^^^^^^^^^^^^^
      compare it, as in {{.parameters.env}} == 'true'
    ");
    assert_decides(&[("bool({{.parameters.my-flag}})", true)]);
}

#[test]
fn notations_that_are_not_exactly_these_bytes_are_refused() {
    insta::assert_snapshot!(refusal("{{ .parameters.env }} == 'prod'"), @r#"
    unknown word `.parameters.env`
      {{ .parameters.env }} == 'prod'
         ^^^^^^^^^^^^^^^
      write "${parameters.NAME}" in quotes, or {{.parameters.NAME}} alone
    "#);
    insta::assert_snapshot!(refusal("${ parameters.env } == 'prod'"), @"
    unknown sign `$`
      ${ parameters.env } == 'prod'
      ^
      write ${parameters.NAME}
    ");
    insta::assert_snapshot!(refusal("{{.parameters.env} == 'prod'"), @"
    `{{` is never closed
      {{.parameters.env} == 'prod'
      ^^
      close it with `}}`
    ");
    insta::assert_snapshot!(refusal("steps['{{.parameters.env}}'].phase == 'x'"), @r#"
    a name in brackets is one quoted text
      steps['{{.parameters.env}}'].phase == 'x'
            ^^^^^^^^^^^^^^^^^^^^^
      write ["NAME"]
    "#);
}
