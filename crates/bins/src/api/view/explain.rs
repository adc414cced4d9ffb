//! The shape of an explanation, for the document.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// The shape of an explanation.
#[derive(Debug)]
pub(crate) enum ExplainShape {}

impl PartialSchema for ExplainShape {
    fn schema() -> RefOr<Schema> {
        let of = |kinds: &[Type], help: &str| {
            let kinds = match kinds {
                [kind] => SchemaType::Type(kind.clone()),
                kinds => SchemaType::Array(kinds.to_vec()),
            };
            ObjectBuilder::new().schema_type(kinds).description(Some(help)).build()
        };
        let null = Type::Null;
        let names = || of(&[Type::Array, Type::Null], "Workers that are reserved for it");
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("Why a job is in its state; for a job that has ended only state, reason and summary"))
            .property("state", of(&[Type::String], "State of the job"))
            .property("summary", of(&[Type::String], "All of it in one line"))
            .property("reason", of(&[Type::String, null.clone()], "Why it ended so"))
            .property("band", of(&[Type::String], "High, Normal or Low"))
            .property("tenant_share", of(&[Type::Number], "Dominant share of its tenant divided by weight"))
            .property("tenant_rank", of(&[Type::Integer], "Tenants with waiting jobs that come before its own"))
            .property("position", of(&[Type::Integer, null.clone()], "Jobs of its class that come before it"))
            .property("obstacle", of(&[Type::String, null.clone()], "What blocks it before workers are considered"))
            .property("reserved", names())
            .property("shadow", of(&[Type::Integer, null.clone()], "When these are free, in the server's milliseconds"))
            .property("blocked_since", of(&[Type::Integer, null.clone()], "Since when it fits nowhere, the same"))
            .property("gang", of(&[Type::String, null.clone()], "Of a gang, how many members fit now"))
            .property(
                "workers",
                of(&[Type::Array], "For each worker the first filter that rejects it, and what it lacks"),
            )
            .property("counts", of(&[Type::Object], "How many workers each filter turns down"))
            .property("nearest", of(&[Type::String, null], "The worker that lacks the least"))
            .property("infeasible", of(&[Type::Boolean], "No worker could ever hold it"))
            .required("state")
            .required("summary")
            .build()
            .into()
    }
}

impl ToSchema for ExplainShape {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Explanation")
    }
}
