//! Which run a command is about. Opens no journal.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use orlop_core::id::dns1123_subdomain;
use orlop_dag::manifest::Limits;
use orlop_dag::manifest::substrate::{self, Runtime};

use super::config::default_of;
use super::failure::{Exit, Failure};
use crate::host::home::{Home, RunDir};
use crate::view::name::RunName;

/// Where a flow runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Target {
    /// On this machine: steps that name an image in containers, others as processes
    #[default]
    Local,
    /// On this machine, all steps as processes; images are not looked at
    Process,
    /// On this machine, all steps in containers
    Docker,
    /// On a fleet: a server drives it
    Fleet,
    /// In a Kubernetes cluster: the operator drives it
    Kube,
}

impl Target {
    /// Whether it is this machine.
    pub(super) const fn is_here(self) -> bool {
        matches!(self, Self::Local | Self::Process | Self::Docker)
    }

    /// How containers of steps run there, where that is not a cluster's matter.
    pub(super) const fn runtime(self) -> Runtime {
        match self {
            Self::Process => Runtime::Process,
            Self::Docker => Runtime::Docker,
            Self::Local | Self::Fleet | Self::Kube => Runtime::ByImage,
        }
    }

    /// What a flow must keep to run there.
    pub(super) fn limits(self, strict: bool) -> Limits {
        let limits = match self {
            Self::Local | Self::Process | Self::Docker => {
                Limits::at(substrate::Target::local(self.runtime())).images_optional()
            }
            Self::Fleet => Limits::at(substrate::Target::fleet(self.runtime())).images_optional(),
            Self::Kube => Limits::kubernetes(),
        };
        if strict { limits.strict() } else { limits }
    }

    /// What a flow must keep to be handed over there.
    pub(super) fn submit_limits(self, strict: bool) -> Limits {
        let mut limits = self.limits(strict);
        // Whether secrets may be text is the operator's to say, and its webhook's.
        limits.secrets_as_text |= self == Self::Kube;
        limits
    }
}

/// Options that are spelled `--target` now.
#[derive(Args, Clone, Debug)]
pub(super) struct Former {
    #[arg(long, global = true, hide = true)]
    on: Option<String>,
    #[arg(long, global = true, hide = true, env = "ORLOP_BACKEND")]
    backend: Option<String>,
    #[arg(long = "for", id = "for", global = true, hide = true)]
    of: Option<String>,
}

impl Former {
    /// Refuses them, for a flow that runs there.
    ///
    /// # Errors
    /// When one is given: how it is spelled now.
    pub(super) fn check(&self, target: Target) -> Result<(), Failure> {
        let all = [("--on", &self.on), ("--backend", &self.backend), ("--for", &self.of)];
        let Some((option, value)) = all.into_iter().find_map(|(option, value)| Some((option, value.as_ref()?))) else {
            return Ok(());
        };
        let new = match (option, value.to_ascii_lowercase().as_str()) {
            // There images decide, whatever was said beside it.
            ("--backend", _) if target == Target::Fleet => "fleet",
            ("--backend", _) if target == Target::Kube => "kube",
            ("--backend", "docker") => "local",
            ("--for", "local") | (_, "process") => "process",
            (_, "docker") => "docker",
            (_, "local") => "local",
            (_, "fleet") => "fleet",
            (_, "kube") => "kube",
            _ => "local|process|docker|fleet|kube",
        };
        let variable = if option == "--backend" { " (or ORLOP_BACKEND)" } else { "" };
        let message = format!("`{option}`{variable} is no longer accepted: use `--target {new}` (or ORLOP_TARGET)");
        Err(Failure::usage(message))
    }
}

/// The namespace where none is given, and nothing else says one.
const DEFAULT: &str = "default";

/// Where runs are kept.
#[derive(Args, Clone, Debug)]
pub(super) struct GlobalArgs {
    /// Where flows run
    #[arg(long, global = true, value_enum, ignore_case = true, default_value_t, env = "ORLOP_TARGET")]
    pub target: Target,
    #[command(flatten)]
    pub former: Former,
    /// Addresses of servers of the fleet, separated by commas: the first that leads is asked
    #[arg(long, global = true, value_name = "URL", env = "ORLOP_SERVER", default_value = "http://127.0.0.1:7070")]
    pub server: String,
    /// File with the token for the fleet; else the variable ORLOP_TOKEN holds it
    #[arg(long, global = true, value_name = "FILE", env = "ORLOP_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// File with the CA certificate of the server, for https; else the system's authorities
    #[arg(long, global = true, value_name = "FILE", env = "ORLOP_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// Send tokens, secrets and data to a server of another machine in plain text (http)
    #[arg(long, global = true, env = "ORLOP_INSECURE")]
    pub insecure: bool,
    /// Tenant in the fleet
    #[arg(long, global = true, value_name = "NAME", env = "ORLOP_TENANT")]
    pub tenant: Option<String>,
    /// Kubeconfig file of the cluster [default: KUBECONFIG, else ~/.kube/config, else the account of the pod]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of that file
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Namespace of the flow [default: default; in a cluster that of the context]
    #[arg(short, long, global = true, value_name = "NAMESPACE", env = "ORLOP_NAMESPACE")]
    pub namespace: Option<String>,
    /// Directory that keeps runs [default: $XDG_STATE_HOME/orlop, else ~/.local/state/orlop]
    #[arg(long, global = true, value_name = "DIR", env = "ORLOP_HOME")]
    pub home: Option<PathBuf>,
    /// Directory of this one run, in place of one below the home
    #[arg(long, global = true, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

impl GlobalArgs {
    /// The namespace of runs on this machine.
    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT)
    }

    /// The home of runs.
    ///
    /// # Errors
    /// When nothing says where it is.
    pub(super) fn home(&self) -> Result<Home, Failure> {
        let given = self.home.clone().map(Home::new);
        given.or_else(Home::of_user).ok_or_else(|| {
            Failure::usage(
                "cannot determine the directory of runs: neither HOME nor XDG_STATE_HOME is set; give one with \
                 --home DIR",
            )
        })
    }

    /// A run by its name, with the options that lead to it from anywhere.
    #[must_use]
    pub(super) fn named(&self, name: &str) -> RunName {
        let mut options = String::new();
        let elsewhere = |target: String| Target::from_str(&target, true).is_ok_and(|target| !target.is_here());
        if default_of("target").is_some_and(elsewhere) {
            options.push_str(" --target local");
        }
        if let Some(dir) = &self.run_dir {
            options.push_str(&format!(" --run-dir {}", dir.display()));
        } else {
            let namespace = self.namespace();
            if namespace != default_of("namespace").as_deref().unwrap_or(DEFAULT) {
                options.push_str(&format!(" -n {namespace}"));
            }
            let home = self.home.as_ref().map(|home| home.display().to_string());
            if let Some(home) = home.filter(|home| default_of("home").as_ref() != Some(home)) {
                options.push_str(&format!(" --home {home}"));
            }
        }
        RunName { name: name.to_owned(), options }
    }

    /// The directory of a run.
    ///
    /// # Errors
    /// When the name or namespace is none, or there is no home.
    pub(super) fn run(&self, name: &str) -> Result<RunDir, Failure> {
        if let Some(dir) = &self.run_dir {
            return Ok(RunDir::new(dir));
        }
        for text in [name, self.namespace()] {
            dns1123_subdomain(text).map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(self.home()?.run(self.namespace(), name))
    }

    /// The directory of a run that exists.
    ///
    /// # Errors
    /// As of [`GlobalArgs::run`]; when there is no such run.
    pub(super) fn existing(&self, name: &str) -> Result<RunDir, Failure> {
        let run = self.run(name)?;
        if run.exists() {
            return Ok(run);
        }
        let message = format!(
            "there is no flow `{name}` in namespace `{}` (looked in {}); see `orlop flow list -A`",
            self.namespace(),
            run.path().display()
        );
        Err(Failure::new(Exit::NotFound, message))
    }
}
