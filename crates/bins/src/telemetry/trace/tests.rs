//! Which traces are kept, and what a request carries on.

use orlop_core::time::Time;

use super::*;

const KEPT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const NOW: Time = Time::from_millis(1000);

#[test]
fn whether_a_trace_is_kept_its_beginning_decides() {
    let (tracer, mut spans) = Tracer::channel(0.0);
    let kept = tracer.request(Some(KEPT), NOW);
    let context = Context::parse(kept.traceparent().unwrap()).unwrap();
    assert!(context.to_string().starts_with(&KEPT[..36]) && context.is_sampled());
    assert_ne!(context.to_string(), KEPT, "a span of its own");
    kept.end("submit", NOW, vec![]);
    let span = spans.try_recv().unwrap();
    assert_eq!((span.context, span.parent), (context, Context::parse(KEPT)));
    let dropped = tracer.request(Some(&KEPT.replace("-01", "-00")), NOW);
    assert!(dropped.traceparent().unwrap().ends_with("-00"), "others are told that nobody keeps it");
    dropped.end("submit", NOW, vec![]);
    let fresh = tracer.request(None, NOW);
    assert_eq!(fresh.traceparent(), None);
    fresh.end("submit", NOW, vec![]);
    assert!(spans.try_recv().is_err());
}

#[test]
fn of_traces_that_begin_here_a_share_is_kept() {
    let share = |ratio: f64| {
        let (tracer, _spans) = Tracer::channel(ratio);
        (0..4000).filter(|_| tracer.request(None, NOW).traceparent().is_some()).count()
    };
    assert_eq!((share(0.0), share(1.0)), (0, 4000));
    let some = share(0.25);
    assert!((800..1200).contains(&some), "{some} of 4000");
}

#[test]
fn without_an_exporter_the_callers_context_is_carried_on_as_it_is() {
    let tracer = Tracer::default();
    let request = tracer.request(Some(KEPT), NOW);
    assert_eq!(request.traceparent(), Some(KEPT));
    assert_eq!(tracer.request(Some("nonsense"), NOW).traceparent(), None);
    assert_eq!(tracer.kept(Some(KEPT)), None);
    assert!(!tracer.is_on());
}

#[test]
fn spans_that_nobody_takes_are_given_up() {
    let (tracer, mut spans) = Tracer::channel(1.0);
    for _ in 0..WAITING + 10 {
        tracer.request(None, NOW).end("submit", NOW, vec![]);
    }
    let mut count = 0;
    while spans.try_recv().is_ok() {
        count += 1;
    }
    assert_eq!(count, WAITING);
}
