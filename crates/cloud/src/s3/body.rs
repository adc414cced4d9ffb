//! Bodies of requests to a store: a part of a file, read while it is sent.

use std::io::SeekFrom;
use std::path::Path;

use orlop_core::error::{Class, Problem};
use reqwest::Body;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::Span;

/// Bytes that are read at once.
const PIECE: u64 = 256 << 10;

/// Nothing.
pub(super) fn empty() -> Body {
    Body::from("")
}

/// A part of a file.
///
/// # Errors
/// The file cannot be read.
pub(super) async fn of(path: &Path, span: Span) -> Result<Body, Problem> {
    let failed = |error| Problem::new(Class::Fatal, "the data to store cannot be read").because(error);
    let mut file = File::open(path).await.map_err(failed)?;
    file.seek(SeekFrom::Start(span.start)).await.map_err(failed)?;
    let pieces = futures::stream::try_unfold((file, span.bytes), |(mut file, left)| async move {
        let mut piece = vec![0; usize::try_from(left.min(PIECE)).unwrap_or_default()];
        if piece.is_empty() {
            return Ok::<_, std::io::Error>(None);
        }
        file.read_exact(&mut piece).await?;
        let left = left - piece.len() as u64;
        Ok(Some((piece, (file, left))))
    });
    Ok(Body::wrap_stream(pieces))
}
