//! Paths of a run directory. Owns their names and the check that no key leads out of it.

use std::path::{Path, PathBuf};

use orlop_core::attempt::AttemptKey;
use orlop_core::error::{Class, Problem};
use orlop_core::name::sha256_hex;

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

/// The longest name of a file, in bytes.
const FILE_NAME_MAX: usize = 255;

/// The name of a file for a text: the text itself, or, where no file system takes so long a name, its beginning with 16 hexadecimal
/// digits of its SHA-256.
pub(super) fn file_name(text: &str) -> String {
    if text.len() <= FILE_NAME_MAX {
        return text.to_owned();
    }
    let mut end = FILE_NAME_MAX - 17;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    format!("{head}-{}", sha256_hex(text.as_bytes(), 16))
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
        let directory = self.root.join("logs").join(file_name(&key.instance()));
        (directory.join(format!("{}.out", key.attempt)), directory.join(format!("{}.err", key.attempt)))
    }

    /// The directory of an attempt.
    ///
    /// # Errors
    /// Invalid when its flow or step has no plain name.
    pub(super) fn attempt(&self, key: &AttemptKey) -> Result<AttemptDir, Problem> {
        let instance = key.instance();
        for name in [instance.as_str(), &key.flow] {
            if !is_component(name) {
                let message = format!("attempt {key}: `{name}` cannot be the name of a directory");
                return Err(Problem::new(Class::Invalid, message).with_reason("TemplateInvalid"));
            }
        }
        let number = key.attempt.to_string();
        // In memory they lie side by side: no parent is left when the last one goes.
        let flat = file_name(&[&*key.flow, &instance, &number].join("+"));
        Ok(AttemptDir {
            path: self.attempts().join(&*key.flow).join(file_name(&instance)).join(&number),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_step_gives_names_that_file_systems_take() {
        let layout = Layout::new(Path::new("/run"), Some(Path::new("/memory")));
        let key = |step: &str, item| AttemptKey {
            flow: "0123abcd-0000-4000-8000-000000000000".into(),
            step: step.into(),
            item,
            attempt: u32::MAX,
        };
        let longest = "s".repeat(253);
        for item in [None, Some(99_999)] {
            let dir = layout.attempt(&key(&longest, item)).unwrap();
            let paths = [dir.path.clone(), dir.memory().unwrap().to_owned(), layout.logs(&key(&longest, item)).0];
            let lengths = paths.iter().flat_map(|path| path.iter().map(std::ffi::OsStr::len));
            assert!(lengths.max().unwrap() <= FILE_NAME_MAX, "{paths:?}");
        }
        let two = [key(&longest, Some(1)), key(&longest, Some(2))].map(|key| layout.attempt(&key).unwrap().path);
        assert_ne!(two[0], two[1]);
        assert!(layout.attempt(&key("plain", None)).unwrap().path.ends_with("plain/4294967295"));
    }
}
