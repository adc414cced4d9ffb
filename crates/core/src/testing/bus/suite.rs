//! Conformance suite of the event bus. Owns the list of checks and the events they publish.

use crate::error::Class;
use crate::ports::bus::{BusEvent, Delivery, EventBus, MAX_BODY, SubjectFilter, Subscription};
use crate::testing::suite::{Broken, CheckResult, Suite, SuiteFailure, fails, holds, same};

/// Checks a bus against its port. `open` opens the bus of a number, on which nothing was published yet; it must keep at least
/// 100 events for a slow listener. Gives the names of the checks.
///
/// # Errors
/// Every check that does not hold, with the reason.
pub async fn bus_suite<B: EventBus>(open: impl AsyncFn(u32) -> B) -> Result<Vec<&'static str>, SuiteFailure> {
    let mut suite = Suite::new("event bus");
    macro_rules! checks {
        ($($check:ident),+ $(,)?) => {
            $({
                let bus = open(suite.next()).await;
                suite.check(stringify!($check), $check(&bus)).await;
            })+
        };
    }
    checks! {
        events_come_in_order,
        a_listener_gets_only_what_its_filter_passes,
        every_listener_gets_every_event,
        a_listener_hears_nothing_from_before,
        events_published_again_come_once,
        bodies_of_any_text_come_whole,
        a_body_that_is_too_long_is_refused,
        a_subject_outside_the_root_is_refused,
        publishing_nothing_is_fine,
    }
    suite.finish()
}

fn event(id: u64, verb: &str) -> BusEvent {
    let (subject, body) = (format!("orlop.events.{verb}"), format!("{{\"id\":\"{id}\"}}"));
    BusEvent { id, subject: subject.into(), body: body.into() }
}

async fn hear<B: EventBus>(bus: &B, pattern: &str) -> Result<Box<dyn Subscription>, Broken> {
    let filter = SubjectFilter::new(pattern).map_err(|error| Broken::new(error.to_string()))?;
    Ok(bus.subscribe(filter).await?)
}

async fn ids(subscription: &mut Box<dyn Subscription>, count: usize) -> Result<Vec<u64>, Broken> {
    let mut found = Vec::new();
    while found.len() < count {
        match subscription.next().await {
            Some(Delivery::Event(event)) => found.push(event.id),
            other => return Err(Broken::new(format!("after {found:?} came {other:?}"))),
        }
    }
    Ok(found)
}

async fn events_come_in_order<B: EventBus>(bus: &B) -> CheckResult {
    let mut all = hear(bus, "orlop.events.>").await?;
    bus.publish((1..=20).map(|id| event(id, "job.created")).collect()).await?;
    bus.publish((21..=40).map(|id| event(id, "job.queued")).collect()).await?;
    same("what came", &ids(&mut all, 40).await?, &(1..=40).collect())
}

async fn a_listener_gets_only_what_its_filter_passes<B: EventBus>(bus: &B) -> CheckResult {
    let mut jobs = hear(bus, "orlop.events.job.*").await?;
    let mut failed = hear(bus, "orlop.events.*.failed").await?;
    let verbs = ["worker.failed", "job.created", "job.failed", "quota.changed", "job.queued"];
    bus.publish(verbs.iter().zip(1..).map(|(verb, id)| event(id, verb)).collect()).await?;
    same("jobs", &ids(&mut jobs, 3).await?, &vec![2, 3, 5])?;
    same("failures", &ids(&mut failed, 2).await?, &vec![1, 3])
}

async fn every_listener_gets_every_event<B: EventBus>(bus: &B) -> CheckResult {
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(hear(bus, "orlop.events.>").await?);
    }
    bus.publish((1..=3).map(|id| event(id, "job.created")).collect()).await?;
    for one in &mut all {
        same("what came", &ids(one, 3).await?, &vec![1, 2, 3])?;
    }
    Ok(())
}

async fn a_listener_hears_nothing_from_before<B: EventBus>(bus: &B) -> CheckResult {
    bus.publish(vec![event(1, "job.created")]).await?;
    let mut all = hear(bus, "orlop.events.>").await?;
    bus.publish(vec![event(2, "job.created")]).await?;
    same("what came", &ids(&mut all, 1).await?, &vec![2])
}

async fn events_published_again_come_once<B: EventBus>(bus: &B) -> CheckResult {
    let mut all = hear(bus, "orlop.events.>").await?;
    let some = |range: std::ops::RangeInclusive<u64>| range.map(|id| event(id, "job.created")).collect();
    bus.publish(some(1..=3)).await?;
    bus.publish(some(2..=5)).await?;
    same("what came", &ids(&mut all, 5).await?, &(1..=5).collect())
}

async fn bodies_of_any_text_come_whole<B: EventBus>(bus: &B) -> CheckResult {
    let mut all = hear(bus, "orlop.events.>").await?;
    let bodies = ["", "{}", "\"\u{1f980}\\u0000\"", &"x".repeat(MAX_BODY)];
    let subject = || "orlop.events.job.created".into();
    let events = bodies.iter().zip(1..).map(|(&body, id)| BusEvent { id, subject: subject(), body: body.into() });
    bus.publish(events.collect()).await?;
    for body in bodies {
        match all.next().await {
            Some(Delivery::Event(event)) => holds("the body comes whole", &*event.body == body)?,
            other => return Err(Broken::new(format!("{other:?} came"))),
        }
    }
    Ok(())
}

async fn a_body_that_is_too_long_is_refused<B: EventBus>(bus: &B) -> CheckResult {
    let body = "x".repeat(MAX_BODY + 1).into();
    let long = BusEvent { body, ..event(1, "job.created") };
    fails("publishing", bus.publish(vec![long]).await, Class::Invalid)
}

async fn a_subject_outside_the_root_is_refused<B: EventBus>(bus: &B) -> CheckResult {
    for subject in ["job.created", "orlop.events.", "orlop.events.a..b", "orlop.events.>", "orlop.events.a b"] {
        let strange = BusEvent { subject: subject.to_owned().into(), ..event(1, "x") };
        fails(subject, bus.publish(vec![strange]).await, Class::Invalid)?;
    }
    Ok(())
}

async fn publishing_nothing_is_fine<B: EventBus>(bus: &B) -> CheckResult {
    Ok(bus.publish(Vec::new()).await?)
}
