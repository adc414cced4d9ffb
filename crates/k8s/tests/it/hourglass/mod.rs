//! Performers and executors on the API server double: schemas and rules, examples, the controllers over real requests.

mod bounds;
mod crowd;
mod examples;
mod life;
mod real;
mod release;
mod rights;
mod rules;
mod test_env;
