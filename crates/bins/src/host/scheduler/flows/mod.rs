//! Flows inside the server. Owns what drives them; what may run is the flow engine's, where it runs the scheduler's.

mod jobs;

pub use self::jobs::ServerFleet;
