//! The shape of an explanation, for the document. Owns it; the words are the host's.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// The shape of an explanation.
#[derive(Debug)]
pub(crate) enum ExplainShape {}

impl PartialSchema for ExplainShape {
    fn schema() -> RefOr<Schema> {
        let text = |help: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(help)).build();
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("Why a job is where it is; what does not matter is left out"))
            .property("state", text("State of the job"))
            .property("summary", text("All of it in one line"))
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
