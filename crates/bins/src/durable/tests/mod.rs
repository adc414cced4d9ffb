//! Flows of functions, as somebody would write them: values, failures, decisions, and what a kill leaves.

mod failures;
mod kills;
mod suite;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::journal::{FlowJournal, StoredFlow};
use orlop_core::spec::flow::{FlowSpec, JobFlow};
use orlop_core::testing::MemoryJournal;

use super::*;
use crate::host::flow::{FlowHost, HostParts, Submission};

fn durable() -> Durable {
    Durable::with_journal(Arc::new(MemoryJournal::new()))
}

/// Counts how often something ran.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU32>);

impl Count {
    fn up(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn values_are_handed_from_step_to_step() {
    let durable = durable();
    let flow = durable.flow("order");
    let order = flow.input::<u32>();
    let stock = flow.step("reserve", &order, |_, order| async move { Ok(vec![order, order + 1]) });
    let paid = flow.step("charge", &stock, |step, stock| async move { Ok((step.key(), stock.len())) });
    let all = flow.step("ship", (&order, &stock, &paid), |step, (order, stock, (key, count))| async move {
        Ok(format!("{order} {stock:?} {key} {count} {}", step.attempt()))
    });
    let run = flow.start_with("17", &17).await.unwrap();
    assert_eq!(run.output(&all).await.unwrap(), "17 [17, 18] order/17/charge 2 1");
    assert_eq!(run.output(&stock).await.unwrap(), [17, 18], "of a flow that has ended, too");
    assert_eq!((run.end().await.unwrap().phase, run.id()), (FlowPhase::Succeeded, "order/17"));
}

#[tokio::test]
async fn items_run_at_once_and_their_values_are_gathered_in_order() {
    let durable = durable();
    let flow = durable.flow("letters");
    let words = flow.step("words", (), |_, ()| async { Ok(vec!["b".to_owned(), "aaa".to_owned(), String::new()]) });
    let long = flow.each("long", &words, |step, word: String| async move { Ok((step.index(), word.len())) });
    let again = flow.each("again", &long, |_, (index, length): (Option<u32>, usize)| async move {
        Ok(index.filter(|_| length > 0).map(|index| index * 10))
    });
    let none = flow.step("none", (), |_, ()| async { Ok(Vec::<u8>::new()) });
    let of_none = flow.each("of-none", &none, |_, item: u8| async move { Ok(item) });
    let sum = flow.step("sum", (&again, &of_none), |_, (again, none)| async move { Ok((again, none.len())) });
    let run = flow.start("1").await.unwrap();
    assert_eq!(run.output(&long).await.unwrap(), [(Some(0), 1), (Some(1), 3), (Some(2), 0)]);
    assert_eq!(run.output(&sum).await.unwrap(), (vec![Some(0), Some(10), None], 0));
    let input = durable.flow("input");
    let list = input.input::<Vec<u8>>();
    let (now, most) = (Count::default(), Count::default());
    let counts = (now.clone(), most.clone());
    let doubled = input.each("double", &list, move |_, number: u8| {
        let (now, most) = counts.clone();
        async move {
            most.0.fetch_max(now.up(), Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            now.0.fetch_sub(1, Ordering::SeqCst);
            Ok(number * 2)
        }
    });
    let doubled = doubled.parallelism(2);
    let run = input.start_with("1", &[1, 2, 3, 4, 5]).await.unwrap();
    assert_eq!((run.output(&doubled).await.unwrap(), most.get()), (vec![2, 4, 6, 8, 10], 2));
}

#[tokio::test]
async fn a_step_runs_only_where_its_condition_holds() {
    let durable = durable();
    let flow = durable.flow("choice");
    let count = flow.step("count", (), |_, ()| async { Ok(7) });
    let many =
        flow.step("many", &count, |_, count: i32| async move { Ok(count) }).when("steps.count.outputs.value == '7'");
    let few =
        flow.step("few", &count, |_, count: i32| async move { Ok(count) }).when("steps.count.outputs.value == '1'");
    let both = flow.step("both", (&many, &few), |_, values| async move { Ok(values) });
    let run = flow.start("1").await.unwrap();
    assert_eq!(run.output(&both).await.unwrap(), (Some(7), None));
    assert_eq!((run.output(&few).await.unwrap(), run.end().await.unwrap().phase), (None, FlowPhase::Succeeded));
}

#[tokio::test]
async fn people_decide_and_finally_runs_in_any_case() {
    let durable = durable();
    for approved in [true, false] {
        let flow = durable.flow("release");
        let made = flow.step("make", (), |_, ()| async { Ok(3) });
        let asked = flow.approval("ask", "Ship it?").after(&made);
        let sent = flow.step("send", &made, |_, made| async move { Ok(made) }).after(&asked);
        let report = flow.step("report", &sent.optional(), |_, sent| async move { Ok(sent) }).finally();
        let run = flow.start(&approved.to_string()).await.unwrap();
        assert_eq!(run.output(&made).await.unwrap(), 3);
        match approved {
            true => run.approve("ask").await.unwrap(),
            false => run.reject("ask", "too early").await.unwrap(),
        }
        assert_eq!(run.output(&report).await.unwrap(), approved.then_some(3));
        let phase = if approved { FlowPhase::Succeeded } else { FlowPhase::Failed };
        assert_eq!(run.end().await.unwrap().phase, phase);
        let again = run.approve("ask").await.unwrap_err().to_string();
        assert!(again.contains("has ended"), "{again}");
    }
}

#[tokio::test]
async fn an_id_is_one_run() {
    let (durable, count) = (durable(), Count::default());
    let made = |name: &str| {
        let flow = durable.flow("once");
        let (input, count) = (flow.input::<u8>(), count.clone());
        let step = flow.step(name, &input, move |_, input: u8| {
            let count = count.clone();
            async move { Ok(u32::from(input) + count.up()) }
        });
        (flow, step)
    };
    let (flow, step) = made("a");
    let (first, second) = tokio::join!(flow.start_with("x", &1), flow.start("x"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.output(&step).await.unwrap(), second.output(&step).await.unwrap()), (2, 2));
    first.end().await.unwrap();
    let (flow, step) = made("a");
    let later = flow.start_with("x", &1).await.unwrap();
    assert_eq!((later.output(&step).await.unwrap(), count.get()), (2, 1), "it has ended: nothing runs again");
    let other = flow.start_with("x", &2).await.unwrap_err().to_string();
    assert!(other.contains("another input"), "{other}");
    let other = made("b").0.start("x").await.unwrap_err().to_string();
    assert!(other.contains("other steps"), "{other}");
    let missing = flow.start("y").await.unwrap_err().to_string();
    assert!(missing.contains("`input`"), "{missing}");
    durable.delete("once", "x").await.unwrap();
    assert_eq!(made("b").0.start_with("x", &2).await.unwrap().output(&made("b").1).await.unwrap(), 4);
}

#[tokio::test]
async fn ids_are_any_text_and_no_two_of_them_are_one_flow() {
    let durable = durable();
    let ids = ["b-c", "Order 17/ä", "", &"x".repeat(300), "c"];
    for (name, ids) in [("a", &ids[..]), ("a-b", &["c"][..])] {
        for id in ids {
            let flow = durable.flow(name);
            let step = flow.step("s", (), |step, ()| async move { Ok(step.key()) });
            let run = flow.start(id).await.unwrap();
            assert_eq!(run.output(&step).await.unwrap(), format!("{name}/{id}/s"));
        }
    }
}

#[tokio::test]
async fn what_has_not_ended_is_known_and_left_alone() {
    let durable = durable();
    let flow = durable.flow("long");
    let asked = flow.approval("ask", "Go on?");
    let step = flow.step("work", (), |_, ()| async { Ok(1) }).after(&asked);
    flow.start("one").await.unwrap();
    flow.start("two").await.unwrap().approve("ask").await.unwrap();
    flow.start("two").await.unwrap().end().await.unwrap();
    assert_eq!(durable.unfinished("long").await.unwrap(), ["one"]);
    assert_eq!(durable.unfinished("lon").await.unwrap(), [""; 0]);
    let refused = durable.delete("long", "one").await.unwrap_err().to_string();
    assert!(refused.contains("runs; stop it first"), "{refused}");
    let left = flow.start("one").await.unwrap();
    durable.close().await;
    assert!(matches!(left.end().await, Err(Error::NotRunning { .. })));
    assert!(matches!(left.output(&step).await, Err(Error::NotRunning { .. })));
    assert!(matches!(left.output(&step.optional()).await, Err(Error::NotRunning { .. })), "it may still run");
    assert!(matches!(left.approve("ask").await, Err(Error::NotRunning { .. })));
    let run = flow.start("one").await.unwrap();
    run.approve("ask").await.unwrap();
    assert_eq!(run.output(&step).await.unwrap(), 1);
}

#[tokio::test]
async fn a_flow_that_breaks_a_rule_is_refused_when_it_is_started() {
    let durable = durable();
    let refused = async |flow: &Flow| flow.start("1").await.unwrap_err().to_string();
    let flow = durable.flow("twice");
    for _ in 0..2 {
        flow.step("same", (), |_, ()| async { Ok(()) });
    }
    assert!(refused(&flow).await.contains("same"), "{}", refused(&flow).await);
    let flow = durable.flow("circle");
    let first = flow.step("first", (), |_, ()| async { Ok(()) });
    let second = flow.step("second", &first, |_, ()| async { Ok(()) });
    drop(first.after(&second));
    assert!(refused(&flow).await.contains("cycle"), "{}", refused(&flow).await);
    let flow = durable.flow("condition");
    let _ = flow.step("step", (), |_, ()| async { Ok(()) }).when("steps.other.phase == 'x'");
    assert!(refused(&flow).await.contains("other"), "{}", refused(&flow).await);
    assert!(refused(&durable.flow("empty")).await.contains("no steps"));
    let flow = durable.flow("name");
    flow.step("Not A Name", (), |_, ()| async { Ok(()) });
    assert!(refused(&flow).await.contains("Not A Name"));
    let flow = durable.flow("Flow/Name");
    flow.step("step", (), |_, ()| async { Ok(()) });
    let message = refused(&flow).await;
    assert!(message.contains("Flow/Name"), "{message}");
}

#[tokio::test]
async fn a_stopped_flow_starts_nothing_more() {
    let (durable, count) = (durable(), Count::default());
    let flow = durable.flow("stop").parallelism(1);
    let counted = count.clone();
    let long = flow.step("long", (), move |_, ()| {
        counted.up();
        std::future::pending::<Result<(), StepError>>()
    });
    let next = flow.step("next", &long, |_, ()| async { Ok(()) });
    let run = flow.start("1").await.unwrap();
    while count.get() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    run.stop().await.unwrap();
    assert_eq!(run.end().await.unwrap().phase, FlowPhase::Failed);
    let error = run.output(&next).await.unwrap_err();
    assert!(matches!(&error, Error::NoValue { step, .. } if step == "next"), "{error}");
}

#[tokio::test]
async fn retries_and_limits_may_change_under_an_id_and_steps_may_not() {
    let durable = durable();
    let made = |retries, when| {
        let flow = durable.flow("changing").deadline(Duration::from_secs(100 + u64::from(retries)));
        let asked = flow.approval("ask", &format!("{retries} retries?"));
        let step = flow.step("work", (), |_, ()| async { Ok(1) }).after(&asked);
        let step = step.retry(RetryPolicy::fixed(retries, Duration::from_secs(1))).when(when);
        (flow, step)
    };
    made(1, "flow.name != 'x'").0.start("1").await.unwrap();
    durable.close().await;
    let (flow, step) = made(2, "flow.name != 'x'");
    let run = flow.start("1").await.unwrap();
    let other = made(1, "flow.name == 'x'").0.start("1").await.unwrap_err().to_string();
    assert!(other.contains("other steps, inputs or conditions"), "{other}");
    run.approve("ask").await.unwrap();
    assert_eq!(run.output(&step).await.unwrap(), Some(1));
}

#[tokio::test]
async fn an_input_is_compared_by_its_value() {
    let durable = durable();
    let flow = durable.flow("map");
    let input = flow.input::<serde_json::Value>();
    let step = flow.step("same", &input, |_, value| async move { Ok(value) });
    let texts = [r#"{"b": 0.30000000000000004, "a": [1]}"#, r#"{"a":[1],"b":0.30000000000000004}"#];
    for text in texts {
        let value: serde_json::Value = orlop_core::exact::from_str(text).unwrap();
        let run = flow.start_with("1", &value).await.unwrap();
        assert_eq!(run.output(&step).await.unwrap(), value);
    }
}

#[tokio::test]
async fn values_come_back_as_they_were() {
    #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    enum Shape {
        Point,
        Circle { radius: f64 },
        Named(String, Option<Box<Shape>>),
    }
    let nested = Shape::Named("\"ä\u{1f980}\\n\u{0}".to_owned(), Some(Box::new(Shape::Circle { radius: 0.1 + 0.2 })));
    let values = (f64::MIN_POSITIVE, f64::MAX, 1e-7, i64::MIN, u64::MAX, 'x', (), vec![nested, Shape::Point]);
    let durable = durable();
    let flow = durable.flow("values");
    let given = values.clone();
    let first = flow.step("first", (), move |_, ()| {
        let given = given.clone();
        async move { Ok(given) }
    });
    let second = flow.step("second", &first, |_, values| async move { Ok((values, Some(()))) });
    let third = flow.step("third", &second.optional(), |_, values| async move { Ok(values) });
    let run = flow.start("1").await.unwrap();
    let (back, unit) = run.output(&third).await.unwrap().unwrap();
    assert_eq!((back, unit), (values, None), "JSON has one `null`");
}

#[tokio::test]
async fn steps_of_another_flow_are_refused() {
    let durable = durable();
    let (one, other) = (durable.flow("one"), durable.flow("other"));
    let of_one = one.step("x", (), |_, ()| async { Ok(1) });
    let input = one.input::<u8>();
    other.step("x", (), |_, ()| async { Ok(2) });
    let run = other.start("1").await.unwrap();
    let error = run.output(&of_one).await.unwrap_err().to_string();
    assert!(error.contains("step `x` is one of flow `one`, not of `other/1`"), "{error}");
    for way in ["value", "input", "order"] {
        let third = durable.flow("third");
        match way {
            "value" => drop(third.step("y", &of_one, |_, x| async move { Ok(x) })),
            "input" => drop(third.step("y", &input, |_, x| async move { Ok(x) })),
            _ => drop(third.step("y", (), |_, ()| async { Ok(()) }).after(&of_one)),
        }
        let error = third.start("1").await.unwrap_err().to_string();
        assert!(error.contains("step `y` of flow `third` takes or awaits what another flow gives"), "{error}");
    }
}

#[tokio::test]
async fn nothing_runs_any_more_once_it_is_closed() {
    let (durable, now) = (durable(), Count::default());
    let flow = durable.flow("close");
    let counted = now.clone();
    flow.step("long", (), move |_, ()| {
        let running = Alive(counted.clone());
        running.0.up();
        async move {
            std::future::pending::<()>().await;
            drop(running);
            Ok(())
        }
    });
    for number in 0..20 {
        flow.start(&number.to_string()).await.unwrap();
    }
    while now.get() < 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    durable.close().await;
    assert_eq!(now.get(), 0);
}

/// Counts down when it is dropped.
struct Alive(Count);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}
