//! OpenStack services and sites of leased machines that speak it, such as Chameleon. Owns what their answers mean and what is
//! special to them, as far as nothing is sent.

pub mod classify;
pub mod hardware;
