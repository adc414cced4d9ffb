//! The shape of a submit, for the document.

use std::borrow::Cow;

use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// The shape of a submit: one job, or several that are accepted all or none.
#[derive(Debug)]
pub(crate) enum SubmitShape {}

impl PartialSchema for SubmitShape {
    fn schema() -> RefOr<Schema> {
        let spec = || RefOr::Ref(Ref::from_schema_name("JobSpec"));
        let many = ObjectBuilder::new()
            .property("jobs", ArrayBuilder::new().items(spec()).max_items(Some(10_000)).build())
            .required("jobs")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        OneOfBuilder::new().item(spec()).item(many).into()
    }
}

impl ToSchema for SubmitShape {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Submit")
    }
}
