//! Logs for clients of the protocol.

use futures::Stream;
use orlop_core::error::Problem;
use orlop_core::id::JobId;
use orlop_core::task::LogStream;

use super::super::{Handle, LogNews, LogOrder, LogReader, Stop};
use crate::wire::bound::{OnWire, time};
use crate::wire::v1::{LogsRequest, LogsResponse};

/// The pages of a log.
pub(super) async fn pages(
    handle: Handle,
    stop: Stop,
    query: LogsRequest,
) -> Result<impl Stream<Item = Result<LogsResponse, Problem>> + Send, Problem> {
    let stream = Some(query.stream).filter(|number| *number != 0).map(LogStream::read).transpose();
    let order = LogOrder {
        job: JobId::from_u64(query.job_id),
        index: query.index.unwrap_or(0),
        attempt: Some(query.attempt).filter(|number| *number > 0),
        from: None,
        after: query.since_seq.saturating_sub(1),
        stream: stream.map_err(Problem::from)?,
        since: time(query.since),
        follow: query.follow,
    };
    let reader = LogReader::open(handle, stop, order).await?;
    Ok(futures::stream::unfold(Some(reader), async |reader| {
        let mut reader = reader?;
        Some(match reader.next().await {
            Ok(Some(LogNews::Chunks(chunks))) => (Ok(LogsResponse { chunks, end: false }), Some(reader)),
            Ok(Some(LogNews::End(_))) => (Ok(LogsResponse { chunks: Vec::new(), end: true }), None),
            Ok(None) => return None,
            Err(wrong) => (Err(wrong), None),
        })
    }))
}
