//! What `--resume` is asked for against what the run was begun with.

use orlop_core::spec::flow::FlowSpec;

use super::failure::{Exit, Failure};
use super::run::RunArgs;
use super::stored::Stored;
use crate::host::flow::spec_hash;
use crate::view::name::RunName;

/// Refuses what cannot apply to a run that was begun: options with other values than then, and another flow.
///
/// # Errors
/// When there is any.
pub(super) fn check(args: &RunArgs, stored: &Stored, name: &RunName, spec: Option<&FlowSpec>) -> Result<(), Failure> {
    let options = differing(args, stored)?;
    if !options.is_empty() {
        let message = format!(
            "`{name}` was started with other values of {} and keeps those; leave these options out to resume it, or \
             start a run under another --name",
            options.join(", ")
        );
        return Err(Failure::usage(message));
    }
    let begun = stored.options()?.meta.spec_hash;
    let given = spec.map(spec_hash).transpose()?;
    if given.is_some() && begun.is_some() && given != begun {
        let message = format!(
            "the flow of the file is not the one `{name}` was started with; resume that one with `orlop run --resume \
             --name {}`, or run the file under another --name",
            name.call()
        );
        return Err(Failure::new(Exit::Conflict, message));
    }
    Ok(())
}

/// Options of the command line that differ from those the run was begun with. What the environment says is no more than a
/// wish for new runs.
fn differing(args: &RunArgs, stored: &Stored) -> Result<Vec<String>, Failure> {
    let (new, old) = (args.setup.setup(args.globals.target, args.file.as_deref())?, stored.setup()?);
    let meta = stored.options()?.meta;
    let parameter = |(name, value): &(String, String)| meta.parameters.get(name) != Some(value);
    let all = [
        ("target", new.runtime != old.runtime),
        ("secrets_dir", new.secrets_dir != old.secrets_dir),
        ("configs_dir", new.configs_dir != old.configs_dir),
        ("volumes_dir", new.volumes_dir != old.volumes_dir),
        ("allow_host_path", new.allow_host_path != old.allow_host_path),
        ("workdir", new.workdir != old.workdir),
        ("pull", new.pull != old.pull),
        ("allow_privileged", new.allow_privileged != old.allow_privileged),
        ("job_backoff_default", new.job_backoff_default != old.job_backoff_default),
        ("artifact_max_bytes", new.artifact_max_bytes != old.artifact_max_bytes),
        ("keep", args.keep != old.keep),
        ("jobs", args.jobs != meta.max_live),
        ("param", args.param.iter().any(parameter)),
    ];
    let differing = all.into_iter().filter(|(id, differs)| *differs && args.given.contains(*id));
    Ok(differing.map(|(id, _)| format!("--{}", id.replace('_', "-"))).collect())
}
