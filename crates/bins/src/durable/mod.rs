//! Durable flows of functions, inside your program: no server, no processes, one SQLite file.
//!
//! A flow is a graph of steps; a step is an async function with typed values. What a step gave is written down before the next
//! one starts, so that a program that was killed goes on where it was: start the flow again under the same id.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use orlop::durable::Durable;
//! # let folder = std::env::temp_dir().join(format!("orlop-durable-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("orders.db");
//! let durable = Durable::open(path).await?;
//! let flow = durable.flow("order");
//! let order = flow.input::<u32>();
//! let stock = flow.step("reserve", &order, |_, order| async move { Ok(order * 10) });
//! let paid = flow.step("charge", &stock, |step, amount| async move { Ok(format!("{} paid {amount}", step.key())) });
//! let sent = flow.step("ship", (&order, &paid), |_, (order, paid)| async move { Ok(format!("{order}: {paid}")) });
//! let run = flow.start_with("17", &17).await?;
//! assert_eq!(run.output(&sent).await?, "17: order/17/charge paid 170");
//! # durable.close().await;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(()) }
//! ```
//!
//! A function can capture what it needs, such as a client; clone it for each function.
//!
//! ```
//! # use orlop::durable::Flow;
//! # #[derive(Clone)] struct Mail;
//! # impl Mail { async fn send(&self, _key: &str, _to: &str) -> std::io::Result<u32> { Ok(1) } }
//! fn greeting(flow: &Flow, mail: &Mail) {
//!     let (to, mail) = (flow.input::<String>(), mail.clone());
//!     flow.step("greet", &to, move |step, to| {
//!         let mail = mail.clone();
//!         async move { Ok(mail.send(&step.key(), &to).await?) }
//!     });
//! }
//! ```
//!
//! A step that ran when the program ended runs again: hand [`StepContext::key`] to other services, so that they do once what
//! they are asked twice. Steps can be [retried](Step::retry), [skipped](Step::when), run [for each item](Flow::each) of a list,
//! [wait for a person](Flow::approval), or run [after everything else](Step::finally).
//!
//! A flow of functions runs on the same engine, journal and rules as all other flows: see [`host::flow`](crate::host::flow).

mod draft;
mod error;
mod flow;
mod functions;
mod running;
mod store;
#[cfg(test)]
mod tests;
mod value;

pub use draft::Step;
pub use error::{Error, StepError};
pub use functions::{FunctionOutputs, Functions, StepContext};
pub use orlop_core::spec::policy::RetryPolicy;
pub use running::Running;
pub use store::{Durable, Flow};
pub use value::{Input, Inputs, Source};
