//! Configuration in layers: defaults, file, environment, flags, in rising precedence.

use orlop_core::error::{Class, Problem};
use orlop_core::time::HumanDuration;
use serde_json::{Map, Value};

/// What every variable begins with.
const PREFIX: &str = "ORLOP_";

/// A layer that cannot be read: where, and what is wrong.
fn wrong(place: &str, why: impl std::fmt::Display) -> Problem {
    Problem::new(Class::Invalid, format!("{place}: {why}"))
}

/// A key that there is none of.
fn unknown(place: &str, key: &str) -> Problem {
    wrong(place, format_args!("there is no key `{key}`; `--print-config` shows all"))
}

/// The sections with their keys, and the layers put on them so far.
#[derive(Clone, Debug)]
pub(in crate::host) struct Layers {
    tree: Map<String, Value>,
}

impl Layers {
    /// The defaults: a map of sections, each a map of keys.
    pub(in crate::host) fn new(defaults: Value) -> Self {
        let tree = match defaults {
            Value::Object(tree) => tree,
            _ => Map::new(),
        };
        Self { tree }
    }

    /// Everything as it stands.
    pub(in crate::host) fn value(self) -> Value {
        Value::Object(self.tree)
    }

    /// Puts a file on top: YAML, of which JSON is a part.
    pub(in crate::host) fn file(&mut self, place: &str, text: &str) -> Result<(), Problem> {
        let wrong = |why: String| wrong(place, why);
        let read: Value = serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let sections = match read {
            Value::Null => return Ok(()),
            Value::Object(sections) => sections,
            _ => return Err(wrong("is no map of sections".to_owned())),
        };
        for (section, keys) in sections {
            let Value::Object(keys) = keys else {
                return Err(wrong(format!("section `{section}` is no map of keys")));
            };
            self.keys(place, &section, keys)?;
        }
        Ok(())
    }

    /// Puts the file of a program on top whose keys are all of one section, which the file does not name.
    pub(in crate::host) fn file_of(&mut self, section: &str, place: &str, text: &str) -> Result<(), Problem> {
        let wrong = |why: String| wrong(place, why);
        match serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))? {
            Value::Null => Ok(()),
            Value::Object(keys) => self.keys(place, section, keys),
            _ => Err(wrong("is no map of keys".to_owned())),
        }
    }

    fn keys(&mut self, place: &str, section: &str, keys: Map<String, Value>) -> Result<(), Problem> {
        for (key, value) in keys {
            self.set(place, section, &key, value)?;
        }
        Ok(())
    }

    fn knows(&self, section: &str, key: &str) -> bool {
        self.tree.get(section).is_some_and(|keys| keys.get(key).is_some())
    }

    /// Puts the variables of the environment on top. Those of other sections are others' business. A variable that ends in
    /// `_FILE` names the file that its key's value is in, which keeps secrets out of the environment.
    pub(in crate::host) fn environment(
        &mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Problem> {
        let mut ours: Vec<(String, String)> = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
        ours.sort();
        for (name, text) in ours {
            let words = name.strip_prefix(PREFIX).unwrap_or_default().to_ascii_lowercase();
            let Some((section, key)) = words.split_once('_') else { continue };
            let of_file = key.strip_suffix("_file").filter(|of| !self.knows(section, key) && self.knows(section, of));
            if let Some(key) = of_file {
                let read = std::fs::read_to_string(&text);
                let read = read.map_err(|error| wrong(&name, format_args!("{text} cannot be read: {error}")))?;
                self.set(&name, section, key, Value::String(read.trim_end().to_owned()))?;
            } else if self.tree.contains_key(section) {
                self.set(&name, section, key, Value::String(text))?;
            }
        }
        Ok(())
    }

    /// Puts flags on top: `--<section>-<key> VALUE` or `--<section>-<key>=VALUE`.
    pub(in crate::host) fn flags(&mut self, arguments: impl Iterator<Item = String>) -> Result<(), Problem> {
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let unknown = || unknown("flags", &argument);
            let words = argument.strip_prefix("--").ok_or_else(unknown)?;
            let (name, value) = match words.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => (words, arguments.next().ok_or_else(|| wrong(&format!("flag `{argument}`"), "needs a value"))?),
            };
            let (section, key) = name.split_once('-').ok_or_else(unknown)?;
            self.set("flags", section, &key.replace('-', "_"), Value::String(value))?;
        }
        Ok(())
    }

    fn set(&mut self, place: &str, section: &str, key: &str, value: Value) -> Result<(), Problem> {
        let name = format!("{section}.{key}");
        let keys = self.tree.get_mut(section).and_then(Value::as_object_mut);
        let Some(slot) = keys.and_then(|keys| keys.get_mut(key)) else {
            return Err(unknown(place, &name));
        };
        let given = value.to_string();
        *slot = fitted(slot, value)
            .map_err(|wanted| wrong(place, format_args!("`{name}` is `{}`; use {wanted}", given.trim_matches('"'))))?;
        Ok(())
    }
}

/// A value as the kind of the one it replaces: texts of variables and flags become numbers, durations milliseconds.
fn fitted(old: &Value, new: Value) -> Result<Value, &'static str> {
    let text = match &new {
        Value::String(text) => text.trim(),
        _ => return if same_kind(old, &new) { Ok(new) } else { Err(kind(old)) },
    };
    let read = match old {
        Value::String(_) | Value::Null => Some(new.clone()),
        Value::Number(_) => number(text),
        Value::Bool(_) => text.to_ascii_lowercase().parse().ok().map(Value::Bool),
        Value::Array(_) | Value::Object(_) if text.starts_with(['[', '{']) => {
            serde_json::from_str(text).ok().filter(|read| same_kind(old, read))
        }
        Value::Array(items) => list(text, items.first().is_some_and(Value::is_number)),
        Value::Object(_) => map(text),
    };
    read.ok_or(kind(old))
}

/// A list as people write it: `a,b`.
fn list(text: &str, numbers: bool) -> Option<Value> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| if numbers { number(part) } else { Some(Value::from(part)) }).collect()
}

/// A map as people write it: `a=1,b=2`.
fn map(text: &str) -> Option<Value> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pair = |part: &str| part.split_once('=').map(|(key, value)| (key.to_owned(), Value::from(value)));
    parts.map(pair).collect::<Option<Map<String, Value>>>().map(Value::Object)
}

fn number(text: &str) -> Option<Value> {
    if let Ok(Value::Number(number)) = serde_json::from_str(text) {
        return Some(Value::Number(number));
    }
    let duration = text.parse::<HumanDuration>().ok()?.get();
    u64::try_from(duration.as_millis()).ok().map(Value::from)
}

fn same_kind(old: &Value, new: &Value) -> bool {
    matches!(
        (old, new),
        (Value::Null, _)
            | (Value::Number(_), Value::Number(_))
            | (Value::Bool(_), Value::Bool(_))
            | (Value::Array(_), Value::Array(_))
            | (Value::Object(_), Value::Object(_))
    )
}

const fn kind(old: &Value) -> &'static str {
    match old {
        Value::Number(_) => "a number, or a duration such as 15s where it is a time",
        Value::Bool(_) => "true or false",
        Value::Array(_) => "a list such as [1, 2] or 1,2",
        Value::Object(_) => "a map such as a=1,b=2",
        Value::String(_) | Value::Null => "a text",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_come_from_files_that_variables_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("name");
        std::fs::write(&file, "hush\n").unwrap();
        let mut all = Layers::new(json!({ "store": { "url": "", "key_file": "" } }));
        let variable = |name: &str| (name.to_owned(), file.display().to_string());
        all.environment([variable("ORLOP_STORE_URL_FILE"), variable("ORLOP_STORE_KEY_FILE")].into_iter()).unwrap();
        let value = all.clone().value();
        assert_eq!(value["store"]["url"], "hush");
        assert_eq!(value["store"]["key_file"], json!(file.display().to_string()), "that is a key of its own");
        let nothing = ("ORLOP_STORE_URL_FILE".to_owned(), "/nowhere/at/all".to_owned());
        let wrong = all.environment(std::iter::once(nothing)).unwrap_err().to_string();
        assert!(wrong.starts_with("ORLOP_STORE_URL_FILE: /nowhere/at/all cannot be read"), "{wrong}");
        assert!(all.environment(std::iter::once(variable("ORLOP_STORE_X_FILE"))).is_err());
    }

    fn layers() -> Layers {
        Layers::new(json!({
            "server": { "listen": "127.0.0.1:7071", "queue": 10 },
            "scheduler": { "heartbeat_timeout": 15_000, "preemption": false, "band_share": [0.3, 0.3, 0.3] },
        }))
    }

    #[test]
    fn flags_win_over_variables_and_these_over_the_file() {
        let mut layers = layers();
        layers.file("a.yaml", "server: {listen: 'a', queue: 1}\nscheduler: {heartbeat_timeout: 1s}").unwrap();
        let variables = [("ORLOP_SERVER_QUEUE", "2"), ("ORLOP_SCHEDULER_PREEMPTION", "true"), ("ORLOP_JOB_ID", "x")];
        layers.environment(variables.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned()))).unwrap();
        let flags = ["--server-queue=3", "--scheduler-heartbeat-timeout", "20s", "--scheduler-band-share", "[0,0,0]"];
        layers.flags(flags.into_iter().map(str::to_owned)).unwrap();
        let wanted = json!({
            "server": { "listen": "a", "queue": 3 },
            "scheduler": { "heartbeat_timeout": 20_000, "preemption": true, "band_share": [0, 0, 0] },
        });
        assert_eq!(layers.value(), wanted);
    }

    #[test]
    fn lists_and_maps_are_written_as_people_do() {
        let mut layers = Layers::new(json!({ "worker": { "server": [], "labels": {}, "shares": [0.5] } }));
        let set = |name: &str, text: &str| (format!("ORLOP_WORKER_{name}"), text.to_owned());
        let variables = [set("SERVER", "http://a, http://b"), set("LABELS", "zone=a,rack="), set("SHARES", "1,2s")];
        layers.environment(variables.into_iter()).unwrap();
        let wanted =
            json!({ "server": ["http://a", "http://b"], "labels": { "zone": "a", "rack": "" }, "shares": [1, 2000] });
        assert_eq!(layers.clone().value()["worker"], wanted);
        layers.environment([set("SERVER", "[\"c\"]"), set("LABELS", "{\"a\":\"b\"}")].into_iter()).unwrap();
        assert_eq!(layers.clone().value()["worker"]["server"], json!(["c"]));
        layers.file_of("worker", "w.yaml", "server: [d]").unwrap();
        assert_eq!(layers.clone().value()["worker"]["server"], json!(["d"]));
        let wrong = layers.clone().environment(std::iter::once(set("LABELS", "zone"))).unwrap_err();
        insta::assert_snapshot!(wrong, @"ORLOP_WORKER_LABELS: `worker.labels` is `zone`; use a map such as a=1,b=2");
        insta::assert_snapshot!(layers.file_of("worker", "w.yaml", "servers: []").unwrap_err(), @"w.yaml: there is no key `worker.servers`; `--print-config` shows all");
    }

    #[test]
    fn keys_that_nobody_knows_and_values_of_another_kind_are_errors() {
        let flag = |text: &str| layers().flags(std::iter::once(text.to_owned())).unwrap_err();
        insta::assert_snapshot!(flag("--server-lissten=x"), @"flags: there is no key `server.lissten`; `--print-config` shows all");
        insta::assert_snapshot!(flag("--server-queue=many"), @"flags: `server.queue` is `many`; use a number, or a duration such as 15s where it is a time");
        insta::assert_snapshot!(flag("--server-queue"), @"flag `--server-queue`: needs a value");
        insta::assert_snapshot!(layers().file("a.yaml", "server: {x: 1}").unwrap_err(), @"a.yaml: there is no key `server.x`; `--print-config` shows all");
        insta::assert_snapshot!(layers().file("a.yaml", "[1]").unwrap_err(), @"a.yaml: is no map of sections");
        let variable = ("ORLOP_SERVER_X".to_owned(), "1".to_owned());
        insta::assert_snapshot!(layers().environment(std::iter::once(variable)).unwrap_err(), @"ORLOP_SERVER_X: there is no key `server.x`; `--print-config` shows all");
    }
}
