//! The real program `orlop`, from outside: runs, orders, pages, exit codes.

mod artifacts;
mod bench;
mod codes;
mod config;
mod control;
mod data;
mod docker;
mod explain;
mod hardware;
mod messages;
mod pages;
mod remains;
mod run;
mod runs;
mod signals;
mod targets;
mod terminal;
mod trouble;
mod verbs;
mod web;
