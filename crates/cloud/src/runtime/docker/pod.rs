//! What the driver of a pod shares with those who ask something of it. Owns the order of their acts: what is asked is
//! written down before anybody acts on it, and nobody acts on a pod while somebody else changes what is asked.

use std::path::Path;
use std::sync::Arc;

use orlop_core::error::Problem;
use orlop_core::time::Time;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use super::record::{Control, Files};
use crate::clock;
use crate::runtime::blocking::blocking;

/// A pod, as this process knows it.
#[derive(Debug)]
pub(in crate::runtime) struct Pod {
    /// What is written down of it.
    pub(in crate::runtime) files: Files,
    control: watch::Sender<Control>,
    changes: Arc<Mutex<()>>,
    /// Why its engine cannot be reached now.
    outage: watch::Sender<Option<String>>,
}

/// The lock under which a pod's control is changed and its containers are acted on.
pub(in crate::runtime) struct PodLock<'a> {
    pod: &'a Pod,
    /// Held until what is being written down is, even by one who does not wait for that.
    guard: Arc<OwnedMutexGuard<()>>,
}

impl Pod {
    /// The pod whose records are in `directory`.
    pub(in crate::runtime) fn open(directory: &Path) -> Result<Self, Problem> {
        let files = Files::new(directory);
        let control = watch::Sender::new(files.control()?);
        Ok(Self { files, control, changes: Arc::default(), outage: watch::Sender::default() })
    }

    /// Whether its engine can be reached, as that changes.
    pub(in crate::runtime) fn outages(&self) -> watch::Receiver<Option<String>> {
        self.outage.subscribe()
    }

    /// Its engine cannot be reached, and why.
    pub(in crate::runtime) fn outage_begins(&self, why: String) {
        self.outage.send_if_modified(|known| {
            let begins = known.is_none();
            known.get_or_insert(why);
            begins
        });
    }

    /// Its engine was reached.
    pub(in crate::runtime) fn outage_ends(&self) {
        self.outage.send_if_modified(|known| known.take().is_some());
    }

    /// Waits until nobody else changes or uses the pod.
    pub(in crate::runtime) async fn lock(&self) -> PodLock<'_> {
        PodLock { pod: self, guard: Arc::new(Arc::clone(&self.changes).lock_owned().await) }
    }

    /// What is asked of it.
    pub(in crate::runtime) fn control(&self) -> Control {
        self.control.borrow().clone()
    }

    /// Tells when that changes.
    pub(in crate::runtime) fn watch(&self) -> watch::Receiver<Control> {
        self.control.subscribe()
    }
}

impl PodLock<'_> {
    /// Changes what is asked of the pod: on disk first, then for everybody.
    pub(in crate::runtime) async fn change(&self, change: impl FnOnce(&mut Control)) -> Result<(), Problem> {
        let mut control = self.pod.control();
        change(&mut control);
        if control == self.pod.control() {
            return Ok(());
        }
        let (files, reported, guard) = (self.pod.files.clone(), self.pod.control.clone(), Arc::clone(&self.guard));
        blocking(move || {
            let _guard = guard;
            files.write_control(&control)?;
            reported.send_replace(control);
            Ok(())
        })
        .await
    }
}

/// The time now.
pub(in crate::runtime) fn now() -> Time {
    clock::now()
}
