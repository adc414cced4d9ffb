//! A thread that owns a file and answers requests for it one after another. Owns its start, its end and what callers get
//! when it is gone; what is asked of the file is its users'.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use orlop_core::error::{Class, Problem};
use tokio::sync::{mpsc, oneshot};

/// What a thread and its file are called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// The thread, to the system.
    pub(super) thread: &'static str,
    /// The file, to people.
    pub(super) file: &'static str,
    /// What is to be opened again when the thread has stopped.
    pub(super) again: &'static str,
}

/// The thread, as its callers hold it. Dropping it waits for calls under way.
#[derive(Debug)]
pub(super) struct Owner<R> {
    path: Arc<Path>,
    names: Names,
    requests: Option<mpsc::Sender<R>>,
    thread: Option<JoinHandle<()>>,
    ended: Option<oneshot::Receiver<()>>,
}

impl<R: Send + 'static> Owner<R> {
    /// Starts a thread that opens a file and serves requests until there are no callers left; at most `queue` of them wait
    /// before callers wait to hand theirs over.
    ///
    /// # Errors
    /// What opening the file says; Transient when the system gives no thread.
    pub(super) async fn start<S>(
        path: Arc<Path>,
        names: Names,
        queue: usize,
        open: impl FnOnce(&Path) -> Result<S, Problem> + Send + 'static,
        serve: impl FnOnce(S, mpsc::Receiver<R>) + Send + 'static,
    ) -> Result<Self, Problem> {
        let (requests, inbox) = mpsc::channel(queue);
        let (opened, answer) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let file = Arc::clone(&path);
        let work = move || {
            match open(&file) {
                Ok(store) => {
                    // A caller that went away while the file was opened drops its end: the loop then ends at once.
                    drop(opened.send(Ok(())));
                    serve(store, inbox);
                }
                Err(error) => drop(opened.send(Err(error))),
            }
            drop(end);
        };
        let thread = std::thread::Builder::new().name(names.thread.to_owned()).spawn(work).map_err(|error| {
            let text = format!("the thread of the {} could not be started", names.file);
            Problem::new(Class::Transient, text).because(error)
        })?;
        let owner = Self { path, names, requests: Some(requests), thread: Some(thread), ended: Some(ended) };
        answer.await.map_err(|_| owner.stopped())??;
        Ok(owner)
    }

    /// Waits for calls under way and closes the file.
    pub(super) async fn close(mut self) {
        self.requests = None;
        if let Some(ended) = self.ended.take() {
            // The thread drops its end without a word when it is done.
            drop(ended.await);
        }
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the thread for something, and waits for its answer.
    ///
    /// # Errors
    /// What the thread answers; Fatal when it has stopped.
    pub(super) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Problem>>) -> R,
    ) -> Result<T, Problem> {
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(|| self.stopped())?;
        requests.send(request(answer)).await.map_err(|_| self.stopped())?;
        answered.await.map_err(|_| self.stopped())?
    }

    fn stopped(&self) -> Problem {
        let Names { file, again, .. } = self.names;
        let message = format!(
            "the thread of {file} {} has stopped; see the log for why, and open the {again} again",
            self.path.display()
        );
        Problem::new(Class::Fatal, message)
    }
}

impl<R> Drop for Owner<R> {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(path = %self.path.display(), "the thread of the {} panicked", self.names.file);
        }
    }
}
