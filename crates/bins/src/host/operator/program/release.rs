//! `orlop operator release-finalizers`: what is done before the operator is removed. Owns these flags and what is said of
//! the outcome; the work is that of `orlop_k8s::hourglass::release`.

use clap::Args;
use orlop_cloud::exit;
use orlop_core::id::dns1123_subdomain;
use orlop_core::time::GoDuration;
use orlop_k8s::hourglass::release::{Finalizer, end_operator, release};

use super::config::{variable, wrong_flag};
use super::switch::Switch;
use super::way::WayFlags;
use crate::host::cluster;
use crate::host::program::ProgramError;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(after_help = exit::help("Examples:
  orlop operator release-finalizers --deployment=orlop-operator   before the operator is removed from the cluster
  orlop operator release-finalizers --namespaces=team-a           objects of one namespace, when no operator runs

Objects and what was made for them stay as they are, and deleting one deletes what it owns. Flows are held by no finalizer. It fails with exit code 1 where something is still held."))]
pub(super) struct ReleaseFlags {
    #[command(flatten)]
    way: WayFlags,
    /// Whose objects are let go
    #[arg(long, value_enum, ignore_case = true, default_value = "performer,executor")]
    controllers: Vec<Switch>,
    /// Namespaces of these objects, separated by commas; default: all
    #[arg(long, value_name = "NAME")]
    namespaces: Vec<String>,
    /// Deployment of the operator: it is scaled to nothing first, since an operator that runs takes hold again
    #[arg(long, value_name = "NAME")]
    deployment: Option<String>,
    /// Its namespace; default: POD_NAMESPACE, else that of the service account or the kubeconfig
    #[arg(long, value_name = "NAME", requires = "deployment")]
    deployment_namespace: Option<String>,
    /// How long its pods may take to end
    #[arg(long, default_value = "2m", value_name = "DURATION")]
    patience: GoDuration,
}

impl ReleaseFlags {
    /// Lets go of everything, and says so.
    pub(super) async fn run(self) -> Result<String, ProgramError> {
        let names = self.namespaces.iter().map(|name| ("namespaces", name));
        let names = names.chain(self.deployment.iter().map(|name| ("deployment", name)));
        for (flag, name) in names.chain(self.deployment_namespace.iter().map(|name| ("deployment-namespace", name))) {
            dns1123_subdomain(name).map_err(|error| wrong_flag(flag, error.to_string()))?;
        }
        let client = cluster::client(&self.way.into()).await?;
        if let Some(deployment) = &self.deployment {
            let home = self.deployment_namespace.or_else(|| variable("POD_NAMESPACE"));
            let home = home.unwrap_or_else(|| client.default_namespace().to_owned());
            end_operator(&client, &home, deployment, self.patience.get()).await?;
        }
        let kinds = [(Switch::Performer, Finalizer::PERFORMERS), (Switch::Executor, Finalizer::EXECUTORS)];
        let kinds = kinds.into_iter().filter(|(switch, _)| self.controllers.contains(switch));
        let kinds: Vec<Finalizer> = kinds.map(|(_, held)| held).collect();
        let released = release(&client, &kinds, &self.namespaces).await?;
        Ok(format!("{released} finalizers were removed; the operator holds no objects any more\n"))
    }
}
