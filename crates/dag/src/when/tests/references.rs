//! References and functions, and what the engine learns from them.

use super::{FlowField, Parameters, Scope, Secrecy, Steps, assert_decides, compile, compiled, refusal, run_error};

#[test]
fn after_steps_the_longest_declared_name_is_read() {
    assert_decides(&[
        ("steps.build-image.phase == 'Failed'", true),
        ("steps.a.b.phase == 'Succeeded'", true),
        ("steps.a.phase == 'Failed'", true),
        ("steps.a.phase.phase == 'Succeeded'", true),
        ("steps['a'].phase.startsWith('Fail')", true),
        ("steps . build . phase == 'Succeeded'", true),
        ("steps.build.retryCount-1 == -1", true),
        ("steps.build-image.retryCount-1 == 1", true),
    ]);
}

#[test]
fn the_longest_name_is_read_even_where_a_shorter_one_would_do() {
    insta::assert_snapshot!(refusal("steps.a.phase.startsWith('Fail')"), @"
    unknown step field `startsWith`
      steps.a.phase.startsWith('Fail')
                    ^^^^^^^^^^
      the fields are phase, reason, retryCount and outputs.NAME
    ");
}

#[test]
fn brackets_name_any_step_output_or_parameter() {
    assert_decides(&[
        ("steps[\"a.b\"].phase == 'Succeeded'", true),
        ("steps['build-image'].reason == 'Timeout'", true),
        ("steps[ 'build' ].outputs[ 'digest' ] == 'sha256:ab'", true),
        ("steps['build'].outputs.digest == 'sha256:ab'", true),
        ("parameters['my-flag'] == 'true'", true),
        ("parameters['item.name'] == 'x'", true),
    ]);
}

#[test]
fn outputs_and_parameters_are_strings_with_the_longest_name() {
    assert_decides(&[
        ("steps.build.outputs.count == '12'", true),
        ("int(steps.build.outputs.count) > 10", true),
        ("double(steps.build.outputs.score) >= 0.7", true),
        ("steps.build.outputs.count-max == '40'", true),
        ("steps.build.outputs.v.1 == 'dotted'", true),
        ("steps.build.outputs.digest.startsWith('sha256:')", true),
        ("steps.build.outputs.digest . startsWith ('sha256:')", true),
        ("parameters.env == 'prod'", true),
        ("parameters.my-flag == 'true'", true),
        ("parameters.a.b == 'dotted'", true),
        ("parameters.a.b.startsWith('dot') && parameters.env.size() == 4", true),
        ("steps.build.outputs.json == '{\"a\":{\"b\":1}}'", true),
    ]);
}

#[test]
fn fields_of_steps_and_flow() {
    assert_decides(&[
        ("steps.build-image.reason == 'Timeout' && steps.build-image.retryCount == 2", true),
        ("steps.build.reason == ''", true),
        ("flow.name == 'nightly' && flow.namespace == 'ml' && flow.uid == '0f0e'", true),
        ("flow.name.startsWith('night')", true),
    ]);
    insta::assert_snapshot!(
        run_error("steps.build.outputs.absent == 'x'"),
        @r#"step "build" has not recorded output "absent" at byte 0 of the condition"#
    );
    insta::assert_snapshot!(
        run_error("true && steps.unsettled.phase == 'x'"),
        @r#"step "unsettled" is not settled at byte 8 of the condition"#
    );
    insta::assert_snapshot!(
        run_error("parameters.unresolved == 'x'"),
        @r#"parameter "unresolved" has no value at byte 0 of the condition"#
    );
}

#[test]
fn unknown_steps_and_outputs_are_refused_with_the_nearest_name() {
    insta::assert_snapshot!(refusal("steps.buidl.phase == 'Failed'"), @"
    unknown step `buidl`
      steps.buidl.phase == 'Failed'
            ^^^^^
      did you mean `build`?
    ");
    insta::assert_snapshot!(refusal("steps.build-images.phase == 'Failed'"), @"
    unknown step `build-images`
      steps.build-images.phase == 'Failed'
            ^^^^^^^^^^^^
      did you mean `build-image`?
    ");
    insta::assert_snapshot!(refusal("true && steps['deploy-to-production'].phase == 'Failed'"), @"
    unknown step `deploy-to-production`
      true && steps['deploy-to-production'].phase == 'Failed'
                    ^^^^^^^^^^^^^^^^^^^^^^
      conditions name steps of the same flow
    ");
    insta::assert_snapshot!(refusal("steps.build.outputs.digset.contains('x')"), @"
    step `build` has no output `digset`
      steps.build.outputs.digset.contains('x')
                          ^^^^^^
      did you mean `digest`?
    ");
    insta::assert_snapshot!(refusal("steps.build-image.outputs['x'] == ''"), @"
    step `build-image` has no output `x`
      steps.build-image.outputs['x'] == ''
                                ^^^
      step `build-image` declares no outputs
    ");
    insta::assert_snapshot!(refusal("{{.StepStatus.biuld.Phase}} == 'Failed'"), @"
    unknown step `biuld`
      {{.StepStatus.biuld.Phase}} == 'Failed'
                    ^^^^^
      did you mean `build`?
    ");
}

#[test]
fn secret_and_undeclared_parameters_are_refused() {
    insta::assert_snapshot!(refusal("parameters.token == 'x'"), @"
    parameter `token` is a secret, which no condition may read
      parameters.token == 'x'
                 ^^^^^
      decide on a parameter that is not from a Secret
    ");
    for source in ["{{.parameters.token}} == 'x'", "'a${parameters.token}' == 'x'", "parameters['token'] == 'x'"] {
        assert!(refusal(source).contains("is a secret"), "{source}");
    }
    insta::assert_snapshot!(refusal("parameters.enf.startsWith('p')"), @"
    unknown parameter `enf`
      parameters.enf.startsWith('p')
                 ^^^
      did you mean `env`?
    ");
    insta::assert_snapshot!(refusal("'${parameters.region}' == 'eu'"), @"
    unknown parameter `region`
      '${parameters.region}' == 'eu'
                    ^^^^^^
      declare it in spec.parameters or in inputs.parameters of the step
    ");
}

#[test]
fn references_list_every_step_once_and_in_order() {
    let condition = compiled(
        "steps.build-image.phase == 'Failed' || has(steps.build.outputs.digest) && '{{.StepStatus.a.Phase}}' != 'x' \
         || steps.build.phase == parameters.env || flow.name == {{.JobFlow.Labels.team}}",
    )
    .expect("a condition");
    let references = condition.references();
    assert_eq!(references.steps().collect::<Vec<_>>(), ["a", "build", "build-image"]);
    assert_eq!(references.outputs().collect::<Vec<_>>(), [("build", "digest")]);
    assert_eq!(references.parameters().collect::<Vec<_>>(), ["env"]);
    assert_eq!(references.flow().collect::<Vec<_>>(), [FlowField::Name]);
    assert_eq!(references.labels().collect::<Vec<_>>(), ["team"]);
    assert!(!references.is_per_instance());
    assert_eq!(compiled("always").expect("a constant").references(), &super::References::default());
}

#[test]
fn references_of_templates_include_both_branches() {
    let condition = compiled(
        r#"{{if eq .JobFlow.Name "n"}}{{.StepStatus.build.Phase}}{{else}}{{(index .StepStatus "a.b").Message}}{{end}}"#,
    )
    .expect("a template");
    assert_eq!(condition.references().steps().collect::<Vec<_>>(), ["a.b", "build"]);
}

#[test]
fn references_of_templates_include_placeholders_in_texts_and_strings() {
    let source = r#"{{if eq "${parameters.env}" "x"}}{{.parameters.replicas}}{{end}}${parameters.my-flag}"#;
    let condition = compiled(source).expect("a template");
    assert_eq!(condition.references().parameters().collect::<Vec<_>>(), ["env", "my-flag", "replicas"]);
    let condition = compiled("{{if true}}true{{end}}${parameters.item.name}").expect("a template");
    assert!(condition.references().is_per_instance());
}

#[test]
fn item_and_index_exist_only_in_a_fan_out_and_make_the_condition_per_instance() {
    assert_decides(&[
        ("parameters.item.name == 'x'", true),
        ("parameters.item.name.startsWith('x')", true),
        ("parameters.item.startsWith('{')", true),
        ("int(parameters.index) == 7 && '{{.parameters.index}}' == '7'", true),
    ]);
    let condition = compiled("${parameters.item.name} == 'x' && int(parameters.index) > 1").expect("a condition");
    assert!(condition.references().is_per_instance());
    assert_eq!(condition.references().instance().collect::<Vec<_>>(), ["index", "item.name"]);
    assert_eq!(condition.references().parameters().count(), 0);

    let steps = Steps::new();
    let error = compile("parameters.item == 'x'", &Scope::new(&steps)).expect_err("outside a fan-out");
    insta::assert_snapshot!(
        error,
        @"`item` exists only in a fan-out step at byte 11; the step has neither withItems nor withParam"
    );
}

#[test]
fn flow_outcome_exists_only_in_finally() {
    assert_decides(&[("flow.outcome == 'Failed'", true)]);
    let steps = Steps::new();
    let error = compile("flow.outcome == 'Failed'", &Scope::new(&steps)).expect_err("outside finally");
    insta::assert_snapshot!(error.point_out("flow.outcome == 'Failed'"), @"
    `flow.outcome` exists only in finally
      flow.outcome == 'Failed'
           ^^^^^^^
      move the step to spec.finally, or ask for the phases of its dependencies
    ");
}

#[test]
fn a_step_input_hides_a_secret_flow_parameter() {
    let steps = Steps::new();
    let flow: Parameters<'_> = [("key", Secrecy::Secret)].into_iter().collect();
    let inputs: Parameters<'_> = [("key", Secrecy::Plain)].into_iter().collect();
    let scope = Scope::new(&steps).flow_parameters(&flow);
    assert!(compile("parameters.key == 'x'", &scope).is_err());
    assert!(compile("parameters.key == 'x'", &scope.inputs(&inputs)).is_ok());
}
