//! `orlop schema`: JSON schemas of what users write, for editors and other tools. They are made from the types by a test, so that
//! the program itself needs nothing for it.

use clap::{Args, ValueEnum};
use orlop_cloud::exit;

use super::failure::{Exit, Failure};
use super::output;

/// Options of `orlop schema`.
#[derive(Args, Debug)]
#[command(after_help = exit::help("Examples:
  orlop schema flow > flow.schema.json      store the schema next to your flows
  orlop schema job | jq .properties.retry   show the retry settings of a job

Editors with the YAML language server complete and check a file that begins with
  # yaml-language-server: $schema=flow.schema.json"))]
pub(super) struct SchemaArgs {
    /// What the schema is of
    #[arg(value_enum, ignore_case = true)]
    kind: Kind,
}

/// What users write.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// A JobFlow
    Flow,
    /// A job of the fleet
    Job,
    /// A pipeline, the short form of a flow
    Pipeline,
}

impl Kind {
    /// The schema in JSON Schema 2020-12.
    const fn text(self) -> &'static str {
        match self {
            Self::Flow => include_str!("schema/flow.json"),
            Self::Job => include_str!("schema/job.json"),
            Self::Pipeline => include_str!("schema/pipeline.json"),
        }
    }
}

/// Prints a schema.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn run(args: &SchemaArgs) -> Result<Exit, Failure> {
    output::print(args.kind.text().trim_end()).map(|()| Exit::Done)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use orlop_core::schema;
    use orlop_core::spec::flow::{JobFlow, KIND};
    use orlop_core::spec::job::JobSpec;
    use orlop_dag::manifest::pipeline;
    use serde_json::{Value, json};

    use super::*;

    impl Kind {
        fn schema(self) -> Value {
            serde_json::from_str(self.text()).unwrap()
        }
    }

    /// `UPDATE_SCHEMA=1` writes them.
    #[test]
    fn the_schemas_are_those_of_the_types() {
        let made = [
            (Kind::Flow, "flow", schema::of::<JobFlow>()),
            (Kind::Job, "job", schema::of::<JobSpec>()),
            (Kind::Pipeline, "pipeline", pipeline::schema()),
        ];
        for (kind, name, schema) in made {
            let text = format!("{schema:#}\n");
            if std::env::var_os("UPDATE_SCHEMA").is_some() {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/schema");
                fs::write(folder.join(format!("{name}.json")), &text).unwrap();
            } else {
                assert!(
                    text == kind.text(),
                    "src/cli/schema/{name}.json is not what the types say; UPDATE_SCHEMA=1 writes it"
                );
            }
        }
    }

    #[test]
    fn every_schema_has_a_title_and_describes_each_member() {
        for kind in Kind::value_variants() {
            let schema = kind.schema();
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
            assert!(schema["title"].is_string() && schema["description"].is_string() && schema["$id"].is_null());
            let definitions = schema["$defs"].as_object().into_iter().flatten().map(|(_, definition)| definition);
            for definition in definitions.chain([&schema]) {
                for (name, member) in definition["properties"].as_object().into_iter().flatten() {
                    assert!(member["description"].is_string(), "{kind:?} {name}: {member}");
                }
            }
        }
    }

    /// What a value breaks of the keywords that our schemas use.
    fn faults(value: &Value, schema: &Value, root: &Value, path: &str, found: &mut Vec<String>) {
        if let Some(name) = schema["$ref"].as_str() {
            let named = root.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("{name} is not defined"));
            faults(value, named, root, path, found);
        }
        let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
        let is = |kind: &Value| match kind.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            _ => true,
        };
        let texts = schema["oneOf"].as_array().map(|all| all.iter().map(|one| one["const"].clone()).collect());
        let allowed = schema["enum"].as_array().cloned().or(texts).is_none_or(|all| all.contains(value));
        let least = schema["minimum"].as_f64().zip(value.as_f64()).is_none_or(|(least, number)| number >= least);
        let count = schema["minItems"].as_u64().zip(value.as_array()).is_none_or(|(n, all)| all.len() as u64 >= n);
        if !kinds.iter().any(is) || !allowed || !least || !count {
            found.push(path.to_owned());
        }
        for item in value.as_array().into_iter().flatten() {
            faults(item, &schema["items"], root, &format!("{path}[]"), found);
        }
        let Some(members) = value.as_object() else { return };
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                found.push(format!("{path}.{name} is missing"));
            }
        }
        for (name, member) in members {
            let path = format!("{path}.{name}");
            match (schema["properties"].get(name), &schema["additionalProperties"]) {
                (None, Value::Bool(false)) if !name.starts_with("x-") => found.push(path),
                (own, others) => faults(member, own.unwrap_or(others), root, &path, found),
            }
        }
    }

    fn faults_of(value: &Value, kind: Kind) -> Vec<String> {
        let (schema, mut found) = (kind.schema(), Vec::new());
        faults(value, &schema, &schema, "", &mut found);
        found
    }

    #[test]
    fn all_examples_fit_and_mistakes_do_not() {
        let mut flows = 0;
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flows")).unwrap() {
            let path = entry.unwrap().path();
            let value: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let kind = if value["kind"] == KIND { Kind::Flow } else { Kind::Pipeline };
            assert_eq!(faults_of(&value, kind), Vec::<String>::new(), "{}", path.display());
            flows += 1;
        }
        assert!(flows >= 8, "{flows} examples were read");
        let job = json!({"command": ["make"], "resources": {"cpu_m": "500m", "gpus": {"count": 1}}, "survive_agent": true,
            "retry": {"factor": 1.5}, "prefers": [{"label": {"key": "zone", "op": "exists"}}], "labels": {"n": 1}});
        assert_eq!(faults_of(&job, Kind::Job), Vec::<String>::new());
        let wrong = json!({"comand": [], "priority": "high", "retry": {"factor": 0.5}, "pull": "now", "gang": {}});
        let found = faults_of(&wrong, Kind::Job);
        assert_eq!(found, [".comand", ".gang.size is missing", ".priority", ".pull", ".retry.factor"]);
        let wrong = json!({"name": "p", "steps": [{"name": "a", "x-own": 1, "job_spec": {"command": []}}], "stepz": 1});
        assert_eq!(faults_of(&wrong, Kind::Pipeline), [".steps[].job_spec.command", ".stepz"]);
    }
}
