//! Rows of transition tables, and the refusal of what no row allows. Owns the data types and the macro that writes
//! rows; never walks a table.

use std::fmt;

use super::Named;

/// One row of a transition table; several states and events may share it.
#[derive(Debug)]
pub struct Row<S: 'static, E: 'static, G> {
    /// What the row is about, in a word. Rows with the same word belong together.
    pub rule: &'static str,
    /// States it starts from; empty: it creates the object.
    pub from: &'static [S],
    /// Events it answers.
    pub on: &'static [E],
    /// What must hold besides, if anything.
    pub guard: Option<G>,
    /// The next state; none if the state stays as it is.
    pub to: Option<S>,
    /// What is done, by name.
    pub effects: &'static [&'static str],
}

/// A transition from one state on one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition<S, E, G> {
    /// Name of the rule of its row.
    pub rule: &'static str,
    /// The state before; none: it creates the object.
    pub from: Option<S>,
    /// What happened.
    pub event: E,
    /// What must hold besides, if anything.
    pub guard: Option<G>,
    /// The state after.
    pub to: S,
    /// What is done, by name.
    pub effects: &'static [&'static str],
}

/// An event that the state does not take, with what it would take. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{machine}: {}", self.reported())]
pub struct Rejected<S: Named, E: Named> {
    /// Which machine.
    pub machine: &'static str,
    /// The state; none if the object does not exist yet.
    pub from: Option<S>,
    /// The event.
    pub event: E,
    /// Conditions under which the state does take the event, none of which held.
    pub unmet: Vec<&'static str>,
    /// Events that this state takes.
    pub allowed: Vec<E>,
}

impl<S: Named, E: Named> Rejected<S, E> {
    fn reported(&self) -> String {
        let from = self.from.map_or("an object that does not exist yet", S::as_str);
        let event = self.event.as_str();
        if self.unmet.is_empty() {
            let allowed = self.allowed.iter().map(|event| event.as_str()).collect::<Vec<_>>();
            let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
            format!("{from} does not take `{event}`; it takes: {allowed}")
        } else {
            format!("{from} takes `{event}` only if {}", self.unmet.join(", or if "))
        }
    }
}

/// The guards of a machine whose transitions depend on nothing but state and event: there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoGuard {}

impl Named for NoGuard {
    const KIND: &'static str = "guard";
    const ALL: &'static [Self] = &[];

    fn as_str(self) -> &'static str {
        match self {}
    }
}

impl fmt::Display for NoGuard {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// Writes the rows of a table.
///
/// `"rule": [From, …] on [Event, …] if Guard => To, "effect", …;` where `[]` is birth, `[in SET]` a constant slice,
/// `on [any]` every event, and `=> same` leaves the state as it is.
macro_rules! rows {
    ($state:ty, $event:ty, $guard:ty; $(
        $rule:literal: [$($from:tt)*] on [$($on:tt)+] $(if $when:ident)? => $to:ident $(, $effect:literal)*;
    )+) => {
        &[$($crate::machine::Row {
            rule: $rule,
            from: $crate::machine::transition::rows!(@list $state; $($from)*),
            on: $crate::machine::transition::rows!(@list $event; $($on)+),
            guard: $crate::machine::transition::rows!(@guard $guard; $($when)?),
            to: $crate::machine::transition::rows!(@to $state; $to),
            effects: &[$($effect),*],
        }),+]
    };
    (@list $type:ty; in $set:ident) => { $set };
    (@list $type:ty; any) => { <$type as $crate::machine::Named>::ALL };
    (@list $type:ty; $($value:ident),* $(,)?) => { &[$(<$type>::$value),*] };
    (@guard $type:ty;) => { None };
    (@guard $type:ty; $guard:ident) => { Some(<$type>::$guard) };
    (@to $type:ty; same) => { None };
    (@to $type:ty; $to:ident) => { Some(<$type>::$to) };
}
pub(crate) use rows;
