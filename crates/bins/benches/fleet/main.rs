//! How fast a fleet of the real programs is (chapter 8 of the scheduler's contract), as ratios against what does the same
//! work beside it in the same run: a bare spawn loop, a bare file of SQLite, and HyperQueue where its program is given.
//!
//! ```text
//! cargo bench -p orlop --bench fleet                         every row
//! cargo bench -p orlop --bench fleet -- processes noop       some rows
//! cargo bench -p orlop --bench fleet -- --hyperqueue PATH --hyperqueue-zero PATH   beside HyperQueue
//! ORLOP_TEST_FSYNC=on scripts/with-postgres cargo bench -p orlop --features postgres --bench fleet -- submits
//! cargo bench -p orlop --bench fleet -- --scale 0.1 --repeat 1                     a tenth of the work, once
//! ```
//!
//! The server writes durably (SQLite, `synchronous = FULL`). Sides take turns, and begin in turn. What is printed is the
//! median of the repetitions, with the least and the most.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc
)]

mod bare;
mod fixture;
mod machine;
mod peer;
mod rows;
mod samples;
mod sim;
mod spawn;

use std::path::PathBuf;

use clap::Parser;

/// Measures a fleet of the real programs.
#[derive(Parser, Debug)]
pub(crate) struct Options {
    /// Rows to measure; none = all
    rows: Vec<String>,
    /// How often each side is measured
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Part of the work to do, 1 = all of it
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The program `hq`, to be measured beside
    #[arg(long)]
    hyperqueue: Option<PathBuf>,
    /// The program `hq` built with its zero-worker mode
    #[arg(long)]
    hyperqueue_zero: Option<PathBuf>,
    /// The address of a PostgreSQL whose data is on disk; the programs are built with the feature `postgres` then
    #[arg(long, env = "ORLOP_TEST_POSTGRES")]
    postgres: Option<String>,
    /// Said by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// So many of `all`, at least one.
    pub(crate) fn part(&self, all: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive part of a count")]
        let part = (f64::from(all) * self.scale).round() as u32;
        part.max(1)
    }
}

fn main() {
    let options = Options::parse();
    let rows = rows::all();
    if let Some(unknown) = options.rows.iter().find(|name| rows.iter().all(|row| row.name != **name)) {
        let names: Vec<_> = rows.iter().map(|row| row.name).collect();
        eprintln!("there is no row `{unknown}`; use some of {}", names.join(", "));
        std::process::exit(2);
    }
    println!("{}", machine::header(&options));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for row in rows {
        if options.rows.is_empty() || options.rows.iter().any(|name| name == row.name) {
            println!("\n{}: {}", row.name, row.title);
            runtime.block_on((row.run)(&options));
        }
    }
}
