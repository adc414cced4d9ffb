//! The way to the API server: a kubeconfig, or the service account of the pod. Keeps no secret.

use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig};
use orlop_core::error::{Class, Problem, chain};
use serde::Serialize;

/// No way to the API server.
fn wrong(error: impl std::error::Error + 'static) -> Problem {
    let message = format!(
        "cannot find a Kubernetes API server: {}; run in a pod with a service account, or give --kubeconfig FILE",
        chain(&error)
    );
    Problem::new(Class::Invalid, message)
}

/// What is said about the way to an API server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Way {
    /// A kubeconfig, in place of that of the environment.
    pub kubeconfig: Option<PathBuf>,
    /// The context of it, in place of its current one.
    pub context: Option<String>,
    /// Address of the API server, in place of the one of the context.
    pub master: Option<String>,
}

/// A client: by the file that is named, else that of the environment, else by the pod's own
/// account.
///
/// # Errors
/// When none of these is there, or what is there cannot be used.
pub async fn client(way: &Way) -> Result<kube::Client, Problem> {
    // The client asks for the one of the process; it may have one already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let options = KubeConfigOptions { context: way.context.clone(), ..KubeConfigOptions::default() };
    let mut found = match &way.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(wrong)?;
            kube::Config::from_custom_kubeconfig(file, &options).await.map_err(wrong)?
        }
        None if way.context.is_some() => kube::Config::from_kubeconfig(&options).await.map_err(wrong)?,
        None => kube::Config::infer().await.map_err(wrong)?,
    };
    if let Some(master) = &way.master {
        found.cluster_url = master.parse().map_err(wrong)?;
    }
    // Who asks decides when to ask again: a request that is repeated unseen would be neither counted nor paced.
    found.default_retry = false;
    kube::Client::try_from(found).map_err(wrong)
}
