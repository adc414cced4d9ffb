//! `orlop artifacts`: what jobs left, and files for jobs. Owns uploads that go on where they broke off, and that what is
//! fetched is what was stored.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use futures::StreamExt as _;
use orlop_cloud::artifact::digest;
use orlop_core::spec::job::Indices;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::address::Address;
use super::bulk;
use super::client::{ApiRequest, Client, escaped, query};
use super::read::{items, number, text};
use super::target::{Patience, Target};
use crate::view::table::columns;

/// Bytes of one request of an upload.
const PIECE: usize = 4 << 20;
/// Candidates that a refusal names.
const SHOWN: usize = 4;
/// How often a request is tried, and the time between.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// What is done with artifacts.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Verb {
    /// List the artifacts of a job
    List(ListArgs),
    /// Fetch an artifact of a job, or by its SHA-256
    Get(GetArgs),
    /// Upload a file under a name, for `orlop submit --in @NAME`
    Put(PutArgs),
}

/// Options of `orlop artifacts list`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ListArgs {
    /// Id of the job, or JOB.0-9,17 for elements of an array
    job: Address,
    /// Only of these elements of an array
    #[arg(long, value_name = "INDICES")]
    index: Option<Indices>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Options of `orlop artifacts get`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop artifacts get j000040000000001 model -f model.bin
  orlop artifacts get j000040000000002.17 model -f model.bin
  orlop artifacts get j000040000000002 --all --dir results      results/NAME, of an array results/INDEX/NAME
  orlop artifacts get 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 > file")]
pub(in crate::cli) struct GetArgs {
    /// Id of the job, JOB.17 for an element of an array, or SHA-256 of the content
    from: Address,
    /// Name or path of the artifact, where a job is given
    name: Option<String>,
    /// Of these elements of an array
    #[arg(long, value_name = "INDICES")]
    index: Option<Indices>,
    /// File to write; else it goes to standard output
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// All artifacts of the job, into --dir; complete files are not fetched again
    #[arg(long, requires = "dir", conflicts_with_all = ["name", "file"])]
    all: bool,
    /// Directory for all of it
    #[arg(long, value_name = "DIR", requires = "all")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Options of `orlop artifacts put`.
#[derive(Args, Debug)]
pub(in crate::cli) struct PutArgs {
    /// Name in the tenant
    name: String,
    /// The file
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Runs a verb.
pub(super) async fn run(verb: Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::List(args) => args.patience.bound(list(&args)).await,
        Verb::Get(args) => args.patience.bound(get(&args)).await,
        Verb::Put(args) => {
            let upload = async {
                let client = args.target.client()?;
                let unreadable = |error| Failure::usage(format!("{} cannot be read: {error}", args.file.display()));
                let source = Source::open(&args.name, &args.file).map_err(unreadable)?;
                let made = upload(&client, source, args.target.tenant.as_deref()).await?;
                let sha256 = text(&made, "sha256");
                let shown = args.target.shown(&made, |_| vec![sha256.clone()])?;
                output::print(&shown.unwrap_or(sha256))?;
                Ok(Exit::Done)
            };
            args.patience.bound(upload).await
        }
    }
}

/// What a job left, or elements of it.
pub(super) async fn left(client: &Client, address: &Address) -> Result<Value, Failure> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut members = address.members();
        members.push(("limit", "1000".to_owned()));
        members.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let path = format!("{}/artifacts{}", address.path(), query(&members));
        let found = client.ask(ApiRequest::get(path)).await?.body;
        all.extend_from_slice(items(&found));
        match found["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(json!({ "items": all })),
        }
    }
}

/// How an artifact is named where it is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// As arguments: the element, then the path.
    Arguments,
    /// As a source of an input.
    Input,
}

impl Form {
    fn of(self, element: &str, path: &str) -> String {
        match self {
            Self::Arguments => format!("`{element} {path}`"),
            Self::Input => format!("`@{element}/{path}`"),
        }
    }
}

/// The only artifact of a name or a path that a job left.
pub(super) async fn named(client: &Client, address: &Address, name: &str, form: Form) -> Result<Value, Failure> {
    let list = left(client, address).await?;
    let found: Vec<&Value> =
        items(&list).iter().filter(|item| text(item, "name") == name || text(item, "path") == name).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Failure::new(Exit::NotFound, format!("job {address} left no artifact `{name}`"))),
        several => {
            let one = |item: &&Value| {
                let element = format!("{}.{}", address.job, text(item, "index"));
                form.of(&element, &text(item, "path"))
            };
            let mut shown: Vec<String> = several.iter().take(SHOWN).map(one).collect();
            shown.extend((several.len() > SHOWN).then(|| "…".to_owned()));
            let text = format!("`{name}` is {} files; name one: {}", several.len(), shown.join(", "));
            Err(Failure::usage(text))
        }
    }
}

async fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let list = left(&args.target.client()?, &args.job.with("--index", args.index.as_ref())?).await?;
    let names = |list: &Value| items(list).iter().map(|item| text(item, "name")).collect();
    if let Some(shown) = args.target.shown(&list, names)? {
        output::print(&shown)?;
        return Ok(Exit::Done);
    }
    let fields = ["index", "name", "path", "bytes", "sha256"];
    let row = |item: &Value| fields.iter().map(|field| text(item, field)).collect();
    let rows: Vec<Vec<String>> = items(&list).iter().map(row).collect();
    let page = if rows.is_empty() {
        "no artifacts\n".to_owned()
    } else {
        columns(&["INDEX", "NAME", "PATH", "BYTES", "SHA256"], &rows)
    };
    output::print(&page)?;
    Ok(Exit::Done)
}

async fn get(args: &GetArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let address = args.from.with("--index", args.index.as_ref())?;
    if let Some(dir) = &args.dir {
        return bulk::get(&client, &address, dir, &args.target).await;
    }
    let sha256 = match &args.name {
        None => address.job.clone(),
        Some(name) => text(&named(&client, &address, name, Form::Arguments).await?, "sha256"),
    };
    let failed =
        |place: &Path, error: std::io::Error| Failure::usage(format!("{} cannot be written: {error}", place.display()));
    match &args.file {
        None => {
            let mut place = templess()?;
            fetch(&client, &sha256, &mut place).await?;
            place.seek(SeekFrom::Start(0)).map_err(|error| failed(Path::new("a file"), error))?;
            let mut piece = vec![0; 256 << 10];
            loop {
                let len = place.read(&mut piece).map_err(|error| failed(Path::new("a file"), error))?;
                if len == 0 || !output::raw(piece.get(..len).unwrap_or_default())? {
                    return Ok(Exit::Done);
                }
            }
        }
        Some(path) => {
            fetch_to(&client, &sha256, path).await?;
            Ok(Exit::Done)
        }
    }
}

/// Fetches content into a file of this name, which is whole from the moment it is there.
pub(super) async fn fetch_to(client: &Client, sha256: &str, path: &Path) -> Result<(), Failure> {
    let failed =
        |place: &Path, error: std::io::Error| Failure::usage(format!("{} cannot be written: {error}", place.display()));
    let mut half = path.as_os_str().to_owned();
    half.push(".orlop-half");
    let half = PathBuf::from(half);
    let open = File::options().read(true).write(true).create(true).truncate(true).open(&half);
    let mut place = open.map_err(|error| failed(&half, error))?;
    fetch(client, sha256, &mut place).await?;
    std::fs::rename(&half, path).map_err(|error| failed(path, error))
}

/// A file without a name: what goes to standard output is checked before.
fn templess() -> Result<File, Failure> {
    let path = std::env::temp_dir().join(format!("orlop-{}", uuid::Uuid::new_v4().simple()));
    let made = File::options().read(true).write(true).create_new(true).open(&path);
    let made = made.and_then(|file| std::fs::remove_file(&path).map(|()| file));
    made.map_err(|error| Failure::usage(format!("{} cannot be written: {error}", path.display())))
}

/// Fetches content into a file, going on where it broke off, and checks it.
async fn fetch(client: &Client, sha256: &str, place: &mut File) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("what is fetched cannot be written: {error}"));
    let path = format!("/artifacts/{}", escaped(sha256));
    let (mut have, mut tries) = (0_u64, 0);
    loop {
        let range = (have > 0).then(|| format!("bytes={have}-"));
        match client.open(ApiRequest::get(&path).with("range", range)).await {
            Ok(body) => {
                let mut pieces = body.into_data_stream();
                let mut whole = true;
                while let Some(piece) = pieces.next().await {
                    let Ok(piece) = piece else {
                        whole = false;
                        break;
                    };
                    place.write_all(&piece).map_err(failed)?;
                    have += piece.len() as u64;
                }
                if whole {
                    break;
                }
            }
            Err(failure) if !failure.is_passing() || tries >= TRIES => return Err(failure),
            Err(_) => {}
        }
        tries += 1;
        tokio::time::sleep(PAUSE).await;
    }
    let (found, _) = digest(place).map_err(failed)?;
    if found == sha256 {
        Ok(())
    } else {
        Err(Failure::unreachable(format!("what was fetched is {found}, not {sha256}")))
    }
}

/// What is uploaded.
pub(super) struct Source {
    /// Its name in the tenant.
    pub(super) name: String,
    /// Its content.
    pub(super) file: File,
    /// Whether it can be run.
    pub(super) executable: bool,
    /// Where it is, for messages.
    pub(super) shown: PathBuf,
}

impl Source {
    /// A file of this machine under a name.
    fn open(name: &str, path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let executable = file.metadata()?.mode() & 0o111 != 0;
        Ok(Self { name: name.to_owned(), file, executable, shown: path.to_owned() })
    }
}

/// Uploads a file; gives the artifact.
///
/// # Errors
/// The file cannot be read; the server refuses it, or stays away.
pub(super) async fn upload(client: &Client, source: Source, tenant: Option<&str>) -> Result<Value, Failure> {
    let Source { name, mut file, executable, shown } = source;
    let failed = |error: std::io::Error| Failure::usage(format!("{} cannot be read: {error}", shown.display()));
    let (sha256, bytes) = digest(&mut file).map_err(failed)?;
    let mut asked = json!({ "name": name, "bytes": bytes, "sha256": sha256 });
    if executable {
        asked["executable"] = true.into();
    }
    if let Some(tenant) = tenant {
        asked["tenant"] = tenant.into();
    }
    let mut tries = 0;
    loop {
        match send(client, &mut file, &mut asked, bytes, &sha256).await {
            Err(failure) if failure.is_passing() && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            other => return other,
        }
    }
}

/// One try of an upload, from where the one before ended.
async fn send(client: &Client, file: &mut File, asked: &mut Value, bytes: u64, sha256: &str) -> Result<Value, Failure> {
    let begun = client.ask(ApiRequest::post("/uploads", Some(asked))).await?.body;
    let id = text(&begun, "id");
    asked["upload"] = id.clone().into();
    let path = format!("/uploads/{}", escaped(&id));
    let mut offset = number(&begun, "committed");
    if begun["stored"] != true {
        let failed = |error: std::io::Error| Failure::usage(format!("the file cannot be read: {error}"));
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        while offset < bytes {
            let mut piece = Vec::new();
            (&mut *file).take(PIECE as u64).read_to_end(&mut piece).map_err(failed)?;
            if piece.is_empty() {
                return Err(Failure::usage("the file became shorter while it was sent"));
            }
            let len = piece.len() as u64;
            client.ask(ApiRequest::bytes(format!("{path}?offset={offset}"), piece)).await?;
            offset += len;
        }
    }
    let end = json!({ "sha256": sha256 });
    Ok(client.ask(ApiRequest::post(format!("{path}/finalize"), Some(&end))).await?.body)
}
