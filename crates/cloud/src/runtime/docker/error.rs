//! What the engine's errors mean. Owns the way from an answer of the Engine API to an error class; never retries.

use std::error::Error as _;

use bollard::errors::Error;
use orlop_core::error::{Class, Problem};

/// An error of the engine while `doing` something ("creating container `x`").
pub(in crate::runtime) fn engine(error: Error, doing: &str) -> Problem {
    let class = class(&error);
    let mut reported = error.to_string();
    if let Error::DockerResponseServerError { message, .. } = &error {
        message.trim().clone_into(&mut reported);
    }
    if let Some(cause) = io_cause(&error) {
        reported = silent(cause);
    }
    Problem::new(class, format!("{doing} failed: {reported}")).because(error)
}

fn silent(cause: impl std::fmt::Display) -> String {
    format!("the container engine does not answer: {cause}")
}

/// Why an engine cannot be reached, whatever was asked of it.
pub(in crate::runtime) fn outage(error: &Problem) -> String {
    let source = error.source.as_ref().and_then(|source| source.downcast_ref::<Error>());
    source.and_then(io_cause).map_or_else(|| error.chain(), silent)
}

/// Whether the engine says that there is no such container, image or path.
pub(in crate::runtime) fn is_not_found(error: &Error) -> bool {
    status(error) == Some(404)
}

/// Whether the engine refuses because of the state the container is in.
pub(in crate::runtime) fn is_conflict(error: &Error) -> bool {
    status(error) == Some(409)
}

/// The status code of an answer.
pub(in crate::runtime) fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// The exit code of a container that an engine refuses to start, where its answer says that trying again is of no use.
/// Docker says so with 400; Podman answers 500 for everything, writes nothing down, and has names for what went wrong.
pub(in crate::runtime) fn refused_start(error: &Error) -> Option<i32> {
    let Error::DockerResponseServerError { status_code, message } = error else { return None };
    match message.as_str() {
        reported if reported.contains("OCI runtime attempted to invoke a command that was not found") => Some(127),
        reported if reported.contains("OCI permission denied") => Some(126),
        _ if *status_code == 400 => Some(128),
        _ => None,
    }
}

fn class(error: &Error) -> Class {
    match error {
        Error::DockerResponseServerError { status_code, message } => answer(*status_code, message),
        Error::InvalidURIError { .. }
        | Error::InvalidURIPartsError { .. }
        | Error::UnsupportedURISchemeError { .. }
        | Error::URLParseError { .. } => Class::Invalid,
        other => match io_cause(other).map(std::io::Error::kind) {
            Some(std::io::ErrorKind::PermissionDenied) => Class::Denied,
            // Time-outs, broken connections and answers that break off in the middle.
            _ => Class::Transient,
        },
    }
}

fn answer(status: u16, message: &str) -> Class {
    match status {
        401 | 403 => Class::Denied,
        404 => Class::NotFound,
        409 => Class::Conflict,
        408 | 429 => Class::Transient,
        400..=499 | 501 => Class::Invalid,
        _ if is_full(message) => Class::Capacity,
        _ => Class::Transient,
    }
}

/// Whether a message of the engine tells of a full disk or memory.
pub(in crate::runtime) fn is_full(message: &str) -> bool {
    ["no space left on device", "disk quota exceeded", "cannot allocate memory"].iter().any(|m| message.contains(m))
}

/// The input or output error at the root, if there is one.
fn io_cause(error: &Error) -> Option<&std::io::Error> {
    let mut cause = error.source();
    if let Error::IOError { err } = error {
        return Some(err);
    }
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref() {
            return Some(io);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(status_code: u16, message: &str) -> Problem {
        engine(Error::DockerResponseServerError { status_code, message: message.to_owned() }, "creating container `x`")
    }

    #[test]
    fn answers_have_the_class_that_says_what_to_do() {
        assert_eq!(reported(400, "bad").class, Class::Invalid);
        assert_eq!(reported(403, "no").class, Class::Denied);
        assert_eq!(reported(404, "no such container").class, Class::NotFound);
        assert_eq!(reported(409, "in use").class, Class::Conflict);
        assert_eq!(reported(429, "slow down").class, Class::Transient);
        assert_eq!(reported(500, "boom").class, Class::Transient);
        assert_eq!(reported(500, "write /x: no space left on device").class, Class::Capacity);
        assert_eq!(reported(501, "logging driver cannot read").class, Class::Invalid);
    }

    #[test]
    fn a_refused_start_is_distinguished_from_one_to_try_again() {
        let code = |status_code, message: &str| {
            refused_start(&Error::DockerResponseServerError { status_code, message: message.to_owned() })
        };
        assert_eq!(code(500, "crun: open executable: Operation not permitted: OCI permission denied"), Some(126));
        assert_eq!(code(500, "x: OCI runtime attempted to invoke a command that was not found"), Some(127));
        assert_eq!(code(400, "failed to create task"), Some(128));
        assert_eq!(code(500, "driver failed"), None);
        assert_eq!(refused_start(&Error::RequestTimeoutError), None);
    }

    #[test]
    fn messages_say_what_was_tried() {
        insta::assert_snapshot!(reported(400, "invalid mount\n"), @"creating container `x` failed: invalid mount");
        let refused = Error::IOError { err: std::io::ErrorKind::PermissionDenied.into() };
        let error = engine(refused, "asking the engine");
        assert_eq!(error.class, Class::Denied);
        insta::assert_snapshot!(error, @"asking the engine failed: the container engine does not answer: permission denied");
        assert_eq!(engine(Error::RequestTimeoutError, "x").class, Class::Transient);
    }
}
