//! Five durable functions: one that is tried again, one with a condition, one for each item of a list, one that gathers.
//! `cargo run -p orlop-examples --bin durable_report FILE`: kill it at any moment and start it again.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::time::Duration;

use orlop::durable::{Durable, RetryPolicy, StepError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let durable = Durable::open(std::env::args().nth(1).unwrap_or_else(|| "report.db".to_owned())).await?;
    let flow = durable.flow("report");
    let pages = flow.step("list", (), |_, ()| async {
        work("list").await;
        Ok(vec![1_u32, 2, 3])
    });
    let count = flow.step("count", &pages, |step, pages| async move {
        work("count").await;
        if step.attempt() == 1 { Err(StepError::new("busy")) } else { Ok(pages.len()) }
    });
    let count = count.retry(RetryPolicy::fixed(2, Duration::from_millis(200)));
    let warning = flow.step("warn", &count, |_, count| async move { Ok(format!("{count} pages are many")) });
    let warning = warning.when("steps.count.outputs.value == '4'");
    let words = flow.each("words", &pages, |step, page: u32| async move {
        work(&format!("words {:?}", step.index())).await;
        Ok(page * page)
    });
    let report = flow.step("report", (&count, &warning, &words), |_, (count, warning, words)| async move {
        work("report").await;
        Ok(format!("{count} pages, {} words, warning {warning:?}", words.iter().sum::<u32>()))
    });
    println!("{}", flow.start("today").await?.output(&report).await?);
    durable.close().await;
    Ok(())
}

/// What takes time and can be seen from outside.
async fn work(what: &str) {
    println!("{what}");
    tokio::time::sleep(Duration::from_millis(50)).await;
}
