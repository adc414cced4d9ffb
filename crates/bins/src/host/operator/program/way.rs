//! Flags that say which API server is meant.

use std::path::PathBuf;

use clap::Args;

use crate::host::cluster::Way;

/// The way to an API server, as flags.
#[derive(Args, Clone, Debug)]
pub(super) struct WayFlags {
    /// Kubeconfig file; default: that of KUBECONFIG, else the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Address of the API server, in place of the one of the kubeconfig
    #[arg(long, value_name = "URL")]
    master: Option<String>,
}

impl From<WayFlags> for Way {
    fn from(flags: WayFlags) -> Self {
        let WayFlags { kubeconfig, context, master } = flags;
        Self { kubeconfig, context, master }
    }
}
