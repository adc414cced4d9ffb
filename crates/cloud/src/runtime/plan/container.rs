//! A container as its template gives it. Owns its fields; values of the machine are filled in by [`super::resolve`].

use orlop_core::error::Problem;

use super::TemplatePolicy;
use super::env::{EnvFrom, EnvVar};
use super::field::Field;
use super::request::Resources;
use super::security::Security;
use super::volume::MountTemplate;

/// File last words are written to where a container names none.
const MESSAGE_PATH: &str = "/dev/termination-log";

/// A container of a template.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerTemplate {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: Option<String>,
    /// Always, IfNotPresent or Never.
    pub image_pull_policy: Option<String>,
    /// Entry point, `$(VAR)` unexpanded.
    pub command: Vec<String>,
    /// Arguments, `$(VAR)` unexpanded.
    pub args: Vec<String>,
    /// Directory to start in.
    pub working_dir: Option<String>,
    /// Variables from whole ConfigMaps and Secrets.
    pub env_from: Vec<EnvFrom>,
    /// Variables.
    pub env: Vec<EnvVar>,
    /// Mounts.
    pub mounts: Vec<MountTemplate>,
    /// Resources.
    pub resources: Resources,
    /// Security settings.
    pub security: Security,
    /// File it may write its last words to.
    pub termination_message_path: String,
    /// Whether the last log lines are its last words when it fails without any.
    pub message_falls_back_to_logs: bool,
}

impl ContainerTemplate {
    pub(super) fn read(field: &Field<'_>, pod: &Field<'_>, policy: &TemplatePolicy) -> Result<Self, Problem> {
        field.get("volumeDevices").refuse("block devices of claims need a cluster")?;
        if field.get("restartPolicy").text()? == Some("Always") {
            return Err(field
                .get("restartPolicy")
                .invalid("cannot be Always off Kubernetes: there are no sidecars here"));
        }
        let text = |name: &str| -> Result<Option<String>, Problem> {
            Ok(field.get(name).text()?.filter(|text| !text.is_empty()).map(str::to_owned))
        };
        let policy_field = field.get("terminationMessagePolicy");
        let message_falls_back_to_logs = match policy_field.text()? {
            None | Some("File" | "") => false,
            Some("FallbackToLogsOnError") => true,
            Some(_) => return Err(policy_field.invalid("must be File or FallbackToLogsOnError")),
        };
        Ok(Self {
            name: field.get("name").required()?.to_owned(),
            image: text("image")?,
            image_pull_policy: text("imagePullPolicy")?,
            command: field.get("command").texts()?,
            args: field.get("args").texts()?,
            working_dir: text("workingDir")?,
            env_from: field.get("envFrom").items()?.iter().map(EnvFrom::read).collect::<Result<_, _>>()?,
            env: field.get("env").items()?.iter().map(EnvVar::read).collect::<Result<_, _>>()?,
            mounts: MountTemplate::read_all(&field.get("volumeMounts"))?,
            resources: Resources::read(&field.get("resources"))?,
            security: Security::read(field, pod, policy)?,
            termination_message_path: text("terminationMessagePath")?.unwrap_or_else(|| MESSAGE_PATH.to_owned()),
            message_falls_back_to_logs,
        })
    }
}
