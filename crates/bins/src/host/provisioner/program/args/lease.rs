//! Arguments of the verbs that work on a cloud.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::super::values::{self, DurationArg};
use super::{AdviceArgs, FleetArgs, HardwareArgs, JoinArgs, OutputArgs, SourceArgs, WindowArgs};

/// Which cloud, and as whom.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Cloud")]
pub(in super::super) struct CloudArgs {
    /// Cloud of clouds.yaml; default: OS_CLOUD
    #[arg(long, value_name = "NAME")]
    pub(in super::super) cloud: Option<String>,
    /// File with OS_* assignments, read and never executed; default: OPENRC_PATH
    #[arg(long, value_name = "FILE")]
    pub(in super::super) openrc: Option<PathBuf>,
    /// Authorities to trust beside those of the system, PEM
    #[arg(long, value_name = "FILE")]
    pub(in super::super) ca_cert: Option<PathBuf>,
}

/// Where things are kept.
#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
pub(in super::super) struct PathArgs {
    /// Folder of the state file <server>_info.json and of a key that is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(in super::super) output_dir: PathBuf,
}

#[derive(Args, Debug)]
pub(in super::super) struct ApplyArgs {
    /// As they were given, without the program: another process may go on with the run.
    #[arg(skip)]
    pub(in super::super) given: Vec<String>,
    #[command(flatten)]
    pub(in super::super) source: SourceArgs,
    #[command(flatten)]
    pub(in super::super) hardware: HardwareArgs,
    #[command(flatten)]
    pub(in super::super) window: WindowArgs,
    #[command(flatten)]
    pub(in super::super) run: RunArgs,
    #[command(flatten)]
    pub(in super::super) join: JoinArgs,
    #[command(flatten)]
    pub(in super::super) fleet: FleetArgs,
    #[command(flatten)]
    pub(in super::super) advice: AdviceArgs,
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) paths: PathArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}

impl ApplyArgs {
    /// The arguments of a run that another process began: files are those of its folder, and name and sites are as they came out.
    pub(in super::super) fn go_on(&mut self, folder: &Path, name: &str, sites: &[String]) {
        let files = [
            &mut self.run.plan,
            &mut self.run.key_path,
            &mut self.run.user_data,
            &mut self.run.join_token_file,
            &mut self.fleet.fleet_token_file,
            &mut self.fleet.fleet_ca_file,
            &mut self.hardware.catalog_file,
            &mut self.advice.advice_file,
        ];
        for path in files.into_iter().flatten().chain([&mut self.paths.output_dir]) {
            *path = folder.join(&path);
        }
        let source = &mut self.source;
        if let (true, Some(repo)) = (source.allow_local, source.repo.as_mut().filter(|repo| !repo.contains(':'))) {
            *repo = folder.join(&repo).display().to_string();
        }
        (self.run.server_name, self.run.new) = (Some(name.to_owned()), false);
        self.hardware.site = sites.to_vec();
    }
}

/// What is made, and how.
#[derive(Args, Debug)]
#[command(next_help_heading = "Deployment")]
pub(in super::super) struct RunArgs {
    /// Saved plan to carry out; no model is asked
    #[arg(long, value_name = "FILE")]
    pub(in super::super) plan: Option<PathBuf>,
    /// Name of the server; default: orlop-<repo>-<key>
    #[arg(long, value_name = "NAME")]
    pub(in super::super) server_name: Option<String>,
    /// Begin another deployment although there is one of this name
    #[arg(long)]
    pub(in super::super) new: bool,
    /// Name of the lease; default: <server>-<id>-a<attempt>
    #[arg(long, value_name = "NAME")]
    pub(in super::super) lease_name: Option<String>,
    /// Key in the cloud; default: DEFAULT_KEY_NAME, else my-key
    #[arg(long, value_name = "NAME")]
    pub(in super::super) key_name: Option<String>,
    /// Public key to import; default: DEFAULT_KEY_PATH, else ~/.ssh/id_rsa.pub
    #[arg(long, value_name = "FILE")]
    pub(in super::super) key_path: Option<PathBuf>,
    /// Make a pair of keys for this deployment, <output-dir>/<name>.pem
    #[arg(long, conflicts_with = "key_path")]
    pub(in super::super) create_key: bool,
    /// Network of the server; default: DEFAULT_NETWORK, else sharednet1
    #[arg(long, value_name = "NAME-or-ID")]
    pub(in super::super) network: Option<String>,
    /// Network that leads outside
    #[arg(long, value_name = "NAME", default_value = "public")]
    pub(in super::super) external_network: String,
    /// No address from outside
    #[arg(long)]
    pub(in super::super) no_floating_ip: bool,
    /// Security group of a virtual machine; may be given again
    #[arg(long, value_name = "NAME")]
    pub(in super::super) security_group: Vec<String>,
    /// From where SSH is let into a virtual machine, by a security group made for this deployment
    #[arg(long, value_name = "CIDR", value_parser = values::cidr)]
    pub(in super::super) allow_ssh_from: Option<String>,
    /// What the server runs first; at most 64 KiB encoded
    #[arg(long, value_name = "FILE")]
    pub(in super::super) user_data: Option<PathBuf>,
    /// File with the token of --join; it is read when the server is made
    #[arg(long, value_name = "FILE")]
    pub(in super::super) join_token_file: Option<PathBuf>,
    /// How long a free host is waited for, such as 30m; 0 is not at all
    #[arg(long, value_name = "DUR", default_value = "0", value_parser = values::duration)]
    pub(in super::super) wait_for_capacity: DurationArg,
    /// Agree beforehand; a budget still holds
    #[arg(long)]
    pub(in super::super) yes: bool,
    /// Leave everything as it is when it fails
    #[arg(long)]
    pub(in super::super) keep_on_failure: bool,
    /// Leave everything as it is when it is interrupted
    #[arg(long)]
    pub(in super::super) keep_on_interrupt: bool,
    /// Time for everything, over all attempts; default: ORLOP_DEADLINE_S, else 75m
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    pub(in super::super) deadline: Option<DurationArg>,
    /// What is checked at the end
    #[arg(long, value_enum, ignore_case = true, default_value_t, value_name = "HOW")]
    pub(in super::super) verify: VerifyArg,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum VerifyArg {
    /// Nothing
    None,
    /// Whether an SSH server answers at port 22
    #[default]
    Port,
    /// Also whether the machine has what was planned
    Login,
    /// Also whether its worker joined the fleet
    Join,
}

/// One deployment.
#[derive(Args, Debug)]
pub(in super::super) struct OneArgs {
    /// Name of the server, or id of the deployment
    pub(in super::super) name: String,
    /// Leave everything as it is when it is interrupted
    #[arg(long)]
    pub(in super::super) keep_on_interrupt: bool,
    #[command(flatten)]
    pub(in super::super) fleet: FleetArgs,
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(in super::super) struct StatusArgs {
    /// Name of the server, or id of the deployment
    pub(in super::super) name: String,
    /// Look every 30 s until nothing more can change
    #[arg(long)]
    pub(in super::super) watch: bool,
    #[command(flatten)]
    pub(in super::super) fleet: FleetArgs,
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}

#[derive(Args, Debug)]
#[group(id = "end", required = true, multiple = false, args = ["hours", "until"])]
pub(in super::super) struct ExtendArgs {
    /// Name of the server, or id of the deployment
    pub(in super::super) name: String,
    /// Hours beyond the present end
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u32).range(1..=168))]
    pub(in super::super) hours: Option<u32>,
    /// The new end, such as 2026-01-07T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(in super::super) until: Option<orlop_core::time::Time>,
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}

#[derive(Args, Debug)]
#[group(id = "what", required = true, multiple = false, args = ["name", "id", "orphans"])]
pub(in super::super) struct DestroyArgs {
    /// Name of the server, or id of the deployment
    pub(in super::super) name: Option<String>,
    /// Id of a deployment, also of one whose state was lost
    #[arg(long, value_name = "ID")]
    pub(in super::super) id: Option<orlop_cloud::provision::mark::DeploymentId>,
    /// Everything marked in the project that this machine does not know; asks for each
    #[arg(long)]
    pub(in super::super) orphans: bool,
    /// Agree to each orphan beforehand
    #[arg(long, requires = "orphans")]
    pub(in super::super) yes: bool,
    /// Leave the key that was made
    #[arg(long, conflicts_with = "orphans")]
    pub(in super::super) keep_key: bool,
    /// Only show what would be removed
    #[arg(long)]
    pub(in super::super) dry_run: bool,
    /// Site of --id and --orphans; default as for plan
    #[arg(long, value_name = "NAME")]
    pub(in super::super) site: Option<String>,
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(in super::super) struct ListArgs {
    /// Everything marked in the project, whether this machine knows it or not
    #[arg(long)]
    pub(in super::super) remote: bool,
    /// Site of --remote; default as for plan
    #[arg(long, value_name = "NAME")]
    pub(in super::super) site: Option<String>,
    #[command(flatten)]
    pub(in super::super) cloud: CloudArgs,
    #[command(flatten)]
    pub(in super::super) output: OutputArgs,
}
