//! Functions that fail, panic, take too long or give too much.

use super::*;

#[tokio::test]
async fn a_failed_step_is_tried_again_and_a_permanent_failure_is_not() {
    let (durable, count) = (durable(), Count::default());
    let flow = durable.flow("retry");
    let counted = count.clone();
    let third = flow
        .step("third", (), move |step, ()| {
            let count = counted.clone();
            async move {
                match count.up() {
                    1 => Err("not yet")?,
                    2 => panic!("at the second time"),
                    _ => Ok(step.attempt()),
                }
            }
        })
        .retry(RetryPolicy::fixed(7, Duration::from_millis(20)));
    let run = flow.start("1").await.unwrap();
    assert_eq!((run.output(&third).await.unwrap(), count.get()), (3, 3));

    let (flow, count) = (durable.flow("permanent"), Count::default());
    let counted = count.clone();
    let never = flow
        .step("never", (), move |_, ()| {
            counted.up();
            async { Err::<u8, _>(StepError::permanent("no such customer")) }
        })
        .retry(RetryPolicy::exponential(7, Duration::from_secs(1)));
    let run = flow.start("1").await.unwrap();
    let error = run.output(&never).await.unwrap_err().to_string();
    assert!(error.contains("step `never` of flow `permanent/1` has no value: it is Failed"), "{error}");
    assert!(error.contains("no such customer"), "{error}");
    assert_eq!((count.get(), run.end().await.unwrap().phase), (1, FlowPhase::Failed));
}

#[tokio::test]
async fn more_than_six_retries_of_a_flow_are_fine() {
    let (durable, count) = (durable(), Count::default());
    let flow = durable.flow("many");
    let counted = count.clone();
    let step = flow
        .step("tenth", (), move |_, ()| {
            let tries = counted.up();
            async move { if tries < 10 { Err("again")? } else { Ok(tries) } }
        })
        .retry(RetryPolicy::fixed(20, Duration::ZERO));
    assert_eq!(flow.start("1").await.unwrap().output(&step).await.unwrap(), 10);
}

#[tokio::test]
async fn the_message_of_a_failure_is_that_of_the_error_with_its_causes() {
    let durable = durable();
    let flow = durable.flow("causes");
    let step = flow.step("parse", (), |_, ()| async {
        let cause = "x".parse::<u8>().map_err(|error| Problem {
            source: Some(Arc::new(error)),
            ..Problem::new(Class::Invalid, "reading the answer")
        });
        Ok(cause?)
    });
    let error = flow.start("1").await.unwrap().output(&step).await.unwrap_err().to_string();
    assert!(error.contains("reading the answer: invalid digit found in string"), "{error}");
}

#[tokio::test]
async fn a_tolerated_failure_fails_nothing_else() {
    let durable = durable();
    let flow = durable.flow("tolerant");
    let fails = flow.step("fails", (), |_, ()| async { Err::<u8, _>("no".into()) }).tolerate();
    let after = flow.step("after", &fails, |_, value| async move { Ok(value) });
    let run = flow.start("1").await.unwrap();
    assert_eq!((run.output(&after).await.unwrap(), run.end().await.unwrap().phase), (None, FlowPhase::Succeeded));
}

#[tokio::test]
async fn a_step_that_takes_too_long_is_dropped_or_given_its_grace() {
    let durable = durable();
    for grace in [None, Some(Duration::from_millis(500))] {
        let (flow, dropped, cancellations) = (durable.flow("slow"), Count::default(), Count::default());
        let (counted, seen) = (dropped.clone(), cancellations.clone());
        let step = flow
            .step("slow", (), move |step, ()| {
                let (cancellations, guard) = (seen.clone(), Guard(counted.clone()));
                async move {
                    step.cancelled().await;
                    cancellations.up();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    cancellations.up();
                    drop(guard);
                    Ok(())
                }
            })
            .timeout(Duration::from_millis(100));
        let step = if let Some(grace) = grace { step.grace(grace) } else { step };
        let run = flow.start(&format!("{grace:?}")).await.unwrap();
        let error = run.output(&step).await.unwrap_err().to_string();
        assert!(error.contains("Timeout: the attempt took longer than 100ms"), "{error}");
        assert_eq!(dropped.get(), 1);
        assert_eq!(cancellations.get(), if grace.is_some() { 2 } else { 0 }, "{grace:?}");
    }
}

/// Counts when it is dropped.
struct Guard(Count);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.up();
    }
}

#[tokio::test]
async fn values_have_a_size_and_a_type() {
    let durable = durable();
    let flow = durable.flow("large");
    let most = flow.step("most", (), |_, ()| async { Ok("x".repeat(256 * 1024 - 2)) });
    let large = flow.step("large", &most, |_, text| async move { Ok(text + "x") });
    let run = flow.start("1").await.unwrap();
    assert_eq!(run.output(&most).await.unwrap().len(), 256 * 1024 - 2);
    let error = run.output(&large).await.unwrap_err().to_string();
    assert!(error.contains("OutputTooLarge"), "{error}");

    let flow = durable.flow("input");
    let number = flow.input::<u8>();
    let step = flow.step("take", &number, |_, number| async move { Ok(number) });
    let error = flow.start_with("1", "a text").await.unwrap().output(&step).await.unwrap_err().to_string();
    assert!(error.contains("of another type") && error.contains("expected u8"), "{error}");
}

#[tokio::test]
async fn a_step_without_a_function_is_refused_by_other_substrates() {
    use orlop_core::spec::step::Step as StepSpec;
    use orlop_core::testing::ScriptedSubstrate;

    let parts = HostParts::new(Arc::new(ScriptedSubstrate::new()), Arc::new(MemoryJournal::new()));
    let submission = Submission::new(JobFlow::new("f", FlowSpec::new([StepSpec::new("a")])), "u");
    let error = FlowHost::submit(parts, submission, Vec::new()).await.err().unwrap();
    assert!(error.message.contains("spec.steps[0].template: the step has no template"), "{error}");
    assert_eq!(error.class, Class::Invalid);
}

#[tokio::test]
async fn a_function_that_panics_before_its_first_wait_fails_its_step_alone() {
    let durable = durable();
    let flow = durable.flow("early");
    let early = flow.step("early", (), |step, ()| {
        assert!(step.attempt() > 1, "the first attempt panics");
        async { Ok(1) }
    });
    let early = early.retry(RetryPolicy::fixed(1, Duration::from_millis(1)));
    let never = flow.step("never", (), |_, ()| -> std::future::Ready<Result<u8, StepError>> { panic!("always") });
    let run = flow.start("1").await.unwrap();
    assert_eq!(run.output(&early).await.unwrap(), 1);
    let error = run.output(&never).await.unwrap_err().to_string();
    assert!(error.contains("Panicked: step `never` panicked: always"), "{error}");
    assert_eq!(run.end().await.unwrap().phase, FlowPhase::Failed);
}

#[tokio::test]
async fn of_a_list_failed_items_fail_the_step_and_items_whose_condition_is_false_are_left_out() {
    let durable = durable();
    let flow = durable.flow("items");
    let odd = |_: StepContext, number: u32| async move {
        if number.is_multiple_of(2) { Err(StepError::permanent("even")) } else { Ok(Some(number)) }
    };
    let list = flow.step("list", (), |_, ()| async { Ok(vec![1_u32, 2, 3]) });
    let failed = flow.each("failed", &list, odd);
    let tolerated = flow.each("tolerated", &list, odd).tolerate();
    let chosen = flow.each("chosen", &list, odd).when("parameters.item != '2'");
    let after = flow.step("after", (&tolerated, &chosen), |_, values| async move { Ok(values) });
    let flow_of = flow.start("1").await.unwrap();
    let error = flow_of.output(&failed).await.unwrap_err();
    assert!(matches!(&error, Error::NoValue { step, .. } if step == "failed"), "{error}");
    // The failure stops what has not started; in a flow without it the rest goes on.
    let flow = durable.flow("others");
    let list = flow.step("list", (), |_, ()| async { Ok(vec![1_u32, 2, 3]) });
    let tolerated = flow.each("tolerated", &list, odd).tolerate();
    let chosen = flow.each("chosen", &list, odd).when("parameters.item != '2'");
    let after_others = flow.step("after", (&tolerated, &chosen), |_, values| async move { Ok(values) });
    let run = flow.start("1").await.unwrap();
    let values = (None, Some(vec![Some(1), Some(3)]));
    assert_eq!(run.output(&after_others).await.unwrap(), values);
    assert_eq!((run.output(&tolerated).await.unwrap(), run.output(&chosen).await.unwrap()), values);
    drop((after, chosen));
}

#[tokio::test]
async fn a_tolerated_step_without_a_value_of_its_own_shows_whether_it_succeeded() {
    let durable = durable();
    let flow = durable.flow("units");
    let good = flow.step("good", (), |_, ()| async { Ok(()) }).tolerate();
    let bad = flow.step("bad", (), |_, ()| async { Err::<(), _>("no".into()) }).tolerate();
    let asked = flow.approval("ask", "Sure?");
    let both = flow.step("both", (&good, &bad, &asked.optional()), |_, values| async move {
        let (good, bad, asked): (Option<()>, Option<()>, Option<()>) = values;
        Ok([good.is_some(), bad.is_some(), asked.is_some()])
    });
    let run = flow.start("1").await.unwrap();
    run.approve("ask").await.unwrap();
    assert_eq!(run.output(&both).await.unwrap(), [true, false, true]);
    assert_eq!((run.output(&good).await.unwrap(), run.output(&bad).await.unwrap()), (Some(()), None));
    assert_eq!(run.output(&asked.optional()).await.unwrap(), Some(()));
}

#[tokio::test]
async fn a_flow_has_a_deadline() {
    let durable = durable();
    let flow = durable.flow("deadline").deadline(Duration::from_millis(100));
    let step = flow.step("long", (), |_, ()| std::future::pending::<Result<(), StepError>>());
    let run = flow.start("1").await.unwrap();
    assert!(run.output(&step).await.is_err());
    assert_eq!(run.end().await.unwrap().phase, FlowPhase::Failed);
}

#[tokio::test]
async fn values_of_a_flow_have_a_size_together() {
    let durable = durable();
    let flow = durable.flow("together");
    let list = flow.step("list", (), |_, ()| async { Ok((0..40).collect::<Vec<u32>>()) });
    let large = flow.each("large", &list, |_, _: u32| async { Ok("x".repeat(250 * 1024)) });
    let error = flow.start("1").await.unwrap().output(&large).await.unwrap_err().to_string();
    assert!(error.contains("OutputTooLarge"), "{error}");
}

#[tokio::test]
async fn under_a_host_of_ones_own_a_permanent_failure_is_not_tried_again_and_an_undeclared_output_is_one() {
    use orlop_core::spec::step::Step as StepSpec;

    let count = Count::default();
    let mut functions = Functions::new();
    for (name, output) in [("fails", None), ("undeclared", Some("value"))] {
        let count = count.clone();
        functions.add(name, move |_, _| {
            count.up();
            async move {
                match output {
                    None => Err(StepError::permanent("never").with_exit_code(7)),
                    Some(name) => Ok([(name.to_owned(), "1".to_owned())].into()),
                }
            }
        });
    }
    let retry = || RetryPolicy::fixed(5, Duration::from_millis(1));
    let steps = ["fails", "undeclared"].map(|name| StepSpec::new(name).retry(retry()).tolerate());
    let parts = HostParts::new(Arc::new(functions), Arc::new(MemoryJournal::new()));
    let mut host = FlowHost::submit(parts, Submission::new(JobFlow::new("f", FlowSpec::new(steps)), "u"), Vec::new())
        .await
        .unwrap();
    host.run().await.unwrap();
    let said: Vec<String> =
        host.status().steps.iter().map(|step| format!("{}: {}", step.reason, step.message)).collect();
    assert_eq!(said, ["Permanent: never", "Permanent: the step declares no output `value`"]);
    assert_eq!(count.get(), 2);
}
