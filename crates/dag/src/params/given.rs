//! Values that are given for the parameters of a flow when it is submitted.

use std::collections::BTreeMap;

use orlop_core::error::{Class, PARAMETERS, Problem};
use orlop_core::spec::flow::FlowParameter;

use super::{FlowSource, flow_source};

/// The error for a value that a parameter cannot have, or that is missing.
#[must_use]
pub fn wrong_parameter(message: String) -> Problem {
    Problem::new(Class::Invalid, message.clone()).at_field(PARAMETERS, message)
}

fn about(description: &Option<String>) -> String {
    description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default()
}

/// Checks the values that are given for the parameters of a flow at its submission, and that no parameter lacks a value.
///
/// ```
/// use std::collections::BTreeMap;
/// use orlop_core::spec::flow::FlowParameter;
/// use orlop_dag::params::check_given;
/// let declared = [FlowParameter { name: "env".into(), ..FlowParameter::default() }];
/// assert!(check_given(&declared, &BTreeMap::from([("env".into(), "dev".into())])).is_ok());
/// let missing = check_given(&declared, &BTreeMap::new()).unwrap_err();
/// assert_eq!(missing.to_string(), "parameter `env` needs a value");
/// ```
///
/// # Errors
/// The first parameter that has no value, or one that it cannot have; a given name that the flow does not have.
pub fn check_given(declared: &[FlowParameter], given: &BTreeMap<String, String>) -> Result<(), Problem> {
    if let Some(name) = given.keys().find(|name| !declared.iter().any(|parameter| parameter.name == **name)) {
        let known: Vec<&str> = declared.iter().map(|parameter| parameter.name.as_str()).collect();
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        return Err(wrong_parameter(format!("the flow has no parameter `{name}`; {known}")));
    }
    for parameter in declared {
        let name = &parameter.name;
        match (given.get(name), flow_source(parameter)) {
            (_, Err(fault)) => return Err(wrong_parameter(format!("parameter `{name}`: {fault}"))),
            (Some(_), Ok(FlowSource::Secret(_))) => {
                let why = "is a secret and cannot be given as text; put it where Secrets are looked up";
                return Err(wrong_parameter(format!("parameter `{name}` {why}")));
            }
            (None, Ok(FlowSource::Submission)) => {
                let about = about(&parameter.description);
                let message = format!("parameter `{name}` needs a value{about}");
                return Err(wrong_parameter(message));
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
pub fn check_choice(parameter: &FlowParameter, value: &str) -> Result<(), Problem> {
    match &parameter.choices {
        Some(choices) if !choices.iter().any(|choice| choice == value) => {
            let (name, choices) = (&parameter.name, choices.join(", "));
            Err(wrong_parameter(format!("parameter `{name}` cannot be `{value}`; give one of {choices}")))
        }
        _ => Ok(()),
    }
}
