//! Security settings of pods and containers. Owns which of them hold for a container, and the refusal of those that
//! reach into the host.

use orlop_core::error::Problem;

use super::TemplatePolicy;
use super::field::Field;

/// Why what reaches into the host is refused.
const PRIVILEGED: &str = "it reaches into this machine; allow it with --allow-privileged and containers";

/// Security settings of a container, those of its pod filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// User to run as.
    pub user: Option<u32>,
    /// Group to run as.
    pub group: Option<u32>,
    /// Whether it is privileged.
    pub privileged: bool,
    /// Capabilities to add.
    pub add: Vec<String>,
    /// Capabilities to drop.
    pub drop: Vec<String>,
    /// Whether its root file system is read-only.
    pub read_only_root: bool,
    /// Seccomp profile: `Unconfined`, `RuntimeDefault` or a file.
    pub seccomp: Option<String>,
}

impl Security {
    pub(super) fn read(container: &Field<'_>, pod: &Field<'_>, policy: &TemplatePolicy) -> Result<Self, Problem> {
        let (own, of_pod) = (container.get("securityContext"), pod.get("securityContext"));
        let capabilities = own.get("capabilities");
        if !policy.allow_privileged {
            own.get("privileged").refuse(PRIVILEGED)?;
            capabilities.get("add").refuse(PRIVILEGED)?;
        }
        let first =
            |name: &str| -> Result<Option<u32>, Problem> { Ok(own.get(name).number()?.or(of_pod.get(name).number()?)) };
        Ok(Self {
            user: first("runAsUser")?,
            group: first("runAsGroup")?,
            privileged: own.get("privileged").flag()?,
            add: capabilities.get("add").texts()?,
            drop: capabilities.get("drop").texts()?,
            read_only_root: own.get("readOnlyRootFilesystem").flag()?,
            seccomp: match seccomp(&own)? {
                Some(profile) => Some(profile),
                None => seccomp(&of_pod)?,
            },
        })
    }
}

fn seccomp(context: &Field<'_>) -> Result<Option<String>, Problem> {
    let profile = context.get("seccompProfile");
    let Some(kind) = profile.get("type").text()? else { return Ok(None) };
    let named = if kind == "Localhost" { profile.get("localhostProfile").required()? } else { kind };
    Ok(Some(named.to_owned()))
}

/// Refuses the host's namespaces where they are not allowed, and reads which are shared.
pub(super) fn host_namespaces(
    pod: &Field<'_>,
    policy: &TemplatePolicy,
) -> Result<crate::runtime::pod::HostNamespaces, Problem> {
    let shared = |name: &str| {
        let field = pod.get(name);
        if !policy.allow_privileged {
            field.refuse(PRIVILEGED)?;
        }
        field.flag()
    };
    Ok(crate::runtime::pod::HostNamespaces {
        network: shared("hostNetwork")?,
        pid: shared("hostPID")?,
        ipc: shared("hostIPC")?,
    })
}
