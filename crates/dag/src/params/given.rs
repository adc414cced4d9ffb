//! Values that are given for the parameters of a flow when it is submitted.

use std::collections::BTreeMap;

use orlop_core::spec::flow::FlowParameter;

use super::{FlowSource, flow_source};

/// Why the parameters of a flow cannot be fixed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A value was given for a parameter the flow does not have.
    #[error("the flow has no parameter `{name}`; {}", if .known.is_empty() { "it has none".to_owned() } else { format!("it has {}", .known.join(", ")) })]
    Unknown {
        /// The name.
        name: String,
        /// Names it has.
        known: Vec<String>,
    },
    /// No value was given for a parameter that has none of its own.
    #[error("parameter `{name}` needs a value{}; give it with -p {name}=VALUE", about(.description))]
    Missing {
        /// The name.
        name: String,
        /// What it is for.
        description: Option<String>,
    },
    /// A value is not one of those allowed.
    #[error("parameter `{name}` cannot be `{value}`; give one of {}", .choices.join(", "))]
    NotAllowed {
        /// The name.
        name: String,
        /// The value.
        value: String,
        /// Values it may have.
        choices: Vec<String>,
    },
    /// A value was given for a secret.
    #[error("parameter `{name}` is a secret and cannot be given as text; put it where Secrets are looked up")]
    Secret {
        /// The name.
        name: String,
    },
    /// Its ConfigMap has no such value.
    #[error("{0}")]
    Unresolved(String),
}

fn about(description: &Option<String>) -> String {
    description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default()
}

/// Checks the values that are given for the parameters of a flow, and that no other needs one.
///
/// # Errors
/// The first parameter that has no value, or one that it cannot have; a given name that the flow does not have.
pub fn check_given(declared: &[FlowParameter], given: &BTreeMap<String, String>) -> Result<(), ParameterError> {
    if let Some(name) = given.keys().find(|name| !declared.iter().any(|parameter| parameter.name == **name)) {
        let known = declared.iter().map(|parameter| parameter.name.clone()).collect();
        return Err(ParameterError::Unknown { name: name.clone(), known });
    }
    for parameter in declared {
        let name = parameter.name.clone();
        match (given.get(&name), flow_source(parameter)) {
            (_, Err(fault)) => return Err(ParameterError::Unresolved(format!("parameter `{name}`: {fault}"))),
            (Some(_), Ok(FlowSource::Secret(_))) => return Err(ParameterError::Secret { name }),
            (None, Ok(FlowSource::Submission)) => {
                return Err(ParameterError::Missing { name, description: parameter.description.clone() });
            }
            (Some(value), Ok(_)) => check_choice(parameter, value)?,
            (None, Ok(FlowSource::Value(value))) => check_choice(parameter, value)?,
            (None, Ok(FlowSource::Secret(_) | FlowSource::ConfigMap(_))) => {}
        }
    }
    Ok(())
}

/// Checks that a parameter can have a value.
///
/// # Errors
/// When it is not one of those allowed.
pub fn check_choice(parameter: &FlowParameter, value: &str) -> Result<(), ParameterError> {
    match &parameter.choices {
        Some(choices) if !choices.iter().any(|choice| choice == value) => {
            let (name, value, choices) = (parameter.name.clone(), value.to_owned(), choices.clone());
            Err(ParameterError::NotAllowed { name, value, choices })
        }
        _ => Ok(()),
    }
}
