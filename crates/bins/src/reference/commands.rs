//! The pages of commands: every verb with its usage, options and examples.

use std::collections::BTreeMap;

use clap::{Arg, Command};

use super::{Page, anchor, cell, code};

/// Verbs of flows and of the command line itself; all others are those of a fleet.
const FLOWS: [&str; 6] = ["run", "flow", "hardware", "config", "schema", "completions"];
/// An option of so many commands of a page is described once, at its end.
const SHARED: usize = 6;
const SHARED_HEADING: &str = "Options of several commands";

/// All commands below one, itself included, that do something by themselves.
fn leaves<'c>(command: &'c Command, out: &mut Vec<&'c Command>) {
    let below: Vec<&Command> = command.get_subcommands().filter(|below| below.get_name() != "help").collect();
    let alone = !command.is_subcommand_required_set() && !command.is_arg_required_else_help_set();
    if below.is_empty() || alone && shown(command).next().is_some() {
        out.push(command);
    }
    for command in below.into_iter().filter(|below| !below.is_hide_set()) {
        leaves(command, out);
    }
}

/// The name of a command as people write it.
fn path(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"))
}

fn help(arg: &Arg) -> String {
    arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default()
}

/// How an option or argument is written.
fn form(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values: Vec<String> =
        values.iter().map(|name| if arg.is_positional() { name.to_string() } else { format!("<{name}>") }).collect();
    let values = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let flag = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} {values}"),
        (None, Some(long)) => format!("--{long} {values}"),
        (Some(short), None) => format!("-{short} {values}"),
        (None, None) if arg.is_required_set() => values,
        (None, None) => format!("[{values}]"),
    };
    code(flag.trim_end())
}

/// What an option means: its help, its values, its default and its variable.
fn meaning(arg: &Arg) -> String {
    let help = help(arg);
    let (help, variable) = help.rsplit_once(" [env: ").unwrap_or((help.as_str(), ""));
    let mut text = cell(help);
    let values: Vec<_> = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let value = |value: &clap::builder::PossibleValue| match value.get_help() {
            Some(help) => format!("{} ({})", code(value.get_name()), cell(&help.to_string())),
            None => code(value.get_name()),
        };
        text.push_str(&format!(". Values: {}", values.iter().map(value).collect::<Vec<_>>().join(", ")));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() && defaults != [""] {
        text.push_str(&format!(". Default: {}", code(&defaults.join(","))));
    }
    let named = variable.strip_suffix(']').map(str::to_owned);
    if let Some(variable) = named.or_else(|| arg.get_env().map(|name| name.to_string_lossy().into_owned())) {
        text.push_str(&format!(". Variable: {}", code(&variable)));
    }
    text
}

fn examples(command: &Command) -> Option<String> {
    let text = command.get_after_long_help().or_else(|| command.get_after_help())?.to_string();
    let text = text.split("Exit codes:").next().unwrap_or_default().trim();
    Some(text.strip_prefix("Examples:").unwrap_or(text).trim_matches('\n').to_owned()).filter(|text| !text.is_empty())
}

fn section(page: &mut Page, command: &Command, shared: &BTreeMap<(String, String), usize>) {
    page.heading(2, &path(command));
    let about = command.get_long_about().or_else(|| command.get_about());
    page.paragraph(
        &about.map(|about| format!("{}.", cell(&about.to_string()).trim_end_matches('.'))).unwrap_or_default(),
    );
    if path(command) == "orlop flow run" {
        return page.paragraph(&format!("The same as [`orlop run`](#{}).", anchor("orlop run")));
    }
    let usage = command.clone().render_usage().to_string();
    page.block(usage.trim_start_matches("Usage: "));
    let is_shared = |arg: &&Arg| shared.get(&key(arg)).is_some_and(|count| *count >= SHARED);
    let rows: Vec<_> = shown(command).filter(|arg| !is_shared(arg)).map(|arg| [form(arg), meaning(arg)]).collect();
    page.table(["argument or option", "meaning"], &rows);
    let also: Vec<String> = shown(command)
        .filter(is_shared)
        .map(|arg| code(&format!("--{}", arg.get_long().unwrap_or_default())))
        .collect();
    if !also.is_empty() {
        page.paragraph(&format!("Also: {} ([below](#{})).", also.join(", "), anchor(SHARED_HEADING)));
    }
    if let Some(examples) = examples(command) {
        page.block(&examples);
    }
}

fn key(arg: &Arg) -> (String, String) {
    (arg.get_long().unwrap_or_default().to_owned(), help(arg))
}

fn fill(page: &mut Page, commands: &[&Command]) {
    let mut shared: BTreeMap<(String, String), usize> = BTreeMap::new();
    for arg in commands.iter().flat_map(|command| shown(command)).filter(|arg| !arg.is_positional()) {
        *shared.entry(key(arg)).or_default() += 1;
    }
    for command in commands {
        section(page, command, &shared);
    }
    let all = commands.iter().flat_map(|command| shown(command));
    let often: BTreeMap<_, _> =
        all.map(|arg| (key(arg), arg)).filter(|(key, _)| shared.get(key).is_some_and(|n| *n >= SHARED)).collect();
    let rows: Vec<_> = often.values().map(|arg| [form(arg), meaning(arg)]).collect();
    if !rows.is_empty() {
        page.heading(2, SHARED_HEADING);
        page.table(["option", "meaning"], &rows);
    }
}

#[test]
fn the_pages_of_commands_are_those_of_the_programs() {
    let mut orlop = crate::cli::command();
    orlop.build();
    let mut provisioner = crate::host::provisioner::program::command().bin_name("orlop provisioner");
    provisioner.build();
    let mut all = Vec::new();
    leaves(&orlop, &mut all);
    let (flows, fleet): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|command| FLOWS.contains(&path(command).split(' ').nth(1).unwrap_or_default()));
    assert!(
        fleet.iter().any(|command| path(command) == "orlop workers"),
        "a verb that has verbs below it has a section too"
    );
    let mut provision = Vec::new();
    leaves(&provisioner, &mut provision);
    let mut operator = crate::host::operator::program::command().bin_name("orlop operator");
    operator.build();
    let mut operate = Vec::new();
    leaves(&operator, &mut operate);
    // The operator itself is a server: its options are settings.
    operate.retain(|command| path(command) != "orlop operator");
    let groups = [
        ("commands-flows.md", "Commands of flows", "Verbs about flows, and about the command line itself.", flows),
        (
            "commands-fleet.md",
            "Commands of a fleet",
            "Verbs about jobs, workers, tenants and tokens of a fleet.",
            fleet,
        ),
        (
            "commands-operator.md",
            "Commands of the operator",
            "What people do with the operator, beside running it.",
            operate,
        ),
        (
            "commands-provisioner.md",
            "Commands of the provisioner",
            "What finds, leases and returns servers.",
            provision,
        ),
    ];
    let intro = "Every verb of `orlop` with all features. `orlop VERB --help` prints the same; the [exit codes](exit-codes.md) are the \
        same for all.\nServers and agents are configured by [settings](configuration.md).";
    let mut index = Page::new("commands.md", "Commands", intro);
    for (file, title, intro, commands) in groups {
        index.heading(2, title);
        let row = |command: &&Command| {
            let name = path(command);
            let about = command.get_about().map(|about| cell(&about.to_string())).unwrap_or_default();
            [format!("[`{name}`]({file}#{})", anchor(&name)), about]
        };
        index.table(["command", "does"], &commands.iter().map(row).collect::<Vec<_>>());
        let back = format!("{intro} [All commands](commands.md).");
        let mut page = Page::new(file, title, &back);
        fill(&mut page, &commands);
        page.compare();
    }
    index.heading(2, "Servers and agents");
    let roles = [
        ("orlop scheduler", "Serve the scheduler of a fleet", "scheduler"),
        ("orlop worker", "Run jobs of a fleet on this machine", "worker"),
        ("orlop operator", "Run flows, performers and executors of a Kubernetes cluster", "operator"),
        ("orlop helper", "Move artifacts of a step, inside its pod; the operator starts it", ""),
    ];
    let row = |(name, about, section): (&str, &str, &str)| {
        let link = if section.is_empty() { code(name) } else { format!("[`{name}`](configuration.md#{section})") };
        [link, about.to_owned()]
    };
    index.table(["program", "does"], &roles.map(row));
    index.compare();
}
