//! `orlop artifacts get --all`: all that a job left, as files of a directory. Never writes outside of it; what
//! already exists and whole is not fetched again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use futures::{StreamExt as _, stream};
use orlop_cloud::artifact::digest;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::address::Address;
use super::artifacts::{fetch_to, left};
use super::client::Client;
use super::read::{items, number, text};
use super::target::Target;
use crate::view::text::one_line;

/// Files that are fetched at once.
const AT_ONCE: usize = 4;

/// A file to be.
#[derive(Debug, PartialEq, Eq)]
struct ArtifactFile {
    path: PathBuf,
    sha256: String,
    bytes: u64,
}

/// Fetches all that a job left, or elements of it.
///
/// # Errors
/// There is no such job, it left nothing, or files cannot be written.
pub(super) async fn get(client: &Client, address: &Address, dir: &Path, target: &Target) -> Result<Exit, Failure> {
    let list = left(client, address).await?;
    if items(&list).is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("job {address} left no artifacts")));
    }
    let array = is_array(client, address).await?;
    let (wanted, refused) = files(items(&list), dir, array);
    let all = wanted.len();
    let fetches = stream::iter(&wanted).map(|file| fetched(client, file)).buffer_unordered(AT_ONCE);
    let mut fetches = std::pin::pin!(fetches);
    let mut new = 0_u64;
    while let Some(fetched) = fetches.next().await {
        new += u64::from(fetched?);
    }
    let done = json!({ "files": all, "fetched": new, "there": all as u64 - new });
    let names = |_: &Value| wanted.iter().map(|file| file.path.display().to_string()).collect();
    let shown = target.shown(&done, names)?;
    output::print(&shown.unwrap_or_else(|| format!("{all} files in {}, {new} of them fetched now\n", dir.display())))?;
    // What cannot be a file here keeps nothing else away.
    for name in &refused {
        let text = format!(
            "`{}` cannot be the name of a file in a directory; get it by itself with -f FILE",
            one_line(name, 200)
        );
        output::tell(&text);
    }
    Ok(if refused.is_empty() { Exit::Done } else { Exit::Failed })
}

async fn is_array(client: &Client, address: &Address) -> Result<bool, Failure> {
    let job = client.ask(super::client::ApiRequest::get(address.path())).await?.body;
    Ok(text(&job, "kind") == "array")
}

/// Where each artifact goes: by its name, several files of one name below it by their paths, one of a folder of its name as it
/// stood there, of arrays below their indices. And the names that lead elsewhere.
fn files(artifacts: &[Value], dir: &Path, array: bool) -> (Vec<ArtifactFile>, Vec<String>) {
    let mut named: BTreeMap<(u64, String), Vec<&Value>> = BTreeMap::new();
    for artifact in artifacts {
        named.entry((number(artifact, "index"), raw(artifact, "name"))).or_default().push(artifact);
    }
    let (mut wanted, mut refused) = (Vec::with_capacity(artifacts.len()), Vec::new());
    for ((index, name), files) in named {
        let base = if array { dir.join(index.to_string()) } else { dir.to_owned() };
        let several = files.len() > 1;
        for file in files {
            let path = raw(file, "path");
            let is_inside = !name.is_empty() && path != name && Path::new(&path).starts_with(&name);
            let below = match is_inside {
                true => path,
                false if several => format!("{name}/{path}"),
                false => name.clone(),
            };
            match inside(&below) {
                Some(below) => {
                    let (path, sha256) = (base.join(below), raw(file, "sha256"));
                    wanted.push(ArtifactFile { path, sha256, bytes: number(file, "bytes") });
                }
                None => refused.push(below),
            }
        }
    }
    (wanted, refused)
}

fn raw(artifact: &Value, field: &str) -> String {
    artifact[field].as_str().unwrap_or_default().to_owned()
}

/// A name that jobs choose, as a path that stays where it is put; none when it leads elsewhere.
fn inside(name: &str) -> Option<&Path> {
    let path = Path::new(name);
    let normal = path.components().all(|part| matches!(part, Component::Normal(_)));
    Some(path).filter(|_| normal && !name.is_empty() && !name.contains('\0'))
}

/// Fetches a file that is not there. Whether it was not.
async fn fetched(client: &Client, file: &ArtifactFile) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("{}: {error}", file.path.display()));
    if is_whole(file).map_err(failed)? {
        return Ok(false);
    }
    if let Some(parent) = file.path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    fetch_to(client, &file.sha256, &file.path).await?;
    Ok(true)
}

fn is_whole(wanted: &ArtifactFile) -> std::io::Result<bool> {
    let mut file = match File::open(&wanted.path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?;
    Ok(size.is_file() && size.len() == wanted.bytes && digest(&mut file)?.0 == wanted.sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(index: u32, name: &str, path: &str) -> Value {
        json!({ "index": index, "name": name, "path": path, "sha256": "00", "bytes": 1 })
    }

    #[test]
    fn files_stand_by_element_and_name_and_by_path_where_a_name_has_several() {
        let left = [
            artifact(3, "out", "x/a"),
            artifact(3, "out", "x/b"),
            artifact(7, "model", "m.bin"),
            artifact(7, "results", "results/a.csv"),
        ];
        let paths = |array| -> Vec<String> {
            let (wanted, refused) = files(&left, Path::new("d"), array);
            assert!(refused.is_empty(), "{refused:?}");
            wanted.iter().map(|file| file.path.display().to_string()).collect()
        };
        assert_eq!(paths(true), ["d/3/out/x/a", "d/3/out/x/b", "d/7/model", "d/7/results/a.csv"]);
        assert_eq!(paths(false), ["d/out/x/a", "d/out/x/b", "d/model", "d/results/a.csv"]);
    }

    #[test]
    fn names_of_jobs_do_not_lead_out_of_the_directory() {
        for name in ["", "/etc/passwd", "../x", "a/../../x", ".", "a/./..", "x\0y"] {
            let (wanted, refused) = files(&[artifact(0, name, "p"), artifact(0, "good", "p")], Path::new("d"), false);
            assert_eq!((wanted.len(), refused.as_slice()), (1, &[name.to_owned()][..]), "and others are fetched");
        }
    }
}
