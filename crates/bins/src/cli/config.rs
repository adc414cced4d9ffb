//! `orlop config`: profiles, which give options their values where neither the command line nor the environment does.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use orlop_core::id::dns1123_subdomain;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::failure::{Exit, Failure};
use super::globals::Target;
use super::output::{self, Format};
use crate::view::table::columns;

/// The variable that names the profile to use, in place of the chosen one; empty for none.
const PROFILE: &str = "ORLOP_PROFILE";

/// Options that a profile can give a value, and their variables.
const OPTIONS: [(&str, Option<&str>); 9] = [
    ("target", Some("ORLOP_TARGET")),
    ("server", Some("ORLOP_SERVER")),
    ("token-file", Some("ORLOP_TOKEN_FILE")),
    ("ca-file", Some("ORLOP_CA_FILE")),
    ("tenant", Some("ORLOP_TENANT")),
    ("kubeconfig", None),
    ("context", None),
    ("namespace", Some("ORLOP_NAMESPACE")),
    ("home", Some("ORLOP_HOME")),
];

/// Verbs that take no value of a profile: where they ask a cluster, somebody has said so.
const WITHOUT: [&str; 2] = ["config", "hardware"];

/// Values of options, by option.
type Profile = BTreeMap<String, String>;

/// The file of profiles.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profiles {
    /// The one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// Verbs about profiles.
#[derive(Subcommand, Debug)]
pub(super) enum Config {
    /// Use a profile from now on, and set the values that are given
    Use(Box<UseArgs>),
    /// List profiles
    List(ListArgs),
    /// Show the values of options and where each comes from
    Show(ListArgs),
    /// Delete a profile
    Delete {
        /// Its name
        name: String,
    },
}

/// Options of `orlop config use`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop config use fleet                     the fleet of this machine: short for a profile with --target fleet
  orlop config use lab --target fleet --server https://lab:7070 --ca-file lab.pem --token-file lab.token
  orlop config use team --target kube -n team
  orlop config use local                     back to this machine
  ORLOP_PROFILE=lab orlop flow list          another one, once")]
pub(super) struct UseArgs {
    /// Its name; a profile that is new needs a value, or the name of a target
    name: String,
    /// Where flows run
    #[arg(long, value_enum, ignore_case = true)]
    target: Option<Target>,
    /// Addresses of servers of the fleet, separated by commas
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// File with the token for the fleet
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the CA certificate of the server
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Tenant in the fleet
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Kubeconfig file of the cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of that file
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of flows
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Directory that keeps runs
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// Options of lists of profiles and values.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Form of the list
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    output: Format,
}

/// A command whose options have the values of the profile in use, where nothing else gives them one.
///
/// # Errors
/// When the profiles cannot be read, or there is none of the name that the environment gives.
pub(super) fn applied(command: clap::Command) -> Result<clap::Command, Failure> {
    let Some((_, profile)) = in_use()? else { return Ok(command) };
    // Both live as long as the program, as all else of its command line does.
    let values = profile.into_iter().filter(|(option, _)| variable_of(option).is_none());
    let values = values.map(|(option, value)| (option, &*value.leak()));
    Ok(with_defaults(command, &values.collect::<Vec<_>>()))
}

fn with_defaults(command: clap::Command, values: &[(String, &'static str)]) -> clap::Command {
    let command = command.mut_args(|arg| match values.iter().find(|(option, _)| arg.get_long() == Some(option)) {
        Some((_, value)) => arg.default_value(*value),
        None => arg,
    });
    command.mut_subcommands(|verb| if WITHOUT.contains(&verb.get_name()) { verb } else { with_defaults(verb, values) })
}

/// The variable that gives an option a value without its being that of the option.
fn variable_of(option: &str) -> Option<&'static str> {
    let variable = match option {
        "token-file" => "ORLOP_TOKEN",
        "kubeconfig" => "KUBECONFIG",
        _ => return None,
    };
    std::env::var_os(variable).map(|_| variable)
}

/// The profile in use and its name; none where none is.
fn in_use() -> Result<Option<(String, Profile)>, Failure> {
    let wanted = std::env::var(PROFILE).ok();
    if wanted.as_deref() == Some("") {
        return Ok(None);
    }
    let Some(file) = file() else { return Ok(None) };
    let mut profiles = read(&file)?;
    let Some(name) = wanted.or_else(|| profiles.current.clone()) else { return Ok(None) };
    match profiles.profiles.remove(&name) {
        Some(profile) => Ok(Some((name, profile))),
        None => Err(Failure::usage(format!("{}; {PROFILE}= uses none", missing(&name, &profiles)))),
    }
}

/// The value that the environment or the profile in use gives an option.
pub(super) fn default_of(option: &str) -> Option<String> {
    let (_, variable) = OPTIONS.iter().find(|(known, _)| *known == option)?;
    let set = variable.and_then(|variable| std::env::var(variable).ok());
    // Where profiles cannot be read no command came so far.
    set.or_else(|| in_use().ok().flatten()?.1.remove(option))
}

/// Where profiles are kept; none where nothing says where the user's files are.
fn file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))?;
    Some(folder.join("orlop/config.yaml"))
}

fn read(file: &Path) -> Result<Profiles, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("{}: {why}; fix or remove it, or set {PROFILE}= to ignore it", file.display()))
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Profiles::default()),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let profiles: Profiles = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    for (option, value) in profiles.profiles.values().flatten() {
        if !OPTIONS.iter().any(|(known, _)| known == option) {
            let known = names(&OPTIONS.map(|(name, _)| name));
            return Err(wrong(format!("unknown option `{option}` in a profile; known options: {known}")));
        }
        if option == "target" && <Target as clap::ValueEnum>::from_str(value, true).is_err() {
            return Err(wrong(format!("unknown target `{value}`; known targets: local, process, docker, fleet, kube")));
        }
    }
    Ok(profiles)
}

/// Writes the file whole or not at all.
fn write(file: &Path, profiles: &Profiles) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("{} cannot be written", file.display()), &error);
    let text = output::serialized(profiles, Format::Yaml)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let new = folder.join(format!(".config-{}.yaml", std::process::id()));
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
    if written.is_err() {
        // It is worth nothing; that it cannot be written is what counts.
        drop(std::fs::remove_file(&new));
    }
    written.map_err(failed)
}

fn missing(name: &str, profiles: &Profiles) -> String {
    let known: Vec<&str> = profiles.profiles.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "there are none".to_owned() } else { format!("known: {}", names(&known)) };
    format!("there is no profile `{name}`; {known}; make it with `orlop config use {name} --target …`")
}

fn names(all: &[&str]) -> String {
    all.join(", ")
}

/// Runs a verb.
///
/// # Errors
/// When profiles cannot be read or written, or there is none of that name.
pub(super) fn run(verb: Config) -> Result<Exit, Failure> {
    let file = file().ok_or_else(|| {
        Failure::usage("cannot determine the directory of profiles: neither HOME nor XDG_CONFIG_HOME is set")
    })?;
    match verb {
        Config::Use(args) => use_one(&file, *args)?,
        Config::List(args) => list(&read(&file)?, args.output)?,
        Config::Show(args) => show(args.output)?,
        Config::Delete { name } => {
            let mut profiles = read(&file)?;
            if profiles.profiles.remove(&name).is_none() {
                return Err(Failure::new(Exit::NotFound, missing(&name, &profiles)));
            }
            profiles.current = profiles.current.filter(|current| *current != name);
            write(&file, &profiles)?;
            output::print(&format!("profile `{name}` deleted"))?;
        }
    }
    Ok(Exit::Done)
}

fn use_one(file: &Path, args: UseArgs) -> Result<(), Failure> {
    let name = args.name.clone();
    dns1123_subdomain(&name).map_err(|error| Failure::usage(error.to_string()))?;
    let mut profiles = read(file)?;
    args.check()?;
    let is_new = !profiles.profiles.contains_key(&name);
    let given = args.values(is_new)?;
    if is_new && given.is_empty() {
        return Err(Failure::new(Exit::NotFound, missing(&name, &profiles)));
    }
    let profile = profiles.profiles.entry(name.clone()).or_default();
    profile.extend(given);
    let values: Vec<String> = profile.iter().map(|(option, value)| format!("{option} {value}")).collect();
    profiles.current = Some(name.clone());
    write(file, &profiles)?;
    output::print(&format!("now using profile `{name}`: {}", values.join(", ")))?;
    if let Ok(set) = std::env::var(PROFILE) {
        output::tell(&format!("warning: {PROFILE}={set} comes before it"));
    }
    Ok(())
}

impl UseArgs {
    /// Refuses values that can never work.
    fn check(&self) -> Result<(), Failure> {
        let is_url = |server: &str| ["http://", "https://"].iter().any(|scheme| server.starts_with(scheme));
        if let Some(server) = self.server.as_ref().filter(|servers| !servers.split(',').map(str::trim).all(is_url)) {
            return Err(Failure::usage(format!(
                "server `{server}` is not a URL; write http://HOST:PORT or https://HOST:PORT"
            )));
        }
        if let Some(namespace) = &self.namespace {
            dns1123_subdomain(namespace).map_err(|error| Failure::usage(format!("namespace: {error}")))?;
        }
        match [&self.tenant, &self.context].into_iter().flatten().find(|value| value.trim().is_empty()) {
            Some(_) => Err(Failure::usage("an empty value means nothing; leave the option out")),
            None => Ok(()),
        }
    }

    /// The values that are given; of a new profile whose name is one of a target, that.
    fn values(self, is_new: bool) -> Result<Profile, Failure> {
        let path = |path: Option<PathBuf>| {
            let absolute = path.map(std::path::absolute).transpose();
            let absolute = absolute.map_err(|error| Failure::usage(format!("a path cannot be used: {error}")))?;
            Ok::<_, Failure>(absolute.map(|path| path.display().to_string()))
        };
        let word =
            |target: Target| clap::ValueEnum::to_possible_value(&target).map(|value| value.get_name().to_owned());
        let mut values = [
            ("target", self.target.and_then(word)),
            ("server", self.server),
            ("token-file", path(self.token_file)?),
            ("ca-file", path(self.ca_file)?),
            ("tenant", self.tenant),
            ("kubeconfig", path(self.kubeconfig)?),
            ("context", self.context),
            ("namespace", self.namespace),
            ("home", path(self.home)?),
        ];
        if is_new && values.iter().all(|(_, value)| value.is_none()) {
            values[0].1 = <Target as clap::ValueEnum>::from_str(&self.name, true).ok().and_then(word);
        }
        Ok(values.into_iter().filter_map(|(option, value)| Some((option.to_owned(), value?))).collect())
    }
}

fn list(profiles: &Profiles, format: Format) -> Result<(), Failure> {
    let used = std::env::var(PROFILE).ok().or_else(|| profiles.current.clone());
    let text = match format {
        Format::Name => profiles.profiles.keys().map(|name| format!("{name}\n")).collect(),
        Format::Table => {
            let row = |(name, profile): (&String, &Profile)| {
                let mark = if used.as_ref() == Some(name) { "*" } else { "" };
                let values: Vec<String> = profile.iter().map(|(option, value)| format!("{option} {value}")).collect();
                vec![mark.to_owned(), name.clone(), values.join(", ")]
            };
            columns(&["", "NAME", "VALUES"], &profiles.profiles.iter().map(row).collect::<Vec<_>>())
        }
        format => output::serialized(profiles, format)?,
    };
    output::print(&text)
}

fn show(format: Format) -> Result<(), Failure> {
    let (name, profile) = in_use()?.unwrap_or_default();
    let value = |(option, variable): (&'static str, Option<&'static str>)| {
        let set = variable.and_then(|variable| Some((std::env::var(variable).ok()?, format!("variable {variable}"))));
        let set = set.or_else(|| Some((String::new(), format!("variable {}", variable_of(option)?))));
        let of_profile = || Some((profile.get(option)?.clone(), format!("profile {name}")));
        let (value, source) = set.or_else(of_profile).unwrap_or_else(|| (String::new(), "default".to_owned()));
        (option, value, source)
    };
    let values = OPTIONS.map(value);
    let text = match format {
        Format::Name => values.iter().map(|(option, ..)| format!("{option}\n")).collect(),
        Format::Table => {
            let row = |(option, value, source): &(&str, String, String)| {
                vec![(*option).to_owned(), value.clone(), source.clone()]
            };
            columns(&["OPTION", "VALUE", "FROM"], &values.iter().map(row).collect::<Vec<_>>())
        }
        format => {
            let items =
                values.iter().map(|(option, value, source)| json!({"option": option, "value": value, "from": source}));
            output::serialized(&json!({"items": items.collect::<Vec<_>>()}), format)?
        }
    };
    output::print(&text)
}

#[cfg(all(test, feature = "fleet", feature = "kube"))]
mod tests {
    use super::*;

    /// The variables of all options of this name, of a command and those below it.
    fn variables(command: &clap::Command, option: &str, found: &mut Vec<Option<String>>) {
        let named = command.get_arguments().filter(|arg| arg.get_long() == Some(option));
        found.extend(named.map(|arg| arg.get_env().map(|name| name.to_string_lossy().into_owned())));
        for verb in command.get_subcommands().filter(|verb| !WITHOUT.contains(&verb.get_name())) {
            variables(verb, option, found);
        }
    }

    #[test]
    fn what_a_profile_can_give_is_an_option_with_that_variable() {
        let command = crate::cli::command();
        for (option, variable) in OPTIONS {
            let mut found = Vec::new();
            variables(&command, option, &mut found);
            assert!(found.contains(&variable.map(str::to_owned)), "--{option} {variable:?}: {found:?}");
        }
    }
}
