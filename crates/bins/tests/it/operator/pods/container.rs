//! A pod's containers, one after the other, as processes. Owns how they begin and end, which paths of theirs stand for which
//! folders, and what is said of them.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::given::{Given, expanded};
use super::{Going, items, word};

/// Where a container leaves its termination message that does not say another place.
const MESSAGE: &str = "/dev/termination-log";
/// Most bytes of it.
const MESSAGE_MAX: usize = 4096;
/// The exit code of a container whose program cannot be started.
const NO_START: i32 = 128;

/// A pod with its folders.
pub(super) struct Pod<'p> {
    given: Given<'p>,
    pod: &'p Value,
    folder: PathBuf,
}

/// How a container came out.
struct Ended {
    code: i32,
    reason: &'static str,
}

impl<'p> Pod<'p> {
    pub(super) fn new(client: &'p kube::Client, root: &Path, pod: &'p Value) -> Self {
        let folder = root.join(word(pod, "/metadata/uid"));
        std::fs::create_dir_all(&folder).unwrap();
        let given = Given::new(client, pod, root, &folder);
        Self { given, pod, folder }
    }

    /// Runs its containers until the last has ended, or until it is to go. Gives its status.
    pub(super) async fn run(&self, reported: &mut watch::Receiver<Going>) -> Value {
        for volume in items(self.pod, "/spec/volumes") {
            self.given.fill(volume).await;
        }
        let mut init = Vec::new();
        for container in items(self.pod, "/spec/initContainers") {
            let (code, status) = self.container(container, reported).await;
            init.push(status);
            if code != 0 {
                let never = |container: &Value| {
                    json!({"name": container["name"], "image": "", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"waiting": {"reason": "PodInitializing"}}})
                };
                let main: Vec<Value> = items(self.pod, "/spec/containers").iter().map(never).collect();
                return json!({"phase": "Failed", "initContainerStatuses": init, "containerStatuses": main});
            }
        }
        let (code, status) = self.container(&self.pod["spec"]["containers"][0], reported).await;
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        json!({"phase": phase, "initContainerStatuses": init, "containerStatuses": [status]})
    }

    /// Paths of a container and what they stand for, the longest first.
    fn mounts(&self, container: &Value, message: &Path) -> Vec<(String, PathBuf)> {
        let own = self.folder.join(format!("tmp-{}", word(container, "/name")));
        std::fs::create_dir_all(&own).unwrap();
        let said = word(container, "/terminationMessagePath");
        let mut mounts = vec![
            (if said.is_empty() { MESSAGE } else { said }.to_owned(), message.to_owned()),
            ("/tmp".to_owned(), own),
        ];
        for mount in items(container, "/volumeMounts") {
            let place = self.given.volume(word(mount, "/name")).join(word(mount, "/subPath"));
            // A kubelet makes a folder where nothing is.
            if !place.exists() {
                std::fs::create_dir_all(&place).unwrap();
            }
            mounts.push((word(mount, "/mountPath").to_owned(), place));
        }
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        mounts
    }

    /// Runs a container. Gives its exit code and its status.
    async fn container(&self, container: &Value, reported: &mut watch::Receiver<Going>) -> (i32, Value) {
        let message = self.folder.join(format!("message-{}", word(container, "/name")));
        std::fs::write(&message, "").unwrap();
        let mounts = self.mounts(container, &message);
        let variables = self.given.variables(container).await;
        let here = |text: &str| seen(&expanded(text, &variables), &mounts);
        let words = |list: &str| items(container, list).iter().map(|word| here(word.as_str().unwrap()));
        let mut line: Vec<String> = words("/command").collect();
        if word(container, "/image") == "orlop-helper" {
            line.push(env!("CARGO_BIN_EXE_orlop-helper").to_owned());
        }
        line.extend(words("/args"));
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).env_clear().env("PATH", "/usr/bin:/bin").process_group(0).kill_on_drop(true);
        command.envs(variables.iter().map(|(name, value)| (name, seen(value, &mounts))));
        let ended = match command.spawn() {
            Ok(child) => over(child, reported).await,
            Err(_) => Ended { code: NO_START, reason: "StartError" },
        };
        let mut said = std::fs::read_to_string(&message).unwrap_or_default();
        // As a kubelet cuts it.
        said.truncate(MESSAGE_MAX);
        let now = super::super::kubelet::stamp();
        let state = json!({"exitCode": ended.code, "reason": ended.reason, "message": said, "startedAt": now, "finishedAt": now});
        let status = json!({"name": container["name"], "image": container["image"], "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": state}});
        (ended.code, status)
    }
}

/// Waits for the end of a container. Where it is to go it is asked, and ended when its time is over.
async fn over(mut child: Child, reported: &mut watch::Receiver<Going>) -> Ended {
    let group = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    let grace = tokio::select! {
        status = child.wait() => return Ended::of(status.unwrap()),
        going = reported.wait_for(Option::is_some) => going.ok().and_then(|going| *going).unwrap_or_default(),
    };
    // It may have ended in this moment.
    killpg(group, Signal::SIGTERM).ok();
    let ended = tokio::time::timeout(grace, child.wait()).await;
    killpg(group, Signal::SIGKILL).ok();
    match ended {
        Ok(status) => Ended::of(status.unwrap()),
        Err(_) => Ended::of(child.wait().await.unwrap()),
    }
}

impl Ended {
    fn of(status: ExitStatus) -> Self {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        Self { code, reason: if code == 0 { "Completed" } else { "Error" } }
    }
}

/// A text in which paths of a container are those of this machine.
fn seen(text: &str, mounts: &[(String, PathBuf)]) -> String {
    let mut reported = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let begins = !reported.ends_with(|before: char| before.is_ascii_alphanumeric() || "/._-".contains(before));
        let found = mounts.iter().find(|(path, _)| {
            let after = rest.strip_prefix(path.as_str()).map(|after| after.chars().next());
            begins
                && after
                    .is_some_and(|next| next.is_none_or(|next| !next.is_ascii_alphanumeric() && !"._-".contains(next)))
        });
        match found {
            Some((path, place)) => {
                reported.push_str(place.to_str().unwrap());
                rest = &rest[path.len()..];
            }
            None => {
                reported.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    reported
}
