//! The fleet from outside: `orlop up` and the verbs that ask it, and the worker's program against a server of the protocol.

#[cfg(all(feature = "process", target_os = "linux"))]
mod agent;
mod bench;
mod trouble;
mod verbs;
mod work;
