//! Logs for clients of the protocol.

use futures::Stream;

use super::super::{Error, Handle, LogNews, LogOrder, LogReader, Stop};
use crate::wire::grpc::Refusal;
use crate::wire::query::{LogPage, LogQuery};

/// The pages of a log.
pub(super) async fn pages(
    handle: Handle,
    stop: Stop,
    query: LogQuery,
) -> Result<impl Stream<Item = Result<LogPage, Refusal>> + Send, Error> {
    let LogQuery { job, index, attempt, stream, follow, since_seq, since } = query;
    let (index, after) = (index.unwrap_or(0), since_seq.saturating_sub(1));
    let order = LogOrder { job, index, attempt, from: None, after, stream, since, follow };
    let reader = LogReader::open(handle, stop, order).await?;
    Ok(futures::stream::unfold(Some(reader), async |reader| {
        let mut reader = reader?;
        Some(match reader.next().await {
            Ok(Some(LogNews::Chunks(chunks))) => (Ok(LogPage { chunks, end: false }), Some(reader)),
            Ok(Some(LogNews::End(_))) => (Ok(LogPage { chunks: Vec::new(), end: true }), None),
            Ok(None) => return None,
            Err(wrong) => (Err(wrong), None),
        })
    }))
}
