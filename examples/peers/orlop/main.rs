//! The job of docs/comparison.md as durable functions of Orlop: `cargo run -- DIR`.

// Beside the other examples it is compiled with the lints of the workspace.
#![allow(clippy::expect_used, clippy::print_stdout, unreachable_pub)]

use orlop::durable::Durable;

#[path = "../harness.rs"]
mod harness;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let durable = Durable::open(harness::folder().join("orlop.db")).await?;
    // job
    let flow = durable.flow("report");
    let text = flow.input::<String>();
    let numbers = flow.step("load", &text, |_, text| async move {
        harness::work("load").await;
        Ok(text.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?)
    });
    let sum = flow.step("sum", &numbers, |_, numbers| async move {
        harness::work("sum").await;
        Ok(numbers.iter().sum::<u64>())
    });
    let report = flow.step("report", &sum, |_, sum| async move {
        harness::work("report").await;
        Ok(format!("the sum is {sum}"))
    });
    // end
    println!("{}", flow.start_with("1", harness::INPUT).await?.output(&report).await?);
    durable.close().await;
    Ok(())
}
