//! The way of a container's output from the engine's log into the log files of its attempt: every line once, whatever
//! crashes when. [`sink`] knows what has been written, [`follow`] asks the engine for the rest.

pub(super) mod follow;
pub(super) mod frame;
pub(super) mod sink;
