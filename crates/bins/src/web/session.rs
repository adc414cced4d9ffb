//! Sessions of browsers, and the links that open them. A session has two halves: a cookie that no script can read, and a proof that
//! no other origin can send; each alone is worth nothing. Decides who a request is from; stores nothing by itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orlop_core::error::{Class, Code, Problem};
use orlop_core::ports::fleet_store::{Document as _, Kind, Record, Session, SessionGrant, SessionLink};
use orlop_core::time::Time;
use ring::rand::SystemRandom;

use super::failures::Failures;
use super::session_store::SessionStore;
use crate::bearer::{Bearer, SecretHash, random};

/// Sessions of one token, and all.
const OF_TOKEN: usize = 32;
const ALL: usize = 1000;
/// Links of one caller that nobody has used yet.
const LINKS: usize = 32;
/// Characters of a proof and of the key of a link: 260 and 130 bits.
const PROOF_CHARS: usize = 52;
const KEY_CHARS: usize = 26;
/// What was used at most so long ago is not written again.
const USED_STEP: Duration = Duration::from_secs(60);
/// For so long what was read of a session is taken for true where no other server writes.
const FRESH: Duration = Duration::from_secs(5);

/// How long sessions and links live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// A session, however much it is used.
    pub session: Duration,
    /// One without any request or stream.
    pub idle: Duration,
    /// A link that nobody uses.
    pub link: Duration,
}

impl Default for Lives {
    fn default() -> Self {
        Self {
            session: Duration::from_secs(12 * 3600),
            idle: Duration::from_secs(2 * 3600),
            link: Duration::from_secs(60),
        }
    }
}

/// What a browser gets when a session begins: both halves, once.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The session.
    pub(crate) session: Session,
    /// The value of the cookie.
    pub(crate) cookie: String,
    /// The proof.
    pub(crate) proof: String,
}

/// A session as it was read last.
#[derive(Debug)]
struct Known {
    session: Session,
    /// Of which term of the store.
    term: u64,
    at: Time,
}

#[derive(Debug, Default)]
struct Memory {
    known: BTreeMap<String, Known>,
    /// When each was used last.
    used: BTreeMap<String, Time>,
    failures: Failures,
}

/// The sessions of a host.
#[derive(Debug)]
pub(crate) struct Sessions<S> {
    store: S,
    lives: Lives,
    random: SystemRandom,
    /// Held while a session begins, so that a link opens one.
    turn: tokio::sync::Mutex<()>,
    memory: Mutex<Memory>,
}

/// Refuses who shows nothing that opens a session: one text for what is wrong, used up or expired.
fn refused() -> Problem {
    Problem::coded(Code::Unauthenticated, "this link or token is not valid: it is wrong, was used, or has expired")
}

fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(Class::Fatal, error.to_string())
}

impl<S: SessionStore> Sessions<S> {
    pub(crate) fn new(store: S, lives: Lives) -> Self {
        Self {
            store,
            lives,
            random: SystemRandom::new(),
            turn: tokio::sync::Mutex::default(),
            memory: Mutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A link for a caller: its key, and until when it can be used.
    ///
    /// # Errors
    /// RateLimited: the caller has too many links that nobody has used; as of the store.
    pub(crate) async fn link(&self, grant: SessionGrant, now: Time) -> Result<(String, Time), Problem> {
        let _turn = self.turn.lock().await;
        let links = self.store.links().await?;
        let (live, over): (Vec<SessionLink>, Vec<SessionLink>) =
            links.into_iter().partition(|link| now < link.expires_at);
        if live.iter().filter(|link| link.grant.token == grant.token).count() >= LINKS {
            let text =
                format!("{LINKS} links of this caller are open, the maximum; use one, or wait until they expire");
            return Err(Problem::coded(Code::RateLimited, text).retry_after(self.lives.link));
        }
        let key = random(&self.random, KEY_CHARS).map_err(internal)?;
        let expires_at = now.plus(self.lives.link);
        let link = SessionLink { hash: SecretHash::of(&key).as_bytes().to_vec(), grant, expires_at };
        let mut records = vec![Record::put(&link)?];
        records.extend(over.iter().map(|link| Record::Delete(Kind::SessionLink, link.key())));
        self.store.write(records).await?;
        Ok((key, expires_at))
    }

    /// Begins the session that a link opens. Of any number of takers of a link one gets it.
    ///
    /// # Errors
    /// Unauthenticated where no such link is open; as of the store.
    pub(crate) async fn follow(&self, key: &str, now: Time) -> Result<Begun, Problem> {
        let _turn = self.turn.lock().await;
        let hash = SecretHash::of(key).as_bytes().to_vec();
        let wanted = SessionLink { hash, grant: SessionGrant::default(), expires_at: now }.key();
        let link = self.store.link(&wanted).await?.filter(|link| now < link.expires_at).ok_or_else(refused)?;
        self.begun(link.grant, vec![Record::Delete(Kind::SessionLink, wanted)], now).await
    }

    /// Begins a session of somebody who has shown who it is.
    ///
    /// # Errors
    /// As of the store.
    pub(crate) async fn begin(&self, grant: SessionGrant, now: Time) -> Result<Begun, Problem> {
        let _turn = self.turn.lock().await;
        self.begun(grant, Vec::new(), now).await
    }

    async fn begun(&self, grant: SessionGrant, mut records: Vec<Record>, now: Time) -> Result<Begun, Problem> {
        if grant.token_expires_at.is_some_and(|at| at <= now) {
            return Err(refused());
        }
        let bearer = Bearer::generate(&self.random).map_err(internal)?;
        let proof = random(&self.random, PROOF_CHARS).map_err(internal)?;
        let ends = now.plus(self.lives.session);
        let session = Session {
            id: bearer.id().as_str().to_owned(),
            cookie: bearer.hash().as_bytes().to_vec(),
            proof: SecretHash::of(&proof).as_bytes().to_vec(),
            expires_at: grant.token_expires_at.map_or(ends, |at| at.min(ends)),
            grant,
            created_at: now,
            used_at: now,
        };
        let over = self.displaced(&session, now).await?;
        records.extend(over.iter().map(|id| Record::Delete(Kind::Session, id.clone())));
        records.push(Record::put(&session)?);
        self.store.write(records).await?;
        let mut memory = self.memory();
        for id in over {
            memory.known.remove(&id);
            memory.used.remove(&id);
        }
        Ok(Begun { session, cookie: bearer.reveal(), proof })
    }

    /// Sessions that a new one takes the place of: those that are over, and the longest idle beyond the bounds.
    async fn displaced(&self, new: &Session, now: Time) -> Result<Vec<String>, Problem> {
        let all = self.store.sessions().await?;
        let (mut live, over): (Vec<Session>, Vec<Session>) =
            all.into_iter().partition(|session| self.is_live(session, now));
        let mut gone: Vec<String> = over.into_iter().map(|session| session.id).collect();
        live.sort_by_key(|session| self.used(session));
        let own = live.iter().filter(|session| session.grant.token == new.grant.token).count();
        let mut beyond_own = (own + 1).saturating_sub(OF_TOKEN);
        let mut beyond = (live.len() + 1).saturating_sub(ALL);
        for session in live {
            let is_own = session.grant.token == new.grant.token;
            if (is_own && beyond_own > 0) || beyond > 0 {
                beyond_own = beyond_own.saturating_sub(usize::from(is_own));
                beyond = beyond.saturating_sub(1);
                gone.push(session.id);
            }
        }
        Ok(gone)
    }

    fn used(&self, session: &Session) -> Time {
        self.memory().used.get(&session.id).copied().unwrap_or(session.used_at).max(session.used_at)
    }

    fn is_live(&self, session: &Session, now: Time) -> bool {
        now < session.expires_at && now < self.used(session).plus(self.lives.idle)
    }

    /// The session that both halves of a request show; none where it is not good.
    ///
    /// # Errors
    /// As of the store.
    pub(crate) async fn find(&self, cookie: &str, proof: &str, now: Time) -> Result<Option<Session>, Problem> {
        let Ok(bearer) = Bearer::parse(cookie) else { return Ok(None) };
        let Some(session) = self.read(bearer.id().as_str(), now).await? else { return Ok(None) };
        let same =
            |stored: &[u8], shown: &SecretHash| SecretHash::from_bytes(stored).is_some_and(|it| it.matches(shown));
        let both = same(&session.cookie, &bearer.hash()) & same(&session.proof, &SecretHash::of(proof));
        if !both || !self.is_live(&session, now) {
            return Ok(None);
        }
        self.touch(&session, now).await?;
        Ok(Some(session))
    }

    /// Whether a session that was good still is: it has not ended, by its time, idleness or somebody's will.
    ///
    /// # Errors
    /// As of the store.
    pub(crate) async fn holds(&self, id: &str, now: Time) -> Result<bool, Problem> {
        Ok(self.read(id, now).await?.is_some_and(|session| self.is_live(&session, now)))
    }

    /// Notes that a stream of a session is open.
    ///
    /// # Errors
    /// As of the store.
    pub(crate) async fn keep(&self, id: &str, now: Time) -> Result<(), Problem> {
        match self.read(id, now).await? {
            Some(session) if self.is_live(&session, now) => self.touch(&session, now).await,
            _ => Ok(()),
        }
    }

    async fn read(&self, id: &str, now: Time) -> Result<Option<Session>, Problem> {
        let term = self.store.term();
        if let Some(known) = self.memory().known.get(id)
            && Some(known.term) == term
            && now < known.at.plus(FRESH)
        {
            return Ok(Some(known.session.clone()));
        }
        let found = self.store.session(id).await?;
        let mut memory = self.memory();
        match (&found, term) {
            (Some(session), Some(term)) => {
                memory.known.insert(id.to_owned(), Known { session: session.clone(), term, at: now });
            }
            _ => {
                memory.known.remove(id);
            }
        }
        Ok(found)
    }

    /// Notes that a session is used now. It is written once a minute.
    async fn touch(&self, session: &Session, now: Time) -> Result<(), Problem> {
        self.memory().used.insert(session.id.clone(), now);
        if self.store.term().is_none() || now < session.used_at.plus(USED_STEP) {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        // It may have been ended meanwhile: that stays.
        let Some(stored) = self.store.session(&session.id).await? else { return Ok(()) };
        let used = Session { used_at: now, ..stored };
        self.store.write(vec![Record::put(&used)?]).await?;
        if let Some(known) = self.memory().known.get_mut(&session.id) {
            known.session = used;
        }
        Ok(())
    }

    /// Ends a session.
    ///
    /// # Errors
    /// As of the store.
    pub(crate) async fn end(&self, id: &str) -> Result<(), Problem> {
        let _turn = self.turn.lock().await;
        self.store.write(vec![Record::Delete(Kind::Session, id.to_owned())]).await?;
        let mut memory = self.memory();
        memory.known.remove(id);
        memory.used.remove(id);
        Ok(())
    }

    /// Forgets what was read: tokens or sessions were written.
    pub(crate) fn forget(&self) {
        self.memory().known.clear();
    }

    /// Counts a key or token that opened nothing.
    ///
    /// # Errors
    /// RateLimited where there were too many, of this address or of all.
    pub(crate) fn failed(&self, address: IpAddr, now: Time) -> Problem {
        match self.memory().failures.count(address, now) {
            None => refused(),
            Some(wait) => {
                let text = "too many attempts to sign in failed; try again later";
                Problem::coded(Code::RateLimited, text).retry_after(wait)
            }
        }
    }
}
