//! Pages of lists: items, and where the next page begins.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// Some of a list.
#[derive(Debug, Serialize)]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    /// Where the next page begins; absent = this is the last one
    pub(crate) next_cursor: Option<String>,
}

impl<T: ToSchema> PartialSchema for Listed<T> {
    fn schema() -> RefOr<Schema> {
        let items = ArrayBuilder::new().items(RefOr::<Schema>::Ref(Ref::from_schema_name(T::name())));
        let cursor = ObjectBuilder::new()
            .schema_type(SchemaType::Array(vec![Type::String, Type::Null]))
            .description(Some("Where the next page begins; absent = this is the last one"));
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("Some of a list"))
            .property("items", items.build())
            .required("items")
            .property("next_cursor", cursor.build())
            .build()
            .into()
    }
}

impl<T: ToSchema> ToSchema for Listed<T> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("{}List", T::name()))
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}
