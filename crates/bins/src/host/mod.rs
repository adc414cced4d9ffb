//! Hosts: what drives the engines against a real world. Owns no rules; those are the engines'.

pub mod flow;
