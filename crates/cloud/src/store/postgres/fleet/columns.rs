//! Rows as columns: what one statement writes for many rows at once.

use std::borrow::Cow;

use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::TaskStatus;
use orlop_core::time::Time;

use super::connection::Param;
use crate::store::fleet::column::integer;

/// Columns of the same length, named and typed.
#[derive(Default)]
pub(super) struct Columns {
    names: Vec<&'static str>,
    types: Vec<&'static str>,
    params: Vec<Param>,
}

/// A text as the database takes it: it knows no character zero.
pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl Columns {
    pub(super) fn integers<T>(mut self, name: &'static str, rows: &[T], value: impl Fn(&T) -> Option<i64>) -> Self {
        self.add(name, "bigint", Box::new(rows.iter().map(value).collect::<Vec<_>>()));
        self
    }

    pub(super) fn texts<'a, T>(
        mut self,
        name: &'static str,
        rows: &'a [T],
        value: impl Fn(&'a T) -> Option<Cow<'a, str>>,
    ) -> Self {
        let values: Vec<Option<String>> = rows.iter().map(|row| value(row).map(|text| clean(&text))).collect();
        self.add(name, "text", Box::new(values));
        self
    }

    pub(super) fn flags<T>(mut self, name: &'static str, rows: &[T], value: impl Fn(&T) -> Option<bool>) -> Self {
        self.add(name, "boolean", Box::new(rows.iter().map(value).collect::<Vec<_>>()));
        self
    }

    pub(super) fn bytes<T>(mut self, name: &'static str, rows: &[T], value: impl Fn(&T) -> Vec<u8>) -> Self {
        self.add(name, "bytea", Box::new(rows.iter().map(value).collect::<Vec<_>>()));
        self
    }

    /// The columns of units.
    pub(super) fn units<T>(self, rows: &[T], unit: impl Fn(&T) -> &TaskStatus + Copy) -> Self {
        let millis = |time: Option<Time>| time.map(Time::millis);
        let number = |number: u32| Some(i64::from(number));
        self.texts("state", rows, |row| Some(unit(row).state.as_str().into()))
            .texts("reason", rows, |row| unit(row).reason.as_deref().map(Into::into))
            .integers("attempt", rows, |row| number(unit(row).attempt))
            .integers("epoch", rows, |row| Some(integer(unit(row).epoch.0)))
            .integers("flags", rows, |row| {
                let TaskStatus { answered, lost, second_try, .. } = unit(row);
                Some(i64::from(*answered) | i64::from(*lost) << 1 | i64::from(*second_try) << 2)
            })
            .integers("retries", rows, |row| number(unit(row).retries))
            .integers("infra", rows, |row| number(unit(row).infra))
            .texts("worker", rows, |row| unit(row).worker.as_ref().map(|worker| worker.as_str().into()))
            .texts("avoid", rows, |row| unit(row).avoid.as_ref().map(|worker| worker.as_str().into()))
            .integers("due_at", rows, |row| millis(unit(row).due_at))
            .integers("queued_at", rows, |row| millis(unit(row).queued_at))
            .integers("started_at", rows, |row| millis(unit(row).started_at))
            .integers("finished_at", rows, |row| millis(unit(row).finished_at))
            .integers("exit_code", rows, |row| unit(row).exit_code.map(i64::from))
    }

    fn add(&mut self, name: &'static str, kind: &'static str, values: Param) {
        self.names.push(name);
        self.types.push(kind);
        self.params.push(values);
    }

    /// The columns' names.
    pub(super) fn names(&self) -> String {
        self.names.join(", ")
    }

    /// The rows as a table `u`, with their number as `ord`.
    pub(super) fn table(&self) -> String {
        let places: Vec<String> =
            self.types.iter().zip(1..).map(|(kind, place)| format!("${place}::{kind}[]")).collect();
        format!("UNNEST({}) WITH ORDINALITY AS u({}, ord)", places.join(", "), self.names())
    }

    /// `name = u.name` for these columns.
    pub(super) fn assignments(&self, skip: &[&str], kept: &[&str], table: &str) -> String {
        let one = |name: &&'static str| match kept.contains(name) {
            true => format!("{name} = coalesce(u.{name}, {table}.{name})"),
            false => format!("{name} = u.{name}"),
        };
        self.names.iter().filter(|name| !skip.contains(name)).map(one).collect::<Vec<_>>().join(", ")
    }

    /// The statement that inserts the rows in their order.
    pub(super) fn insert(self, table: &str, conflict: &str) -> (String, Vec<Param>) {
        let names = self.names();
        (
            format!("INSERT INTO {table} ({names}) SELECT {names} FROM {} ORDER BY ord {conflict}", self.table()),
            self.params,
        )
    }

    pub(super) fn into_params(self) -> Vec<Param> {
        self.params
    }
}
