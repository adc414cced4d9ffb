//! Item 5, second half: templates.

use super::{Run, assert_decides, compiled, refusals, run_error};

#[test]
fn templates_read_flow_and_steps() {
    assert_decides(&[
        (r#"{{eq .JobFlow.Name "nightly"}}"#, true),
        (r#"{{ eq .JobFlow.Namespace "ml" }}"#, true),
        (r#"{{ne .JobFlow.UID "x"}}"#, true),
        (r#"{{eq .JobFlow.Status.Phase "Running"}}"#, true),
        (r#"{{eq .JobFlow.Labels.team "core"}}"#, true),
        (r#"{{eq (index .JobFlow.Labels "app.io/tier") "core"}}"#, true),
        (r#"{{index .JobFlow.Annotations "note"}}"#, true),
        (r#"{{eq .StepStatus.build.Phase "Succeeded"}}"#, true),
        (r#"{{eq .StepStatus.build-image.RetryCount 2}}"#, true),
        (r#"{{eq (index .StepStatus "build-image").Phase "Failed"}}"#, true),
        (r#"{{ne (index .StepStatus "a.b").Message ""}}"#, false),
        (r#"{{eq (index .JobFlow.Labels "none") ""}}"#, true),
    ]);
}

#[test]
fn template_functions() {
    assert_decides(&[
        (r#"{{eq .JobFlow.Name "a" "b" "nightly"}}"#, true),
        (r#"{{and (eq 1 1) (ne 1 2)}}"#, true),
        (r#"{{or (eq 1 2) (eq 2 3)}}"#, false),
        (r#"{{not (eq 1 2)}}"#, true),
        (r#"{{not ""}}"#, true),
        (r#"{{and "x" 1}}"#, true),
        (r#"{{or "" 0 "TRUE"}}"#, true),
        (r#"{{and .JobFlow.Name 0}}"#, false),
        (r#"{{or .JobFlow.Labels.none "true"}}"#, true),
        (r#"{{or true (eq (and 1 "x") 1)}}"#, true),
        ("{{eq `raw\\n` \"raw\\\\n\"}}", true),
        ("{{eq -3 -3}}", true),
        ("{{eq \"}}\" \"}}\"}}", true),
    ]);
}

#[test]
fn template_blocks() {
    assert_decides(&[
        (r#"{{if eq .JobFlow.Name "nightly"}}true{{else}}false{{end}}"#, true),
        (r#"{{if eq 1 2}}true{{else if eq 2 2}}1{{else}}false{{end}}"#, true),
        (r#"{{if eq 1 2}}true{{else if eq 2 3}}1{{else}}0{{end}}"#, false),
        (r#"{{if true}}{{if false}}x{{else}}true{{end}}{{end}}"#, true),
        (r#"{{if .StepStatus.build.RetryCount}}true{{else}}false{{end}}"#, false),
        (r#"{{if .StepStatus.build-image.Message}}true{{else}}false{{end}}"#, true),
        ("  {{if true}}\n  true\n  {{end}}\n", true),
    ]);
}

#[test]
fn trim_markers() {
    let text = |source: &str| compiled(source).expect("a template").text(&Run::new());
    assert_eq!(text("a {{- eq 1 1 -}} \n b").as_deref(), Ok("atrueb"));
    assert_eq!(text("a {{- eq 1 1}} b").as_deref(), Ok("atrue b"));
    assert_eq!(text("a {{eq 1 1 -}} b").as_deref(), Ok("a trueb"));
    assert_eq!(text("a {{- eq 1 1 -}} \t\n {{- eq 1 2}}").as_deref(), Ok("atruefalse"));
    assert_eq!(text("{{eq -1 -1}} {{-1}}").as_deref(), Ok("true -1"));
    assert_eq!(text("${parameters.env} {{- eq 1 1}}").as_deref(), Ok("prodtrue"));
}

#[test]
fn the_text_of_a_template_is_the_truth_value() {
    assert_decides(&[
        ("{{if true}} TRUE\n{{end}}", true),
        ("{{if true}}1{{end}}", true),
        ("{{if true}}False{{end}}", false),
        ("{{if true}}0{{end}}", false),
    ]);
    insta::assert_snapshot!(
        run_error("{{if true}}yes{{end}}"),
        @r#"the template gives "yes", not true, 1, false or 0 at byte 0 of the condition"#
    );
    insta::assert_snapshot!(
        run_error("{{if eq 1 2}}true{{end}}"),
        @r#"the template gives "", not true, 1, false or 0 at byte 0 of the condition"#
    );
    insta::assert_snapshot!(
        run_error(r#"{{eq (or .JobFlow.Labels.none 0) "x"}}"#),
        @"eq and ne need values of one type at byte 2 of the condition"
    );
}

#[test]
fn a_library_call_gives_the_raw_text() {
    let text = |source: &str| compiled(source).expect("a condition").text(&Run::new());
    assert_eq!(text("{{if true}} Yes {{end}}\n").as_deref(), Ok(" Yes \n"));
    assert_eq!(text("always").as_deref(), Ok("true"));
    assert_eq!(text("1 > 2").as_deref(), Ok("false"));
}

#[test]
fn placeholders_in_templates_stand_for_values() {
    assert_decides(&[
        (r#"{{if eq "${parameters.env}" "prod"}}true{{else}}false{{end}}"#, true),
        (r#"{{if eq "{{.parameters.env}}-1" "prod-1"}}true{{else}}false{{end}}"#, true),
        ("{{if true}}{{.parameters.my-flag}}{{end}}", true),
        ("{{if true}}${parameters.my-flag}{{end}}", true),
        ("{{if true}}{{parameters.my-flag}}{{end}}", true),
        ("{{if eq `${parameters.braces}` \"{{.JobFlow.Name}}\"}}true{{else}}false{{end}}", true),
    ]);
    let text = |source: &str| compiled(source).expect("a template").text(&Run::new());
    assert_eq!(text("{{if true}}${parameters.braces}{{end}}").as_deref(), Ok("{{.JobFlow.Name}}"));
}

const WRONG: &[&str] = &[
    "{{if eq .JobFlow.Nam \"x\"}}true{{end}}",
    "{{if eq .StepStatus.build.Phse \"x\"}}true{{end}}",
    "{{if eq .StepStatus.bild.Phase \"x\"}}true{{end}}",
    "{{if eq (index .StepStatus \"bild\").Phase \"x\"}}true{{end}}",
    "{{if .StepStatus.build}}true{{end}}",
    "{{if index .StepStatus \"build\"}}true{{end}}",
    "{{if .JobFlow.Labels}}true{{end}}",
    "{{if .JobFlow.Labels.app.io}}true{{end}}",
    "{{if equal 1 1}}true{{end}}",
    "{{if .Values.x}}true{{end}}",
    "{{if $x}}true{{end}}",
    "{{if eq 1 1 | not}}true{{end}}",
    "{{if eq .JobFlow.Name 'x'}}true{{end}}",
    "{{if eq not true}}true{{end}}",
    "{{if (eq 1 1}}true{{end}}",
    "{{if eq 1 1)}}true{{end}}",
    "{{if eq 1}}true{{end}}",
    "{{if}}true{{end}}",
    "{{if true}}true",
    "true{{end}}",
    "{{else}}",
    "{{if true}}1{{else}}0{{else}}1{{end}}",
    "{{if true}}1{{else when}}0{{end}}",
    "{{if true}}1{{end if}}",
    "{{}}",
    "{{range .JobFlow.Labels}}true{{end}}",
    "{{/* comment */}}true",
    "{{if eq \"x}}true{{end}}",
    "{{if true}}true}}{{end}}",
    "{{if eq .StepStatus.build.RetryCount \"0\"}}true{{end}}",
    "{{if eq 1.5 1.5}}true{{end}}",
    "{{if .JobFlow.Name \"x\"}}true{{end}}",
    "{{if true}}{{.parameters.token}}{{end}}",
    "{{if (.JobFlow.Name).Phase}}true{{end}}",
];

#[test]
fn templates_refuse_unknown_words_and_unbalanced_blocks() {
    insta::assert_snapshot!(refusals(WRONG), @r#"
    "{{if eq .JobFlow.Nam \"x\"}}true{{end}}": `Nam` is not a value of the flow at byte 17; did you mean `Name`?
    "{{if eq .StepStatus.build.Phse \"x\"}}true{{end}}": unknown step field `Phse` at byte 26; did you mean `Phase`?
    "{{if eq .StepStatus.bild.Phase \"x\"}}true{{end}}": unknown step `bild` at byte 20; did you mean `build`?
    "{{if eq (index .StepStatus \"bild\").Phase \"x\"}}true{{end}}": unknown step `bild` at byte 27; did you mean `build`?
    "{{if .StepStatus.build}}true{{end}}": step `build` is not a value at byte 22; its fields are .Phase, .Message and .RetryCount
    "{{if index .StepStatus \"build\"}}true{{end}}": a step is not a value at byte 5; add .Phase, .Message or .RetryCount after the parentheses
    "{{if .JobFlow.Labels}}true{{end}}": `.JobFlow.Labels` is not a value at byte 5; write index .JobFlow.Labels "KEY"
    "{{if .JobFlow.Labels.app.io}}true{{end}}": `app.io` is not a key that a path can name at byte 14; write index .JobFlow.Labels "KEY"
    "{{if equal 1 1}}true{{end}}": unknown word `equal` in an action at byte 5; the functions are eq, ne, and, or, not, index; quote text with "
    "{{if .Values.x}}true{{end}}": unknown word `.Values.x` at byte 5; templates read .JobFlow and .StepStatus
    "{{if $x}}true{{end}}": unknown sign `$` in an action at byte 5; variables are not part of conditions; write "${parameters.NAME}" in quotes
    "{{if eq 1 1 | not}}true{{end}}": unknown sign `|` in an action at byte 12; pipes are not part of conditions; write FUNCTION VALUE VALUE
    "{{if eq .JobFlow.Name 'x'}}true{{end}}": unknown sign `'` in an action at byte 22; quote text with "
    "{{if eq not true}}true{{end}}": the call of `not` needs parentheses here at byte 8; write (not …)
    "{{if (eq 1 1}}true{{end}}": `(` is never closed at byte 5; close it with `)`
    "{{if eq 1 1)}}true{{end}}": `)` without `(` at byte 11
    "{{if eq 1}}true{{end}}": `eq` does not take 1 values at byte 5; write eq VALUE VALUE
    "{{if}}true{{end}}": a value is missing at byte 0; write a path, a text in " or an int
    "{{if true}}true": `if` without `end` at byte 2; close it with {{end}}
    "true{{end}}": `end` without `if` at byte 4; open it with {{if CONDITION}}
    "{{else}}": `else` without `if` at byte 0; open it with {{if CONDITION}}
    "{{if true}}1{{else}}0{{else}}1{{end}}": a second `else` at byte 21; `else` comes last, before {{end}}
    "{{if true}}1{{else when}}0{{end}}": only `if` can follow `else` at byte 19
    "{{if true}}1{{end if}}": nothing can follow `end` at byte 18
    "{{}}": an empty action at byte 0; write a value or `if` in it
    "{{range .JobFlow.Labels}}true{{end}}": `range` is not part of conditions at byte 2; blocks are if, else if, else and end
    "{{/* comment */}}true": unknown sign `/` in an action at byte 2; actions hold names, text in ", ints and parentheses
    "{{if eq \"x}}true{{end}}": a string is not closed with " at byte 8; close it on the same line
    "{{if true}}true}}{{end}}": `}}` without `{{` at byte 15; braces come in pairs
    "{{if eq .StepStatus.build.RetryCount \"0\"}}true{{end}}": `eq` compares an int with a string at byte 37; compare values of one type
    "{{if eq 1.5 1.5}}true{{end}}": not an int at byte 8; numbers in templates are decimal ints
    "{{if .JobFlow.Name \"x\"}}true{{end}}": only functions take values after them at byte 19; the functions are eq, ne, and, or, not, index
    "{{if true}}{{.parameters.token}}{{end}}": parameter `token` is a secret, which no condition may read at byte 25; decide on a parameter that is not from a Secret
    "{{if (.JobFlow.Name).Phase}}true{{end}}": only a step has fields at byte 20; write (index .StepStatus "NAME").Phase
    "#);
}
