//! Tokens and certificates of workers as the store has them, for the guard: read once, and again when one was written, when
//! another term of leadership began, or after a while. What was revoked or has expired is good for nothing from then on.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orlop_core::error::Problem;
use orlop_core::id::{Epoch, WorkerId};
use orlop_core::ports::fleet_store::{Document as _, Entry, Token};
use orlop_core::time::Time;

use super::auth::{Bearer, Caller, Role, Scope, SecretHash, TokenId};
use super::guard::ACCESS;
use super::state::store;
use crate::host::scheduler::{Handle, Status};
use crate::wire::identity::PeerCertificate;

/// How long a token is not read again, in milliseconds. Every change of one is known before, as this server makes it; this
/// is for those that a server makes which does not know yet that another one leads.
const FRESH: u64 = 5000;
/// Tokens that are remembered.
const REMEMBERED: usize = 4096;

/// The kind of what is kept of a worker that joined: what its token allowed, and its certificates.
pub(crate) const WORKER: &str = "worker";
/// Bytes of a fingerprint.
const PRINT: usize = 32;

/// Under which id it is kept.
pub(crate) fn worker_record(worker: &WorkerId) -> String {
    format!("{WORKER}.{worker}")
}

/// Whether a worker's record knows a certificate: the one that it got last, or the one that it showed for that. Of a record that
/// names none all of its worker are good.
pub(crate) fn knows(record: &Token, certificate: &PeerCertificate) -> bool {
    let print = certificate.fingerprint();
    record.hash.is_empty() || record.hash.chunks_exact(PRINT).any(|known| known == print)
}

/// What a stored token is good for.
#[derive(Clone, Debug)]
struct TokenGrant {
    hash: SecretHash,
    caller: Caller,
}

#[derive(Debug)]
struct CachedToken {
    meaning: TokenGrant,
    epoch: Epoch,
    at: u64,
}

#[derive(Debug, Default)]
struct CacheState {
    /// Grows with every change of a token: what was read before one is not remembered after it.
    round: u64,
    tokens: BTreeMap<String, CachedToken>,
    /// Certificates by their fingerprints, and whether they are good.
    certificates: BTreeMap<[u8; PRINT], (bool, Epoch, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    memory: Mutex<CacheState>,
}

/// A stored token. One that cannot be read is logged, and is good for nothing.
pub(crate) fn stored(entry: &Entry) -> Option<Token> {
    match serde_json::from_str(&entry.body) {
        Ok(token) => Some(token),
        Err(error) => {
            let id = &entry.key;
            tracing::error!(
                target: "orlop::api",
                id,
                %error,
                "a token in the store cannot be read and is rejected: create another one, or restore a backup"
            );
            None
        }
    }
}

impl TokenGrant {
    /// What a token of the store means; none if it lets nobody pass.
    fn of(bearer: &Bearer, token: Token) -> Option<Self> {
        if token.kind != ACCESS || token.revoked_at.is_some() {
            return None;
        }
        let bad = |what: &str| {
            let id = token.id.as_str();
            tracing::error!(target: "orlop::api", id, "a token in the store has {what}; it is refused");
        };
        let Some(hash) = SecretHash::from_bytes(&token.hash) else {
            bad("no hash");
            return None;
        };
        let Some(role) = Role::ALL.into_iter().find(|role| role.as_str() == token.role) else {
            bad("an unknown role");
            return None;
        };
        let Some(scope) = Scope::read(&token.tenants) else {
            bad("an invalid tenant name");
            return None;
        };
        let caller =
            Caller { token: Some(bearer.id().clone()), role, scope, expires_at: token.expires_at, session: None };
        Some(Self { hash, caller })
    }

    fn caller(&self, hash: &SecretHash, now: Time) -> Option<Caller> {
        let good = self.hash.matches(hash) && self.caller.expires_at.is_none_or(|at| now < at);
        good.then(|| self.caller.clone())
    }
}

impl TokenCache {
    fn memory(&self) -> MutexGuard<'_, CacheState> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token was written: all of them are read again.
    pub(super) fn forget(&self) {
        let mut memory = self.memory();
        memory.round += 1;
        memory.tokens.clear();
        memory.certificates.clear();
    }

    /// Whether a worker may use its certificate, which the transport has checked. `ours`: this fleet signs them, so each worker
    /// has a record.
    pub(super) async fn is_good(&self, handle: &Handle, shown: &PeerCertificate, ours: bool) -> Result<bool, Problem> {
        let (now, print) = (handle.clock().monotonic(), shown.fingerprint());
        let leads = match handle.status() {
            Status::Leading { epoch } => Some(epoch),
            _ => None,
        };
        let round = {
            let memory = self.memory();
            if let Some((good, epoch, at)) = memory.certificates.get(&print)
                && Some(*epoch) == leads
                && now < at.saturating_add(FRESH)
            {
                return Ok(*good);
            }
            memory.round
        };
        let good = match shown.worker() {
            None => !ours,
            Some(worker) => {
                let found = handle.store().entry(Token::KIND, &worker_record(&worker)).await;
                match found.map_err(|error| store(&error))? {
                    None => !ours,
                    // One that cannot be read may have been revoked.
                    Some(entry) => {
                        stored(&entry).is_some_and(|record| record.revoked_at.is_none() && knows(&record, shown))
                    }
                }
            }
        };
        if let Some(epoch) = leads {
            let mut memory = self.memory();
            if memory.round == round {
                if memory.certificates.len() >= REMEMBERED {
                    memory.certificates.clear();
                }
                memory.certificates.insert(print, (good, epoch, now));
            }
        }
        Ok(good)
    }

    /// Whether a token that was good still is.
    pub(super) async fn is_live(&self, handle: &Handle, token: &TokenId) -> Result<bool, Problem> {
        let found = handle.store().entry(Token::KIND, token.as_str()).await.map_err(|error| store(&error))?;
        let wall = handle.clock().wall();
        Ok(found.as_ref().and_then(stored).is_some_and(|token| {
            token.kind == ACCESS && token.revoked_at.is_none() && token.expires_at.is_none_or(|at| wall < at)
        }))
    }

    /// Who shows a token; none if it is not good.
    pub(super) async fn caller(&self, handle: &Handle, bearer: &Bearer) -> Result<Option<Caller>, Problem> {
        let (now, wall, hash) = (handle.clock().monotonic(), handle.clock().wall(), bearer.hash());
        // Only the server that leads writes tokens, so only it knows of every change.
        let leads = match handle.status() {
            Status::Leading { epoch } => Some(epoch),
            _ => None,
        };
        let id = bearer.id().as_str();
        let round = {
            let memory = self.memory();
            let seen = memory.tokens.get(id);
            if let Some(seen) = seen.filter(|seen| Some(seen.epoch) == leads && now < seen.at.saturating_add(FRESH)) {
                return Ok(seen.meaning.caller(&hash, wall));
            }
            memory.round
        };
        let found = handle.store().entry(Token::KIND, id).await.map_err(|error| store(&error))?;
        let meaning = found.as_ref().and_then(stored).and_then(|token| TokenGrant::of(bearer, token));
        let Some(meaning) = meaning else { return Ok(None) };
        let caller = meaning.caller(&hash, wall);
        // Anyone who only knows an id fills no memory.
        if let (Some(epoch), true) = (leads, caller.is_some()) {
            let mut memory = self.memory();
            if memory.round == round {
                if memory.tokens.len() >= REMEMBERED {
                    memory.tokens.clear();
                }
                memory.tokens.insert(id.to_owned(), CachedToken { meaning, epoch, at: now });
            }
        }
        Ok(caller)
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;

    use super::*;

    fn token(bearer: &Bearer) -> Token {
        Token {
            id: bearer.id().as_str().to_owned(),
            hash: bearer.hash().as_bytes().to_vec(),
            kind: ACCESS.to_owned(),
            role: "viewer".to_owned(),
            tenants: vec!["physics".to_owned()],
            labels: Vec::new(),
            note: String::new(),
            created_at: Time::EPOCH,
            expires_at: Some(Time::from_millis(1000)),
            uses_left: None,
            revoked_at: None,
        }
    }

    #[test]
    fn what_a_token_means_ends_with_its_time() {
        let bearer = Bearer::generate(&SystemRandom::new()).unwrap();
        let meaning = TokenGrant::of(&bearer, token(&bearer)).unwrap();
        assert_eq!(meaning.caller(&bearer.hash(), Time::from_millis(999)).unwrap().role, Role::Viewer);
        assert!(meaning.caller(&bearer.hash(), Time::from_millis(1000)).is_none());
        let other = Bearer::generate(&SystemRandom::new()).unwrap();
        assert!(meaning.caller(&other.hash(), Time::EPOCH).is_none());
    }

    #[test]
    fn a_stored_token_that_is_damaged_lets_nobody_pass() {
        let bearer = Bearer::generate(&SystemRandom::new()).unwrap();
        let good = token(&bearer);
        assert!(TokenGrant::of(&bearer, good.clone()).is_some());
        for bad in [
            Token { hash: vec![1], ..good.clone() },
            Token { role: "god".to_owned(), ..good.clone() },
            Token { tenants: vec!["No Name".to_owned()], ..good.clone() },
            Token { kind: "join".to_owned(), ..good.clone() },
            Token { revoked_at: Some(Time::EPOCH), ..good },
        ] {
            assert!(TokenGrant::of(&bearer, bad.clone()).is_none(), "{bad:?}");
        }
    }
}
