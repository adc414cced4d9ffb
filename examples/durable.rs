//! Three durable steps as functions: killed at any moment and started again, the program goes on where it was.
//! `cargo run -p orlop-examples --bin durable FILE`: the file holds what was done.

#![allow(clippy::print_stdout, reason = "a program for people")]

use orlop::durable::Durable;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let durable = Durable::open(std::env::args().nth(1).unwrap_or_else(|| "orders.db".to_owned())).await?;
    let flow = durable.flow("order");
    let order = flow.input::<u32>();
    let stock = flow.step("reserve", &order, |_, order| async move { Ok(vec![order; 3]) });
    let paid = flow.step("charge", &stock, |step, stock| async move { Ok(format!("{} {}", step.key(), stock.len())) });
    let sent = flow.step("ship", (&order, &paid), |_, (order, paid)| async move { Ok(format!("{order} by {paid}")) });
    println!("{}", flow.start_with("17", &17).await?.output(&sent).await?);
    durable.close().await;
    Ok(())
}
