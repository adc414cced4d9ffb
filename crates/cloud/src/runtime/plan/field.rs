//! A value of a template with its path, read with the type it must have. Owns the error texts that name the field.

use std::str::FromStr;

use orlop_core::error::{Class, Problem};
use orlop_core::quantity::Quantity;
use serde_json::Value;

/// A member of a JSON tree that may be absent, and how it is reached. `null` is absent, as Kubernetes reads it.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    value: Option<&'a Value>,
    path: String,
}

impl<'a> Field<'a> {
    /// The root of a tree.
    #[must_use]
    pub fn root(value: &'a Value) -> Self {
        Self { value: Some(value), path: String::new() }
    }

    /// The path: `spec.template.spec.containers[0].image`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value, where there is one.
    #[must_use]
    pub fn value(&self) -> Option<&'a Value> {
        self.value.filter(|value| !value.is_null())
    }

    /// Whether there is a value.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.value().is_some()
    }

    /// A member of an object; absent in anything else.
    #[must_use]
    pub fn get(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { value: self.value().and_then(|value| value.get(name)), path }
    }

    /// The items of a list; none when absent.
    ///
    /// # Errors
    /// Invalid when it is no list.
    pub fn items(&self) -> Result<Vec<Self>, Problem> {
        let Some(value) = self.value() else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let item = |(index, value)| Self { value: Some(value), path: format!("{}[{index}]", self.path) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The members of an object by name; none when absent.
    ///
    /// # Errors
    /// Invalid when it is no object.
    pub fn members(&self) -> Result<Vec<(&'a str, Self)>, Problem> {
        let Some(value) = self.value() else { return Ok(Vec::new()) };
        let members = value.as_object().ok_or_else(|| self.wrong("an object"))?;
        let member = |(name, value): (&'a String, &'a Value)| {
            (name.as_str(), Self { value: Some(value), path: format!("{}[{name}]", self.path) })
        };
        Ok(members.iter().map(member).collect())
    }

    /// A text.
    ///
    /// # Errors
    /// Invalid when it is none.
    pub fn text(&self) -> Result<Option<&'a str>, Problem> {
        self.value().map(|value| value.as_str().ok_or_else(|| self.wrong("a text"))).transpose()
    }

    /// A text that must be there and not be empty.
    ///
    /// # Errors
    /// Invalid when it is not.
    pub fn required(&self) -> Result<&'a str, Problem> {
        self.text()?.filter(|text| !text.is_empty()).ok_or_else(|| self.invalid("is required"))
    }

    /// A list of texts.
    ///
    /// # Errors
    /// Invalid when it is none.
    pub fn texts(&self) -> Result<Vec<String>, Problem> {
        let text = |item: Self| Ok(item.text()?.unwrap_or_default().to_owned());
        self.items()?.into_iter().map(text).collect()
    }

    /// A truth value; false when absent.
    ///
    /// # Errors
    /// Invalid when it is none.
    pub fn flag(&self) -> Result<bool, Problem> {
        self.value().map_or(Ok(false), |value| value.as_bool().ok_or_else(|| self.wrong("true or false")))
    }

    /// A whole number that is not negative.
    ///
    /// # Errors
    /// Invalid when it is none or does not fit.
    pub fn number<N: TryFrom<u64>>(&self) -> Result<Option<N>, Problem> {
        let wrong = || self.wrong("a whole number of 0 or more");
        let read = |value: &Value| value.as_u64().and_then(|number| N::try_from(number).ok()).ok_or_else(wrong);
        self.value().map(read).transpose()
    }

    /// An amount, written as text or number.
    ///
    /// # Errors
    /// Invalid when it is none.
    pub fn quantity(&self) -> Result<Option<Quantity>, Problem> {
        let Some(value) = self.value() else { return Ok(None) };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(self.wrong("an amount such as 500m or 2Gi")),
        };
        Quantity::from_str(&text).map(Some).map_err(|error| self.invalid(&error.to_string()))
    }

    /// Refuses the field where it is present and not false, empty or 0.
    ///
    /// # Errors
    /// Invalid when it is.
    pub fn refuse(&self, why: &str) -> Result<(), Problem> {
        let empty = match self.value() {
            None | Some(Value::Bool(false)) => true,
            Some(Value::Array(items)) => items.is_empty(),
            Some(_) => false,
        };
        if empty { Ok(()) } else { Err(self.invalid(&format!("cannot be used off Kubernetes: {why}"))) }
    }

    /// An error about this field.
    #[must_use]
    pub fn invalid(&self, why: &str) -> Problem {
        Problem::new(Class::Invalid, format!("{} {why}", self.path)).with_reason("TemplateInvalid")
    }

    fn wrong(&self, wanted: &str) -> Problem {
        self.invalid(&format!("must be {wanted}"))
    }
}
