//! Paths of a run directory. Owns their names and the check that no key leads out of it.

use std::path::{Path, PathBuf};

use orlop_core::attempt::AttemptKey;
use orlop_core::error::{Class, PortError};

use super::memory;
use crate::runtime::plan::volume::is_component;

/// A run directory.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
    memory: Option<PathBuf>,
}

/// Directory of an attempt.
#[derive(Clone, Debug)]
pub(super) struct AttemptDir {
    pub(super) path: PathBuf,
    memory: Option<PathBuf>,
}

/// Directory of a pod.
#[derive(Clone, Debug)]
pub(super) struct PodDir {
    pub(super) path: PathBuf,
    /// Its directory in memory, where there is such a place.
    pub(super) memory: Option<PathBuf>,
    /// Directory of the runtime.
    pub(super) runtime: PathBuf,
}

impl Layout {
    pub(super) fn new(root: &Path, memory: Option<&Path>) -> Self {
        Self { root: root.to_owned(), memory: memory.map(|memory| memory::top(memory, root)) }
    }

    /// The run's directory in memory, where there is such a place.
    pub(super) fn memory(&self) -> Option<&Path> {
        self.memory.as_deref()
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("substrate.lock")
    }

    pub(super) fn attempts(&self) -> PathBuf {
        self.root.join("attempts")
    }

    /// What is being deleted; never read.
    pub(super) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    pub(super) fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    pub(super) fn config_maps(&self) -> PathBuf {
        self.root.join("configmaps")
    }

    pub(super) fn resources(&self) -> PathBuf {
        self.root.join("resources")
    }

    /// Record of the owner of a claim or ConfigMap.
    pub(super) fn resource(&self, kind: &str, name: &str) -> PathBuf {
        self.resources().join(format!("{kind}.{name}.json"))
    }

    /// Standard output and error of an attempt.
    pub(super) fn logs(&self, key: &AttemptKey) -> (PathBuf, PathBuf) {
        let directory = self.root.join("logs").join(key.instance());
        (directory.join(format!("{}.out", key.attempt)), directory.join(format!("{}.err", key.attempt)))
    }

    /// The directory of an attempt.
    ///
    /// # Errors
    /// Invalid when its flow or step has no plain name.
    pub(super) fn attempt(&self, key: &AttemptKey) -> Result<AttemptDir, PortError> {
        let instance = key.instance();
        for name in [instance.as_str(), &key.flow] {
            if !is_component(name) {
                let message = format!("attempt {key}: `{name}` cannot be the name of a directory");
                return Err(PortError::new(Class::Invalid, message).with_reason("TemplateInvalid"));
            }
        }
        let number = key.attempt.to_string();
        // In memory they lie side by side: no parent is left when the last one goes.
        let flat = [&*key.flow, &instance, &number].join("+");
        Ok(AttemptDir {
            path: self.attempts().join(&*key.flow).join(&instance).join(&number),
            memory: self.memory.as_ref().map(|memory| memory.join(flat)),
        })
    }
}

impl AttemptDir {
    pub(super) fn attempt(&self) -> PathBuf {
        self.path.join("attempt.json")
    }

    pub(super) fn accepted(&self) -> PathBuf {
        self.path.join("accepted.json")
    }

    pub(super) fn control(&self) -> PathBuf {
        self.path.join("control.json")
    }

    pub(super) fn end(&self) -> PathBuf {
        self.path.join("end.json")
    }

    /// The attempt's directory in memory, where there is such a place.
    pub(super) fn memory(&self) -> Option<&Path> {
        self.memory.as_deref()
    }

    pub(super) fn pod(&self, number: u32) -> PodDir {
        let path = self.path.join(format!("pod-{number}"));
        PodDir {
            runtime: path.join("runtime"),
            path,
            memory: self.memory.as_ref().map(|memory| memory.join(format!("pod-{number}"))),
        }
    }
}

impl PodDir {
    pub(super) fn intent(&self) -> PathBuf {
        self.path.join("pod.json")
    }

    pub(super) fn prepared(&self) -> PathBuf {
        self.path.join("prepared.json")
    }

    pub(super) fn started(&self) -> PathBuf {
        self.path.join("started.json")
    }

    pub(super) fn exit(&self) -> PathBuf {
        self.path.join("exit.json")
    }

    pub(super) fn volumes(&self) -> PathBuf {
        self.path.join("volumes")
    }

    /// Delivered artifact `number`, where it has no place in a volume.
    pub(super) fn artifact(&self, number: usize) -> PathBuf {
        self.path.join("in").join(number.to_string())
    }

    pub(super) fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }

    /// What of an ended pod only itself needed, volumes excepted.
    pub(super) fn leftovers(&self) -> [PathBuf; 2] {
        [self.path.join("in"), self.scratch()]
    }
}
