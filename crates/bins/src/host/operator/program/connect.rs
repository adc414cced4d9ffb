//! The way to the API server: a kubeconfig, or the service account of the pod. Owns which of them, and what is said where
//! there is none; keeps no secret.

use kube::config::{KubeConfigOptions, Kubeconfig};

use super::config::Config;

/// No way to the API server.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no way to a Kubernetes API server: {0}; run in a pod with a service account, or give --kubeconfig FILE"
)]
pub(super) struct ConnectError(String);

fn wrong(error: impl std::error::Error) -> ConnectError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    ConnectError(text)
}

/// A client as the flags say: the file that is named, else that of the environment, else the pod's own account.
pub(super) async fn client(config: &Config) -> Result<kube::Client, ConnectError> {
    let options = KubeConfigOptions { context: config.context.clone(), ..KubeConfigOptions::default() };
    let mut found = match &config.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(wrong)?;
            kube::Config::from_custom_kubeconfig(file, &options).await.map_err(wrong)?
        }
        None if config.context.is_some() => kube::Config::from_kubeconfig(&options).await.map_err(wrong)?,
        None => kube::Config::infer().await.map_err(wrong)?,
    };
    if let Some(master) = &config.master {
        found.cluster_url = master.parse().map_err(wrong)?;
    }
    // Who asks decides when to ask again: a request that is repeated unseen would be neither counted nor paced.
    found.default_retry = false;
    kube::Client::try_from(found).map_err(wrong)
}
