//! The controller against a small API server of its own: what it writes, what it survives, what flows come to.

mod bare;
mod carried;
mod crash;
mod kept;
mod leaders;
mod life;
mod named;
mod orders;
mod quota;
mod repeat;
mod slots;
mod test_env;
mod trouble;
mod watch;

use crate::shell::fake as server;
