//! How a container's absolute paths become real. Owns the choice and, where the kernel allows no view of the file
//! system of the container's own, the rewriting of paths in command, arguments and environment.
//!
//! # Rewriting
//! A declared path is replaced by its place on this machine wherever it stands at path boundaries: before it stands
//! nothing, white space, a quote or one of `` =:,;([{<>|&!@ ``; after it nothing, `/` or a character that no file name
//! commonly has. Declared are the targets of mounts, `/tmp`, the file for last words, files for output (their directory
//! where this machine has none of that name) and the working directory. Paths in files, or made at run time, are not
//! found, and `readOnly` is not enforced. Values marked as secret are left alone. A container that runs as another user
//! reaches its places only if that user may pass through the directories above the pod's.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::failure::{During, Failure};
use super::layout::{Kind, Layout, clean, is_within};
use super::wire::Container;

/// How a container's absolute paths become real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Paths {
    /// A mount namespace of the container's own; needs root.
    Namespace,
    /// The same within a user namespace: programs with set-user-id bits lose their power in it.
    UserNamespace,
    /// Declared paths are rewritten in command, arguments and environment.
    Rewritten,
}

/// The replacements of a container.
#[derive(Debug, Default)]
pub(crate) struct Rewrite {
    /// Path inside and place on this machine, longest first.
    pairs: Vec<(String, String)>,
}

impl Rewrite {
    fn new(layout: &Layout) -> Result<Self, Failure> {
        let mut pairs = Vec::new();
        for area in layout.areas().iter().filter(|area| area.kind != Kind::Machine && !area.inside.is_empty()) {
            let outside = area.outside.clone().unwrap_or_default().into_os_string().into_string();
            let outside = outside.map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidInput));
            let outside = outside.during(|| format!("rewriting `{}` to a path that is not UTF-8", area.inside))?;
            pairs.push((area.inside.clone(), outside));
        }
        pairs.sort_by_key(|(inside, _)| std::cmp::Reverse(inside.len()));
        Ok(Self { pairs })
    }

    /// A text with the declared paths in it replaced, in one pass.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut before) = (text, None);
        while let Some(here) = rest.chars().next() {
            let found = (here == '/' && before.is_none_or(begins_path)).then(|| self.at(rest)).flatten();
            let taken = match found {
                Some((inside, outside)) => {
                    out.push_str(outside);
                    inside.len()
                }
                None => {
                    out.push(here);
                    here.len_utf8()
                }
            };
            before = rest.get(..taken).and_then(|taken| taken.chars().next_back());
            rest = rest.get(taken..).unwrap_or_default();
        }
        out
    }

    fn at(&self, rest: &str) -> Option<&(String, String)> {
        self.pairs.iter().find(|(inside, _)| {
            rest.strip_prefix(inside.as_str()).is_some_and(|after| after.chars().next().is_none_or(ends_name))
        })
    }
}

fn begins_path(before: char) -> bool {
    before.is_whitespace() || "\"'`=:,;([{<>|&!@".contains(before)
}

fn ends_name(after: char) -> bool {
    after.is_ascii() && !after.is_ascii_alphanumeric() && !"_-.~+%@".contains(after)
}

/// Makes places for all paths of a container below the pod's `view` and rewrites the container to them.
pub(crate) fn rewrite(
    container: &Container,
    view: &Path,
    last_words: &Path,
    outputs: &[String],
) -> Result<(Container, Layout), Failure> {
    let root = view.join("top");
    let tmp = view.join("tmp");
    let make = |path: &Path| fs::create_dir_all(path).during(|| format!("making `{}`", path.display()));
    make(&root)?;
    make(&tmp)?;
    let mut layout = Layout::default();
    layout.put("/", Some("/".into()), Kind::Machine);
    layout.put("/tmp", Some(tmp.clone()), Kind::Private);
    for mount in &container.mounts {
        layout.put(&mount.target, Some(mount.source.clone()), Kind::Mount);
    }
    if !container.last_words_path.is_empty() {
        layout.put(&container.last_words_path, Some(last_words.to_owned()), Kind::Mount);
    }
    for output in outputs.iter().map(|output| clean(output)).filter(|output| !is_device(output)) {
        let (parent, _) = output.rsplit_once('/').unwrap_or_default();
        if layout.area(&output).is_none_or(|area| area.kind == Kind::Machine) {
            // A directory that is missing is the container's to make; what it makes there is the pod's.
            let above = Path::new(if parent.is_empty() { "/" } else { parent });
            let missing = above.ancestors().take_while(|path| !path.exists()).last();
            let place = missing.and_then(Path::to_str).unwrap_or(&output);
            make(&below(&root, place.rsplit_once('/').map_or("", |(above, _)| above)))?;
            layout.put(place, Some(below(&root, place)), Kind::Private);
        }
    }
    let mut changed = container.clone();
    let home = clean(container.working_dir.as_deref().unwrap_or_default());
    if container.working_dir.is_some() && layout.outside(&home).is_none_or(|outside| !outside.exists()) {
        if layout.area(&home).is_none_or(|area| area.kind == Kind::Machine) {
            layout.put(&home, Some(below(&root, &home)), Kind::Private);
        }
        make(&layout.outside(&home).unwrap_or_else(|| root.clone()))?;
    }
    let rewrite = Rewrite::new(&layout)?;
    let home = if container.working_dir.is_none() { Some(root) } else { layout.outside(&home) };
    changed.working_dir = home.map(|home| home.to_string_lossy().into_owned());
    changed.argv = container.argv.iter().map(|text| rewrite.text(text)).collect();
    for variable in changed.env.iter_mut().filter(|variable| !variable.secret) {
        variable.value = rewrite.text(&variable.value);
    }
    Ok((changed, layout))
}

/// A clean path below a directory.
pub(crate) fn below(directory: &Path, inside: &str) -> PathBuf {
    directory.join(inside.trim_start_matches('/'))
}

/// Whether a clean path is the kernel's, where nothing private can stand.
pub(crate) fn is_device(inside: &str) -> bool {
    ["/dev", "/proc", "/sys"].iter().any(|area| is_within(inside, area))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::pod::{ContainerPlan, EnvText, Mount};

    fn replaced(text: &str) -> String {
        let pairs = [("/data/in", "/h/1"), ("/data", "/h/2"), ("/tmp", "/h/3")];
        Rewrite { pairs: pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec() }.text(text)
    }

    #[test]
    fn paths_are_rewritten_at_boundaries_only() {
        let same = ["/database", "/mnt/data", "data", "/data.txt", "./data", "https://host/data", "${X}/data", "/da"];
        for text in same {
            assert_eq!(replaced(text), text);
        }
        assert_eq!(replaced("/data"), "/h/2");
        assert_eq!(replaced("cat '/data/in/a b' >/data/out;ls /data"), "cat '/h/1/a b' >/h/2/out;ls /h/2");
        assert_eq!(replaced("--in=/data/in:/data PATH=/tmp:/data/x"), "--in=/h/1:/h/2 PATH=/h/3:/h/2/x");
        assert_eq!(replaced("curl -d @/tmp/x \"/data\""), "curl -d @/h/3/x \"/h/2\"");
    }

    #[test]
    fn what_was_put_in_is_not_rewritten_again() {
        let rewrite = Rewrite { pairs: vec![("/b".to_owned(), "/c".to_owned()), ("/a".to_owned(), "/b".to_owned())] };
        assert_eq!(rewrite.text("/a /b"), "/b /c");
    }

    #[test]
    fn a_container_is_rewritten_to_places_of_its_pod() {
        let dir = tempfile::tempdir().unwrap();
        let text = |value: &str, secret| EnvText { value: value.to_owned(), secret };
        let plan = ContainerPlan {
            command: ["sh", "-c", "cat /in/x > /out-of-nowhere/y; echo $A > /dev/termination-log"]
                .map(String::from)
                .to_vec(),
            env: vec![("A".to_owned(), text("/in", false)), ("B".to_owned(), text("/in", true))],
            working_dir: Some("/nowhere-else".to_owned()),
            mounts: vec![Mount { source: "/volumes/v".into(), target: "/in".to_owned(), read_only: false }],
            termination_message_path: "/dev/termination-log".to_owned(),
            ..ContainerPlan::default()
        };
        let outputs = ["/out-of-nowhere/y".to_owned(), "/etc/made".to_owned(), "/tmp/a/b".to_owned()];
        let words = dir.path().join("words");
        let (changed, layout) = rewrite(&Container::from(&plan), dir.path(), &words, &outputs).unwrap();
        let shown = changed.argv[2].replace(dir.path().to_str().unwrap(), "<pod>");
        assert_eq!(shown, "cat /volumes/v/x > <pod>/top/out-of-nowhere/y; echo $A > <pod>/words");
        assert_eq!((changed.env[0].value.as_str(), changed.env[1].value.as_str()), ("/volumes/v", "/in"));
        assert_eq!(Path::new(changed.working_dir.as_ref().unwrap()), dir.path().join("top/nowhere-else"));
        assert_eq!(layout.outside("/etc/made").unwrap(), dir.path().join("top/etc/made"));
        assert_eq!(layout.outside("/etc/hosts").unwrap(), Path::new("/etc/hosts"));
        for made in ["top/nowhere-else", "top/etc"] {
            assert!(dir.path().join(made).is_dir(), "{made}");
        }
        for unmade in ["top/out-of-nowhere", "tmp/a"] {
            assert!(!dir.path().join(unmade).exists(), "{unmade} is the container's to make");
        }
    }

    proptest! {
        #[test]
        fn text_without_declared_paths_is_untouched(text in "[a-z ./=]{0,30}") {
            prop_assume!(!text.contains("/data") && !text.contains("/tmp"));
            prop_assert_eq!(replaced(&text), text);
        }
    }
}
