//! The file into which a job writes `key=value` outputs. Owns its bounds and what is no output; never follows a link out
//! of the attempt's directory.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;

use crate::runtime::logs::Masker;

/// Name of the file in the attempt's directory.
pub(super) const FILE: &str = ".orlop-output";
/// Bytes of all names and values of a job.
const MAX: u64 = 64 << 10;
/// Bytes of a name.
const NAME_MAX: usize = 128;

/// What a job wrote, and what was wrong with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outputs {
    /// Values by name, secrets masked; of several with one name the last.
    pub(super) values: BTreeMap<String, String>,
    /// What was left out, for the log.
    pub(super) complaint: Option<String>,
}

/// Reads the file; that there is none is fine.
pub(super) fn read(dir: &Path, masker: Option<&Masker>) -> Outputs {
    match content(&dir.join(FILE)) {
        Ok(text) => parse(&text, masker),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Outputs::default(),
        Err(error) => {
            let complaint = Some(format!("the file of outputs cannot be read: {error}"));
            Outputs { complaint, ..Outputs::default() }
        }
    }
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe in place of the file must not stop the worker, nor a link lead it elsewhere.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8], masker: Option<&Masker>) -> Outputs {
    if bytes.len() as u64 > MAX {
        let complaint = Some(format!("the file of outputs is longer than {} KiB, so no output is taken", MAX >> 10));
        return Outputs { complaint, ..Outputs::default() };
    }
    let (mut values, mut bad) = (BTreeMap::new(), 0_usize);
    for line in String::from_utf8_lossy(bytes).lines().filter(|line| !line.trim().is_empty()) {
        let clear = |name: &str| masker.is_none_or(|masker| masker.mask_text(name) == name);
        match line.split_once('=').filter(|(name, _)| is_name(name) && clear(name)) {
            Some((name, value)) => {
                let value = masker.map_or_else(|| value.to_owned(), |masker| masker.mask_text(value));
                values.insert(name.to_owned(), value);
            }
            None => bad += 1,
        }
    }
    let complaint = (bad > 0).then(|| format!("{bad} lines of the file of outputs are not `name=value`"));
    Outputs { values, complaint }
}

fn is_name(name: &str) -> bool {
    let word = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '_' | '-' | '.');
    !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::worker::logs::masker;

    #[test]
    fn outputs_are_lines_of_name_and_value_with_secrets_masked() {
        let found = parse(b"a=1\nb=x=y\n\nhunter22=no\na=2\nbad line\nc=hunter22!\n", Some(&masker(["hunter22"])));
        let values: Vec<String> = found.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(values, ["a=2", "b=x=y", "c=***!"]);
        insta::assert_snapshot!(found.complaint.unwrap(), @"2 lines of the file of outputs are not `name=value`");
    }

    #[test]
    fn outputs_are_at_most_64_ki_and_no_link_is_followed() {
        let long = vec![b'x'; 65 << 10];
        assert!(parse(&long, None).complaint.is_some());
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path(), None), Outputs::default());
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(FILE)).unwrap();
        assert!(read(dir.path(), None).complaint.unwrap().contains("cannot be read"));
    }
}
