//! The section `scheduler` of the configuration: what the engine is configured with.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use orlop_core::time::HumanDuration;
use orlop_scheduler::config::Config;
use serde::Serialize;
use serde_json::{Map, Value};

/// Its keys, and what help says of each.
const KEYS: [(&str, &str); 22] = [
    ("policy", "How workers are chosen: best-fit, most-allocated, first-fit, spread, dot-product or balanced"),
    ("run_max", "The most jobs of a class that are placed by one ranking, 1 to 1024"),
    ("band_share", "Guaranteed shares of the bands High, Normal and Low, each 0 to 1, together at most 1"),
    ("accept_timeout", "How long a worker may take to accept an attempt"),
    ("heartbeat_timeout", "Silence after which a worker is unhealthy"),
    ("reassign_after", "Silence after which the attempts of a worker are lost"),
    ("lease", "How long workers let attempts run without an answer to their heartbeats"),
    ("fail_after", "Silence after which a worker has failed"),
    ("create_timeout", "How long a declared worker may take to register"),
    ("register_timeout", "How long a registered worker may take to open its stream"),
    ("max_infra", "How many infrastructure losses a job survives"),
    ("max_failures", "How many losses within 10 minutes end an unhealthy worker"),
    (
        "start_failures",
        "How many failed starts of different tasks within 60 s without a success make a worker unhealthy",
    ),
    ("probation_min", "The first probation; each further one is twice as long"),
    ("probation_max", "The longest probation"),
    ("reserve_after", "How long a blocked head of a queue waits before it reserves a worker"),
    ("max_reservations", "The most reservations at once"),
    (
        "preemption",
        "Whether a blocked head of a queue may end preemptible attempts that are at least 4 priority numbers worse",
    ),
    ("preempt_per_minute", "The most jobs, elements and gangs that are preempted in any minute; a gang counts as one"),
    (
        "prefill_max",
        "The most attempts of one tenant and class that wait on a worker for slots to inherit; 0 = none are sent ahead",
    ),
    ("finished_kept", "How many finished jobs are remembered for messages that come late"),
    ("workers_kept", "How many workers that left are remembered"),
];

/// The configuration of the engine as a section.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct EngineConfig(pub(super) Config);

fn id(key: &str) -> String {
    format!("scheduler.{key}")
}

fn defaults() -> Map<String, Value> {
    match serde_json::to_value(Config::default()) {
        Ok(Value::Object(defaults)) => defaults,
        _ => Map::new(),
    }
}

impl Args for EngineConfig {
    fn augment_args(command: Command) -> Command {
        let defaults = defaults();
        KEYS.into_iter().fold(command, |command, (key, help)| {
            let arg = Arg::new(id(key)).help(help);
            command.arg(match defaults.get(key) {
                Some(Value::Bool(_)) => arg.action(ArgAction::SetTrue),
                Some(Value::Array(_)) => arg.action(ArgAction::Append).value_parser(number),
                Some(Value::Number(_)) => {
                    arg.value_parser(move |text: &str| number(text).and_then(|value| fits(key, value)))
                }
                _ => arg.value_parser(move |text: &str| fits(key, Value::from(text))),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EngineConfig {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut config = Self::default();
        config.update_from_arg_matches(matches)?;
        Ok(config)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let mut values = defaults();
        for (key, value) in &mut values {
            let id = id(key);
            *value = match value {
                Value::Bool(_) => matches.get_one::<bool>(&id).copied().map(Value::from),
                Value::Array(_) => matches.get_many::<Value>(&id).map(|items| items.cloned().collect()),
                _ => matches.get_one::<Value>(&id).cloned(),
            }
            .unwrap_or_else(|| value.take());
        }
        let read = serde_json::from_value(Value::Object(values));
        let wrong = |error| clap::Error::raw(ErrorKind::ValueValidation, format!("section `scheduler`: {error}\n"));
        self.0 = read.map_err(wrong)?;
        Ok(())
    }
}

/// A value that its key may have.
fn fits(key: &str, value: Value) -> Result<Value, String> {
    let alone = Value::Object(Map::from_iter([(key.to_owned(), value.clone())]));
    serde_json::from_value::<Config>(alone).map(|_| value).map_err(|error| error.to_string())
}

/// A number, or a duration in milliseconds.
fn number(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(number @ Value::Number(_)) => Ok(number),
        _ => milliseconds::<u64>(text).map(Value::from),
    }
}

/// A duration: milliseconds, or a number with a unit such as `15s`.
///
/// # Errors
/// What can be written.
pub(super) fn milliseconds<T: TryFrom<u128> + std::str::FromStr>(text: &str) -> Result<T, String> {
    let duration = || T::try_from(text.parse::<HumanDuration>().ok()?.get().as_millis()).ok();
    let read = text.parse().ok().or_else(duration);
    read.ok_or_else(|| "use a number, of milliseconds where it is a time, or a duration such as 15s".to_owned())
}

/// A path, which may be empty.
///
/// # Errors
/// Never.
pub(super) fn path(text: &str) -> Result<PathBuf, Infallible> {
    Ok(PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_key_of_the_engine() {
        let named: std::collections::BTreeSet<_> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
        assert_eq!(named, defaults().into_iter().map(|(key, _)| key).collect());
    }

    #[test]
    fn times_are_milliseconds_or_durations() {
        assert_eq!((milliseconds::<u64>("1500"), milliseconds::<u64>("15s")), (Ok(1500), Ok(15_000)));
        assert_eq!((number("0.5"), number("1m")), (Ok(Value::from(0.5)), Ok(Value::from(60_000))));
        insta::assert_snapshot!(milliseconds::<u32>("99999999s").unwrap_err(), @"use a number, of milliseconds where it is a time, or a duration such as 15s");
        assert!(number("many").is_err());
    }
}
