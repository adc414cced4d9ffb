//! A request as routes see it: who calls, the parts of its path, its query, its body.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use axum::http::HeaderMap;
use orlop_core::error::{Code, Problem};
use orlop_core::exact;
use orlop_core::id::TenantName;
use orlop_core::time::HumanDuration;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::auth::{Access, Caller, Concern, Scope};
use super::body::RequestBody;
use super::route::Route;

/// The longest idempotency key, in bytes.
const KEY_MAX: usize = 128;

/// A request that passed the layers.
#[derive(Debug)]
pub(super) struct Call {
    /// Who.
    pub(super) caller: Caller,
    /// From where.
    pub(super) peer: SocketAddr,
    /// Whose objects it is about.
    pub(super) concern: Concern,
    /// Its id.
    pub(super) request_id: String,
    /// Its whole path.
    pub(super) path: String,
    /// The parts of the path, by name.
    pub(super) params: Vec<(String, String)>,
    /// The query, by name, in its order.
    pub(super) query: Vec<(String, String)>,
    /// Its headers.
    pub(super) headers: HeaderMap,
    /// Its body.
    pub(super) body: RequestBody,
}

/// The problem of something that is beyond the caller's token.
pub(super) fn forbidden(detail: impl std::fmt::Display) -> Problem {
    Problem::coded(Code::Forbidden, detail.to_string())
}

/// A fault of the server.
pub(super) fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::coded(Code::Internal, error.to_string())
}

/// The problem of something that is not there, or that the caller may not see.
pub(super) fn not_found(what: impl std::fmt::Display) -> Problem {
    Problem::coded(Code::NotFound, format!("{what} is not known"))
}

impl Call {
    /// Whether the caller may see what it asks for, which is this tenant's.
    pub(super) fn sees(&self, tenant: &TenantName) -> bool {
        self.concern.is(tenant);
        self.caller.sees(tenant)
    }

    /// Whether the caller may do this with what tenants share.
    pub(super) fn may(&self, access: Access, whose: &Scope) -> bool {
        self.concern.decide();
        self.caller.may(access, whose)
    }

    /// The tenants whose objects it may show; none = all.
    pub(super) fn visible(&self) -> Option<Vec<TenantName>> {
        self.concern.decide();
        self.caller.visible()
    }

    /// Refuses a caller that is not good for all tenants, as far as the fleet's own matters go.
    pub(super) fn of_the_fleet(&self, what: &str) -> Result<(), Problem> {
        if self.may(Access::Change, &Scope::All) {
            return Ok(());
        }
        Err(forbidden(format_args!("{what} requires a token that is valid for all tenants (`*`)")))
    }

    /// Whose something new is: the tenant's that is asked for, else as [`Caller::tenant`] has it.
    pub(super) fn owner(&self, asked: Option<&str>, default: &TenantName) -> Result<TenantName, Problem> {
        self.concern.decide();
        let asked =
            asked.map(|text| text.parse().map_err(|error| Problem::field("tenant", format!("{error}")))).transpose()?;
        let foreign = asked.as_ref().map(|asked: &TenantName| {
            self.concern.is(asked);
            forbidden(format_args!("tenant: this token is not valid for tenant `{asked}`"))
        });
        let missing = || Problem::field("tenant", "is missing; this token is valid for several tenants, so name one");
        let owner = self.caller.tenant(asked, default).ok_or_else(|| foreign.unwrap_or_else(missing))?;
        self.concern.is(&owner);
        Ok(owner)
    }

    /// The part of the path with this name, as it stands.
    pub(super) fn part(&self, name: &str) -> &str {
        self.params.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The same as an id; a text that can be no id names nothing.
    pub(super) fn id<T: FromStr>(&self, name: &str, what: &str) -> Result<T, Problem> {
        let text = self.part(name);
        let shown: String = text.chars().take(64).collect();
        text.parse().map_err(|_| not_found(format_args!("{what} `{shown}`")))
    }

    /// Values of a member of the query; commas separate too.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Labels of the query, each as `KEY=VALUE`.
    pub(super) fn labels(&self) -> Result<Vec<(String, String)>, Problem> {
        let label = |text: &str| match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(Problem::field("label", "use KEY=VALUE")),
        };
        self.all("label").map(label).collect()
    }

    /// The only value of a member of the query.
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut all = self.all(name);
        let first = all.next();
        match all.next() {
            Some(_) => Err(Problem::field(name, "is given more than once")),
            None => Ok(first),
        }
    }

    /// The only value of a member of the query, read.
    pub(super) fn read<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T::Err: std::fmt::Display,
    {
        let read = |text: &str| text.parse().map_err(|error: T::Err| Problem::field(name, error.to_string()));
        self.one(name)?.map(read).transpose()
    }

    /// A duration of the query, such as `30s`.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, Problem> {
        Ok(self.read::<HumanDuration>(name)?.map(HumanDuration::get))
    }

    /// A switch of the query: `?name`, `?name=true` or `?name=false`.
    pub(super) fn switch(&self, name: &str) -> Result<bool, Problem> {
        match self.one(name)?.map(str::to_ascii_lowercase).as_deref() {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(Problem::field(name, "use true or false")),
        }
    }

    /// How many items a list shall have.
    pub(super) fn limit(&self) -> Result<u32, Problem> {
        let limit: u32 = self.read("limit")?.unwrap_or(100);
        if (1..=1000).contains(&limit) { Ok(limit) } else { Err(Problem::field("limit", "use 1 to 1000")) }
    }

    /// The tenants a list is about: those asked for that the caller sees; none = all.
    pub(super) fn tenants(&self) -> Result<Option<Vec<TenantName>>, Problem> {
        let asked: Option<TenantName> = self.read("tenant")?;
        Ok(match asked {
            // Of a tenant that the caller does not see the list is empty, as of one that is not there.
            Some(asked) if self.sees(&asked) => Some(vec![asked]),
            Some(_) => Some(Vec::new()),
            None => self.visible(),
        })
    }

    /// The body as JSON.
    pub(super) fn value(&self) -> Result<Value, Problem> {
        exact::from_slice(&self.body.bytes)
            .map_err(|error| Problem::field("", format!("the body is not valid JSON: {error}")))
    }

    /// The body as a value of a type that refuses unknown fields.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        // All bodies are objects; anyone who reads them would take the members of a list for the fields, in their order.
        if self.body.bytes.trim_ascii_start().first() == Some(&b'[') {
            return Err(Problem::field("", "the body is a list; send an object"));
        }
        exact::from_slice(&self.body.bytes).map_err(|error| Problem::field("", error.to_string()))
    }

    /// The same where no body is as good as an empty object.
    pub(super) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.bytes.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// The idempotency key.
    pub(super) fn key(&self) -> Result<Option<&str>, Problem> {
        let Some(value) = self.headers.get("idempotency-key") else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        let good = !text.is_empty() && text.len() <= KEY_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        if good {
            Ok(Some(text))
        } else {
            Err(Problem::field("Idempotency-Key", "use 1 to 128 printable ASCII characters"))
        }
    }

    /// Refuses members of the query that the route does not know.
    pub(super) fn check_query(&self, route: &Route) -> Result<(), Problem> {
        let unknown = self.query.iter().find(|(name, _)| !route.query.iter().any(|param| param.name == name));
        let Some((name, _)) = unknown else { return Ok(()) };
        let known: Vec<&str> = route.query.iter().map(|param| param.name).collect();
        let shown: String = name.chars().take(64).collect();
        let message = match known.is_empty() {
            true => "is unknown; this route accepts no query parameters".to_owned(),
            false => format!("is unknown; use one of {}", known.join(", ")),
        };
        Err(Problem::field(&shown, message))
    }

    /// What the caller knows of the object it changes: the revision in `If-Match`.
    pub(super) fn if_match(&self) -> Result<Option<u64>, Problem> {
        let Some(value) = self.headers.get("if-match") else { return Ok(None) };
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(None);
        }
        let number = text.trim_start_matches("W/").trim_matches('"').parse();
        number.map(Some).map_err(|_| Problem::field("If-Match", "use the ETag of an earlier answer"))
    }

    /// Refuses a change of something that has changed since the caller read it.
    pub(super) fn check_revision(&self, revision: u64) -> Result<(), Problem> {
        match self.if_match()? {
            Some(known) if known != revision => {
                let text = format!("it has changed: its revision is {revision}, not {known}; read it again");
                Err(Problem::coded(Code::Precondition, text))
            }
            _ => Ok(()),
        }
    }
}
