//! Publishing the events of a store's outbox: in the order of their ids, each deleted once the bus has confirmed it. Owns one pass; the
//! server decides when to call it.

use orlop_core::error::Problem;
use orlop_core::id::Epoch;
use orlop_core::ports::bus::{BusEvent, EventBus};
use orlop_core::ports::fleet_store::{FleetStore, Page};

/// Events of one round.
const ROUND: u32 = 1_024;

/// Publishes everything that waits in the outbox and gives the number of events. When it fails, what was confirmed is gone
/// from the outbox and the rest is still there: call it again later.
///
/// # Errors
/// Those of the bus and of the store.
pub async fn drain_outbox<S, B>(store: &S, bus: &B, epoch: Epoch) -> Result<u64, Problem>
where
    S: FleetStore + ?Sized,
    B: EventBus + ?Sized,
{
    let mut published = 0;
    loop {
        let page = store.outbox(&Page::first(ROUND)).await?;
        if page.items.is_empty() {
            return Ok(published);
        }
        let ids: Vec<u64> = page.items.iter().map(|row| row.id).collect();
        let event = |row: orlop_core::ports::fleet_store::OutboxRow| BusEvent {
            id: row.id,
            subject: row.event.subject,
            body: row.event.body,
        };
        bus.publish(page.items.into_iter().map(event).collect()).await?;
        store.confirm(epoch, &ids).await?;
        published += ids.len() as u64;
        if page.next.is_none() {
            return Ok(published);
        }
    }
}

#[cfg(test)]
pub(super) mod suite {
    use orlop_core::ports::bus::{Delivery, SubjectFilter};
    use orlop_core::ports::fleet_store::{FleetReads as _, Holder, OutboxEvent, Record, WriteBatch};
    use orlop_core::testing::{MemoryBus, MemoryFleet};

    use super::*;

    /// A bus gets every event of an outbox once, in order.
    pub(in crate::bus) async fn drains(bus: &impl EventBus) {
        let store = MemoryFleet::new();
        let epoch = store.acquire(&Holder { name: "a".to_owned(), url: String::new() }).await.unwrap();
        let mut heard = bus.subscribe(SubjectFilter::all()).await.unwrap();
        let event = |number: u32| {
            let subject = "orlop.events.job.created".into();
            Record::Event(Box::new(OutboxEvent { subject, body: format!("{{\"n\":{number}}}").into() }))
        };
        store.commit(epoch, vec![WriteBatch::new((0..1_500).map(event).collect())]).await.unwrap();
        assert_eq!(drain_outbox(&store, bus, epoch).await.unwrap(), 1_500);
        assert_eq!(drain_outbox(&store, bus, epoch).await.unwrap(), 0);
        assert!(store.outbox(&Page::first(1)).await.unwrap().items.is_empty());
        for number in 0..1_500 {
            match heard.next().await {
                Some(Delivery::Event(event)) => assert_eq!(&*event.body, format!("{{\"n\":{number}}}")),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn an_outbox_is_drained_in_order() {
        drains(&MemoryBus::new(10_000)).await;
        drains(&crate::bus::local::LocalBus::new()).await;
    }
}
