//! The arguments of `orlop-provisioner`.

mod catalog;
mod join;
mod lease;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use orlop_cloud::analyze::Feature;
use orlop_cloud::exit;

pub(super) use self::catalog::{CatalogArgs, CatalogVerb, CloudImagesArgs, NodesArgs, SitesArgs};
pub(super) use self::join::{FleetArgs, JoinArgs};
pub(super) use self::lease::{
    ApplyArgs, CloudArgs, DestroyArgs, ExtendArgs, ListArgs, OneArgs, PathArgs, RunArgs, StatusArgs, VerifyArg,
};
use super::values::{self, DurationArg, OsArg};

/// Finds out what server a repository requires, and leases it.
#[derive(Parser, Debug)]
#[command(name = "orlop-provisioner", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = exit::help("Examples:
  orlop provisioner analyze --repo https://github.com/ORG/REPO     what it needs, with evidence
  orlop provisioner analyze --repo . --allow-local --output json
  orlop provisioner plan --repo https://github.com/ORG/REPO --site uc,tacc --out plan.json
  orlop provisioner --repo https://github.com/ORG/REPO             plan, confirm, lease: the same as apply
  orlop provisioner apply --plan plan.json --yes
  orlop provisioner status NAME; orlop provisioner extend NAME --hours 12; orlop provisioner destroy NAME
  orlop provisioner catalog nodes --site uc,tacc                   what is available there"))]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) verb: Verb,
}

#[derive(Subcommand, Debug)]
pub(super) enum Verb {
    /// Find out what machine a repository requires; needs no credentials
    #[command(after_help = "Examples:
  orlop provisioner analyze --repo https://github.com/ORG/REPO --ref v1.2 --subdir services/api
  orlop provisioner analyze --repo ../checkout --allow-local --llm off
  orlop provisioner analyze --repo https://HOST/REPO --git-token-env GIT_TOKEN --output json")]
    Analyze(Box<AnalyzeArgs>),
    /// Choose hardware, image, window and duration, with the cost; creates nothing
    #[command(after_help = "Examples:
  orlop provisioner plan --repo https://github.com/ORG/REPO                       from the built-in table of hardware
  orlop provisioner plan --repo URL --site tacc --gpu 2 --vram 32 --max-su 100
  orlop provisioner plan --repo URL --cloud mine --kind vm --reservation none
  orlop provisioner plan --repo URL --site mine --catalog-file hosts.json --out plan.json --output json
  orlop provisioner plan --repo URL --join https://FLEET:7071 --worker-url https://HOST/orlop-worker \
    --worker-sha256 HEX --out plan.json          also prints the command that makes the join token")]
    Plan(Box<PlanArgs>),
    /// Plan, confirm, and lease a server; an unfinished deployment of the same name is resumed
    #[command(after_help = "Examples:
  orlop provisioner apply --repo https://github.com/ORG/REPO --site tacc --lease-duration 12
  orlop provisioner apply --repo URL --create-key --max-su 100 --output jsonl
  orlop provisioner apply --repo URL --site kvm --flavor m1.large --allow-ssh-from 192.0.2.0/24
  orlop provisioner apply --plan plan.json --yes
  orlop provisioner apply --plan plan.json --join-token-file join.token --verify join    a plan made with --join URL
  orlop provisioner apply --repo URL --max-lifetime 2d --idle-stop 1h")]
    Apply(Box<ApplyArgs>),
    /// Compare what should be there with what is
    #[command(after_help = "Examples:
  orlop provisioner status orlop-demo-r5tq2e
  orlop provisioner status orlop-demo-r5tq2e --watch --output jsonl
  orlop provisioner status NAME --watch --fleet https://FLEET:7070 --fleet-token-file FILE    with --idle-stop and a worker")]
    Status(Box<StatusArgs>),
    /// Resume a deployment that was interrupted
    #[command(after_help = "Example: orlop provisioner resume orlop-demo-r5tq2e")]
    Resume(Box<OneArgs>),
    /// Extend a lease
    #[command(after_help = "Examples:
  orlop provisioner extend orlop-demo-r5tq2e --hours 12
  orlop provisioner extend orlop-demo-r5tq2e --until 2026-01-07T18:00:00Z")]
    Extend(Box<ExtendArgs>),
    /// Remove everything a deployment owns; can be repeated
    #[command(after_help = "Examples:
  orlop provisioner destroy orlop-demo-r5tq2e
  orlop provisioner destroy orlop-demo-r5tq2e --dry-run
  orlop provisioner destroy --id k4x7q2mzwa        one whose state was lost
  orlop provisioner destroy --orphans              all in the project that this machine does not know")]
    Destroy(Box<DestroyArgs>),
    /// List deployments of this machine, or with --remote everything marked in the project
    #[command(after_help = "Examples:
  orlop provisioner list
  orlop provisioner list --remote --output json")]
    List(Box<ListArgs>),
    /// Show what is available: hardware and when it is free, images, sites; creates nothing
    #[command(after_help = "Examples:
  orlop provisioner catalog nodes                                    without credentials: what is known of the hardware
  orlop provisioner catalog nodes --site tacc --lease-duration 48 --start-within 2d
  orlop provisioner catalog images --site uc --output json
  orlop provisioner catalog sites")]
    Catalog(Box<CatalogArgs>),
}

#[derive(Args, Debug)]
pub(super) struct AnalyzeArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    /// Authorities to trust beside those of the system, PEM
    #[arg(long, value_name = "FILE", help_heading = "Repository")]
    pub(super) ca_cert: Option<PathBuf>,
    #[command(flatten)]
    pub(super) advice: AdviceArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) hardware: HardwareArgs,
    #[command(flatten)]
    pub(super) window: WindowArgs,
    #[command(flatten)]
    pub(super) advice: AdviceArgs,
    #[command(flatten)]
    pub(super) cloud: CloudArgs,
    #[command(flatten)]
    pub(super) join: JoinArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Name of the server; default: orlop-<repo>-<key>
    #[arg(long, value_name = "NAME")]
    pub(super) server_name: Option<String>,
    /// File that gets the plan
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

/// Which repository, and what it may be.
#[derive(Args, Debug)]
#[command(next_help_heading = "Repository")]
pub(super) struct SourceArgs {
    /// Address of the repository
    #[arg(long, value_name = "URL", allow_hyphen_values = true)]
    pub(super) repo: Option<String>,
    /// Branch, tag or commit
    #[arg(long = "ref", value_name = "REF", default_value = "HEAD", allow_hyphen_values = true)]
    pub(super) reference: String,
    /// Folder within the repository
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    pub(super) subdir: String,
    /// Also fetch over ssh
    #[arg(long)]
    pub(super) allow_ssh_git: bool,
    /// Also read a folder of this machine
    #[arg(long)]
    pub(super) allow_local: bool,
    /// Also fetch from hosts in private networks
    #[arg(long)]
    pub(super) allow_private_hosts: bool,
    /// Variable that holds a token for the repository
    #[arg(long, value_name = "VAR")]
    pub(super) git_token_env: Option<String>,
}

/// How advice is had.
#[derive(Args, Debug)]
#[command(next_help_heading = "Advice")]
pub(super) struct AdviceArgs {
    /// Whether a model is asked; `auto` is off without OPENAI_API_KEY
    #[arg(long, value_enum, ignore_case = true, default_value_t, value_name = "MODE")]
    pub(super) llm: Llm,
    /// Record of advice; default: advice.jsonl in the state directory
    #[arg(long, value_name = "FILE")]
    pub(super) advice_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Llm {
    /// Ask, and take answers of the last day from the record
    #[default]
    Auto,
    /// Rules alone
    Off,
    /// Ask always, and keep the answers
    Record,
    /// Take answers from the record only
    Replay,
}

/// What the user says about the machine.
#[derive(Args, Debug)]
#[command(next_help_heading = "Hardware and image")]
pub(super) struct HardwareArgs {
    /// Sites in the order of preference, separated by commas; default: DEFAULT_SITE, else uc
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) site: Vec<String>,
    /// Node type, or the alias of a class
    #[arg(long, value_name = "TYPE")]
    pub(super) node_type: Option<String>,
    /// Whole hosts or virtual machines; `auto` takes virtual machines at sites that have nothing else
    #[arg(long, value_enum, ignore_case = true, default_value_t, value_name = "KIND")]
    pub(super) kind: KindArg,
    /// Flavor, by name or id: of hosts `baremetal`, of virtual machines the one that fits best
    #[arg(long, value_name = "NAME")]
    pub(super) flavor: Option<String>,
    /// Whether virtual machines are reserved for the window; without, they are there until they are destroyed
    #[arg(long, value_enum, ignore_case = true, default_value_t, value_name = "HOW")]
    pub(super) reservation: ReservationArg,
    /// List of hosts in the shape of `os-hosts`, for the first site
    #[arg(long, value_name = "FILE")]
    pub(super) catalog_file: Option<PathBuf>,
    /// Image, by name or id
    #[arg(long, value_name = "NAME-or-ID")]
    pub(super) image: Option<String>,
    /// System of the image
    #[arg(long, value_name = "TYPE:VERSION", value_parser = values::os)]
    pub(super) os: Option<OsArg>,
    /// Hardware threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) cpu: Option<u32>,
    /// Memory in GiB
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) ram: Option<u32>,
    /// Disk in GB
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) disk: Option<u32>,
    /// Cards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64), conflicts_with = "no_gpu")]
    pub(super) gpu: Option<u32>,
    /// Memory of one card in GB
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), conflicts_with = "no_gpu")]
    pub(super) vram: Option<u32>,
    /// Maker of the cards
    #[arg(long, value_enum, ignore_case = true, conflicts_with = "no_gpu")]
    pub(super) gpu_vendor: Option<VendorArg>,
    /// CPU architecture
    #[arg(long, value_enum, ignore_case = true)]
    pub(super) arch: Option<ArchArg>,
    /// No GPU, whatever the repository says
    #[arg(long)]
    pub(super) no_gpu: bool,
    /// Also cards that present libraries do not support any more
    #[arg(long)]
    pub(super) allow_legacy_gpu: bool,
    /// Special hardware to ignore, whatever the repository says: fpga, infiniband, nvme, nvdimm, nvlink
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) without: Vec<Feature>,
    /// Where nothing fits, take what comes closest: numbers are relaxed, GPU, vendor and architecture are not
    #[arg(long)]
    pub(super) accept_closest: bool,
    /// What comes first among those that fit
    #[arg(long, value_enum, ignore_case = true, default_value_t)]
    pub(super) prefer: PreferArg,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum KindArg {
    Baremetal,
    Vm,
    #[default]
    Auto,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ReservationArg {
    #[default]
    Auto,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum VendorArg {
    Nvidia,
    Amd,
    Intel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ArchArg {
    #[value(name = "x86_64", alias = "amd64")]
    Amd64,
    #[value(name = "aarch64", alias = "arm64")]
    Arm64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum PreferArg {
    #[default]
    Fit,
    Cost,
    Start,
}

/// When, and how long.
#[derive(Args, Debug)]
#[command(next_help_heading = "Window and budget")]
pub(super) struct SpanArgs {
    /// Hours of the lease, 1 to 168; default: as advised, else as the repository wants, else 24
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u32).range(1..=168))]
    pub(super) lease_duration: Option<u32>,
    /// Minutes until the start; 0 is as soon as the site allows
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=525_600))]
    pub(super) start_delay_minutes: u32,
    /// How much later it may start, such as 90m, 12h, 2d
    #[arg(long, value_name = "DUR", default_value = "0", value_parser = values::duration)]
    pub(super) start_within: DurationArg,
}

/// When, how long, and what it may cost.
#[derive(Args, Debug)]
#[command(next_help_heading = "Window and budget")]
pub(super) struct WindowArgs {
    #[command(flatten)]
    pub(super) span: SpanArgs,
    /// Let a lease be shortened to so many hours to find a free window
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u32).range(1..=168))]
    pub(super) min_duration: Option<u32>,
    /// What else is tried when the best is not available, separated by commas; `none` when --node-type is given and this
    /// is not, and also `sites` when --site names several
    #[arg(long, value_delimiter = ',', value_enum, ignore_case = true, value_name = "LIST")]
    pub(super) fallback: Option<Vec<Fallback>>,
    /// Offerings that are kept
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) max_attempts: u32,
    /// Service units that it may cost; default: ORLOP_MAX_SU
    #[arg(long, value_name = "N")]
    pub(super) max_su: Option<u64>,
    /// Cap on the lease and every extension, in whole hours
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    pub(super) max_lifetime: Option<DurationArg>,
    /// Let status --watch destroy a deployment that was idle for so long
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    pub(super) idle_stop: Option<DurationArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Fallback {
    /// The best only
    None,
    /// Other types
    Types,
    /// Later or shorter windows, as --start-within and --min-duration allow
    Windows,
    /// Other sites of --site
    Sites,
    /// A virtual machine that has everything, after all hosts
    Vm,
}

/// How results and progress are shown.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Form of the result
    #[arg(short = 'o', long, value_enum, ignore_case = true, default_value_t)]
    pub(super) output: Form,
    /// Settings that win over the environment; without it ./.env, which does not
    #[arg(long, value_name = "FILE")]
    pub(super) env_file: Option<PathBuf>,
    /// Where state is kept; default: ORLOP_STATE_DIR, else orlop/provisioner below XDG_STATE_HOME
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<PathBuf>,
    /// File that gets the log
    #[arg(long, value_name = "FILE")]
    pub(super) log_file: Option<PathBuf>,
    /// Show the result only
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Show more; in the log too
    #[arg(short, long, conflicts_with = "quiet")]
    pub(super) verbose: bool,
    /// No colours and no animation
    #[arg(long)]
    pub(super) no_color: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// Sentences and tables for people
    #[default]
    Text,
    /// One document
    Json,
    /// Events, then the document
    Jsonl,
}
