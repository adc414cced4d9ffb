//! The fleet's REST interface (scheduler contract, section 5.5): who may call, what they may see, and how it is said. Owns
//! HTTP; what a call does is the host's.

pub mod auth;
