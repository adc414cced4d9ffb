//! Values between functions: JSON in the outputs of steps and in the input of a flow. Owns how they are written, found and
//! read back.

use std::marker::PhantomData;
use std::sync::Arc;

use orlop_core::attempt::FunctionInput;
use orlop_core::exact;
use orlop_core::machine::Named as _;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::step::InputParameter;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde_json::Value;

/// The one output of a function.
pub(super) const VALUE: &str = "value";
/// The one parameter of a flow.
pub(super) const INPUT: &str = "input";

/// The input of a flow, as its steps take it. See [`Flow::input`](super::Flow::input).
pub struct Input<T> {
    pub(super) flow: FlowTag,
    pub(super) value: PhantomData<fn() -> T>,
}

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        Self { flow: self.flow.clone(), value: PhantomData }
    }
}

impl<T> std::fmt::Debug for Input<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").finish_non_exhaustive()
    }
}

/// Tells a flow that is written from every other one.
#[derive(Clone, Default)]
pub struct FlowTag(Arc<()>);

impl FlowTag {
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Where a value comes from.
#[derive(Clone)]
pub enum Origin {
    /// The input of a flow.
    Input {
        /// The flow.
        flow: FlowTag,
    },
    /// What a step gave.
    Step {
        /// Its flow.
        flow: FlowTag,
        /// Its name.
        name: Arc<str>,
        /// What it gives.
        form: Form,
        /// Whether those who take its value go on without it.
        optional: bool,
    },
}

/// What a step gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The value of a function.
    Value,
    /// The values of a function for each item of a list.
    List,
    /// Nothing: it is a decision.
    Nothing,
}

impl Origin {
    /// The flow it is of.
    pub(super) fn flow(&self) -> &FlowTag {
        match self {
            Self::Input { flow } | Self::Step { flow, .. } => flow,
        }
    }

    /// The parameters that carry the value with this number: the outputs of its step and, where these may be missing, how the
    /// step ended.
    pub(super) fn parameters(&self, number: usize) -> Vec<InputParameter> {
        let Self::Step { name, form, optional, .. } = self else { return Vec::new() };
        let value = InputParameter::from_path(value_name(number), format!("{name}:$.outputs"));
        let phase = InputParameter::from_path(phase_name(number), format!("{name}:$.phase"));
        match (form, optional) {
            (Form::Nothing, false) => Vec::new(),
            (_, false) => vec![value],
            (_, true) => vec![value, phase],
        }
    }

    /// The list that a fan-out runs over.
    pub(super) fn list(&self) -> String {
        match self {
            Self::Input { .. } => format!("{{{{parameters.{INPUT}}}}}"),
            Self::Step { name, .. } => format!("{name}:$.outputs.{VALUE}"),
        }
    }

    /// An item of that list: of the values of a fan-out each is a text again.
    pub(super) fn read_item<T: DeserializeOwned>(&self, item: Value) -> Result<T, serde_json::Error> {
        match self {
            Self::Step { form: Form::List, .. } => read(item),
            _ => serde_json::from_value(item),
        }
    }
}

fn value_name(number: usize) -> String {
    format!("value.{number}")
}

fn phase_name(number: usize) -> String {
    format!("phase.{number}")
}

/// The values of an attempt, read one after the other.
pub struct Values<'a> {
    given: &'a FunctionInput,
    origins: std::iter::Enumerate<std::slice::Iter<'a, Origin>>,
}

impl<'a> Values<'a> {
    pub(super) fn new(origins: &'a [Origin], given: &'a FunctionInput) -> Self {
        Self { given, origins: origins.iter().enumerate() }
    }

    fn next<T: DeserializeOwned>(&mut self) -> Result<T, serde_json::Error> {
        let parameter = |name: &str| self.given.parameters.get(name).map_or("null", String::as_str);
        match self.origins.next() {
            None => serde_json::from_value(Value::Null),
            Some((_, Origin::Input { .. })) => exact::from_str(parameter(INPUT)),
            Some((number, Origin::Step { name, form, optional, .. })) => {
                if *optional && parameter(&phase_name(number)) != StepPhase::Succeeded.as_str() {
                    return serde_json::from_value(Value::Null);
                }
                let mut outputs: Value = serde_json::from_str(parameter(&value_name(number)))?;
                let output = match outputs.get_mut(VALUE) {
                    Some(output) => output.take(),
                    None if *form == Form::Nothing => Value::Null,
                    None => {
                        let message = format!("step `{name}` has no value; take it as `optional()`");
                        return Err(serde_json::Error::custom(message));
                    }
                };
                if *optional { read_present(output) } else { read(output) }
            }
        }
    }
}

/// The value of a step that succeeded, as an output holds it: a text of a function, or a list of them.
pub(super) fn read<T: DeserializeOwned>(output: Value) -> Result<T, serde_json::Error> {
    match output {
        Value::String(text) => exact::from_str(&text),
        Value::Array(texts) => {
            // Items whose condition was false gave none.
            let ran = texts.into_iter().filter(|text| !text.is_null());
            serde_json::from_value(Value::Array(ran.map(read).collect::<Result<_, _>>()?))
        }
        other => serde_json::from_value(other),
    }
}

/// The same for those who go on without a value: `Some`, also of a value that is `null` in JSON.
pub(super) fn read_present<T: DeserializeOwned>(output: Value) -> Result<T, serde_json::Error> {
    T::deserialize(Present(read(output)?))
}

/// A value that an `Option` takes as `Some`.
struct Present(Value);

impl<'de> Deserializer<'de> for Present {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self.0)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// The inputs of a step: `()` for none, a step, the input of the flow, or a tuple of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that a step takes",
    note = "give `()`, a reference to a step or to the input of the flow, or a tuple of up to six of these"
)]
pub trait Inputs {
    /// What the function is given.
    type Value: Send + 'static;

    /// Adds where the values come from, in order.
    fn origins(&self, origins: &mut Vec<Origin>);

    /// Reads the values, in the same order.
    ///
    /// # Errors
    /// When one is of another type.
    fn read(values: &mut Values<'_>) -> Result<Self::Value, serde_json::Error>;
}

impl Inputs for () {
    type Value = ();

    fn origins(&self, _origins: &mut Vec<Origin>) {}

    fn read(_values: &mut Values<'_>) -> Result<Self::Value, serde_json::Error> {
        Ok(())
    }
}

/// What gives one value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` gives no value",
    note = "a reference to a step or to the input of the flow does"
)]
pub trait Source {
    /// The value.
    type Value;

    /// Where it comes from.
    fn origin(&self) -> Origin;
}

impl<T> Source for Input<T> {
    type Value = T;

    fn origin(&self) -> Origin {
        Origin::Input { flow: self.flow.clone() }
    }
}

impl<S: Source<Value: DeserializeOwned + Send + 'static>> Inputs for &S {
    type Value = S::Value;

    fn origins(&self, origins: &mut Vec<Origin>) {
        origins.push(self.origin());
    }

    fn read(values: &mut Values<'_>) -> Result<Self::Value, serde_json::Error> {
        values.next()
    }
}

macro_rules! tuple {
    ($($name:ident),+) => {
        impl<$($name: Inputs),+> Inputs for ($($name,)+) {
            type Value = ($($name::Value,)+);

            fn origins(&self, origins: &mut Vec<Origin>) {
                #[allow(non_snake_case, reason = "one letter for a type and its value")]
                let ($($name,)+) = self;
                $($name.origins(origins);)+
            }

            fn read(values: &mut Values<'_>) -> Result<Self::Value, serde_json::Error> {
                Ok(($($name::read(values)?,)+))
            }
        }
    };
}

tuple!(A);
tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);
tuple!(A, B, C, D, E);
tuple!(A, B, C, D, E, F);
