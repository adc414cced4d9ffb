//! How often each caller may call: a bucket per token, and one per address of those without. The clock is an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use orlop_core::rate::{Bucket, Rate};

use crate::bearer::TokenId;

/// Buckets of at most so many callers of a kind are kept; beyond that the idle ones are forgotten, and then all new ones
/// share one bucket.
const CALLERS: usize = 16_384;

/// Milliseconds between two searches for idle ones.
const SWEEP: u64 = 1000;

/// The rates of all callers.
#[derive(Debug)]
pub struct Rates {
    /// Of tokens, and of addresses.
    limits: Mutex<(Rate, Rate)>,
    tokens: Mutex<Buckets<TokenId>>,
    addresses: Mutex<Buckets<IpAddr>>,
}

#[derive(Debug)]
struct Buckets<K> {
    own: HashMap<K, Bucket>,
    /// Of those for whom there is no room.
    rest: Option<Bucket>,
    /// When idle ones may be looked for again: a flood of new callers does not pay for the search each time.
    sweep_at: u64,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self { own: HashMap::new(), rest: None, sweep_at: 0 }
    }
}

impl<K: Clone + Eq + Hash> Buckets<K> {
    fn take(&mut self, key: &K, rate: &Rate, now: u64) -> Result<(), u64> {
        if let Some(bucket) = self.own.get_mut(key) {
            return bucket.take(rate, now, 1);
        }
        if self.own.len() >= CALLERS && now >= self.sweep_at {
            self.sweep_at = now.saturating_add(SWEEP);
            self.own.retain(|_, bucket| !bucket.is_full(rate, now));
        }
        if self.own.len() >= CALLERS {
            return self.rest.get_or_insert_with(|| Bucket::full(rate, now)).take(rate, now, 1);
        }
        self.own.entry(key.clone()).or_insert_with(|| Bucket::full(rate, now)).take(rate, now, 1)
    }
}

impl Rates {
    /// Rates per token and per address without a token. The contract's are 100/s with a burst of 200, and 20/s.
    #[must_use]
    pub fn new(token: Rate, address: Rate) -> Self {
        Self { limits: Mutex::new((token, address)), tokens: Mutex::default(), addresses: Mutex::default() }
    }

    /// From now on these hold.
    pub fn set(&self, token: Rate, address: Rate) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = (token, address);
    }

    fn limits(&self) -> (Rate, Rate) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call of a token's bearer at `now` milliseconds.
    ///
    /// # Errors
    /// It calls too often: after how many milliseconds it may again.
    pub fn token(&self, id: &TokenId, now: u64) -> Result<(), u64> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).take(id, &self.limits().0, now)
    }

    /// Counts a call without a token.
    ///
    /// # Errors
    /// As of [`Rates::token`].
    pub fn address(&self, address: IpAddr, now: u64) -> Result<(), u64> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).take(&address, &self.limits().1, now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ring::rand::SystemRandom;

    use super::*;
    use crate::api::auth::Bearer;

    fn rates() -> Rates {
        Rates::new(Rate { per_second: 100, burst: 200 }, Rate { per_second: 20, burst: 20 })
    }

    #[test]
    fn each_token_has_its_own_rate() {
        let rates = rates();
        let [a, b] = [0, 1].map(|_| Bearer::generate(&SystemRandom::new()).unwrap().id().clone());
        assert_eq!((0..300).filter(|_| rates.token(&a, 0).is_ok()).count(), 200);
        assert_eq!(rates.token(&a, 0), Err(10));
        assert_eq!(rates.token(&b, 0), Ok(()));
        assert_eq!(rates.token(&a, 10), Ok(()));
    }

    #[test]
    fn rates_can_be_changed_while_they_hold() {
        let rates = rates();
        let token = Bearer::generate(&SystemRandom::new()).unwrap().id().clone();
        assert_eq!((0..300).filter(|_| rates.token(&token, 0).is_ok()).count(), 200);
        rates.set(Rate { per_second: 1000, burst: 1000 }, Rate { per_second: 20, burst: 20 });
        assert_eq!((0..2000).filter(|_| rates.token(&token, 1000).is_ok()).count(), 1000);
    }

    #[test]
    fn the_number_of_buckets_is_bounded_and_idle_ones_make_room() {
        let rates = rates();
        let address = |n: u32| IpAddr::V4(Ipv4Addr::from(n));
        for n in 0..20_000 {
            let _ = rates.address(address(n), 0);
        }
        assert_eq!(rates.addresses.lock().unwrap().own.len(), CALLERS);
        assert!(rates.address(address(30_000), 0).is_err(), "the shared bucket is used up");
        assert_eq!(rates.address(address(30_000), 1000), Ok(()));
        assert!(rates.addresses.lock().unwrap().own.len() < 10);
    }
}
