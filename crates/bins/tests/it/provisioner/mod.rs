//! The real program `orlop-provisioner`, from outside: results, exit codes, settings, advice, and that nothing leaks.

mod advice;
#[cfg(feature = "testing")]
mod again;
#[cfg(feature = "testing")]
mod agree;
mod bench;
mod catalog;
#[cfg(feature = "testing")]
mod cloud;
#[cfg(feature = "testing")]
mod deploy;
#[cfg(feature = "testing")]
mod entries;
#[cfg(feature = "testing")]
mod hidden;
#[cfg(all(feature = "testing", feature = "fleet", feature = "run"))]
mod join;
#[cfg(feature = "testing")]
mod log;
#[cfg(feature = "testing")]
mod machines;
mod newcomer;
#[cfg(feature = "testing")]
mod openstack;
mod proxied;
#[cfg(feature = "testing")]
mod remove;
#[cfg(feature = "testing")]
mod saved;
#[cfg(feature = "testing")]
mod sites;
#[cfg(feature = "testing")]
mod stop;
mod verbs;
#[cfg(feature = "testing")]
mod waits;
#[cfg(all(feature = "testing", feature = "fleet", feature = "run", target_os = "linux"))]
mod watch;
