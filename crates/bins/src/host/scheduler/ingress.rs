//! What comes in: one bounded lock-free queue per band and one for control traffic, filled by handlers without blocking,
//! drained by the batch. The thread that drains parks when nothing is left, and anyone who brings something wakes it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use orlop_scheduler::job::Band;
use tokio::sync::Notify;

/// Which queue an input goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Frames of workers, orders of operators, everything that is no submit.
    Control,
    /// Submits of a band.
    Band(Band),
}

/// How many inputs of the control queue are taken for one of each band.
const CONTROL_SHARE: usize = 3;

/// The three queues High, Normal and Low and the one beside them. Bounded: a flood is refused, it never grows.
#[derive(Debug)]
pub struct LockFreePriorityQueue<T> {
    control: ArrayQueue<T>,
    bands: [ArrayQueue<T>; 3],
    wake: Wake,
    /// Notified after every drain, for those who wait for room.
    room: Notify,
}

impl<T> LockFreePriorityQueue<T> {
    /// Empty queues that hold `each` inputs a band, and as many for control.
    #[must_use]
    pub fn new(each: usize) -> Self {
        let queue = || ArrayQueue::new(each.max(1));
        Self { control: queue(), bands: [queue(), queue(), queue()], wake: Wake::default(), room: Notify::new() }
    }

    /// Hands an input over and wakes the loop.
    ///
    /// # Errors
    /// The queue is full; the input comes back.
    pub fn push(&self, lane: Lane, input: T) -> Result<(), T> {
        let queue = match lane {
            Lane::Control => &self.control,
            Lane::Band(band) => &self.bands[band as usize],
        };
        queue.push(input)?;
        self.wake.wake();
        Ok(())
    }

    /// As [`LockFreePriorityQueue::push`], but waits for room: for senders that are slowed down instead of refused.
    pub async fn push_when_room(&self, lane: Lane, input: T) {
        let mut input = input;
        loop {
            // Enlisted before the try: a drain in between is not missed.
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.push(lane, input) {
                Ok(()) => return,
                Err(back) => input = back,
            }
            room.await;
        }
    }

    /// Takes inputs until `limit` are taken, `take` says no, or nothing is left: three of control for one of each band, so
    /// that nobody who is backed up waits for others, and bands that are all backed up get a third each. Returns how many.
    pub fn drain(&self, limit: usize, mut take: impl FnMut(T) -> bool) -> usize {
        let mut taken = 0;
        'batch: loop {
            let before = taken;
            let control = std::iter::repeat_n(&self.control, CONTROL_SHARE);
            for queue in control.chain(&self.bands) {
                if taken >= limit {
                    break 'batch;
                }
                let Some(input) = queue.pop() else { continue };
                taken += 1;
                if !take(input) {
                    break 'batch;
                }
            }
            if taken == before {
                break;
            }
        }
        if taken > 0 {
            self.room.notify_waiters();
        }
        taken
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.control.is_empty() && self.bands.iter().all(ArrayQueue::is_empty)
    }

    /// What wakes the thread that drains.
    pub(crate) fn wake(&self) -> &Wake {
        &self.wake
    }
}

/// Where the draining thread sleeps.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
}

impl Wake {
    /// Makes the calling thread the one that is woken.
    pub(crate) fn enlist(&self) {
        self.thread.get_or_init(std::thread::current);
    }

    /// Wakes the thread if it sleeps or is about to.
    pub(crate) fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Sleeps until woken, at most for `patience`, unless `idle` says that something has come.
    pub(crate) fn sleep(&self, patience: Option<Duration>, idle: impl Fn() -> bool) {
        self.asleep.store(true, Ordering::SeqCst);
        // What came before the flag was raised is seen here; what comes after it unparks.
        if idle() {
            match patience {
                Some(patience) => std::thread::park_timeout(patience),
                None => std::thread::park(),
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn filled(each: usize) -> LockFreePriorityQueue<char> {
        let queue = LockFreePriorityQueue::new(each);
        for (band, name) in Band::ALL.into_iter().zip(['h', 'n', 'l']) {
            (0..each).for_each(|_| queue.push(Lane::Band(band), name).unwrap());
        }
        queue
    }

    fn drained(queue: &LockFreePriorityQueue<char>, limit: usize) -> String {
        let mut text = String::new();
        queue.drain(limit, |input| {
            text.push(input);
            true
        });
        text
    }

    #[test]
    fn bands_that_are_all_backed_up_get_a_third_each() {
        let queue = filled(300);
        let text = drained(&queue, 300);
        for name in ['h', 'n', 'l'] {
            assert_eq!(text.matches(name).count(), 100, "{name}");
        }
    }

    #[test]
    fn what_others_leave_goes_to_who_waits() {
        let queue = LockFreePriorityQueue::new(8);
        (0..8).for_each(|_| queue.push(Lane::Band(Band::Low), 'l').unwrap());
        queue.push(Lane::Band(Band::High), 'h').unwrap();
        assert_eq!(drained(&queue, 100), "hllllllll");
        assert!(queue.is_empty());
    }

    #[test]
    fn control_does_not_starve_bands_and_bands_not_control() {
        let queue = filled(60);
        (0..60).for_each(|_| queue.push(Lane::Control, 'c').unwrap());
        let text = drained(&queue, 60);
        assert_eq!((text.matches('c').count(), text.matches('n').count()), (30, 10));
    }

    #[test]
    fn a_full_queue_gives_the_input_back() {
        let queue = filled(2);
        assert_eq!(queue.push(Lane::Band(Band::High), 'x'), Err('x'));
        assert_eq!(queue.push(Lane::Control, 'x'), Ok(()));
    }

    #[test]
    fn a_batch_ends_at_its_limit_and_when_its_time_is_over() {
        let queue = filled(10);
        assert_eq!(queue.drain(4, |_| true), 4);
        assert_eq!(queue.drain(4, |_| false), 1);
    }

    #[tokio::test]
    async fn who_may_wait_gets_in_once_there_is_room() {
        let queue = Arc::new(LockFreePriorityQueue::new(1));
        queue.push(Lane::Control, 1).unwrap();
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.push_when_room(Lane::Control, 2).await }
        });
        let mut seen = Vec::new();
        while seen.len() < 2 {
            queue.drain(8, |input| {
                seen.push(input);
                true
            });
            tokio::task::yield_now().await;
        }
        waiting.await.unwrap();
        assert_eq!(seen, [1, 2]);
    }

    #[test]
    fn no_wake_up_is_lost() {
        let (wake, work) = (Arc::new(Wake::default()), Arc::new(AtomicU64::new(0)));
        let sleeper = std::thread::spawn({
            let (wake, work) = (Arc::clone(&wake), Arc::clone(&work));
            move || {
                wake.enlist();
                let mut done = 0;
                while done < 20_000 {
                    match work.swap(0, Ordering::SeqCst) {
                        0 => wake.sleep(None, || work.load(Ordering::SeqCst) == 0),
                        some => done += some,
                    }
                }
                done
            }
        });
        for _ in 0..20_000 {
            work.fetch_add(1, Ordering::SeqCst);
            wake.wake();
        }
        assert_eq!(sleeper.join().unwrap(), 20_000);
    }

    #[test]
    fn patience_ends_the_sleep() {
        let wake = Wake::default();
        wake.enlist();
        wake.sleep(Some(Duration::from_millis(1)), || true);
        wake.sleep(None, || false);
    }
}
