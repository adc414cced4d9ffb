//! The fleet from outside: `orlop up` and the verbs that ask it.

mod bench;
mod trouble;
mod verbs;
mod work;
