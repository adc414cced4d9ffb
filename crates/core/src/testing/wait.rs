//! Waiting without a runtime: polling several futures as one, and asking a future once. Owns no thread and no timer.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// A future on the heap.
pub(super) type Pinned<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Locks a double's state. A panic of another test thread while it held the lock is that test's failure, not this one's.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outputs of all futures, in their order, polled together.
pub(super) async fn all<T>(mut futures: Vec<Pinned<'_, T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, slot) in futures.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *slot = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// The output of a future if it has one at once. The future is dropped.
pub(super) async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
