//! The helper in a pod, which moves the files of an attempt: an init container that fetches inputs, and a program
//! that the command runs under, which keeps outputs. This renders what a Job gets for them.
//!
//! Where each artifact must be stands in an annotation of the Job and is read when the Job ends: a report cannot name other
//! places.

mod bucket;
mod inputs;
mod outputs;
mod place;
mod shared;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use orlop_core::attempt::AttemptSpec;
use orlop_core::helper::{KeepTarget, Modes, ORDER, RunOrder, VERSION, order_text};
use orlop_core::name::sha256_hex;
use orlop_core::spec::artifact::ArtifactStore;
use serde::Serialize;
use serde_json::{Map, Value, json};

use self::bucket::ContainerKeys;
use super::job::{ArtifactTransfer, RenderError};
use super::object;
pub use place::{HelperAnnotation, artifact_map};
pub use shared::SharedArtifacts;

/// The volume of the helper, in the pod.
const VOLUME: &str = "orlop";
/// Where it is mounted.
const DIRECTORY: &str = "/orlop";
/// The program, where the command runs under it.
pub(crate) const PROGRAM: &str = "/orlop/orlop-helper";
/// The container that fetches inputs.
pub(crate) const FETCHER: &str = "orlop-in";
/// Where a container leaves its termination message by default.
const MESSAGE: &str = "/dev/termination-log";

/// How the helper moves files of attempts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HelperOptions {
    /// Image of the helper.
    pub image: String,
    /// Where pods reach the operator's service for artifacts, without a slash at the end.
    pub url: String,
    /// Most bytes of an artifact.
    pub max_bytes: u64,
    /// Where artifacts of flows go that say nothing about it; ConfigMaps where there is none.
    pub store: Option<ArtifactStore>,
    /// Most bytes of an artifact that is kept in a ConfigMap; at most 1 MiB, which it is where nothing is said.
    pub small_max: Option<u64>,
    /// Media type of objects in stores that keep one; that of plain bytes where nothing is said.
    pub content_type: Option<String>,
    /// Permissions of folders and files that the helper makes.
    pub modes: Modes,
    /// What gives the token of an attempt: a text that nobody guesses, another one each time.
    pub tokens: Tokens,
}

impl HelperOptions {
    /// One that keeps artifacts of at most 100 GiB.
    #[must_use]
    pub fn new(image: impl Into<String>, url: impl Into<String>, tokens: Tokens) -> Self {
        Self {
            image: image.into(),
            url: url.into(),
            max_bytes: 100 << 30,
            store: None,
            small_max: None,
            content_type: None,
            modes: Modes::default(),
            tokens,
        }
    }
}

/// A source of tokens.
#[derive(Clone)]
pub struct Tokens(Arc<dyn Fn() -> String + Send + Sync>);

impl Tokens {
    /// One that asks for each of them.
    pub fn new(next: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(next))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

/// How a token stands where many may read it.
pub(crate) fn fingerprint(token: &str) -> String {
    sha256_hex(token.as_bytes(), 64)
}

/// Whether an attempt's files cannot be moved without a program in the pod, and which they are.
pub(super) fn wanted(spec: &AttemptSpec) -> Option<&'static str> {
    let main = spec.template.pointer("/spec/template/spec/containers/0");
    let own = main.is_some_and(|main| main.get("terminationMessagePath").is_some());
    match spec.output_files.len() {
        _ if !spec.inputs.is_empty() || !spec.output_artifacts.is_empty() => Some("artifacts"),
        0 => None,
        1 if own => Some("output files together with the container's own `terminationMessagePath`"),
        1 => None,
        _ => Some("several output files"),
    }
}

/// Has the helper in the pod move the files of an attempt.
///
/// # Errors
/// When they cannot be moved.
pub(super) fn place(
    job: &mut Value,
    spec: &AttemptSpec,
    options: &HelperOptions,
    transfer: ArtifactTransfer<'_>,
) -> Result<(), RenderError> {
    let indexed = job.pointer("/spec/completionMode").and_then(Value::as_str) == Some("Indexed");
    let pods = pods_of(job);
    let pod = job.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut).ok_or(RenderError::NotAJob)?;
    let mut helper = Helper::new(pod)?;
    let reports = !spec.output_files.is_empty() || !spec.output_artifacts.is_empty();
    let (fetch, mut annotation) = (inputs::fetch(&mut helper, &spec.inputs)?, HelperAnnotation::new(reports));
    let order = orlop_core::helper::FetchOrder {
        v: VERSION,
        scratch: format!("{DIRECTORY}/fetching"),
        max_bytes: options.max_bytes,
        message: MESSAGE.to_owned(),
        install: reports.then(|| PROGRAM.to_owned()),
        fetch,
        modes: options.modes,
    };
    helper.fetcher(&options.image, &order)?;
    if reports {
        let token = (options.tokens.0)();
        let mut keep = outputs::keep(&mut helper, spec, options, transfer, &mut annotation)?;
        keep.indexed = indexed;
        if pods > 1 && !indexed && keep.artifacts.iter().any(|artifact| !matches!(artifact.to, KeepTarget::InPlace)) {
            return Err(RenderError::Several(pods));
        }
        annotation.token = fingerprint(&token);
        helper.wrap(&keep, &token)?;
    }
    helper.finish(pod);
    let metadata = job.pointer_mut("/metadata").and_then(Value::as_object_mut).ok_or(RenderError::NotAJob)?;
    if let Some(annotations) = object(metadata, "annotations") {
        annotations.insert(place::ANNOTATION.to_owned(), json!(annotation.text()));
    }
    Ok(())
}

/// How many pods of a Job may succeed: as many as are to, or as run at once where that is not said.
fn pods_of(job: &Value) -> i64 {
    let number = |name: &str| job.get("spec")?.get(name)?.as_i64();
    number("completions").or_else(|| number("parallelism")).unwrap_or(1)
}

/// A pod that the helper is placed in, and what is added to it.
struct Helper {
    main: Map<String, Value>,
    /// Volumes of the pod itself.
    volumes: Vec<Value>,
    security: Value,
    added_volumes: Vec<Value>,
    /// Mounts of the init container.
    mounts: Vec<Value>,
    /// Keys to stores, for the init container and for that of the command.
    init_keys: ContainerKeys,
    main_keys: ContainerKeys,
    init: Option<Value>,
}

impl Helper {
    fn new(pod: &Map<String, Value>) -> Result<Self, RenderError> {
        let main = pod.get("containers").and_then(|all| all.get(0)).and_then(Value::as_object);
        let main = main.cloned().ok_or(RenderError::NotAJob)?;
        let list = |name: &str| pod.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let (volumes, init) = (list("volumes"), list("initContainers"));
        let named = |item: &Value, is: &dyn Fn(&str) -> bool| item.get("name").and_then(Value::as_str).is_some_and(is);
        let ours = |name: &str| name == VOLUME || name.starts_with("orlop-");
        if let Some(taken) = volumes.iter().find(|volume| named(volume, &ours)) {
            return Err(RenderError::Taken("volume", name_of(taken)));
        }
        if let Some(taken) = init.iter().find(|container| named(container, &|name| name == FETCHER)) {
            return Err(RenderError::Taken("init container", name_of(taken)));
        }
        let mounts = main.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
        let below = |mount: &&Value| path_of(mount) == DIRECTORY || path_of(mount).starts_with("/orlop/");
        if let Some(taken) = mounts.clone().find(below) {
            return Err(RenderError::Taken("mount", path_of(taken).to_owned()));
        }
        let security = pod.get("securityContext").cloned().unwrap_or_default();
        let own = json!({"name": VOLUME, "emptyDir": {}});
        let mounts = vec![json!({"name": VOLUME, "mountPath": DIRECTORY})];
        let added_volumes = vec![own];
        let (init_keys, main_keys) = Default::default();
        Ok(Self { main, volumes, security, added_volumes, mounts, init_keys, main_keys, init: None })
    }

    /// Adds to a list of the main container.
    fn add_to_main(&mut self, list: &str, item: Value) {
        let items = self.main.entry(list).or_insert_with(|| json!([]));
        if let Some(items) = items.as_array_mut() {
            items.push(item);
        }
    }

    fn fetcher<O: Serialize>(&mut self, image: &str, order: &O) -> Result<(), RenderError> {
        let order = order_text(order).map_err(RenderError::TooLong)?;
        let env: Vec<Value> =
            std::iter::once(json!({"name": ORDER, "value": order})).chain(self.init_keys.env()).collect();
        self.init = Some(json!({
            "name": FETCHER,
            "image": image,
            "args": ["fetch"],
            "env": env,
            "resources": self.resources_of_init(),
            "securityContext": self.security_of_init(),
            "terminationMessagePolicy": "File",
            "volumeMounts": std::mem::take(&mut self.mounts),
        }));
        Ok(())
    }

    /// The rights of the init container: those of a restricted namespace, as the user that the command runs as, so that it
    /// may change what it is given.
    fn security_of_init(&self) -> Value {
        let own = self.main.get("securityContext");
        let of = |name: &str| own.and_then(|own| own.get(name)).or_else(|| self.security.get(name)).cloned();
        let mut security = json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        });
        let user = of("runAsUser");
        if let Some(members) = security.as_object_mut() {
            for name in ["runAsUser", "runAsGroup"] {
                members.extend(of(name).map(|value| (name.to_owned(), value)));
            }
            // Said for user 0 too: the pod may ask for another one.
            members.insert("runAsNonRoot".to_owned(), json!(user != Some(json!(0))));
        }
        security
    }

    /// The resources of the init container: those of the command's, which has none yet while it runs, so that neither the place
    /// that a pod needs nor its class of service changes.
    fn resources_of_init(&self) -> Value {
        let of = |list: &str| {
            let all = self.main.get("resources").and_then(|own| own.get(list)).and_then(Value::as_object);
            let basic = all.into_iter().flatten().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
            basic.map(|(name, amount)| (name.clone(), amount.clone())).collect::<Map<_, _>>()
        };
        let (requests, limits) = (of("requests"), of("limits"));
        if requests.is_empty() && limits.is_empty() {
            return json!({"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}});
        }
        json!({"requests": requests, "limits": limits})
    }

    /// Has the command run under the helper.
    fn wrap(&mut self, order: &RunOrder, token: &str) -> Result<(), RenderError> {
        let command = self.main.get("command").and_then(Value::as_array).filter(|command| !command.is_empty());
        let command = command.ok_or(RenderError::NoCommand)?;
        let under = [PROGRAM, "run", "--"].into_iter().map(Value::from);
        let command: Vec<Value> = under.chain(command.iter().cloned()).collect();
        self.main.insert("command".to_owned(), command.into());
        let order = order_text(order).map_err(RenderError::TooLong)?;
        self.add_to_main("env", json!({"name": ORDER, "value": order}));
        self.add_to_main("env", json!({"name": orlop_core::helper::TOKEN, "value": token}));
        for key in std::mem::take(&mut self.main_keys).env() {
            self.add_to_main("env", key);
        }
        self.add_to_main("volumeMounts", json!({"name": VOLUME, "mountPath": DIRECTORY}));
        self.main.insert("terminationMessagePolicy".to_owned(), json!("File"));
        Ok(())
    }

    fn finish(self, pod: &mut Map<String, Value>) {
        let mut add = |name: &str, added: Vec<Value>, first: bool| {
            let items = pod.entry(name).or_insert_with(|| json!([]));
            if let Some(items) = items.as_array_mut() {
                let at = if first { 0 } else { items.len() };
                items.splice(at..at, added);
            }
        };
        add("volumes", self.added_volumes, false);
        add("initContainers", self.init.into_iter().collect(), true);
        if let Some(main) = pod.get_mut("containers").and_then(|all| all.get_mut(0)) {
            *main = Value::Object(self.main);
        }
    }
}

fn name_of(item: &Value) -> String {
    item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What of a path is below a mount; none when it is elsewhere.
fn below<'p>(path: &'p str, mount: &str) -> Option<&'p str> {
    let rest = path.trim_end_matches('/').strip_prefix(mount)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

fn path_of(mount: &Value) -> &str {
    mount.get("mountPath").and_then(Value::as_str).unwrap_or_default().trim_end_matches('/')
}
