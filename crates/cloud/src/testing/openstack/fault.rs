//! Faults of calls: before the effect, after it, instead of it, or the end of the process that asked. Owns which call meets
//! which fault.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::MemoryCloud;
use crate::openstack::port::{Clock as _, Timer as _};
use crate::openstack::wire::{Lost, Request, Response, Sent};

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nobody listens.
    Refused,
    /// The request gets lost; no answer comes.
    TimeoutBefore,
    /// It is done, but no answer comes.
    TimeoutAfter,
    /// It is done, and the answer breaks off.
    Reset,
    /// It is not done, and this status comes.
    Status(u16),
    /// It is done, and this status comes.
    StatusAfter(u16),
    /// It is done, and an answer without a body comes.
    Empty,
    /// It is done, and a page for people comes.
    Html,
    /// It is done, and half of the answer comes.
    Truncated,
    /// It is done, nobody can see it for 90 seconds, and no answer comes.
    Late,
    /// The caller dies before it is sent.
    Kill,
    /// It is done, and the caller dies before the answer comes.
    KillAfter,
}

impl Fault {
    /// The faults that a process survives.
    pub const SURVIVED: [Self; 17] = [
        Self::Refused,
        Self::TimeoutBefore,
        Self::TimeoutAfter,
        Self::Reset,
        Self::Status(401),
        Self::Status(403),
        Self::Status(404),
        Self::Status(409),
        Self::Status(429),
        Self::Status(500),
        Self::StatusAfter(500),
        Self::Status(502),
        Self::Status(503),
        Self::Empty,
        Self::Html,
        Self::Truncated,
        Self::Late,
    ];

    pub(super) async fn play(self, cloud: &MemoryCloud, sent: &Sent) -> Result<Response, Lost> {
        let status =
            |status| Ok(Response { status, body: "{\"error\": \"made up\"}".to_owned(), ..Response::default() });
        match self {
            Self::Refused => return Err(Lost::Refused("made up".to_owned())),
            Self::TimeoutBefore => return timeout(cloud, sent).await,
            Self::Status(code) => return status(code),
            Self::Kill => return std::future::pending().await,
            Self::Late => {
                let before = cloud.world().keys();
                drop(cloud.serve(sent));
                let until = cloud.clock.now().plus(Duration::from_secs(90));
                cloud.world().hide_but(&before, until);
                // The wait is over before anything can be seen.
                return Err(Lost::Broken);
            }
            _ => {}
        }
        let done = cloud.serve(sent);
        match self {
            Self::TimeoutAfter => timeout(cloud, sent).await,
            Self::StatusAfter(code) => status(code),
            Self::Empty => Ok(Response { body: String::new(), ..done }),
            Self::Html => Ok(Response { body: "<html><body>Bad Gateway</body></html>".to_owned(), ..done }),
            Self::Truncated => Ok(Response { body: done.body.chars().take(done.body.len() / 2).collect(), ..done }),
            Self::KillAfter => std::future::pending().await,
            _ => Err(Lost::Broken),
        }
    }
}

async fn timeout(cloud: &MemoryCloud, sent: &Sent) -> Result<Response, Lost> {
    let until = cloud.clock.now().plus(sent.request.patience());
    cloud.clock.sleep_until(until).await;
    Err(Lost::Timeout)
}

#[derive(Debug, Default)]
struct Plan {
    by_number: BTreeMap<usize, Fault>,
    always: Vec<(String, Fault, usize)>,
    names: Vec<String>,
}

/// Which call meets which fault. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

impl Faults {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call of this number, from 0, meets a fault.
    pub fn at(&self, number: usize, fault: Fault) {
        self.plan().by_number.insert(number, fault);
    }

    /// The next so many calls whose method and path begin so meet a fault.
    pub fn on(&self, front: &str, fault: Fault, times: usize) {
        self.plan().always.push((front.to_owned(), fault, times));
    }

    /// Nothing goes wrong any more.
    pub fn clear(&self) {
        let mut plan = self.plan();
        plan.by_number.clear();
        plan.always.clear();
    }

    /// Method and path of all calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.plan().names.clone()
    }

    pub(super) fn next(&self, request: &Request) -> Option<Fault> {
        let mut plan = self.plan();
        let number = plan.names.len();
        let name = format!("{} {} {}", request.service, request.method.as_str(), request.path);
        plan.names.push(name.clone());
        if let Some(fault) = plan.by_number.remove(&number) {
            return Some(fault);
        }
        let rule = plan.always.iter_mut().find(|(front, _, left)| *left > 0 && name.starts_with(front.as_str()))?;
        rule.2 -= 1;
        Some(rule.1)
    }
}
