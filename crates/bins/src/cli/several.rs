//! Several flows of one file, run one after the other in the order of the file.

use std::collections::BTreeSet;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::manifest::Loaded;
use super::output::{self, Format};
use super::run::{RunArgs, approvals, one};

/// Runs all flows of a file.
///
/// # Errors
/// When an option fits none of them or a name is taken, before anything is begun; as of [`one`].
pub(super) async fn run(args: &RunArgs, flows: Vec<Loaded>) -> Result<Exit, Failure> {
    check(args, &flows)?;
    let names: Vec<String> = flows.iter().map(name).collect();
    let mut exit = Exit::Done;
    for (number, loaded) in flows.into_iter().enumerate() {
        if number > 0 && args.output == Format::Yaml {
            output::print("---")?;
        }
        let ended = one(&own(args, &loaded), loaded).await?;
        if exit == Exit::Done {
            exit = ended;
        }
        let rest = names.get(number + 1..).unwrap_or_default();
        if ended == Exit::Done || rest.is_empty() || (ended == Exit::Failed && args.keep_going) {
            continue;
        }
        let hint = if ended == Exit::Failed { "; use --keep-going to run them anyway" } else { "" };
        output::tell(&format!("not started: {}{hint}", rest.join(", ")));
        break;
    }
    Ok(exit)
}

/// What a flow is called before it has run.
fn name(loaded: &Loaded) -> String {
    let metadata = &loaded.manifest.flow.metadata;
    let prefix = || format!("{}\u{2026}", metadata.generate_name.as_deref().unwrap_or_default());
    if metadata.name.is_empty() { prefix() } else { metadata.name.clone() }
}

fn manual(loaded: &Loaded, step: &String) -> bool {
    approvals(&loaded.plan, std::slice::from_ref(step)).is_ok()
}

fn has_parameter(loaded: &Loaded, name: &str) -> bool {
    loaded.manifest.flow.spec.parameters.iter().any(|parameter| parameter.name == name)
}

/// The options for one of the flows: values and approvals of those it has.
fn own(args: &RunArgs, loaded: &Loaded) -> RunArgs {
    let mut own = args.clone();
    own.param.retain(|(name, _)| has_parameter(loaded, name));
    own.auto_approve.retain(|step| manual(loaded, step));
    own
}

fn check(args: &RunArgs, flows: &[Loaded]) -> Result<(), Failure> {
    if args.globals.run_dir.is_some() {
        return Err(Failure::usage(
            "--run-dir is for one run, and the file holds several; choose one with --name NAME",
        ));
    }
    if let Some((name, _)) = args.param.iter().find(|(name, _)| !flows.iter().any(|flow| has_parameter(flow, name))) {
        return Err(Failure::usage(format!("-p {name}: no flow of the file has a parameter `{name}`")));
    }
    if let Some(step) = args.auto_approve.iter().find(|step| !flows.iter().any(|flow| manual(flow, step))) {
        return Err(Failure::usage(format!("--auto-approve {step}: no flow of the file has a Manual step `{step}`")));
    }
    let mut seen = BTreeSet::new();
    for flow in flows {
        let metadata = &flow.manifest.flow.metadata;
        if metadata.name.is_empty() {
            continue;
        }
        let namespace = metadata.namespace.clone().unwrap_or_else(|| args.globals.namespace().to_owned());
        let globals = GlobalArgs { namespace: Some(namespace), ..args.globals.clone() };
        let run = globals.run(&metadata.name)?;
        let taken = !args.resume && run.exists();
        if taken || !seen.insert(run) {
            let name = &metadata.name;
            let why = if taken {
                format!(
                    "there is a run of `{name}`; delete it with `orlop flow delete {name}`, give every run a new \
                     name with `metadata.generateName`, or resume it with --resume"
                )
            } else {
                format!("the file holds two flows `{name}`; give each flow a unique name")
            };
            return Err(Failure::new(Exit::Conflict, format!("the name is taken: {why}; nothing was started")));
        }
    }
    Ok(())
}
