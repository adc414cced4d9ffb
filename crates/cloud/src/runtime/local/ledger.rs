//! Who has what of the machine. Owns the sums of requests and which GPU is whose; lasts as long as the process, so
//! adopted pods are entered again.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::runtime::plan::request::{Machine, Request};
use crate::runtime::pod::PodKey;

/// Requests of live pods against what the machine has.
#[derive(Debug)]
pub(super) struct Ledger {
    machine: Machine,
    taken: Mutex<BTreeMap<PodKey, (Request, Vec<u32>)>>,
    room: Notify,
}

impl Ledger {
    pub(super) fn new(machine: Machine) -> Self {
        Self { machine, taken: Mutex::default(), room: Notify::new() }
    }

    /// Takes what a pod asks for and gives its GPUs, if there is room. A pod that has its share keeps it.
    pub(super) fn try_take(&self, key: &PodKey, request: Request) -> Option<Vec<u32>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, gpus)) = taken.get(key) {
            return Some(gpus.clone());
        }
        let sum = |part: fn(&Request) -> u64| {
            taken.values().fold(0_u64, |sum, (request, _)| sum.saturating_add(part(request)))
        };
        let fits = |asked: u64, used: u64, has: u64| asked == 0 || used.saturating_add(asked) <= has;
        if !fits(request.cpu_milli, sum(|request| request.cpu_milli), self.machine.cpu_milli)
            || !fits(request.memory_bytes, sum(|request| request.memory_bytes), self.machine.memory_bytes)
        {
            return None;
        }
        let free = |gpu: &&u32| !taken.values().any(|(_, gpus)| gpus.contains(gpu));
        let gpus: Vec<u32> = self.machine.gpus.iter().filter(free).copied().take(request.gpus as usize).collect();
        if gpus.len() < request.gpus as usize {
            return None;
        }
        taken.insert(key.clone(), (request, gpus.clone()));
        Some(gpus)
    }

    /// As [`Ledger::try_take`], waiting for room. Dropping the future takes nothing.
    pub(super) async fn take(&self, key: &PodKey, request: Request) -> Vec<u32> {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if let Some(gpus) = self.try_take(key, request) {
                return gpus;
            }
            room.await;
        }
    }

    /// Enters a pod that lives already, also where there is no room for it.
    pub(super) fn enter(&self, key: &PodKey, request: Request, gpus: Vec<u32>) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), (request, gpus));
    }

    /// Gives back what a pod had; nothing when it had nothing.
    pub(super) fn release(&self, key: &PodKey) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::attempt::AttemptKey;

    use super::*;

    fn pod(number: u32) -> PodKey {
        PodKey { attempt: AttemptKey { flow: "f".into(), step: "s".into(), item: None, attempt: 1 }, pod: number }
    }

    fn ledger() -> Ledger {
        Ledger::new(Machine { name: "m".into(), cpu_milli: 4_000, memory_bytes: 100, gpus: vec![0, 3] })
    }

    fn request(cpu_milli: u64, memory_bytes: u64, gpus: u32) -> Request {
        Request { cpu_milli, memory_bytes, gpus }
    }

    #[test]
    fn sums_never_pass_the_machine_and_no_gpu_is_given_twice() {
        let ledger = ledger();
        assert_eq!(ledger.try_take(&pod(0), request(3_000, 50, 1)), Some(vec![0]));
        assert_eq!(ledger.try_take(&pod(0), request(3_000, 50, 1)), Some(vec![0]), "its own share");
        assert_eq!(ledger.try_take(&pod(1), request(1_500, 1, 0)), None);
        assert_eq!(ledger.try_take(&pod(1), request(1_000, 51, 0)), None);
        assert_eq!(ledger.try_take(&pod(1), request(1_000, 50, 2)), None);
        assert_eq!(ledger.try_take(&pod(1), request(1_000, 50, 1)), Some(vec![3]));
        assert_eq!(ledger.try_take(&pod(2), request(0, 0, 0)), Some(vec![]), "who asks for nothing always fits");
        ledger.release(&pod(0));
        assert_eq!(ledger.try_take(&pod(3), request(3_000, 0, 1)), Some(vec![0]));
    }

    #[test]
    fn adopted_pods_count_even_beyond_the_machine() {
        let ledger = ledger();
        ledger.enter(&pod(0), request(9_000, 0, 1), vec![3]);
        assert_eq!(ledger.try_take(&pod(1), request(1, 0, 0)), None);
        assert_eq!(ledger.try_take(&pod(1), request(0, 0, 1)), Some(vec![0]));
    }

    #[tokio::test]
    async fn waiting_ends_when_room_is_given_back() {
        let ledger = ledger();
        ledger.enter(&pod(0), request(4_000, 0, 0), Vec::new());
        let (first, second) = (pod(1), pod(2));
        let waiting = async {
            tokio::join!(ledger.take(&first, request(2_000, 0, 0)), ledger.take(&second, request(2_000, 0, 0)))
        };
        let ((), given) = tokio::join!(async { ledger.release(&pod(0)) }, waiting);
        assert_eq!(given, (vec![], vec![]));
    }
}
