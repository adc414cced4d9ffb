//! Files that a job left: those below its directory whose path matches a pattern. Owns matching, and that no link is
//! followed, so that nothing from elsewhere is ever taken for the job's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most files and folders that are looked at.
const ENTRIES: usize = 1_000_000;

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectedFile {
    /// Its path below the directory, with `/` between names.
    pub relative: String,
    /// Where it is.
    pub path: PathBuf,
}

/// The files below a directory that match a pattern, in order of their paths; below a folder that matches, all. In a pattern
/// `*` and `?` stand for characters of one name, `**` for any number of folders. Links and other things that are no files
/// are left out, and so is what the name of no text leads to.
///
/// # Errors
/// What the file system says; more than a million entries.
pub fn collect(root: &Path, pattern: &str) -> io::Result<Vec<CollectedFile>> {
    let pattern: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    let (mut found, mut seen) = (Vec::new(), 0);
    let Some((first, names)) = beginning(root, &pattern)? else { return Ok(found) };
    // Folders with their names, and whether one of them matched as a whole.
    let mut open: Vec<(PathBuf, Vec<String>, bool)> = vec![(first, names, false)];
    while let Some((folder, names, taken)) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            seen += 1;
            if seen > ENTRIES {
                return Err(io::Error::other(format!("there are more than {ENTRIES} files and folders")));
            }
            let Ok(name) = entry.file_name().into_string() else { continue };
            let names: Vec<String> = names.iter().cloned().chain([name]).collect();
            let matches = taken || matches_path(&pattern, &names);
            // The type of the entry itself: a link is neither.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push((entry.path(), names, matches));
            } else if kind.is_file() && matches {
                found.push(CollectedFile { relative: names.join("/"), path: entry.path() });
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The folder that all names before the first pattern lead to, with these names: nothing else is looked at. None when there is
/// no such folder, or a link is on the way.
fn beginning(root: &Path, pattern: &[&str]) -> io::Result<Option<(PathBuf, Vec<String>)>> {
    let folders = pattern.split_last().map_or(&[][..], |(_, folders)| folders);
    let plain = folders.iter().take_while(|name| !name.contains(['*', '?']));
    let (mut folder, mut names) = (root.to_owned(), Vec::new());
    for name in plain {
        // No file below the directory has such a name on its way.
        if *name == ".." {
            return Ok(None);
        }
        folder.push(name);
        names.push((*name).to_owned());
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some((folder, names)))
}

/// Whether a path matches. `**` may take any number of names, so the last one is given another when the rest does not fit.
fn matches_path(pattern: &[&str], names: &[String]) -> bool {
    let (mut at, mut name, mut again) = (0, 0, None);
    loop {
        match (pattern.get(at), names.get(name)) {
            (None, None) => return true,
            (Some(&"**"), _) => {
                again = Some((at, name));
                at += 1;
                continue;
            }
            (Some(one), Some(here)) if matches_name(one, here) => {
                (at, name) = (at + 1, name + 1);
                continue;
            }
            _ => {}
        }
        match again {
            Some((star, from)) if from < names.len() => {
                again = Some((star, from + 1));
                (at, name) = (star + 1, from + 1);
            }
            _ => return false,
        }
    }
}

/// Whether a name matches, by characters.
fn matches_name(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut here, mut again) = (0, 0, None);
    loop {
        match (pattern.get(at), name.get(here)) {
            (None, None) => return true,
            (Some('*'), _) => {
                again = Some((at, here));
                at += 1;
                continue;
            }
            (Some('?'), Some(_)) => {
                (at, here) = (at + 1, here + 1);
                continue;
            }
            (Some(one), Some(other)) if one == other => {
                (at, here) = (at + 1, here + 1);
                continue;
            }
            _ => {}
        }
        match again {
            Some((star, from)) if from < name.len() => {
                again = Some((star, from + 1));
                (at, here) = (star + 1, from + 1);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(root: &Path, pattern: &str) -> Vec<String> {
        collect(root, pattern).unwrap().into_iter().map(|found| found.relative).collect()
    }

    #[test]
    fn patterns_find_files_below_the_directory_and_follow_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("work");
        for file in ["a.txt", "b.csv", "out/x.csv", "out/deep/y.csv", "out/deep/z.bin", ".hidden"] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        fs::write(dir.path().join("outside.csv"), "secret").unwrap();
        std::os::unix::fs::symlink("../outside.csv", root.join("link.csv")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        assert_eq!(found(&root, "a.txt"), ["a.txt"]);
        assert_eq!(found(&root, "*.csv"), ["b.csv"]);
        assert_eq!(found(&root, "out/*.csv"), ["out/x.csv"]);
        assert_eq!(found(&root, "**/*.csv"), ["b.csv", "out/deep/y.csv", "out/x.csv"]);
        assert_eq!(found(&root, "out"), ["out/deep/y.csv", "out/deep/z.bin", "out/x.csv"]);
        assert_eq!(found(&root, "out/**/z.*"), ["out/deep/z.bin"]);
        assert_eq!(found(&root, "?.txt"), ["a.txt"]);
        for nothing in ["link.csv", "up/outside.csv", "../outside.csv", "none", ""] {
            assert_eq!(found(&root, nothing), Vec::<String>::new(), "{nothing}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_is_matched_in_reasonable_time() {
        let name = "a".repeat(200);
        assert!(!matches_name(&format!("{}b", "*a".repeat(50)), &name));
        let names: Vec<String> = (0..100).map(|_| "a".to_owned()).collect();
        let pattern: Vec<&str> = std::iter::repeat_n(["**", "a"], 40).flatten().chain(["b"]).collect();
        assert!(!matches_path(&pattern, &names));
    }
}
