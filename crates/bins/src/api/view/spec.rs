//! The shape of a job's specification and of a submit, for the document.

use std::borrow::Cow;

use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// The fields with their types and meanings.
pub(crate) const FIELDS: &[(&str, &str, &str)] = &[
    ("name", "string", "For people; at most 128 bytes"),
    ("labels", "object", "For searching, at most 64"),
    ("tenant", "string", "Whose job it is; absent = the caller's only tenant"),
    ("correlation_id", "string", "Follows the job through logs and events"),
    ("runtime", "string", "process, docker or noop"),
    ("image", "string", "The image of its container"),
    ("pull", "string", "if-missing, always or never"),
    ("command", "array", "The program and its arguments, never passed through a shell"),
    ("script", "string", "A script in place of a command"),
    ("shell", "string", "What runs the script; /bin/sh"),
    ("env", "object", "Variables of its environment"),
    ("working_dir", "string", "Where it starts, below the attempt's directory"),
    ("placeholders", "boolean", "Whether {{index}}, {{job}} and {{attempt}} are replaced; true"),
    ("secret_refs", "array", "Secrets it needs: name, as, target"),
    ("resources", "object", "cpu_m, memory_bytes, gpus, extras; numbers or quantities"),
    ("requires", "object", "Where it may run: labels, features"),
    ("prefers", "array", "Where it would better run"),
    ("priority", "integer", "0 is the most urgent, 9 the least; 5"),
    ("timeout_ms", "integer", "Wall limit of one attempt; 0 = none"),
    ("expected_ms", "integer", "How long an attempt probably takes"),
    ("grace_ms", "integer", "From the request to end to the kill"),
    ("retries", "integer", "Repeats after its own failures"),
    ("retry", "object", "Which failures, and when"),
    ("success_codes", "array", "Exit codes that mean success"),
    ("not_before", "string", "Earliest start, RFC 3339"),
    ("queue_timeout_ms", "integer", "It fails if it has not started by then"),
    ("array", "object", "Its elements: count or indices, max_parallel, max_failures"),
    ("gang", "object", "Its members: size, max_per_worker, same_label"),
    (
        "requeue_lost",
        "boolean",
        "Whether an attempt that is lost with its worker is followed by another one; true unless it says so",
    ),
    ("preemptible", "boolean", "It may be ended for more urgent work"),
    ("urgent", "boolean", "It may enter a draining worker; needs the role operator"),
    ("overlap", "string", "allow or forbid"),
    ("survive_agent", "string", "auto, yes or no"),
    ("artifacts_in", "array", "Files and folders it gets: name, path, sha256, executable, unpack"),
    ("artifacts_out", "array", "Files it leaves"),
    ("log", "object", "How much of its log is kept: limit, on_full"),
];

/// The shape of a specification.
#[derive(Debug)]
pub(crate) enum JobSpecShape {}

impl PartialSchema for JobSpecShape {
    fn schema() -> RefOr<Schema> {
        let mut object = ObjectBuilder::new().schema_type(Type::Object).description(Some("What a job is"));
        for (name, kind, help) in FIELDS {
            let kind = match *kind {
                "integer" => Type::Integer,
                "boolean" => Type::Boolean,
                "array" => Type::Array,
                "object" => Type::Object,
                _ => Type::String,
            };
            object = object.property(*name, ObjectBuilder::new().schema_type(kind).description(Some(*help)).build());
        }
        object.additional_properties(Some(AdditionalProperties::FreeForm(false))).build().into()
    }
}

impl ToSchema for JobSpecShape {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("JobSpec")
    }
}

/// The shape of a submit: one job, or several that are taken all or none.
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

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((JobSpecShape::name().into_owned(), JobSpecShape::schema()));
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::job::JobSpec;

    use super::*;

    #[test]
    fn the_document_has_every_field_of_a_specification_and_no_other() {
        let wrong = JobSpec::from_json(&serde_json::json!({ "strange_name_of_nothing": 1 })).unwrap_err();
        let text = wrong.list().iter().find_map(|error| error.message.split_once("known are ")).unwrap().1.to_owned();
        let mut documented: Vec<_> = FIELDS.iter().map(|(name, _, _)| *name).collect();
        documented.sort_unstable();
        assert_eq!(text.split(", ").collect::<Vec<_>>(), documented);
    }
}
