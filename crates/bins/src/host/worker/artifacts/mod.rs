//! What attempts need before they start and leave when they have ended.

mod tries;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use orlop_cloud::artifact::{CollectedFile, FileMode, UploadStore, collect, digest_of};
use orlop_cloud::runtime::worker::{AttemptEnd, Kept, beneath};
use orlop_core::error::{Class, Code};
use orlop_core::spec::job::{JobSpec, Runtime};
use orlop_core::task::{TaskEnd, TaskRef};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use self::tries::{PAUSE, TRIES, TransferError, Tries};
use super::link::Link;
use super::runtimes::directory;
use crate::wire::artifact::UPLOAD_CHUNK;
use crate::wire::bound::NAME_MAX;
use crate::wire::grpc::ArtifactClient;
use crate::wire::v1::{BeginUploadRequest, DownloadRequest, FinalizeUploadRequest, UploadRequest};

/// Bytes of the cache.
const CACHE: u64 = 10 << 30;
/// Of a file with more bytes the server is asked whether it takes that much, before any of it is read: a file may claim to have
/// terabytes.
const LARGE: u64 = 64 << 20;

/// What attempts of one specification need and leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Needs {
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Input {
    name: String,
    path: String,
    sha256: String,
    #[serde(default)]
    form: InputForm,
}

/// What becomes of the content of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum InputForm {
    /// A file that can be read.
    #[default]
    File,
    /// A file that can be run too.
    Program,
    /// It is an archive, whose files are put there.
    Folder,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Output {
    name: String,
    path: String,
    required: bool,
}

impl Input {
    /// Where it stands below a folder.
    fn below(&self, folder: &Path) -> Result<PathBuf, TransferError> {
        let path = beneath(&self.path);
        let path = path.filter(|path| self.form == InputForm::Folder || !path.as_os_str().is_empty());
        let path = path.ok_or_else(|| TransferError::Final("its path leads elsewhere".to_owned()))?;
        Ok(folder.join(path))
    }
}

impl Needs {
    /// What a specification asks for; none when that is nothing.
    pub(super) fn of(spec: &JobSpec) -> Option<Arc<Self>> {
        let inputs = spec.artifacts_in.iter().map(|file| Input {
            name: file.name.clone(),
            path: file.path.clone(),
            sha256: file.sha256.clone().unwrap_or_default(),
            form: match (file.unpack, file.executable) {
                (true, _) => InputForm::Folder,
                (false, true) => InputForm::Program,
                (false, false) => InputForm::File,
            },
        });
        let outputs = spec.artifacts_out.iter().map(|file| Output {
            name: file.name.clone(),
            path: file.path.clone(),
            required: file.required,
        });
        let needs = Self { inputs: inputs.collect(), outputs: outputs.collect() };
        (needs != Self::default()).then(|| Arc::new(needs))
    }

    /// Whether something is fetched before the start.
    pub(super) fn has_inputs(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// Whether something is collected after an end: of one that ran to its end.
    pub(super) fn collects(&self, outcome: TaskEnd) -> bool {
        !self.outputs.is_empty() && matches!(outcome, TaskEnd::Succeeded | TaskEnd::Failed | TaskEnd::TimedOut)
    }
}

/// Where an agent keeps files of attempts, and where it gets them from.
#[derive(Debug)]
pub(super) struct Files {
    link: Arc<dyn Link>,
    cache: UploadStore,
    /// Inputs of attempts, a folder each.
    inputs: PathBuf,
    /// Where directories of attempts are.
    state: PathBuf,
    /// The agent ends: a server that is away is waited for no longer.
    leaving: watch::Sender<bool>,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| TransferError::Passing(error.to_string()))?
}

impl Files {
    /// Files below an agent's state directory.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn open(state: &Path, link: Arc<dyn Link>) -> io::Result<Self> {
        let (cache, inputs) = (state.join("cache"), state.join("inputs"));
        fs::create_dir_all(&cache)?;
        fs::create_dir_all(&inputs)?;
        let cache = UploadStore::open(&cache).map_err(io::Error::other)?;
        Ok(Self { link, cache, inputs, state: state.to_owned(), leaving: watch::Sender::new(false) })
    }

    /// The agent ends: from now on nothing waits for a server that is away.
    pub(super) fn leave(&self) {
        self.leaving.send_replace(true);
    }

    /// Fetches what an attempt needs. Gives the folder with its inputs, or the reason of its failure.
    pub(super) async fn fetch(&self, id: TaskRef, needs: &Needs) -> Result<PathBuf, String> {
        let folder = self.inputs.join(id.to_string());
        self.folders(&folder, needs).await.map_err(|trouble| format!("artifact_fetch: {}", trouble.why()))?;
        // Links come with folders only, so nothing that follows is written through one.
        let (folders, files): (Vec<&Input>, Vec<&Input>) =
            needs.inputs.iter().partition(|input| input.form == InputForm::Folder);
        for input in files.into_iter().chain(folders) {
            let mut tries = Tries::new(self.leaving.subscribe());
            while let Err(trouble) = self.input(id, &folder, input).await {
                tries.again(trouble).await.map_err(|trouble| match trouble {
                    TransferError::Away(why) | TransferError::Passing(why) => {
                        format!("artifact_fetch: `{}`: {why}", input.name)
                    }
                    TransferError::Final(why) => format!("artifact: `{}`: {why}", input.name),
                })?;
            }
        }
        Ok(folder)
    }

    /// Makes the folders that inputs stand in, which nothing that comes later replaces.
    async fn folders(&self, folder: &Path, needs: &Needs) -> Result<(), TransferError> {
        let (folder, inputs) = (folder.to_owned(), needs.inputs.clone());
        blocking(move || {
            remove(&folder);
            fs::create_dir_all(&folder)?;
            for input in &inputs {
                let target = input.below(&folder)?;
                let made = if input.form == InputForm::Folder { Some(target.as_path()) } else { target.parent() };
                made.map_or(Ok(()), fs::create_dir_all)?;
            }
            Ok(())
        })
        .await
    }

    async fn input(&self, id: TaskRef, folder: &Path, input: &Input) -> Result<(), TransferError> {
        let target = input.below(folder)?;
        for last in [false, true] {
            let (cache, sha256, target, form) = (self.cache.clone(), input.sha256.clone(), target.clone(), input.form);
            let there = blocking(move || {
                let delivered = match form {
                    InputForm::File => cache.deliver(&sha256, &target, FileMode::ReadOnly),
                    InputForm::Program => cache.deliver(&sha256, &target, FileMode::Executable),
                    InputForm::Folder => cache.unpack(&sha256, &target),
                };
                delivered.map_err(|error| match error.class {
                    Class::Invalid => TransferError::Final(error.chain()),
                    _ => TransferError::Passing(error.chain()),
                })
            });
            if there.await? {
                return Ok(());
            }
            if last {
                break;
            }
            self.download(id, &input.sha256).await?;
        }
        Err(TransferError::Passing("it was fetched and is gone again".to_owned()))
    }

    /// Fetches content that an attempt needs into the cache.
    async fn download(&self, id: TaskRef, sha256: &str) -> Result<(), TransferError> {
        let client = self.link.artifacts().await?;
        let cache = self.cache.clone();
        let file = blocking(move || cache.unfinished().map_err(|error| TransferError::Passing(error.chain()))).await?;
        let mut out = tokio::fs::File::from_std(file.reopen()?);
        let mut have = 0;
        let mut breaks = 0;
        loop {
            match self.pieces(&client, (id, sha256), &mut out, &mut have).await {
                Ok(()) => break,
                // What is here already is not fetched again.
                Err(TransferError::Passing(_)) if breaks < TRIES => breaks += 1,
                Err(trouble) => return Err(trouble),
            }
            tokio::time::sleep(PAUSE).await;
        }
        drop(out);
        let (cache, sha256) = (self.cache.clone(), sha256.to_owned());
        blocking(move || {
            cache.adopt(file, &sha256).map_err(|error| TransferError::Passing(error.chain()))?;
            cache.shrink(CACHE).map_err(|error| TransferError::Passing(error.chain()))
        })
        .await
    }

    async fn pieces(
        &self,
        client: &ArtifactClient,
        (id, sha256): (TaskRef, &str),
        out: &mut tokio::fs::File,
        have: &mut u64,
    ) -> Result<(), TransferError> {
        use tokio::io::AsyncWriteExt as _;
        let mut pieces = client
            .download(DownloadRequest { sha256: sha256.to_owned(), offset: *have, r#ref: Some(id.into()) })
            .await?;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if piece.offset != *have {
                return Err(TransferError::Passing("a piece is missing".to_owned()));
            }
            out.write_all(&piece.data).await?;
            *have += piece.data.len() as u64;
        }
        out.flush().await?;
        Ok(())
    }

    /// Stores what an attempt left. Gives its end with that, or as a failure where something is missing.
    pub(super) async fn store(&self, id: TaskRef, runtime: Runtime, needs: &Needs, mut end: AttemptEnd) -> AttemptEnd {
        let root = directory(&self.state, runtime).join(id.to_string());
        for output in &needs.outputs {
            let (root, pattern) = (root.clone(), output.path.clone());
            let stored = match blocking(move || Ok(collect(&root, &pattern)?)).await {
                Ok(found) if found.is_empty() && output.required => {
                    Err(format!("artifact: `{}`: nothing is at {}", output.name, output.path))
                }
                Ok(found) => self.all(id, output, found).await,
                Err(trouble) => Err(format!("artifact: `{}`: {}", output.name, trouble.why())),
            };
            match stored {
                Ok(kept) => end.artifacts.extend(kept),
                // Who failed has a reason already, and what need not be there fails nobody.
                Err(why) if output.required && end.outcome == TaskEnd::Succeeded => {
                    (end.outcome, end.reason) = (TaskEnd::Failed, why);
                }
                Err(why) => tracing::warn!(attempt = %id, why, "not all artifacts of an attempt are stored"),
            }
        }
        end
    }

    fn all<'a>(
        &'a self,
        id: TaskRef,
        output: &'a Output,
        found: Vec<CollectedFile>,
    ) -> BoxFuture<'a, Result<Vec<Kept>, String>> {
        Box::pin(self.each(id, output, found))
    }

    async fn each(&self, id: TaskRef, output: &Output, found: Vec<CollectedFile>) -> Result<Vec<Kept>, String> {
        let several = found.len() > 1;
        let mut kept = Vec::with_capacity(found.len());
        for (number, file) in found.into_iter().enumerate() {
            // Below a folder of its name it is called as it stands there.
            let inside = Path::new(&file.relative).strip_prefix(&output.name);
            let longer =
                Path::new(&output.name).join(inside.unwrap_or(Path::new(&file.relative))).display().to_string();
            let name = match several {
                false => output.name.clone(),
                true if longer.len() <= NAME_MAX => longer,
                true => format!("{}/{number}", output.name),
            };
            let (mut upload, mut tries) = (None, Tries::new(self.leaving.subscribe()));
            let stored = loop {
                match self.upload(id, &name, &file, &mut upload).await {
                    Ok(stored) => break stored,
                    Err(trouble) => {
                        let again = tries.again(trouble).await;
                        again.map_err(|trouble| format!("artifact: `{name}`: {}", trouble.why()))?;
                    }
                }
            };
            kept.push(stored);
        }
        Ok(kept)
    }

    /// Stores one file; goes on with what an earlier try has sent.
    fn upload<'a>(
        &'a self,
        id: TaskRef,
        name: &'a str,
        file: &'a CollectedFile,
        upload: &'a mut Option<String>,
    ) -> BoxFuture<'a, Result<Kept, TransferError>> {
        Box::pin(self.sent(id, name, file, upload))
    }

    async fn sent(
        &self,
        id: TaskRef,
        name: &str,
        file: &CollectedFile,
        upload: &mut Option<String>,
    ) -> Result<Kept, TransferError> {
        let client = self.link.artifacts().await?;
        let opened = fs::File::open(&file.path)?;
        let metadata = opened.metadata()?;
        let executable = metadata.mode() & 0o100 != 0;
        let beginning = BeginUploadRequest {
            name: name.to_owned(),
            bytes: metadata.len(),
            r#ref: Some(id.into()),
            executable,
            ..BeginUploadRequest::default()
        };
        if upload.is_none() && beginning.bytes > LARGE {
            *upload = Some(client.begin(beginning.clone()).await?.upload_id);
        }
        let wanted = CancelOnDrop::default();
        let mut reading = CancellableFile { file: opened, wanted: Arc::clone(&wanted.0) };
        let (sha256, bytes) = blocking(move || Ok(digest_of(&mut reading)?)).await?;
        drop(wanted);
        let upload_id = upload.clone().unwrap_or_default();
        let beginning = BeginUploadRequest { bytes, sha256: sha256.clone(), upload_id, ..beginning };
        let begun = match client.begin(beginning).await {
            // It rested too long, or its server has forgotten it: all of it is sent again.
            Err(refusal) if refusal.code == Code::NotFound && upload.take().is_some() => {
                return Err(TransferError::Passing(refusal.to_string()));
            }
            begun => begun?,
        };
        *upload = Some(begun.upload_id.clone());
        if !begun.stored && begun.committed < bytes {
            let pieces = push(client.clone(), file.path.clone(), begun.upload_id.clone(), begun.committed);
            let committed = pieces.await?;
            if committed < bytes {
                return Err(TransferError::Passing(format!("only {committed} of {bytes} bytes were taken")));
            }
        }
        let end = FinalizeUploadRequest { upload_id: begun.upload_id, sha256: sha256.clone() };
        if let Err(refusal) = client.finalize(end).await {
            if refusal.code == Code::Checksum {
                *upload = None;
            }
            return Err(refusal.into());
        }
        Ok(Kept { name: name.to_owned(), sha256, bytes, path: file.relative.clone(), executable })
    }

    /// Removes the inputs of an attempt that has ended.
    pub(super) fn clear(&self, id: TaskRef) {
        remove(&self.inputs.join(id.to_string()));
    }

    /// Removes inputs of attempts that are not there any more.
    pub(super) fn clear_others(&self, there: impl Fn(&TaskRef) -> bool) {
        for entry in fs::read_dir(&self.inputs).into_iter().flatten().flatten() {
            let known = entry.file_name().to_str().and_then(|name| name.parse().ok()).is_some_and(|id| there(&id));
            if !known {
                remove(&entry.path());
            }
        }
    }
}

/// Somebody waits for what is read. Dropped, nobody does any more.
struct CancelOnDrop(Arc<AtomicBool>);

impl Default for CancelOnDrop {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A file that ends with an error once no one waits for it any more.
struct CancellableFile {
    file: fs::File,
    wanted: Arc<AtomicBool>,
}

impl io::Read for CancellableFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if !self.wanted.load(Ordering::Relaxed) {
            return Err(io::Error::other("no one waits for it any more"));
        }
        self.file.read(bytes)
    }
}

fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), %error, "inputs of an attempt stay");
        }
        _ => {}
    }
}

/// Sends a file from some place on; gives how many of its bytes are stored then.
fn push(
    client: ArtifactClient,
    path: PathBuf,
    upload: String,
    offset: u64,
) -> BoxFuture<'static, Result<u64, TransferError>> {
    Box::pin(async move {
        let file = blocking(move || {
            let mut file = fs::File::open(&path)?;
            io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
            Ok(file)
        });
        let mut answers = client.upload(chunks(file.await?, upload, offset)).await?;
        let mut committed = offset;
        while let Some(answer) = answers.next().await {
            committed = answer?;
        }
        Ok(committed)
    })
}

/// The rest of a file in pieces, which begins at `offset`.
fn chunks(file: fs::File, upload_id: String, offset: u64) -> BoxStream<'static, UploadRequest> {
    let pieces = futures::stream::unfold((file, offset), move |(file, offset)| {
        let upload_id = upload_id.clone();
        async move {
            let read = tokio::task::spawn_blocking(move || {
                let mut data = Vec::with_capacity(UPLOAD_CHUNK);
                let read = io::Read::read_to_end(&mut io::Read::take(&file, UPLOAD_CHUNK as u64), &mut data);
                read.map(|_| (file, data))
            });
            // A file that cannot be read any more ends here; the server then misses bytes.
            let (file, data) = read.await.ok()?.ok()?;
            let len = data.len() as u64;
            (len > 0).then(|| (UploadRequest { upload_id, offset, data: data.into() }, (file, offset + len)))
        }
    });
    pieces.boxed()
}

#[cfg(test)]
mod tests;
