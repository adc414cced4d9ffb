//! Join tokens of workers: made, listed, revoked. A secret leaves once only, with the command that uses it.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::{Code, Problem};
use orlop_core::id::{TenantName, label_key, label_value};
use orlop_core::ports::fleet_store::{Record, Token};
use orlop_core::time::{HumanDuration, Time};
use ring::rand::SecureRandom as _;

use super::super::BASE;
use super::super::auth::{Access, Scope};
use super::super::call::{Call, forbidden, internal};
use super::super::guard::JOIN;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::view::join_token::{JoinTokenList, JoinTokenView, NewJoinToken};
use super::tokens::{page, revoke_one};
use crate::wire::identity::JoinToken;

/// How long a token is good if nobody says, and the longest.
const LIFE: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(366 * 86_400));
/// The most uses, and the most labels and tenants of one.
const USES: u32 = 100_000;
const LIST: usize = 64;
/// Letters of an id.
const ID: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn checked(new: &NewJoinToken) -> Result<Duration, Problem> {
    if new.uses.is_some_and(|uses| uses == 0 || uses > USES) {
        return Err(Problem::field("uses", format!("use 1 to {USES}")));
    }
    if new.labels.len() > LIST || new.tenants.len() > LIST {
        return Err(Problem::field("", format!("use at most {LIST} labels and {LIST} tenants")));
    }
    for (number, label) in new.labels.iter().enumerate() {
        let (key, value) = label.split_once('=').unwrap_or((label, ""));
        let good = label_key(key).and_then(|()| label_value(value));
        good.map_err(|error| Problem::field(format!("labels[{number}]"), error.to_string()))?;
    }
    for (number, name) in new.tenants.iter().enumerate().filter(|(_, name)| *name != "*") {
        let read = name.parse::<TenantName>();
        read.map_err(|error| Problem::field(format!("tenants[{number}]"), error.to_string()))?;
    }
    if new.note.len() > 256 {
        return Err(Problem::field("note", "use at most 256 bytes"));
    }
    let life = new.ttl.as_deref().map(str::parse::<HumanDuration>).transpose();
    let life = life.map_err(|error| Problem::field("ttl", error.to_string()))?.map_or(LIFE.0, HumanDuration::get);
    if life.is_zero() || life > LIFE.1 {
        return Err(Problem::field("ttl", "use more than 0 and at most 366 days"));
    }
    Ok(life)
}

impl Api {
    /// Makes a join token that is good from now on, until its maker's own end at the latest.
    ///
    /// # Errors
    /// This fleet signs no certificates of workers; or nothing can be written now.
    pub(crate) async fn make_join_token(
        &self,
        new: NewJoinToken,
        not_after: Option<Time>,
    ) -> Result<(JoinToken, Token), Problem> {
        let asked = new.ttl.is_some();
        let life = checked(&new)?;
        let now = self.now();
        let expires_at = now.plus(life);
        if let Some(own) = not_after.filter(|own| asked && expires_at > *own) {
            return Err(forbidden(format_args!(
                "ttl: this token expires at {own}; tokens it creates cannot expire later"
            )));
        }
        let expires_at = not_after.map_or(expires_at, |own| own.min(expires_at));
        let Some(authority) = self.authority() else {
            let text = "this server signs no certificates of workers: those on its machine need no token; let it listen \
                        beyond loopback for others; under an outside authority workers bring their certificates";
            return Err(Problem::coded(Code::Precondition, text));
        };
        let (mut secret, mut letters) = ([0; 32], [0; 12]);
        let drawn = self.random.fill(&mut secret).and_then(|()| self.random.fill(&mut letters));
        drawn.map_err(|_| internal("the system provides no random numbers"))?;
        let id: String =
            letters.iter().filter_map(|byte| ID.get(usize::from(byte & 31)).copied().map(char::from)).collect();
        let made = JoinToken::new(id, secret, authority.fingerprint()).map_err(internal)?;
        let token = Token {
            id: made.id().to_owned(),
            hash: made.stored().to_vec(),
            kind: JOIN.to_owned(),
            role: "worker".to_owned(),
            tenants: new.tenants,
            labels: new.labels,
            note: new.note,
            created_at: now,
            expires_at: Some(expires_at),
            uses_left: Some(new.uses.unwrap_or(1)),
            revoked_at: None,
        };
        self.write(vec![Record::put(&token).map_err(internal)?]).await?;
        Ok((made, token))
    }
}

/// POST /join-tokens
pub(in super::super) async fn create(api: Arc<Api>, call: Call) -> Answer {
    let new: NewJoinToken = call.json_or_default()?;
    if !call.may(Access::Change, &Scope::of(&new.tenants)) {
        let own = call.visible().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let text = format_args!(
            "tenants: this token is valid for {own}; workers that join with tokens it creates take jobs of these \
             only, so name them"
        );
        return Err(forbidden(text));
    }
    let (made, token) = api.make_join_token(new, call.caller.expires_at).await?;
    let place = format!("{BASE}/join-tokens/{}", token.id);
    let url = &api.handle.options().holder.url;
    let server = url.split_once(' ').map_or(url.as_str(), |(_, grpc)| grpc).to_owned();
    let shown = JoinTokenView { token: Some(made.reveal()), server: Some(server), ..JoinTokenView::from(token) };
    Ok(Reply::json(201, &shown)?.at(&place))
}

/// GET /join-tokens
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let (tokens, next_cursor) = page(&api, &call, JOIN, "join-tokens").await?;
    Reply::json(200, &JoinTokenList { items: tokens.into_iter().map(JoinTokenView::from).collect(), next_cursor })
}

/// DELETE /join-tokens/{id}
pub(in super::super) async fn revoke(api: Arc<Api>, call: Call) -> Answer {
    revoke_one(&api, &call, JOIN, "join token").await
}
