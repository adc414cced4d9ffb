//! Files and folders that `orlop submit` sends with a job: options become uploads and entries of `artifacts_in`.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use orlop_cloud::artifact::{Limits, pack_folder};
use orlop_core::id::JobId;
use serde_json::{Map, Value, json};

use super::super::failure::{Exit, Failure};
use super::address::Address;
use super::artifacts::{self, Form, Source, upload};
use super::client::Client;

/// How large a folder may be that is sent with a job.
const FOLDER: Limits = Limits { max_bytes: 10 << 30, max_entries: 100_000 };

/// Options about what a job gets and where it starts.
#[derive(Args, Debug)]
pub(super) struct InputArgs {
    /// File or folder of this machine that the job gets, @JOB/NAME or @JOB.INDEX/NAME of what a job left, or @NAME of a stored
    /// artifact; with :PATH as its path in the job (repeatable). A file that can be run stays so
    #[arg(long = "in", value_name = "FILE[:PATH]")]
    inputs: Vec<String>,
    /// Send this directory with everything in it and start there; outputs are looked for below it
    #[arg(long)]
    with_cwd: bool,
    /// Directory the command starts in, below the job's own; a container starts where its image says, in the job's own with `.`
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
}

impl InputArgs {
    /// The fields of a specification that need no upload.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let place = self.workdir.clone().or_else(|| self.with_cwd.then(|| ".".to_owned()));
        place.map(|place| ("working_dir".to_owned(), json!(place))).into_iter().collect()
    }

    /// Uploads what the options name. Gives the entries of `artifacts_in`; none where no option is given.
    pub(super) async fn upload(&self, client: &Client, tenant: Option<&str>) -> Result<Option<Vec<Value>>, Failure> {
        if self.inputs.is_empty() && !self.with_cwd {
            return Ok(None);
        }
        let mut entries = Vec::with_capacity(self.inputs.len() + 1);
        if self.with_cwd {
            let folder = std::env::current_dir();
            let folder =
                folder.map_err(|error| Failure::usage(format!("--with-cwd: no working directory: {error}")))?;
            entries.push(send(client, &folder, Some("."), tenant).await?);
        }
        for text in &self.inputs {
            let (file, path) = text.split_once(':').map_or((text.as_str(), None), |(file, path)| (file, Some(path)));
            entries.push(match file.strip_prefix('@') {
                Some(name) => stored(client, name, path).await?,
                None => send(client, Path::new(file), path, tenant).await?,
            });
        }
        Ok(Some(entries))
    }
}

/// The entry of something that is stored.
async fn stored(client: &Client, name: &str, path: Option<&str>) -> Result<Value, Failure> {
    let Some((address, name)) = of_job(name)? else {
        return Ok(json!({ "name": name, "path": path.unwrap_or(name) }));
    };
    let found = artifacts::named(client, &address, name, Form::Input).await?;
    let last = name.rsplit('/').next().unwrap_or(name);
    let mut entry = json!({ "name": found["name"], "path": path.unwrap_or(last), "sha256": found["sha256"] });
    if found["executable"] == true {
        entry["executable"] = true.into();
    }
    Ok(entry)
}

/// A job or an element, and the name of what it left: `JOB/NAME`, `JOB.INDEX/NAME`. None for a name of the tenant.
fn of_job(text: &str) -> Result<Option<(Address, &str)>, Failure> {
    let Some((job, name)) = text.split_once('/') else { return Ok(None) };
    let id = job.split_once('.').map_or(job, |(id, _)| id);
    if id.parse::<JobId>().is_err() {
        return Ok(None);
    }
    let address = job.parse().map_err(|error| Failure::usage(format!("--in @{text}: {error}")))?;
    Ok(Some((address, name)))
}

/// Uploads a file or folder of this machine; gives its entry.
async fn send(client: &Client, local: &Path, path: Option<&str>, tenant: Option<&str>) -> Result<Value, Failure> {
    let unreadable = |error: std::io::Error| Failure::usage(format!("{} cannot be read: {error}", local.display()));
    let name = name_of(local).map_err(unreadable)?;
    let found = std::fs::metadata(local).map_err(unreadable)?;
    let unpack = found.is_dir();
    let file = if unpack { packed(local).await? } else { File::open(local).map_err(unreadable)? };
    let executable = !unpack && found.mode() & 0o111 != 0;
    let source = Source { name: name.clone(), file, executable, shown: local.to_owned() };
    let made = upload(client, source, tenant).await?;
    let mut entry = json!({ "name": name, "path": path.unwrap_or(&name), "sha256": made["sha256"] });
    for (field, holds) in [("executable", executable), ("unpack", unpack)] {
        if holds {
            entry[field] = true.into();
        }
    }
    Ok(entry)
}

/// What an input is called: the last part of its path, of `.` and `..` that of the folder they stand for.
fn name_of(local: &Path) -> std::io::Result<String> {
    let full = if local.file_name().is_some() { local.to_owned() } else { local.canonicalize()? };
    Ok(full.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned()))
}

async fn packed(folder: &Path) -> Result<File, Failure> {
    let (path, shown) = (PathBuf::from(folder), folder.display().to_string());
    let packed = tokio::task::spawn_blocking(move || pack_folder(&path, FOLDER)).await;
    let failed = |why: String| Failure::new(Exit::Refused, format!("{shown} cannot be sent: {why}"));
    packed.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.chain()))
}
