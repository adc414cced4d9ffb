//! The controller against a small API server of its own: what it writes, what it survives, what flows come to.

mod bed;
mod crash;
mod leaders;
mod life;
mod orders;
mod repeat;
mod server;
mod slots;
mod trouble;
mod watch;
