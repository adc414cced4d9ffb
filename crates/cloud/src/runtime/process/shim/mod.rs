//! The program around every pod. One process of it serves the runtime and forks a shim for each pod. A shim outlives its host, runs
//! the pod's containers and records how they ended. This module is the entry point: shims are forked in `serve`, the pod is kept in
//! `keep` and `pod`, a container's process is made in `launch`.

mod clock;
mod container;
mod keep;
mod launch;
mod mounts;
mod pod;
mod serve;
mod verdict;
mod view;

use std::io::{self, Write};
use std::process::ExitCode;

use super::failure::Failure;
use super::probe;
use super::wire::{self, ShimCommand};

/// What a program does that embeds the runtime and is started with the arguments of its
/// [`ShimProgram`](super::ShimProgram).
///
/// It takes connections to the runtime from the socket that is its standard input, and forks a shim for each. It returns when the
/// runtime is gone, and in every shim when its pod has ended. Call it first thing in `main`: it must be the only thread of the
/// process, for only then may it fork, may user namespaces be entered, and does the kernel end the containers when the shim is killed.
#[must_use]
pub fn main() -> ExitCode {
    serve::serve(shim)
}

/// A shim, from its order to its end.
fn shim() -> ExitCode {
    match wire::decode(&mut io::stdin()) {
        Ok(Some(ShimCommand::Keep(order))) => keep::keep(*order),
        Ok(Some(ShimCommand::Probe)) => probe::answer(),
        // The sender is gone: nothing was claimed, nothing runs.
        Ok(None) => ExitCode::from(2),
        Err(error) => complain(&format!("a shim takes its order from the runtime over a connection: {error}")),
    }
}

/// Tries in this process whether a container can have a view of the file system of its own.
pub(super) fn try_view(user_namespace: bool) -> Result<(), Failure> {
    view::attempt(user_namespace)
}

/// Reports what is wrong, if somebody still listens.
fn complain(what: &str) -> ExitCode {
    drop(writeln!(io::stderr(), "{what}"));
    ExitCode::from(2)
}
