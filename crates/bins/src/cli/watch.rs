//! `orlop flow watch`: what happens to a run, until it has ended. Owns nothing but the lines; the host tells them.

use std::time::Duration;

use clap::Args;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::HumanDuration;

use super::drive::exit_of;
use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::output::{self, Format};
use super::progress::{Retries, line};
use super::signals::Signals;
use super::stored::{Stored, reach, stopped};
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
    pub globals: GlobalArgs,
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
    let run = args.globals.existing(&args.name)?;
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
        let name = args.globals.named(&args.name);
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

/// Between two looks for supervisors that were stopped.
const LOOK: Duration = Duration::from_secs(2);

async fn tell(mut watch: Watch, args: &WatchArgs) -> Result<(), Failure> {
    let failed = |error| Failure::io("the host of the flow cannot be watched", &error);
    let (mut looks, mut shown) = (tokio::time::interval(LOOK), Vec::new());
    let (mut known, mut retries) = (FlowStatus::default(), Retries::default());
    loop {
        let answer = tokio::select! {
            answer = watch.next() => answer.map_err(failed)?,
            _ = looks.tick() => {
                let found = stopped(watch.stopped(), &known);
                found.iter().filter(|line| !shown.contains(*line)).for_each(|line| output::tell(line));
                shown = found;
                continue;
            }
        };
        match (answer, args.output) {
            (Some(Answer::Notice(notice)), Format::Table) => {
                if let Some(line) = line(&notice, &args.globals.named(&args.name)) {
                    output::print(&line)?;
                }
            }
            (Some(Answer::Status(status)), format) => {
                known = *status;
                if format == Format::Json && !known.phase.is_terminal() {
                    output::print(&serde_json::to_string(&known).unwrap_or_default())?;
                }
                for line in retries.news(&known).iter().filter(|_| format == Format::Table) {
                    output::print(line)?;
                }
            }
            (None, _) => return Ok(()),
            _ => {}
        }
    }
}

fn show_end(status: &FlowStatus, args: &WatchArgs) -> Result<(), Failure> {
    match args.output {
        Format::Table => output::print(&{
            let name = args.globals.named(&args.name);
            table::summary(&name, status, SystemClock.now(), output::colour())
        }),
        Format::Json => output::print(&serde_json::to_string(status).unwrap_or_default()),
        Format::Name => output::print(&args.name),
        Format::Yaml => output::print(&output::serialized(status, Format::Yaml)?),
    }
}
