//! `orlop artifacts get --all`: all that a job left, as files of a directory. Owns their places, which never leave it, and that what
//! is there already and whole is not fetched again.

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

/// Files that are fetched at once.
const AT_ONCE: usize = 4;

/// A file to be.
#[derive(Debug, PartialEq, Eq)]
struct Place {
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
    let places = places(items(&list), dir, array)?;
    let all = places.len();
    let fetches = stream::iter(&places).map(|place| fetched(client, place)).buffer_unordered(AT_ONCE);
    let mut fetches = std::pin::pin!(fetches);
    let mut new = 0_u64;
    while let Some(fetched) = fetches.next().await {
        new += u64::from(fetched?);
    }
    let done = json!({ "files": all, "fetched": new, "there": all as u64 - new });
    let names = |_: &Value| places.iter().map(|place| place.path.display().to_string()).collect();
    let shown = target.shown(&done, names)?;
    output::print(&shown.unwrap_or_else(|| format!("{all} files in {}, {new} of them fetched now\n", dir.display())))?;
    Ok(Exit::Done)
}

async fn is_array(client: &Client, address: &Address) -> Result<bool, Failure> {
    let job = client.ask(super::client::Asked::get(address.path())).await?.body;
    Ok(text(&job, "kind") == "array")
}

/// Where each artifact goes: by its name, several files of one name below it by their paths, of arrays below their indices.
fn places(artifacts: &[Value], dir: &Path, array: bool) -> Result<Vec<Place>, Failure> {
    let mut named: BTreeMap<(u64, String), Vec<&Value>> = BTreeMap::new();
    for artifact in artifacts {
        named.entry((number(artifact, "index"), raw(artifact, "name"))).or_default().push(artifact);
    }
    let mut places = Vec::with_capacity(artifacts.len());
    for ((index, name), files) in named {
        let mut base = dir.to_owned();
        if array {
            base.push(index.to_string());
        }
        base.push(inside(&name)?);
        let several = files.len() > 1;
        for file in files {
            let path = if several { base.join(inside(&raw(file, "path"))?) } else { base.clone() };
            places.push(Place { path, sha256: raw(file, "sha256"), bytes: number(file, "bytes") });
        }
    }
    Ok(places)
}

fn raw(artifact: &Value, field: &str) -> String {
    artifact[field].as_str().unwrap_or_default().to_owned()
}

/// A name that jobs choose, as a path that stays where it is put.
fn inside(name: &str) -> Result<&Path, Failure> {
    let path = Path::new(name);
    let normal = path.components().all(|part| matches!(part, Component::Normal(_)));
    if normal && !name.is_empty() && !name.contains('\0') {
        return Ok(path);
    }
    Err(Failure::usage(format!("`{name}` cannot be the name of a file in a directory; get it by itself with -f FILE")))
}

/// Fetches a file that is not there. Whether it was not.
async fn fetched(client: &Client, place: &Place) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("{}: {error}", place.path.display()));
    if is_whole(place).map_err(failed)? {
        return Ok(false);
    }
    if let Some(parent) = place.path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    fetch_to(client, &place.sha256, &place.path).await?;
    Ok(true)
}

fn is_whole(place: &Place) -> std::io::Result<bool> {
    let mut file = match File::open(&place.path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?;
    Ok(size.is_file() && size.len() == place.bytes && digest(&mut file)?.0 == place.sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(index: u32, name: &str, path: &str) -> Value {
        json!({ "index": index, "name": name, "path": path, "sha256": "00", "bytes": 1 })
    }

    #[test]
    fn files_stand_by_element_and_name_and_by_path_where_a_name_has_several() {
        let left = [artifact(3, "out", "x/a"), artifact(3, "out", "x/b"), artifact(7, "model", "m.bin")];
        let paths = |array| -> Vec<String> {
            let places = places(&left, Path::new("d"), array).unwrap();
            places.iter().map(|place| place.path.display().to_string()).collect()
        };
        assert_eq!(paths(true), ["d/3/out/x/a", "d/3/out/x/b", "d/7/model"]);
        assert_eq!(paths(false), ["d/out/x/a", "d/out/x/b", "d/model"]);
    }

    #[test]
    fn names_of_jobs_do_not_lead_out_of_the_directory() {
        for name in ["", "/etc/passwd", "../x", "a/../../x", ".", "a/./..", "x\0y"] {
            assert!(places(&[artifact(0, name, "p")], Path::new("d"), false).is_err(), "{name:?}");
        }
    }
}
