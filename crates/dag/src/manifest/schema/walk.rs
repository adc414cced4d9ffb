//! Compares a document with the field tables. Owns the messages about unknown fields, missing fields and wrong types;
//! recursion is as deep as the tables, never as deep as the document.

use std::collections::BTreeSet;

use orlop_core::quantity::Quantity;
use orlop_core::time::GoDuration;

use super::suggest::nearest;
use super::table::{Base, Field, Kind, Outer, Table, Type, table};
use crate::code::Code;
use crate::manifest::data::{Data, Shape};
use crate::manifest::path::Path;
use crate::manifest::violation::{Note, Severity, Violations, shown};

/// How a document is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Rule that wrong types and missing fields break.
    pub(crate) code: Code,
    /// What an unknown field is.
    pub(crate) unknown: Severity,
    /// Names users write for fields that are called differently here.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
    /// What to write for fields of other products that no one field is here.
    pub(crate) hints: &'static [(&'static str, &'static str)],
}

/// What does not fit its type, so that reading can go on without it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Misfits {
    /// Marks of members that can be left out.
    pub(crate) marks: BTreeSet<u32>,
    /// Something that must be there does not fit: the document cannot be read.
    pub(crate) fatal: bool,
}

/// A walk over one document.
pub(crate) struct Walk<'v> {
    form: Expected,
    found: &'v mut Violations,
    misfits: Misfits,
    table: &'static Table,
}

impl<'v> Walk<'v> {
    /// A walk that reports to `found`.
    pub(crate) fn new(form: Expected, found: &'v mut Violations) -> Self {
        Self { form, found, misfits: Misfits::default(), table: table() }
    }

    /// Compares a value with a type of the tables and returns what does not fit.
    pub(crate) fn check<'d, D: Data<'d>>(mut self, value: D, name: &str, path: &Path<'_>) -> Misfits {
        if let Some(index) = self.table.find(name) {
            self.misfits.fatal |= !self.one(value, Base::Object(index), path);
        }
        self.misfits
    }

    fn object<'d, D: Data<'d>>(&mut self, value: D, known: &'static Type, path: &Path<'_>) {
        let mut present = 0;
        for (name, member) in value.entries() {
            let here = path.field(name);
            let Some(field) = known.field(name) else {
                self.misfits.marks.insert(member.mark());
                self.unknown(name, known, &here);
                continue;
            };
            if member.shape() == Shape::Null {
                continue;
            }
            present += usize::from(field.required);
            if !self.value(member, field.kind, &here) {
                self.misfits.marks.insert(member.mark());
                self.misfits.fatal |= field.required;
            }
        }
        if present < known.required {
            self.missing(value, known, path);
        }
    }

    fn unknown(&mut self, name: &str, known: &Type, path: &Path<'_>) {
        let form = self.form;
        self.found.add((form.unknown, Code::UnknownField), path, || {
            let of = |list: &[(&str, &'static str)]| list.iter().find(|(word, _)| *word == name).map(|(_, text)| *text);
            if let Some(hint) = of(form.hints) {
                return Note::new(format!("unknown field {}", shown(name)), Some(hint.to_owned())).on_key();
            }
            let alias = of(form.aliases).map(str::to_owned);
            let guess = alias.or_else(|| nearest(name, known.fields.iter().map(|field| field.name)).map(str::to_owned));
            let help = guess.map_or_else(|| known_fields(known), |guess| format!("did you mean `{guess}`?"));
            Note::new(format!("unknown field {}", shown(name)), Some(help)).on_key()
        });
    }

    fn missing<'d, D: Data<'d>>(&mut self, value: D, known: &Type, path: &Path<'_>) {
        self.misfits.fatal = true;
        for Field { name, kind, .. } in known.fields.iter().filter(|field| field.required) {
            if value.member(name).is_none() {
                let null = value.entries().any(|(present, _)| present == *name);
                self.found.error(self.form.code, &path.field(name), || {
                    let what = if null { "has no value" } else { "is missing" };
                    Note::new(format!("`{name}` {what}"), Some(format!("it must be {}", wanted(*kind))))
                });
            }
        }
    }

    /// Whether a value fits a type; what is wrong inside an object does not count.
    fn value<'d, D: Data<'d>>(&mut self, value: D, kind: Kind, path: &Path<'_>) -> bool {
        let mut fits = true;
        match (kind.outer, value.shape()) {
            (Outer::One, _) => fits = self.one(value, kind.base, path),
            (Outer::List, Shape::Seq) => {
                for (index, item) in value.items().enumerate() {
                    fits &= self.one(item, kind.base, &path.index(index));
                }
            }
            (Outer::Map, Shape::Map) => {
                for (key, member) in value.entries() {
                    fits &= self.one(member, kind.base, &path.field(key));
                }
            }
            _ => fits = self.misfit(value, kind, path),
        }
        fits
    }

    fn one<'d, D: Data<'d>>(&mut self, value: D, base: Base, path: &Path<'_>) -> bool {
        let fits = match (base, value.shape()) {
            (Base::Quantity, Shape::Str(text)) => return self.amount(text, path),
            (Base::Any, _)
            | (Base::String | Base::IntOrString | Base::Duration, Shape::Str(_))
            | (Base::Quantity | Base::Number, Shape::Int(_) | Shape::Float(_))
            | (Base::Bool, Shape::Bool(_)) => true,
            (Base::Int32 | Base::IntOrString, Shape::Int(number)) => i32::try_from(number).is_ok(),
            (Base::Int64, Shape::Int(number)) => i64::try_from(number).is_ok(),
            (Base::Choice(words), Shape::Str(text)) => words.split('|').any(|word| word == text),
            (Base::Time, Shape::Str(text)) => text.parse::<orlop_core::time::Time>().is_ok(),
            (Base::Object(index), Shape::Map) => {
                if let Some(known) = self.table.get(index) {
                    self.object(value, known, path);
                }
                true
            }
            _ => false,
        };
        fits || self.misfit(value, Kind { outer: Outer::One, base }, path)
    }

    /// A text that should be an amount; one that a parameter may fill is checked when it is filled.
    fn amount(&mut self, text: &str, path: &Path<'_>) -> bool {
        if text.contains("{{") || text.contains("${") {
            return true;
        }
        match text.parse::<Quantity>() {
            Ok(_) => true,
            Err(error) => {
                self.found.error(Code::Amount, path, || Note::of(&error));
                false
            }
        }
    }

    /// Reports a value of the wrong type; always `false`.
    fn misfit<'d, D: Data<'d>>(&mut self, value: D, kind: Kind, path: &Path<'_>) -> bool {
        self.found.error(self.form.code, path, || {
            Note::new(format!("expected {}, found {}", wanted(kind), described(value)), help(value, kind, path))
        });
        false
    }
}

/// What a type is to people.
fn wanted(kind: Kind) -> String {
    let one = match kind.base {
        Base::String => "text".to_owned(),
        Base::Int32 => "a whole number of 32 bits".to_owned(),
        Base::Int64 => "a whole number of 64 bits".to_owned(),
        Base::Number => "a number".to_owned(),
        Base::Bool => "true or false".to_owned(),
        Base::Quantity => "a quantity such as 500m or 2Gi".to_owned(),
        Base::IntOrString => "a whole number or text".to_owned(),
        Base::Time => "a time such as 2024-05-01T12:00:00Z".to_owned(),
        Base::Duration => "a duration such as 30s".to_owned(),
        Base::Any => "any value".to_owned(),
        Base::Choice(words) => format!("one of {}", words.replace('|', ", ")),
        Base::Object(_) => "a mapping".to_owned(),
    };
    match (kind.outer, kind.base) {
        (Outer::One, _) => one,
        (Outer::List, Base::String) => "a list of texts".to_owned(),
        (Outer::List, Base::Object(_)) => "a list of mappings".to_owned(),
        (Outer::List, Base::Int32 | Base::Int64) => "a list of whole numbers".to_owned(),
        (Outer::List, _) => "a list".to_owned(),
        (Outer::Map, Base::String) => "a mapping of texts".to_owned(),
        (Outer::Map, _) => "a mapping".to_owned(),
    }
}

/// What people call a value, as it is written.
fn described<'d, D: Data<'d>>(value: D) -> String {
    match (value.written(), value.shape()) {
        (Some(written), Shape::Bool(_)) => format!("the truth value {written}"),
        (Some(written), _) => format!("the number {written}"),
        (None, shape) => shape.described(),
    }
}

/// A number or truth value as it is written.
fn written<'d, D: Data<'d>>(value: D) -> String {
    value.written().map_or_else(
        || match value.shape() {
            Shape::Bool(value) => value.to_string(),
            Shape::Int(value) => value.to_string(),
            Shape::Float(value) => value.to_string(),
            _ => String::new(),
        },
        str::to_owned,
    )
}

/// What to do about a value of the wrong type, where that is clear.
fn help<'d, D: Data<'d>>(value: D, kind: Kind, path: &Path<'_>) -> Option<String> {
    match (kind.outer, kind.base, value.shape()) {
        (Outer::One, Base::Choice(words), Shape::Str(text)) => {
            nearest(text, words.split('|')).map(|word| format!("did you mean `{word}`?"))
        }
        (Outer::One, Base::String | Base::Time, Shape::Bool(_) | Shape::Int(_) | Shape::Float(_)) => {
            Some(format!("put it in quotes: \"{}\"", written(value)))
        }
        (Outer::One, Base::Duration, Shape::Int(_) | Shape::Float(_)) => {
            Some(format!("write the unit too, such as {0}s for seconds or {0}m for minutes", written(value)))
        }
        (Outer::One, Base::Int32 | Base::Int64 | Base::Number, Shape::Str(text)) => {
            if text.contains("{{") || text.contains("${") {
                return Some("placeholders are allowed inside texts only; write the number itself".to_owned());
            }
            let text = text.trim();
            let unquoted = text.parse::<f64>().ok().map(|_| format!("remove the quotes: {text}"));
            unquoted.or_else(|| in_seconds(text, path))
        }
        (Outer::One, Base::Int32 | Base::Int64, Shape::Float(value)) if value.fract() == 0.0 && value.abs() < 1e15 => {
            Some(format!("write it without a fraction: {value:.0}"))
        }
        (Outer::One, Base::Int32, Shape::Int(_)) => Some(format!("the largest is {}", i32::MAX)),
        (Outer::One, Base::Bool, Shape::Str(text)) => match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "true" | "y" => Some("write true, without quotes".to_owned()),
            "no" | "off" | "false" | "n" => Some("write false, without quotes".to_owned()),
            _ => None,
        },
        (Outer::List, _, Shape::Map) => Some("begin every item with `- `".to_owned()),
        (Outer::List, _, Shape::Seq) => None,
        (Outer::List, _, _) => Some("write a list: one item per line, each after `- `, or [a, b]".to_owned()),
        (Outer::Map, _, Shape::Seq) | (Outer::One, Base::Object(_), Shape::Seq) => {
            Some("remove the `- `: the fields belong directly below this one".to_owned())
        }
        _ => None,
    }
}

/// A duration as the whole seconds that a field of seconds takes.
fn in_seconds(text: &str, path: &Path<'_>) -> Option<String> {
    let path = path.to_string();
    let duration = text.parse::<GoDuration>().ok().filter(|_| path.ends_with("Seconds"))?.get();
    (duration.subsec_nanos() == 0).then(|| format!("write the seconds as a number: {}", duration.as_secs()))
}

fn known_fields(known: &Type) -> String {
    let names: Vec<&str> = known.fields.iter().map(|field| field.name).collect();
    match names.len() {
        0..=12 => format!("known fields are {}", names.join(", ")),
        _ => "remove it, or check where it belongs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::manifest::testing::lines;
    use crate::manifest::{Limits, Options, read};

    const TEMPLATE: &str =
        "{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {containers: [{name: main, image: b}]}}}}";

    fn says(text: &str) -> String {
        let head = "apiVersion: workflow.kube-zen.io/v1alpha1\nkind: JobFlow\nmetadata: {name: f}\n";
        match read(
            "f.yaml",
            format!("{head}{}", text.replace("TEMPLATE", TEMPLATE)),
            &Options::new(Limits::elsewhere()),
        ) {
            Ok(reading) => lines(&reading.warnings.violations),
            Err(report) => lines(&report.violations),
        }
    }

    #[test]
    fn help_quotes_what_is_written_and_fits_the_field() {
        insta::assert_snapshot!(says("spec:
  parameters: [{name: a, value: 1.10}, {name: b, value: 017}, {name: c, value: 0x1F}, {name: d, value: True}]
  steps:
  - name: s
    timeoutSeconds: 10m
    retryPolicy: {backoff: {duration: 5, maxDuration: 1.5}}
    template: TEMPLATE
"), @r#"
        error[value] spec.parameters[0].value: expected text, found the number 1.10 (put it in quotes: "1.10")
        error[value] spec.parameters[1].value: expected text, found the number 017 (put it in quotes: "017")
        error[value] spec.parameters[2].value: expected text, found the number 0x1F (put it in quotes: "0x1F")
        error[value] spec.parameters[3].value: expected text, found the truth value True (put it in quotes: "True")
        error[value] spec.steps[0].timeoutSeconds: expected a whole number of 64 bits, found the text `10m` (write the seconds as a number: 600)
        error[value] spec.steps[0].retryPolicy.backoff.duration: expected a duration such as 30s, found the number 5 (write the unit too, such as 5s for seconds or 5m for minutes)
        error[value] spec.steps[0].retryPolicy.backoff.maxDuration: expected a duration such as 30s, found the number 1.5 (write the unit too, such as 1.5s for seconds or 1.5m for minutes)
        "#);
    }

    #[test]
    fn keys_for_anchors_may_stand_at_the_top_and_a_repeated_key_is_reported_once() {
        assert_eq!(says("x-job: &job TEMPLATE\nx-more: 5\nspec: {steps: [{name: s, template: *job}]}\n"), "");
        insta::assert_snapshot!(says("spec:
  suspend: true
  steps: [{name: s, name: t, template: TEMPLATE}]
  suspend: 5
kind: JobFlow
"), @"
        error[syntax] : the key `name` appears twice, first in line 6 (remove one of them)
        error[syntax] : the key `suspend` appears twice, first in line 5 (remove one of them)
        error[syntax] : the key `kind` appears twice, first in line 2 (remove one of them)
        ");
    }
}
