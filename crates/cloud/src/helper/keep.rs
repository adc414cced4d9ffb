//! Outputs of a command that has ended: values of files, and artifacts on their way to a store. Owns what is
//! taken and what is said of what cannot be; what is missing is left out, and what that means is the engine's.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::helper::{
    Content, Keep, KeepTarget, Kept, Modes, Report, ReportedFailure, RunOrder, S3Location, SMALL_MAX, VERSION,
};
use orlop_core::name::sha256_hex;
use orlop_core::ports::artifact::ArtifactStore as _;
use tempfile::NamedTempFile;

use super::patience::attempt_for;
use super::{Secrets, clear, making};
use crate::artifact::{CasStore, Limits, UploadStore};
use crate::http::{HttpDownload, Options, Upload};
use crate::output::{error_of, read_value};
use crate::s3::Object;

/// How long handing something in is tried: an operator may be replaced meanwhile, and of several of them only one keeps anything.
const PATIENCE: Duration = Duration::from_secs(360);
/// Media type of plain bytes.
const PLAIN: &str = "application/octet-stream";
/// The longest message of a command that is looked at, in bytes.
const MESSAGE_MAX: u64 = 4096;

/// Takes everything; artifacts only where there is time.
pub(super) async fn all(order: &RunOrder, secrets: Secrets<'_>, artifacts: bool) -> Report {
    let mut report = Report { v: VERSION, ..Report::default() };
    let mut trouble = None;
    for file in &order.files {
        match value(Path::new(&file.path)) {
            Ok(None) => {}
            Ok(Some(Ok(text))) => drop(report.parameters.insert(file.name.clone(), text)),
            Ok(Some(Err(unfit))) => drop(report.unfit.insert(file.name.clone(), unfit)),
            Err(error) => drop(trouble.get_or_insert(error_of("file", &file.name, &file.path, error.into()))),
        }
    }
    if artifacts && !order.artifacts.is_empty() {
        match Hand::new(order, secrets) {
            Ok(hand) => {
                for keep in &order.artifacts {
                    match hand.one(keep).await {
                        Ok(kept) => report.artifacts.extend(kept),
                        Err(error) => {
                            trouble.get_or_insert(error_of("artifact", &keep.name, &keep.path, error));
                        }
                    }
                }
            }
            Err(error) => drop(trouble.get_or_insert(error)),
        }
        // What is left behind goes with the pod.
        drop(clear(Path::new(&order.scratch)));
    }
    report.trouble = trouble.map(|error| ReportedFailure {
        reason: error.reason.unwrap_or("OutputMissing").to_owned(),
        message: error.to_string().chars().take(500).collect(),
    });
    report
}

/// The report as it is left: where it does not fit into a termination message, it is handed in.
pub(super) async fn fitting(order: &RunOrder, token: &str, report: Report) -> Report {
    let (Some(whole), Some(url)) = (report.overflow(), &order.overflow) else { return report };
    let content =
        Content { size_bytes: whole.len() as u64, sha256: sha256_hex(whole.as_bytes(), 64), packing: String::new() };
    if content.size_bytes > order.small_max() {
        return report;
    }
    let sent = match HttpDownload::direct(Options::default()) {
        Ok(upload) => send(&upload, url, token, &content, whole.into_bytes()).await,
        Err(error) => Err(error),
    };
    match sent {
        Ok(()) => Report { v: VERSION, elsewhere: Some(content), ..Report::default() },
        Err(error) => {
            Report::of_trouble("OutputMissing", &format!("the outputs cannot be handed in: {}", error.chain()))
        }
    }
}

async fn send(upload: &HttpDownload, url: &str, token: &str, content: &Content, bytes: Vec<u8>) -> Result<(), Problem> {
    let what = Upload { url: url.to_owned(), sha256: content.sha256.clone(), content: bytes };
    attempt_for(PATIENCE, || upload.put(&what, token)).await.map_err(|error| match error.class {
        Class::Exists => error.with_reason("ResourceConflict"),
        _ => error,
    })
}

/// What the command itself has left as termination message.
pub(super) fn message(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MESSAGE_MAX).read_to_end(&mut bytes));
    if read.is_ok() { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() }
}

/// A path as the command sees it, links followed; none when nothing is there.
fn real(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::canonicalize(path) {
        Ok(path) => Ok(Some(path)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn value(path: &Path) -> io::Result<Option<Result<String, orlop_core::attempt::FileTrouble>>> {
    match real(path)? {
        Some(path) => read_value(&path),
        None => Ok(None),
    }
}

/// What keeps.
struct Hand<'o> {
    uploads: UploadStore,
    store: CasStore,
    /// To the operator.
    upload: HttpDownload,
    /// To stores, which may be behind a proxy.
    outside: HttpDownload,
    secrets: Secrets<'o>,
    order: &'o RunOrder,
}

impl<'o> Hand<'o> {
    fn new(order: &'o RunOrder, secrets: Secrets<'o>) -> Result<Self, Problem> {
        let scratch = PathBuf::from(&order.scratch);
        clear(&scratch)?;
        making(&scratch, Modes::default())?;
        let limits = Limits { max_bytes: order.max_bytes, ..Limits::default() };
        let options = Options { max_bytes: order.max_bytes, ..Options::default() };
        Ok(Self {
            uploads: UploadStore::open(&scratch)?,
            store: CasStore::open(&scratch, limits)?,
            upload: HttpDownload::direct(options)?,
            outside: HttpDownload::new(options)?,
            secrets,
            order,
        })
    }

    async fn one(&self, keep: &Keep) -> Result<Option<Kept>, Problem> {
        let Some(path) = real(Path::new(&keep.path))? else { return Ok(None) };
        if keep.to == KeepTarget::InPlace {
            // It is not read: its consumers see what is there.
            return Ok(Some(Kept { name: keep.name.clone(), stored: true, ..Kept::default() }));
        }
        let location = match self.store.put(&path, keep.archive).await {
            Err(error) if error.class == Class::NotFound => return Ok(None),
            location => location?,
        };
        // The reference is `sha256/<64 digits>` and how the bytes are packed.
        let packing = location.reference.get(7 + 64..).unwrap_or_default().to_owned();
        let content = Content { size_bytes: location.size_bytes, sha256: location.sha256, packing };
        let stored = match &keep.to {
            KeepTarget::Operator { .. } if content.size_bytes > self.order.small_max() => false,
            KeepTarget::Operator { url } => self.hand_in(url, &content).await.map(|()| true)?,
            KeepTarget::File { path } => self.put_down(Path::new(path), &content).map(|()| true)?,
            KeepTarget::S3(place) => self.send_away(place, &content).await.map(|()| true)?,
            KeepTarget::InPlace => true,
        };
        Ok(Some(Kept { name: keep.name.clone(), content, stored }))
    }

    fn stored(&self, content: &Content) -> Result<File, Problem> {
        let found = self.uploads.read(&content.sha256)?;
        found.map(|(file, _)| file).ok_or_else(|| Problem::new(Class::Fatal, "what was packed is gone"))
    }

    /// Hands a small artifact to the operator.
    async fn hand_in(&self, url: &str, content: &Content) -> Result<(), Problem> {
        let mut bytes = Vec::new();
        self.stored(content)?.take(SMALL_MAX).read_to_end(&mut bytes)?;
        send(&self.upload, url, self.secrets.token, content, bytes).await
    }

    /// Stores an artifact as an object.
    async fn send_away(&self, place: &S3Location, content: &Content) -> Result<(), Problem> {
        let object = Object::new(place, self.secrets.keys.of(place)?)?;
        // A copy under another name: the upload store does not show paths.
        let mut copy = self.uploads.unfinished()?;
        io::copy(&mut self.stored(content)?, &mut copy)?;
        let kind = self.order.content_type.as_deref().unwrap_or(PLAIN);
        object.store(&self.outside, copy.path(), content.size_bytes, kind).await
    }

    /// Puts an artifact down in a mounted folder: whole, or not at all.
    fn put_down(&self, place: &Path, content: &Content) -> Result<(), Problem> {
        let folder = place.parent().unwrap_or(Path::new("/"));
        let failed = |error: io::Error| {
            let class = Problem::from(io::Error::from(error.kind())).class;
            Problem::new(class, format!("{} cannot be written; look at the rights of its volume", place.display()))
                .because(error)
        };
        making(folder, self.order.modes)?;
        let mut half = NamedTempFile::new_in(folder).map_err(failed)?;
        io::copy(&mut self.stored(content)?, &mut half).map_err(failed)?;
        half.as_file().sync_all().map_err(failed)?;
        // Its consumer may be another user.
        let open = std::os::unix::fs::PermissionsExt::from_mode(self.order.modes.file);
        half.as_file().set_permissions(open).map_err(failed)?;
        half.persist(place).map_err(|error| failed(error.error))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}
