//! Driving flows: taking over what lives when the server takes the lead, a task for each flow, and what is tried again.
//! Decides nothing about a flow.

use std::sync::{Arc, Weak};
use std::time::Duration;

use orlop_core::error::Problem;
use orlop_core::ports::fleet_store::{Documents as _, EntryFilter, FleetFlow, MAX_PAGE, Page};
use orlop_core::ports::journal::{FlowJournal as _, FlowRecord};
use orlop_core::spec::flow::StopMode;
use tokio::sync::watch;

use super::event::{FlowReporter, is_cancelled, mend};
use super::facts::Driver;
use super::key::{Replace, claim};
use super::parts::parts;
use super::{Inner, Live, expiry};
use crate::host::flow::{FlowCommand, FlowHost, Left};
use crate::host::scheduler::Status;

/// The first wait before a flow that could not be driven is tried again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Drives flows while the server leads, as long as both live.
pub(super) async fn supervise(flows: Weak<Inner>, mut status: watch::Receiver<Status>) {
    loop {
        let leads = status.wait_for(|status| matches!(status, Status::Leading { .. } | Status::Stopped)).await;
        let Ok(term) = leads.map(|status| status.clone()) else { return };
        if term == Status::Stopped {
            return;
        }
        let Some(inner) = flows.upgrade() else { return };
        let over = {
            let taking = take_over(&inner);
            tokio::pin!(taking);
            let mut changes = status.clone();
            // A term that ends while flows are read ends that too.
            tokio::select! {
                () = &mut taking => None,
                over = changes.wait_for(|status| *status != term) => Some(over.is_ok()),
            }
        };
        drop(inner);
        if over.is_none() {
            let over = status.wait_for(|status| *status != term);
            let gone = tokio::select! {
                over = over => over.is_err(),
                () = expiry::keep(Weak::clone(&flows)) => true,
            };
            if gone {
                return;
            }
        }
        let Some(inner) = flows.upgrade() else { return };
        inner.abandon();
    }
}

/// Reads every flow that lives and goes on with it, and when the others go.
async fn take_over(inner: &Arc<Inner>) {
    inner.journal.forget();
    inner.keys.clear();
    inner.expiry.clear();
    let mut wait = RETRY.0;
    let flows = loop {
        match living(inner).await {
            Ok(flows) => break flows,
            Err(error) => {
                tracing::warn!(target: "orlop::flows", error = error.chain(), "flows cannot be read, trying again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY.1);
            }
        }
    };
    if !flows.is_empty() {
        tracing::info!(target: "orlop::flows", flows = flows.len(), "resuming flows");
    }
    // All keys that are held are held again before anybody asks for one.
    let mut hosts = Vec::new();
    mend(inner, &flows).await;
    for uid in flows {
        match resume(inner, &uid).await {
            Ok(resumed) => hosts.push(resumed),
            Err(error) => {
                tracing::error!(target: "orlop::flows", uid, error = error.to_string(), "cannot resume a flow");
                tokio::spawn(again(Arc::downgrade(inner), uid, RETRY.0));
            }
        }
    }
    for (host, record) in hosts {
        run(inner, host, record);
    }
    inner.ready.send_replace(true);
}

async fn living(inner: &Inner) -> Result<Vec<String>, Problem> {
    let filter = EntryFilter::default();
    let (mut found, mut page) = (Vec::new(), Page::first(MAX_PAGE));
    loop {
        let part = inner.handle.store().list::<FleetFlow>(&filter, &page).await?;
        for flow in part.items {
            match flow.ended_at {
                Some(_) => inner.expiry.note(&flow),
                None => found.push(flow.id),
            }
        }
        match part.next {
            Some(next) => page = Page::after(next, MAX_PAGE),
            None => return Ok(found),
        }
    }
}

/// The host of a flow that an earlier server has begun.
async fn resume(inner: &Inner, uid: &str) -> Result<(FlowHost, FlowRecord), Problem> {
    let record = inner.journal.load(uid).await?.record;
    let host = FlowHost::resume(parts(inner, &record)?, uid).await?;
    if host.status().start_time.is_some()
        && let Some(claim) = claim(&record)
    {
        inner.keys.hold(&claim);
    }
    Ok((host, record))
}

/// Drives a flow by its own task.
pub(super) fn run(inner: &Arc<Inner>, mut host: FlowHost, record: FlowRecord) {
    let uid = record.uid.clone();
    if host.status().start_time.is_none()
        && let Some(claim) = claim(&record)
    {
        host.set_admission(inner.keys.admission(claim, replace(inner)));
    }
    let handle = host.handle();
    let driver = Driver::of(&record).unwrap_or_default();
    let reported = FlowReporter::new(&record, driver, &host.status());
    // It ends with the host, after the last word.
    tokio::spawn(reported.tell(inner.handle.clone(), handle.status()));
    let flows = Arc::downgrade(inner);
    // Entered before its task runs: that may end at once.
    let mut live = inner.live();
    let (leaves, left) = watch::channel(());
    let task = tokio::spawn(drive(flows, host, uid.clone(), leaves));
    live.insert(uid, Live { host: handle, tasks: vec![task.abort_handle()], left });
}

async fn drive(flows: Weak<Inner>, mut host: FlowHost, uid: String, _leaves: watch::Sender<()>) {
    let left = host.run().await;
    let cancelled = is_cancelled(&host.status());
    drop(host);
    let Some(inner) = flows.upgrade() else { return };
    if cancelled
        && matches!(left, Ok(Left::Ended))
        && let Err(error) = inner.journal.mark_cancelled(&uid).await
    {
        tracing::warn!(target: "orlop::flows", uid, error = error.chain(), "a flow is listed as failed, it was cancelled");
    }
    inner.live().remove(&uid);
    match left {
        Ok(Left::Ended) => {
            inner.keys.release(&uid);
            match inner.journal.document(&uid).await {
                Ok(flow) => inner.expiry.note(&flow),
                // Deleted already; or the next leader finds it.
                Err(error) => {
                    tracing::debug!(target: "orlop::flows", uid, error = error.chain(), "a flow no longer exists");
                }
            }
            inner.journal.leave(&uid);
        }
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(target: "orlop::flows", uid, error = error.to_string(), "a flow is released for now");
            tokio::spawn(again(flows, uid, RETRY.0));
        }
    }
}

/// Goes on with a flow after a while, unless another server leads by then.
async fn again(flows: Weak<Inner>, uid: String, mut wait: Duration) {
    loop {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY.1);
        let Some(inner) = flows.upgrade() else { return };
        if !matches!(inner.handle.status(), Status::Leading { .. }) || inner.live().contains_key(&uid) {
            // The next leader goes on with all of them.
            return;
        }
        match resume(&inner, &uid).await {
            Ok((host, record)) => return run(&inner, host, record),
            Err(error) => {
                tracing::error!(target: "orlop::flows", uid, error = error.to_string(), "cannot resume a flow");
            }
        }
    }
}

/// Ends flows that others take the place of.
fn replace(inner: &Arc<Inner>) -> Replace {
    let flows = Arc::downgrade(inner);
    Arc::new(move |holder| {
        let Some(inner) = flows.upgrade() else { return };
        let host = inner.live().get(&holder).map(|live| live.host.clone());
        if let Some(host) = host {
            tokio::spawn(async move {
                // One that has ended meanwhile is what was wanted.
                if let Err(error) = host.order(FlowCommand::Replace).await {
                    tracing::debug!(target: "orlop::flows", holder, %error, "a flow was not replaced");
                }
            });
        }
    })
}

/// The order to end a flow.
pub(super) const fn stop(graceful: bool) -> FlowCommand {
    FlowCommand::Stop { mode: if graceful { StopMode::Graceful } else { StopMode::Terminate } }
}
