//! The output of an attempt as that of its job: both streams as they grow, without the time stamps, which the agent sets.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use orlop_cloud::runtime::logs::Stream;
use orlop_cloud::runtime::logs::follow::Follower;
use orlop_cloud::runtime::logs::read::{Page, read};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Copying of both streams.
pub(super) struct Forward {
    over: watch::Sender<bool>,
    tasks: Vec<JoinHandle<io::Result<()>>>,
}

impl Forward {
    /// Begins to copy the streams of an attempt, whose files are in a directory, there or not.
    pub(super) fn begin(directory: &Path, attempt: u32) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let (over, _) = watch::channel(false);
        let tasks = [("out", Stream::Stdout), ("err", Stream::Stderr)].map(|(ending, stream)| {
            let path = directory.join(format!("{attempt}.{ending}"));
            tokio::spawn(copy(path, stream, over.subscribe()))
        });
        Ok(Self { over, tasks: tasks.into() })
    }

    /// Copies what is left: the attempt has ended.
    pub(super) async fn finish(self) {
        self.over.send_replace(true);
        for task in self.tasks {
            if let Ok(Err(error)) = task.await {
                tracing::warn!(%error, "the output of the step broke off");
            }
        }
    }
}

async fn copy(path: PathBuf, stream: Stream, mut over: watch::Receiver<bool>) -> io::Result<()> {
    let mut follower = Follower::new(&path, stream, 0)?;
    loop {
        tokio::select! {
            page = follower.next() => write(stream, &page?)?,
            _ = over.wait_for(|over| *over) => break,
        }
    }
    let mut from = follower.offset();
    loop {
        let page = read(&path, stream, from)?;
        if page.next == from {
            return Ok(());
        }
        from = page.next;
        write(stream, &page)?;
    }
}

fn write(stream: Stream, page: &Page) -> io::Result<()> {
    let mut text = String::new();
    for entry in &page.entries {
        text.push_str(&entry.text);
        if !entry.goes_on {
            text.push('\n');
        }
    }
    match stream {
        Stream::Stdout => io::stdout().lock().write_all(text.as_bytes()),
        Stream::Stderr => io::stderr().lock().write_all(text.as_bytes()),
    }
}
