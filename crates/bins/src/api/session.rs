//! Callers who show a browser session instead of a token.

use axum::http::HeaderMap;
use orlop_core::error::Problem;

use super::auth::Caller;
use super::guard::{Guard, Origin, check_page};
use super::route::Method;
use super::state::Api;
use crate::web::Halves;

impl Api {
    /// Who calls through a session; none where the request shows no session that is good.
    pub(super) async fn session_caller(&self, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
        match self.halves(headers) {
            Some(halves) => self.guard.session(&halves).await,
            None => Ok(None),
        }
    }

    /// Both halves of a session that a request shows.
    pub(super) fn halves<'h>(&self, headers: &'h HeaderMap) -> Option<Halves<'h>> {
        self.options.console.as_ref()?.place.halves(headers)
    }

    /// The caller of a request that shows both halves.
    pub(super) async fn pass_session(
        &self,
        halves: &Halves<'_>,
        headers: &HeaderMap,
        method: Method,
        origin: Origin,
    ) -> Result<Caller, Problem> {
        let Some(caller) = self.guard.session(halves).await? else {
            return Err(self.guard.stranger(origin, "the session has ended; sign in again"));
        };
        check_page(headers, method)?;
        Ok(caller)
    }
}

impl Guard {
    /// The caller of a session, if the session and the token behind it are good.
    async fn session(&self, halves: &Halves<'_>) -> Result<Option<Caller>, Problem> {
        let now = self.now();
        for cookie in &halves.cookies {
            let Some(session) = self.sessions().find(cookie, halves.proof, now).await? else { continue };
            let Some(caller) = Caller::of_session(&session) else { continue };
            if self.is_token_live(&caller).await? {
                return Ok(Some(caller));
            }
        }
        Ok(None)
    }
}
