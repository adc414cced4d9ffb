//! How much waits, by band and by why. Owns this view; it is for reports and decides nothing.

use super::Scheduler;
use crate::class::Class;
use crate::queue::Queue;

/// Jobs in queues, arrays counting as one each; by band, the most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Those whose turn can come in the next round.
    pub ready: [u64; 3],
    /// Those whose class fits no worker now.
    pub blocked: [u64; 3],
    /// Those that their tenant's quota stops.
    pub quota: [u64; 3],
    /// Classes with queues that are not blocked.
    pub classes_ready: u64,
    /// Classes with queues that are.
    pub classes_blocked: u64,
    /// Reservations of workers.
    pub reservations: u64,
}

impl Scheduler {
    /// How much waits. Cost: linear in queues with jobs, and in classes.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let mut all = Waiting { reservations: self.reservations.len() as u64, ..Waiting::default() };
        for tenant in &self.tenants {
            for (band, lane) in tenant.lanes.iter().enumerate() {
                for entry in &lane.entries {
                    let count = self.queues.get(entry.queue as usize).map_or(0, Queue::len);
                    let blocked = self.classes.get(entry.class).is_some_and(Class::is_blocked);
                    let of = match (entry.stopped, blocked) {
                        (true, _) => &mut all.quota,
                        (false, true) => &mut all.blocked,
                        (false, false) => &mut all.ready,
                    };
                    if let Some(sum) = of.get_mut(band) {
                        *sum += count;
                    }
                }
            }
        }
        for (_, class) in self.classes.iter().filter(|(_, class)| class.queues > 0) {
            if class.is_blocked() {
                all.classes_blocked += 1;
            } else {
                all.classes_ready += 1;
            }
        }
        all
    }
}
