//! Settings of programs that run on and on. Each argument of such a program is a setting: its value comes from a file, from a variable
//! or from its flag, in rising precedence, else it is the default.
//!
//! A setting is named by the id of its argument, `key` or `section.key`: so it is called in the file, as `ORLOP_SECTION_KEY` in the
//! environment and `--section-key` on the command line. What file and environment say is put before the arguments of the command
//! line, so that all of it is parsed and checked by one parser.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use orlop_core::error::{Class, Problem};
use serde::Serialize;
use serde_json::{Map, Value};

use super::program::ProgramError;

/// The argument that names the file.
const FILE: &str = "config";
/// The argument that asks for the settings in effect.
const PRINT: &str = "print_config";

/// How a program's settings are named outside its command line.
#[derive(Clone, Copy, Debug)]
pub(in crate::host) struct Scope {
    /// What its variables begin with.
    pub(in crate::host) prefix: &'static str,
    /// The variable that names its file.
    pub(in crate::host) file: &'static str,
    /// Further variables of settings, as other programs call them: each with the setting. An empty one says nothing.
    pub(in crate::host) others: &'static [(&'static str, &'static str)],
}

impl Scope {
    /// The variable of a setting.
    fn variable(&self, id: &str) -> String {
        format!("{}{}", self.prefix, id.replace(['.', '-'], "_").to_uppercase())
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::host) enum Source {
    /// Nobody gave one.
    Default,
    /// The file at this path.
    File(String),
    /// This variable.
    Variable(String),
    /// This flag.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(name) | Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// What a file or a variable gives a setting.
#[derive(Clone, Debug)]
struct LayerValue {
    source: Source,
    values: Vec<String>,
}

/// Settings as they were read.
#[derive(Debug)]
pub(in crate::host) struct Settings<T> {
    /// The arguments of the program.
    pub(in crate::host) value: T,
    /// Whether the settings are to be shown in place of work.
    pub(in crate::host) print: bool,
    /// Where they come from.
    pub(in crate::host) sources: Sources,
}

/// Where the value of each setting comes from.
#[derive(Debug)]
pub(in crate::host) struct Sources(BTreeMap<String, Source>);

/// The command with an argument for each setting as people know it: the names of flag and variable, the default, lists and switches.
/// `defaults` holds values by section and key; a value that is not there is the one of the argument.
pub(in crate::host) fn command(command: Command, scope: &Scope, defaults: &Value) -> Command {
    let ids = ids(&command);
    let setting = |arg: Arg| match ids.iter().position(|id| arg.get_id() == id.as_str()) {
        Some(position) => setting(arg, scope, defaults).display_order(position),
        None => arg,
    };
    let command = command.mut_args(setting).mut_subcommands(|verb| verb.mut_args(setting));
    let file = Arg::new(FILE).long("config").value_name("FILE");
    let print = Arg::new(PRINT).long("print-config").action(ArgAction::SetTrue);
    command
        .arg(file.help(format!("File with these settings in YAML [env: {}]", scope.file)))
        .arg(print.help("Show the settings in effect, each with its source, and end"))
        .args_override_self(true)
}

/// The ids of the settings of a command.
fn ids(command: &Command) -> Vec<String> {
    command.get_arguments().map(|arg| arg.get_id().to_string()).filter(|id| id != FILE && id != PRINT).collect()
}

fn setting(arg: Arg, scope: &Scope, defaults: &Value) -> Arg {
    let id = arg.get_id().to_string();
    let flag = arg.get_long().map_or_else(|| id.replace(['.', '_'], "-"), str::to_owned);
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let mut arg = arg.long(flag).required(false).help(format!("{help} [env: {}]", scope.variable(&id)));
    if let Some((section, key)) = id.split_once('.') {
        arg = arg.help_heading(format!("Section `{section}`"));
        if !is_map(&arg) {
            arg = arg.value_name(key.to_uppercase());
        }
    }
    arg = match arg.get_action() {
        ArgAction::SetTrue => {
            let has_no_default = arg.get_default_values().is_empty();
            let arg = arg.action(ArgAction::Set).num_args(0..=1).value_name("BOOL").default_missing_value("true");
            let arg = arg.value_parser(BoolishValueParser::new()).ignore_case(true);
            if has_no_default { arg.default_value("false") } else { arg }
        }
        ArgAction::Append => arg.num_args(1).value_delimiter(','),
        _ => arg,
    };
    match defaults.pointer(&format!("/{}", id.replace('.', "/"))).map(texts) {
        Some(Ok(values)) if !values.is_empty() => {
            let hidden = values.iter().all(String::is_empty);
            arg.default_values(values).hide_default_value(hidden)
        }
        _ => arg,
    }
}

/// A value as words of a command line. A map is written `key=value`.
fn texts(value: &Value) -> Result<Vec<String>, &'static str> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err("must be a value, a list of values or a map of values"),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(scalar).collect(),
        Value::Object(items) => items.iter().map(|(key, value)| Ok(format!("{key}={}", scalar(value)?))).collect(),
        _ => Ok(vec![scalar(value)?]),
    }
}

/// Something that cannot be used: where it stands, and why.
fn wrong(place: &str, why: impl fmt::Display) -> Problem {
    Problem::new(Class::Invalid, format!("{place}: {why}"))
}

/// A setting that there is none of.
fn unknown(place: &str, name: &str) -> Problem {
    wrong(place, format_args!("there is no key `{name}`; `--print-config` shows all"))
}

/// Reads arguments (the first is the program), file and variables.
///
/// # Errors
/// Arguments that the command does not take, help among them; a file that cannot be read; a value that a setting cannot have.
pub(in crate::host) fn read<T: FromArgMatches>(
    command: &Command,
    scope: &Scope,
    arguments: Vec<OsString>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Settings<T>, ProgramError> {
    let typed = command.clone().try_get_matches_from(&arguments)?;
    let verb = typed.subcommand().and_then(|(name, _)| command.find_subcommand(name));
    let typed_here = typed.subcommand().map_or(&typed, |(_, below)| below);
    let (asked, position) = (verb.unwrap_or(command), if verb.is_some() { 2 } else { 1 });
    let ids = ids(command);
    let mut variables: Vec<_> = variables.map(|(name, text)| (name, text.trim().to_owned())).collect();
    // What is set last counts: names of its own before those of others.
    variables.sort_by_key(|(name, _)| (name.starts_with(scope.prefix), name.clone()));
    let mut given = BTreeMap::new();
    let named = variables.iter().find(|(name, _)| name == scope.file).map(|(_, path)| path.clone());
    if let Some(path) = typed.get_one::<String>(FILE).cloned().or(named) {
        from_file(&path, command, &mut given)?;
    }
    from_variables(scope, variables, command, &mut given)?;
    given.retain(|id, _| argument(asked, id).is_some());
    let mut words: Vec<OsString> = arguments.iter().take(position).cloned().collect();
    for (id, given) in &given {
        let arg = argument(asked, id);
        let is_typed = typed_here.value_source(id) == Some(ValueSource::CommandLine);
        // A map is added to; everything else is replaced.
        if let Some(arg) = arg.filter(|arg| !is_typed || is_map(arg)) {
            words.extend(as_words(arg, given));
        }
    }
    words.extend(arguments.into_iter().skip(position));
    let matches = match command.clone().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return Err(blame(command, &given).unwrap_or_else(|| error.into())),
    };
    let mut sources = BTreeMap::new();
    for id in ids {
        let source = match argument(command, &id).and_then(Arg::get_long) {
            Some(flag) if is_given(&typed, &id) => Source::Flag(format!("--{flag}")),
            _ => given.get(&id).map_or(Source::Default, |given| given.source.clone()),
        };
        sources.insert(id, source);
    }
    Ok(Settings { value: T::from_arg_matches(&matches)?, print: matches.get_flag(PRINT), sources: Sources(sources) })
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn argument<'c>(command: &'c Command, id: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|arg| arg.get_id() == id)
}

/// Whether an argument has any number of values.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Whether the values of an argument are a map.
fn is_map(arg: &Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains('=')))
}

fn as_words(arg: &Arg, given: &LayerValue) -> impl Iterator<Item = OsString> {
    let flag = arg.get_long().unwrap_or_default().to_owned();
    given.values.clone().into_iter().map(move |value| format!("--{flag}={value}").into())
}

/// What is wrong with a value of the file or of a variable, and where it stands.
fn blame(command: &Command, given: &BTreeMap<String, LayerValue>) -> Option<ProgramError> {
    given.iter().find_map(|(id, given)| {
        let arg = argument(command, id)?;
        let words = std::iter::once(command.get_name().into()).chain(as_words(arg, given));
        let error = command.clone().try_get_matches_from(words).err()?.to_string();
        let lines = error.lines().map(str::trim).take_while(|line| !line.starts_with("For more information"));
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        let why = lines.join("; ");
        let place = match &given.source {
            Source::File(path) => format!("{path}: `{id}`"),
            source => source.to_string(),
        };
        Some(wrong(&place, why.strip_prefix("error: ").unwrap_or(&why)).into())
    })
}

/// Reads a file: YAML, of which JSON is a part.
fn from_file(path: &str, command: &Command, given: &mut BTreeMap<String, LayerValue>) -> Result<(), Problem> {
    let ids = ids(command);
    let text = std::fs::read_to_string(Path::new(path))
        .map_err(|error| wrong(path, format_args!("cannot be read: {error}")))?;
    let read: Value = serde_saphyr::from_str(&text).map_err(|error| wrong(path, error))?;
    let mut take = |id: &str, value: &Value| {
        let wrong = |why: &str| wrong(path, format_args!("`{id}` {why}"));
        let values = texts(value).map_err(wrong)?;
        let arg = argument(command, id);
        if arg.is_some_and(is_list) && values.iter().any(|value| value.contains(',')) {
            return Err(wrong("holds a comma, which separates entries"));
        }
        if values.is_empty() && !value.is_null() && arg.is_some_and(|arg| !arg.get_default_values().is_empty()) {
            return Err(wrong("is empty; leave it out for the default"));
        }
        if !values.is_empty() {
            given.insert(id.to_owned(), LayerValue { source: Source::File(path.to_owned()), values });
        }
        Ok::<_, Problem>(())
    };
    let keys = match read {
        Value::Null => Map::new(),
        Value::Object(keys) => keys,
        _ => return Err(wrong(path, "must be a map of settings")),
    };
    for (name, value) in &keys {
        if ids.contains(name) && !name.contains('.') {
            take(name, value)?;
            continue;
        }
        if !ids.iter().any(|id| id.split_once('.').is_some_and(|(section, _)| section == name)) {
            return Err(unknown(path, name));
        }
        let Value::Object(section) = value else {
            return Err(wrong(path, format_args!("`{name}` must be a map of settings")));
        };
        for (key, value) in section {
            let id = format!("{name}.{key}");
            if !ids.contains(&id) {
                return Err(unknown(path, &id));
            }
            take(&id, value)?;
        }
    }
    Ok(())
}

/// Reads variables. One that ends in `_FILE` names the file with the value of a setting, which keeps secrets out of the environment.
fn from_variables(
    scope: &Scope,
    variables: Vec<(String, String)>,
    command: &Command,
    given: &mut BTreeMap<String, LayerValue>,
) -> Result<(), Problem> {
    let ids = ids(command);
    let of = |name: &str| {
        let other = scope.others.iter().find(|(other, _)| *other == name).map(|(_, id)| *id);
        ids.iter().find(|id| Some(id.as_str()) == other || scope.variable(id) == name)
    };
    for (name, text) in variables {
        if text.is_empty() && scope.others.iter().any(|(other, _)| *other == name) {
            continue;
        }
        let (id, text) = match (of(&name), name.strip_suffix("_FILE").and_then(of)) {
            (Some(id), _) => (id, text),
            (None, Some(id)) => {
                let read = std::fs::read_to_string(&text);
                let read = read.map_err(|error| wrong(&name, format_args!("{text} cannot be read: {error}")))?;
                (id, read.trim_end().to_owned())
            }
            (None, None) if name != scope.file && is_ours(scope, &name, &ids) => {
                let key = name.strip_prefix(scope.prefix).unwrap_or(&name).to_lowercase();
                let sections = if ids.iter().any(|id| id.contains('.')) { 1 } else { 0 };
                return Err(unknown(&name, &key.replacen('_', ".", sections)));
            }
            (None, None) => continue,
        };
        let values = if argument(command, id).is_some_and(is_list) {
            entries(&text).map_err(|why| wrong(&name, why))?
        } else {
            vec![text]
        };
        given.insert(id.clone(), LayerValue { source: Source::Variable(name), values });
    }
    Ok(())
}

/// The entries of a list or map in a variable: `a,b`, `a=1,b=2`, or as in JSON.
fn entries(text: &str) -> Result<Vec<String>, String> {
    if text.starts_with(['[', '{']) {
        let read: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        return texts(&read).map_err(str::to_owned);
    }
    Ok(text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect())
}

/// The variables of this process that are text.
pub(in crate::host) fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Whether a variable can only be meant for this program.
fn is_ours(scope: &Scope, name: &str, ids: &[String]) -> bool {
    let mut sections = ids.iter().filter_map(|id| id.split_once('.')).map(|(section, _)| section).peekable();
    match sections.peek() {
        Some(_) => sections.any(|section| name.starts_with(&format!("{}_", scope.variable(section)))),
        None => scope.prefix != "ORLOP_" && name.starts_with(scope.prefix),
    }
}

impl Sources {
    /// Where the value of a setting comes from.
    #[cfg(any(feature = "fleet", test))]
    pub(in crate::host) fn of(&self, id: &str) -> &Source {
        self.0.get(id).unwrap_or(&Source::Default)
    }

    /// The settings in effect as a file would have them, each with its source.
    ///
    /// # Errors
    /// They cannot be written as YAML.
    pub(in crate::host) fn show(&self, effective: &impl Serialize) -> Result<String, Problem> {
        let text = serde_saphyr::to_string(effective);
        let text = text.map_err(|error| Problem::new(Class::Fatal, format!("settings cannot be shown: {error}")))?;
        let (mut shown, mut section) = (String::new(), "");
        for line in text.lines() {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            let id = match key.strip_prefix("  ") {
                Some(key) => format!("{section}.{key}"),
                None => key.to_owned(),
            };
            if value.is_empty() && !key.starts_with(' ') {
                section = key;
            }
            shown.push_str(line);
            if let Some(source) = self.0.get(&id) {
                shown.push_str(&format!("  # {source}"));
            }
            shown.push('\n');
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests;
