//! Explanations as sentences.

use std::fmt;

use orlop_core::spec::status::WaitsOn;

use super::{AHEAD, Because, Explanation, Waited};

impl fmt::Display for Explanation {
    /// One line for the unit, one for every reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.name, self.phase)?;
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        for because in &self.because {
            write!(f, "\n  {because}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unadmitted { message: Some(message) } => write!(f, "the flow is not admitted yet: {message}"),
            Self::Unadmitted { message: None } => f.write_str("the flow is not admitted yet"),
            Self::Resources => f.write_str("the flow's resources are being created"),
            Self::Paused { held: true } => f.write_str("the spec was changed after the start: restore it to go on"),
            Self::Paused { held: false } => f.write_str("the flow is suspended: resume it to go on"),
            Self::MainSteps { open } => write!(f, "`finally` begins when all steps are settled, {open} are not"),
            Self::Steps { waits, more } => steps(f, waits, *more),
            Self::Items => f.write_str("its items are being read"),
            Self::Slots { live, limit, ahead, own } => {
                let whose = if *own { "the fan-out's" } else { "the flow's" };
                let many = if *ahead >= AHEAD { "at least " } else { "" };
                write!(f, "{live} of {whose} {limit} slots are taken; {many}{ahead} come before it")
            }
            Self::Substrate { message, again } => {
                f.write_str("what runs it was asked to start it")?;
                if !message.is_empty() {
                    write!(f, " and says: {message}")?;
                }
                again.map_or(Ok(()), |again| write!(f, "; it is asked again at {again}"))
            }
            Self::Runs { since, until } => {
                f.write_str("it runs")?;
                since.map_or(Ok(()), |since| write!(f, " since {since}"))?;
                until.map_or(Ok(()), |until| write!(f, " and is ended at {until}"))
            }
            Self::Waits { on: WaitsOn::Runtime, message, since } => {
                write!(f, "what runs it cannot be reached since {since}: {message}")
            }
            Self::Waits { on: WaitsOn::NextPod, message, .. } => f.write_str(message),
            Self::Waits { message, since, .. } if message.is_empty() => {
                write!(f, "no pod of it runs yet, since {since}")
            }
            Self::Waits { message, since, .. } => write!(f, "it has waited since {since}: {message}"),
            Self::Ends { cause, left: None } => write!(f, "it is being cancelled ({cause}) and has not ended yet"),
            Self::Ends { cause, left: Some(left) } => {
                write!(f, "it was cancelled ({cause}) but is not gone: {left}")
            }
            Self::Retry { due, failed } => {
                write!(f, "it failed ({failed}) and is tried again")?;
                due.map_or(Ok(()), |due| write!(f, " at {due}"))
            }
            Self::Decision { until } => {
                f.write_str("a person must approve or reject it")?;
                until.map_or(Ok(()), |until| write!(f, " before {until}"))
            }
            Self::Settled { message } if message.is_empty() => f.write_str("it is settled"),
            Self::Settled { message } => f.write_str(message),
            Self::Root { name, phase, reason, message } => {
                write!(f, "that began with {name}, which is {phase}")?;
                if !reason.is_empty() {
                    write!(f, " ({reason})")?;
                }
                if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
            }
            Self::Halted { cause } => write!(f, "the flow was halted: {cause}"),
        }
    }
}

fn steps(f: &mut fmt::Formatter<'_>, waits: &[Waited], more: usize) -> fmt::Result {
    f.write_str("it waits for ")?;
    for (number, Waited { name, phase, satisfied }) in waits.iter().enumerate() {
        let comma = if number == 0 { "" } else { ", " };
        let only = if *satisfied { "" } else { ", only to be settled" };
        write!(f, "{comma}{name} ({phase}{only})")?;
    }
    if more > 0 { write!(f, " and {more} more") } else { Ok(()) }
}
