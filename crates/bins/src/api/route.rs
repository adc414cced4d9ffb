//! A route: method, path, the role it needs, what it takes and gives, and who answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::routing::MethodFilter;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::{ComponentsBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::auth::Role;
use super::call::Call;
use super::reply::Answer;
use super::state::Api;

/// The body of an ordinary request has at most so many bytes.
pub(super) const BODY: usize = 1 << 20;
/// That of a batch.
pub(super) const BATCH: usize = 16 << 20;

/// Who answers.
pub(super) type Handler = fn(Arc<Api>, Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The shape of a body: registers what it refers to and gives the reference.
pub(super) type Shape = fn(ComponentsBuilder) -> (ComponentsBuilder, RefOr<Schema>);

/// The shape of a type.
pub(super) fn shape<T: ToSchema + PartialSchema>(components: ComponentsBuilder) -> (ComponentsBuilder, RefOr<Schema>) {
    let mut inner = Vec::new();
    T::schemas(&mut inner);
    let components = components.schemas_from_iter(inner).schema(T::name(), T::schema());
    (components, RefOr::Ref(Ref::from_schema_name(T::name())))
}

/// How a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    pub(super) const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    pub(super) const fn documented(self) -> HttpMethod {
        match self {
            Self::Get => HttpMethod::Get,
            Self::Post => HttpMethod::Post,
            Self::Put => HttpMethod::Put,
            Self::Patch => HttpMethod::Patch,
            Self::Delete => HttpMethod::Delete,
        }
    }

    /// Whether it changes something.
    pub(super) const fn writes(self) -> bool {
        !matches!(self, Self::Get)
    }
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Anyone who reaches the server.
    Nothing,
    /// A token with this role or a higher one.
    Role(Role),
}

/// A member of the query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
}

/// How a repeated request under one idempotency key is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// By the answer that the interface keeps.
    Kept,
    /// By the loop, in the same transaction as its effect.
    Loop,
    /// By a mark only: its answer holds a secret that is shown once.
    Secret,
    /// Not at all: what it takes can be used once.
    Never,
    /// Not at all: it changes nothing, and is in no audit.
    Reads,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) method: Method,
    /// Below the base.
    pub(super) path: &'static str,
    pub(super) needs: Needs,
    /// Its name in documents, metrics and audit, such as `jobs.submit`.
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: &'static [Param],
    /// The most bytes of its body; 0 = it takes none.
    pub(super) body: usize,
    pub(super) request: Option<Shape>,
    /// No body is as good as an empty object.
    pub(super) optional: bool,
    /// The body is bytes, not JSON.
    pub(super) raw: bool,
    pub(super) success: (u16, Option<Shape>),
    /// Further statuses of good answers, of the same shape.
    pub(super) also: &'static [u16],
    pub(super) media: &'static str,
    pub(super) repeat: Repeat,
    pub(super) handler: Handler,
}

impl Route {
    pub(super) const fn new(method: Method, path: &'static str, needs: Needs, handler: Handler) -> Self {
        Self {
            method,
            path,
            needs,
            name: "",
            summary: "",
            query: &[],
            body: 0,
            request: None,
            optional: false,
            raw: false,
            success: (200, None),
            also: &[],
            media: "application/json",
            repeat: Repeat::Kept,
            handler,
        }
    }

    pub(super) const fn named(self, name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, ..self }
    }

    pub(super) const fn query(self, query: &'static [Param]) -> Self {
        Self { query, ..self }
    }

    pub(super) const fn takes(self, body: usize, request: Shape) -> Self {
        Self { body, request: Some(request), ..self }
    }

    /// The same where no body is as good as an empty object.
    pub(super) const fn may_take(self, body: usize, request: Shape) -> Self {
        Self { body, request: Some(request), optional: true, ..self }
    }

    /// Takes bytes as they are.
    pub(super) const fn takes_bytes(self, body: usize) -> Self {
        Self { body, raw: true, ..self }
    }

    pub(super) const fn gives(self, status: u16, answer: Shape) -> Self {
        Self { success: (status, Some(answer)), ..self }
    }

    /// Answers well with these too.
    pub(super) const fn also(self, also: &'static [u16]) -> Self {
        Self { also, ..self }
    }

    pub(super) const fn gives_nothing(self) -> Self {
        Self { success: (204, None), ..self }
    }

    pub(super) const fn gives_text(self, media: &'static str) -> Self {
        Self { success: (200, None), media, ..self }
    }

    pub(super) const fn repeats(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }
}
