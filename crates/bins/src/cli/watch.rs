//! `orlop flow watch`: what happens to a run, until it has ended. Owns nothing but the lines; the host tells them.

use clap::Args;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::HumanDuration;

use super::drive::exit_of;
use super::failure::{Exit, Failure};
use super::output::{self, Format};
use super::place::Place;
use super::progress::line;
use super::signals::Signals;
use super::stored::{Stored, reach};
use crate::host::control::{Answer, Watch};
use crate::host::flow::{Clock as _, SystemClock};
use crate::host::home::RunDir;
use crate::view::table;

/// Options of `orlop flow watch`.
#[derive(Args, Debug)]
pub(super) struct WatchArgs {
    /// Name of the run
    pub name: String,
    #[command(flatten)]
    pub place: Place,
    /// Leave after this long, with exit code 8
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<HumanDuration>,
    /// Form of the output; JSON gives one status a line
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub output: Format,
}

/// Watches a run until it has ended.
///
/// # Errors
/// When there is none, or nobody runs it.
pub(super) async fn watch(args: WatchArgs) -> Result<Exit, Failure> {
    let run = args.place.existing(&args.name)?;
    let mut signals = Signals::take()?;
    let limit = async {
        match args.timeout {
            Some(limit) => tokio::time::sleep(limit.get()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        exit = follow(&run, &args) => exit,
        () = limit => {
            output::tell(&format!("`{}` has not ended; it goes on", args.name));
            Ok(Exit::TimedOut)
        }
        exit = signals.next() => Ok(exit),
    }
}

async fn follow(run: &RunDir, args: &WatchArgs) -> Result<Exit, Failure> {
    if let Some(client) = reach(run).await? {
        let gone = |error| Failure::io("the host of the flow cannot be watched", &error);
        tell(client.watch().await.map_err(gone)?, args).await?;
    }
    // The journal has the last word: the host may be gone, or have been gone before.
    let status = Stored::read(run).await?.status();
    if !status.phase.is_terminal() {
        let name = args.place.named(&args.name);
        let message = format!(
            "no host runs `{name}` now: it is {}; go on with it with `orlop run --resume --name {}`",
            status.phase,
            name.call()
        );
        return Err(Failure::new(Exit::Unreachable, message));
    }
    show_end(&status, args)?;
    Ok(exit_of(&status))
}

async fn tell(mut watch: Watch, args: &WatchArgs) -> Result<(), Failure> {
    let failed = |error| Failure::io("the host of the flow cannot be watched", &error);
    while let Some(answer) = watch.next().await.map_err(failed)? {
        match (answer, args.output) {
            (Answer::Notice(notice), Format::Table) => {
                if let Some(line) = line(&notice, &args.place.named(&args.name)) {
                    output::print(&line)?;
                }
            }
            (Answer::Status(status), Format::Json) if !status.phase.is_terminal() => {
                let line = serde_json::to_string(&status).unwrap_or_default();
                output::print(&line)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn show_end(status: &FlowStatus, args: &WatchArgs) -> Result<(), Failure> {
    match args.output {
        Format::Table => output::print(&{
            let name = args.place.named(&args.name);
            table::summary(&name, status, SystemClock.now(), output::colour())
        }),
        Format::Json => output::print(&serde_json::to_string(status).unwrap_or_default()),
        Format::Name => output::print(&args.name),
        Format::Yaml => output::print(&output::serialized(status, Format::Yaml)?),
    }
}
