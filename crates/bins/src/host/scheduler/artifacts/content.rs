//! The content of an artifact on its way to the caller.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use orlop_cloud::artifact::ArtifactContent;

/// The content of an artifact.
#[derive(Clone, Debug)]
pub struct Content(Arc<dyn ArtifactContent>);

impl Content {
    pub(super) fn new(content: Box<dyn ArtifactContent>) -> Self {
        Self(content.into())
    }

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// So many bytes of it, from an offset on, in pieces of this size.
    #[must_use]
    pub fn part(self, offset: u64, length: u64, piece: usize) -> Pieces {
        Pieces { content: self.0, next: offset, end: offset.saturating_add(length), piece }
    }
}

/// A part of an artifact's content.
#[derive(Debug)]
pub struct Pieces {
    content: Arc<dyn ArtifactContent>,
    next: u64,
    end: u64,
    piece: usize,
}

impl Pieces {
    /// The next piece with its offset; none after the last one.
    ///
    /// # Errors
    /// The disk or the database; or the artifact was removed meanwhile.
    pub async fn next(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        let left = usize::try_from(self.end.saturating_sub(self.next)).unwrap_or(usize::MAX);
        let (at, most) = (self.next, self.piece.min(left));
        if most == 0 {
            return Ok(None);
        }
        let content = Arc::clone(&self.content);
        let read = tokio::task::spawn_blocking(move || content.read_at(at, most)).await;
        let data = read.map_err(io::Error::other)??;
        self.next = at + data.len() as u64;
        Ok((!data.is_empty()).then(|| (at, data.into())))
    }

    /// All of them; an error is the last.
    pub fn stream(self) -> impl Stream<Item = io::Result<(u64, Bytes)>> + Send {
        futures::stream::unfold(Some(self), async |pieces| {
            let mut pieces = pieces?;
            match pieces.next().await {
                Ok(next) => next.map(|piece| (Ok(piece), Some(pieces))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}
