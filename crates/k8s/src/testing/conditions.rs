//! Conditions in CEL (`matchConditions`) under which a webhook is asked at all: parsed once, asked of every request.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

/// A condition as a configuration has it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    name: String,
    expression: String,
}

/// The same, parsed.
#[derive(Clone)]
pub(super) struct Compiled {
    name: String,
    program: Arc<cel::Program>,
}

impl Condition {
    pub(super) fn compile(&self) -> Result<Compiled, String> {
        let program = Arc::new(cel::Env::stdlib()).compile(&self.expression);
        let program = program.map_err(|error| format!("matchConditions {}: compilation failed: {error}", self.name))?;
        Ok(Compiled { name: self.name.clone(), program: Arc::new(program) })
    }
}

/// Whether all of them hold for a request; the error is why that cannot be said.
pub(super) fn hold(conditions: &[Compiled], request: &Value) -> Result<bool, String> {
    for Compiled { name, program } in conditions {
        let wrong = |error: &dyn std::fmt::Display| format!("matchConditions {name}: {error}");
        let mut context = cel::Context::with_env(Arc::new(cel::Env::stdlib()));
        for (variable, value) in
            [("request", request), ("object", &request["object"]), ("oldObject", &request["oldObject"])]
        {
            let value = cel::to_value(value).map_err(|error| wrong(&error))?;
            context.add_variable_from_value(variable, value);
        }
        match program.execute(&context) {
            Ok(cel::Value::Bool(true)) => {}
            Ok(cel::Value::Bool(false)) => return Ok(false),
            Ok(_) => return Err(wrong(&"it is neither true nor false")),
            Err(error) => return Err(wrong(&error)),
        }
    }
    Ok(true)
}
