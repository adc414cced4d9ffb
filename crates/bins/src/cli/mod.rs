//! The command line `orlop`.

mod absent;
mod artifacts;
#[cfg(any(feature = "fleet", feature = "kube"))]
mod changes;
mod config;
mod control;
mod delete;
mod drive;
mod explain;
mod failure;
#[cfg(feature = "fleet")]
mod fleet;
mod get;
mod globals;
mod graph;
#[cfg(all(feature = "kube", feature = "provisioner"))]
mod hardware;
#[cfg(feature = "kube")]
mod kube;
mod lines;
mod list;
mod local;
mod logs;
mod manifest;
mod output;
mod plan;
mod progress;
mod resume;
mod retry;
mod run;
mod schema;
mod setup;
mod several;
mod signals;
mod stored;
mod submit;
#[cfg_attr(
    not(any(feature = "fleet", feature = "kube")),
    allow(dead_code, reason = "some of it is for flows that others drive")
)]
mod target;
mod tree;
mod validate;
mod watch;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use orlop_cloud::exit;

pub use failure::{Exit, Failure};
use globals::{Former, Target};

/// Runs flows and jobs on this machine, on a fleet or in a cluster.
#[derive(Parser, Debug)]
#[command(name = "orlop", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = exit::help("Examples:
  orlop run flow.yaml                          run a flow on this machine, steps with an image in containers
  orlop run flow.yaml --target process         the same, all steps as processes
  orlop flow logs etl load --follow            follow the log of a step
  orlop flow approve etl release               approve a Manual step"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has one")]
enum Command {
    /// Run a flow on this machine; short for `orlop flow run`
    Run(Box<run::RunArgs>),
    /// Flows: run, inspect and control them
    #[command(subcommand, arg_required_else_help = true)]
    Flow(Flow),
    #[cfg(all(feature = "kube", feature = "provisioner"))]
    /// Hardware: what a requirement becomes on every substrate
    #[command(subcommand, arg_required_else_help = true)]
    Hardware(hardware::Hardware),
    #[cfg(feature = "fleet")]
    #[command(flatten)]
    Fleet(fleet::Fleet),
    /// Manage profiles: default values of connection options
    #[command(subcommand, arg_required_else_help = true)]
    Config(config::Config),
    /// Print the JSON schema of flows, jobs or pipelines, for editors
    Schema(schema::SchemaArgs),
    /// Print the completions of a shell
    Completions {
        /// The shell
        #[arg(ignore_case = true)]
        shell: clap_complete::Shell,
    },
}

#[derive(Subcommand, Debug)]
enum Flow {
    /// Plan and execute a flow on this machine until it has ended
    Run(Box<run::RunArgs>),
    /// Submit a flow to a fleet or a cluster (`--target fleet`, `--target kube`)
    Submit(Box<submit::SubmitArgs>),
    /// Check files or folders of flows
    Validate(validate::ValidateArgs),
    /// Draw the graph of a file's flow or of a run
    Graph(graph::GraphArgs),
    /// Show what would run: order, waves, names, Jobs; runs nothing
    Plan(Box<plan::PlanArgs>),
    /// List runs
    List(list::ListArgs),
    /// Show a run with its steps
    Get(get::GetArgs),
    /// Explain why steps wait, were skipped or failed
    Explain(explain::ExplainArgs),
    /// Watch a run until it has ended
    Watch(watch::WatchArgs),
    /// Show logs of a run's attempts
    Logs(logs::LogsArgs),
    /// List artifacts of steps, or write them to files
    Artifacts(artifacts::ArtifactsArgs),
    /// Approve a Manual step
    Approve(control::DecideArgs),
    /// Reject a Manual step
    Reject(control::DecideArgs),
    /// Confirm that an attempt whose cancellation is blocked is gone
    ConfirmGone(control::ConfirmGoneArgs),
    /// Suspend a run: start nothing more
    Suspend(control::SuspendArgs),
    /// Resume a suspended run
    Resume(control::NameArgs),
    /// End a run: live attempts finish, `finally` runs
    Stop(control::NameArgs),
    /// End a run at once: live attempts are cancelled
    #[command(visible_alias = "cancel")]
    Terminate(control::NameArgs),
    /// Run again what failed, in a new flow
    Retry(Box<retry::RetryArgs>),
    /// Delete runs that have ended
    Delete(delete::DeleteArgs),
}

/// The arguments of the program.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Runs the command line of this process and says how it ends.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(refusal) = absent::refusal(std::env::args_os().map(|word| word.to_string_lossy().into_owned())) {
        return refuse(&refusal);
    }
    let matches = match matches() {
        Ok(matches) => matches,
        Err(failure) => return refuse(&failure.to_string()),
    };
    let cli = match matches.and_then(|matches| parse(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output, the rest to standard error; a reader that has gone is no trouble.
            drop(error.print());
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    telemetry();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::tell(&format!("error: the runtime cannot be started: {error}"));
            return Exit::Failed.into();
        }
    };
    let exit = runtime.block_on(dispatch(cli.command)).unwrap_or_else(|failure| {
        // Findings about a manifest say themselves what they are.
        let prefix =
            if failure.exit == Exit::Refused && failure.message.starts_with("error[") { "" } else { "error: " };
        output::tell(&format!("{prefix}{failure}"));
        failure.exit
    });
    // Work on blocking threads that nobody waits for must not hold the program.
    runtime.shutdown_background();
    exit.into()
}

/// The command line of this process, with the values of a profile where it gives none. Verbs about profiles take none of them;
/// help and completions do without where a profile cannot be read.
fn matches() -> Result<Result<clap::ArgMatches, clap::Error>, Failure> {
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "config") {
        return Ok(commands().try_get_matches().map_err(usage_of));
    }
    match config::applied(commands()) {
        Ok(commands) => Ok(commands.try_get_matches().map_err(usage_of)),
        Err(failure) => match commands().try_get_matches() {
            Err(shown) if !shown.use_stderr() => Ok(Err(shown)),
            Ok(matches) if matches.subcommand_name() == Some("completions") => Ok(Ok(matches)),
            _ => Err(failure),
        },
    }
}

/// What the command line asks for. A run learns which options stood there: others come from elsewhere.
fn parse(matches: &clap::ArgMatches) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    if let Command::Run(args) | Command::Flow(Flow::Run(args)) = &mut cli.command {
        let mut leaf = matches;
        while let Some((_, next)) = leaf.subcommand() {
            leaf = next;
        }
        let stood = |id: &&clap::Id| leaf.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        args.given = leaf.ids().filter(stood).map(ToString::to_string).collect();
    }
    Ok(cli)
}

/// The same error with a usage line as if the environment said nothing: what it says is not required.
fn usage_of(error: clap::Error) -> clap::Error {
    fn bare(command: clap::Command) -> clap::Command {
        command.mut_args(|arg| arg.env(None::<&'static str>)).mut_subcommands(bare)
    }
    // Help shows the values of the environment.
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand || !error.use_stderr();
    match bare(commands()).try_get_matches() {
        _ if is_help => error,
        Err(again) if again.kind() == error.kind() => again,
        _ => error,
    }
}

/// Ends because of what the arguments ask for.
pub(crate) fn refuse(problem: &str) -> ExitCode {
    output::tell(&format!("error: {problem}"));
    Exit::Usage.into()
}

/// All that `orlop` does, and what it could do in another build.
fn commands() -> clap::Command {
    absent::listed(crate::program::listed(Cli::command()))
}

fn telemetry() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ORLOP_LOG")
        // A verb reports what the client of Kubernetes could not do; that an image is pulled is shown.
        .unwrap_or_else(|_| {
            tracing_subscriber::EnvFilter::new("warn,kube_client=off,orlop_cloud::runtime::docker::image=info")
        });
    crate::telemetry::lines().with_env_filter(filter).with_ansi(false).with_writer(|| output::Lines).init();
}

/// Runs a command.
async fn dispatch(command: Command) -> Result<Exit, Failure> {
    if let Some(former) = command.former() {
        former.check(command.target())?;
    }
    match command {
        Command::Run(args) => run(*args).await,
        #[cfg(feature = "fleet")]
        Command::Fleet(verb) => fleet::run(verb).await,
        Command::Config(verb) => config::run(verb),
        Command::Schema(args) => schema::run(&args),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut commands(), "orlop", &mut text);
            output::raw(&text).map(|_| Exit::Done)
        }
        Command::Flow(flow) if flow.handles_signals() => of_flow(flow).await,
        Command::Flow(flow) => signals::interruptible(of_flow(flow)).await,
        #[cfg(all(feature = "kube", feature = "provisioner"))]
        Command::Hardware(verb) => hardware::run(verb).await,
    }
}

/// Runs a flow on this machine, or hands it over and waits for its end.
async fn run(args: run::RunArgs) -> Result<Exit, Failure> {
    match args.globals.target {
        Target::Local | Target::Process | Target::Docker => run::run(args).await,
        Target::Fleet | Target::Kube => submit::run(&*target::of(&args.globals)?, &args).await,
    }
}

impl Command {
    /// Options of flows that are spelled otherwise now.
    fn former(&self) -> Option<&Former> {
        match self {
            Self::Run(args) => Some(&args.globals.former),
            Self::Flow(Flow::Validate(args)) => Some(&args.former),
            Self::Flow(flow) => flow.globals().map(|globals| &globals.former),
            _ => None,
        }
    }

    /// Where the flows run that it is about.
    fn target(&self) -> Target {
        let globals = match self {
            Self::Run(args) => Some(&args.globals),
            Self::Flow(flow) => flow.globals(),
            _ => None,
        };
        globals.map(|globals| globals.target).unwrap_or_default()
    }
}

impl Flow {
    fn globals(&self) -> Option<&globals::GlobalArgs> {
        Some(match self {
            Self::Run(args) => &args.globals,
            Self::Submit(args) => &args.globals,
            Self::List(args) => &args.globals,
            Self::Get(args) => &args.globals,
            Self::Explain(args) => &args.globals,
            Self::Watch(args) => &args.globals,
            Self::Logs(args) => &args.globals,
            Self::Artifacts(args) => &args.globals,
            Self::Approve(args) | Self::Reject(args) => &args.globals,
            Self::ConfirmGone(args) => &args.globals,
            Self::Suspend(args) => &args.globals,
            Self::Resume(args) | Self::Stop(args) | Self::Terminate(args) => &args.globals,
            Self::Retry(args) => &args.globals,
            Self::Delete(args) => &args.globals,
            Self::Graph(args) => &args.globals,
            Self::Plan(args) => &args.globals,
            Self::Validate(_) => return None,
        })
    }

    /// Whether signals are not to end it at once: it drives a flow, or reads a file and is ended as any program is.
    fn handles_signals(&self) -> bool {
        match self {
            Self::Run(_) | Self::Validate(_) | Self::Plan(_) => true,
            Self::Graph(args) => args.is_file(),
            Self::Retry(args) => args.globals.target.is_here(),
            _ => false,
        }
    }
}

async fn of_flow(flow: Flow) -> Result<Exit, Failure> {
    use control::Verb;
    use orlop_core::spec::status::Decision;
    use target::of;
    match flow {
        Flow::Run(args) => run(*args).await,
        Flow::Validate(args) => validate::validate(&args),
        Flow::Plan(args) => plan::plan(*args).await,
        Flow::Graph(args) => graph::graph(&args).await,
        Flow::Submit(args) => submit::submit(&*of(&args.globals)?, &args).await,
        Flow::List(args) => list::list(&*of(&args.globals)?, &args).await,
        Flow::Get(args) => get::get(&*of(&args.globals)?, &args).await,
        Flow::Explain(args) => explain::explain(&*of(&args.globals)?, &args).await,
        Flow::Watch(args) => watch::watch(&*of(&args.globals)?, &args).await,
        Flow::Logs(args) => logs::logs(&*of(&args.globals)?, &args).await,
        Flow::Artifacts(args) => artifacts::artifacts(&*of(&args.globals)?, &args).await,
        Flow::Approve(args) => control::decide(&*of(&args.globals)?, args, Decision::Approved).await,
        Flow::Reject(args) => control::decide(&*of(&args.globals)?, args, Decision::Rejected).await,
        Flow::ConfirmGone(args) => control::confirm_gone(&*of(&args.globals)?, args).await,
        Flow::Suspend(args) => control::suspend(&*of(&args.globals)?, args).await,
        Flow::Resume(args) => control::simple(&*of(&args.globals)?, args, Verb::Resume).await,
        Flow::Stop(args) => control::simple(&*of(&args.globals)?, args, Verb::Stop).await,
        Flow::Terminate(args) => control::simple(&*of(&args.globals)?, args, Verb::Terminate).await,
        Flow::Retry(args) => retry::retry(&*of(&args.globals)?, &args).await,
        Flow::Delete(args) => delete::delete(&*of(&args.globals)?, &args).await,
    }
}
