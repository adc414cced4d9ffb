//! The controller of flows on the API server double, through the real client: its definition, its rights, its Jobs and pods.

mod cancel;
mod crash;
mod faults;
mod life;
mod load;
mod others;
mod real;
mod rights;
mod run;
mod scale;
mod secrets;
mod test_env;
mod upgrade;
mod waiting;
