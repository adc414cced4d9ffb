//! Artifacts: what jobs left, content by its digest or a part of it, and uploads that can be gone on with.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use futures::TryStreamExt as _;
use orlop_core::error::Problem;
use orlop_core::id::Epoch;
use orlop_core::ports::fleet_store::{AttemptFilter, MAX_PAGE, Page};
use orlop_core::spec::job::Indices;
use orlop_core::task::TaskRef;

use super::super::BASE;
use super::super::call::Call;
use super::super::cursor;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::view::artifact::{ArtifactList, ArtifactView, FinishUpload, NewUpload, UploadView};
use crate::wire::artifact::Beginning;
use crate::wire::attempt::Artifact;

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// The longest name.
const NAME: usize = 128;

/// A part of some content: where it begins and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteRange {
    Whole,
    Some(u64, u64),
    /// It begins behind the end.
    None,
}

/// The part that a `Range` asks for; one that cannot be understood asks for all, as the standard has it.
fn part(range: Option<&str>, total: u64) -> ByteRange {
    let asked = range.and_then(|range| range.strip_prefix("bytes=")).filter(|range| !range.contains(','));
    let Some((first, last)) = asked.and_then(|range| range.split_once('-')) else { return ByteRange::Whole };
    let (first, last) = (first.trim(), last.trim());
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), _) if first >= total => ByteRange::None,
        (Ok(first), Err(_)) if last.is_empty() => ByteRange::Some(first, total - first),
        (Ok(first), Ok(last)) if last >= first => ByteRange::Some(first, last.min(total - 1) - first + 1),
        (Err(_), Ok(0)) if first.is_empty() => ByteRange::None,
        (Err(_), Ok(_)) if first.is_empty() && total == 0 => ByteRange::None,
        (Err(_), Ok(end)) if first.is_empty() => ByteRange::Some(total - end.min(total), end.min(total)),
        _ => ByteRange::Whole,
    }
}

/// GET /jobs/{id}/artifacts
pub(in super::super) async fn of_job(api: Arc<Api>, call: Call) -> Answer {
    let row = api.job(&call).await?;
    let indices: Option<Indices> = call.read("index")?;
    let mut room = call.limit()?;
    let after = call.cursor::<String>("artifacts")?;
    let after: Option<TaskRef> = match after {
        Some(text) => {
            Some(serde_json::from_str(&text).map_err(|_| Problem::field("cursor", "does not belong to this list"))?)
        }
        None => None,
    };
    let job = row.job.id;
    // Attempts begin with 1: this comes before all of an element.
    let before = |index| TaskRef { job, index, member: 0, attempt: 0, epoch: Epoch(0) };
    let mut after = after.filter(|after| after.job == job).unwrap_or_else(|| before(0));
    let mut items = Vec::new();
    loop {
        let range = match &indices {
            Some(indices) => indices.from(after.index),
            None => Some((after.index, u32::MAX)),
        };
        let Some((first, last)) = range else { break };
        if first > after.index {
            after = before(first);
        }
        let part = left(&api, after, last, &mut room, &mut items).await?;
        match (part, last.checked_add(1)) {
            (Left::Full(last), _) => {
                let next = serde_json::to_string(&last).ok().map(|id| cursor::write("artifacts", &id));
                return Reply::json(200, &ArtifactList { items, next_cursor: next });
            }
            (Left::All, Some(next)) => after = before(next),
            (Left::All, None) => break,
        }
    }
    Reply::json(200, &ArtifactList { items, next_cursor: None })
}

/// How far a part of the list was read.
enum Left {
    All,
    /// The page is full with this attempt.
    Full(TaskRef),
}

/// Adds what attempts behind one left, up to the last of an element, as long as there is room for attempts.
async fn left(
    api: &Api,
    mut after: TaskRef,
    last: u32,
    room: &mut u32,
    items: &mut Vec<ArtifactView>,
) -> Result<Left, Problem> {
    let reads = api.handle.store();
    let filter = AttemptFilter { index: (after.index == last).then_some(last) };
    loop {
        let page = Page::after(after, MAX_PAGE.min((last - after.index).saturating_add(16)));
        let found = reads.attempts(after.job, &filter, &page).await.map_err(|error| store(&error))?;
        let within = found.items.iter().take_while(|attempt| attempt.attempt.id.index <= last);
        // Others are not what the job left.
        for attempt in within.filter(|attempt| attempt.end.as_ref().is_some_and(|end| end.accepted_final)) {
            let id = attempt.attempt.id;
            let detail = reads.detail(&id).await.map_err(|error| store(&error))?;
            let body: serde_json::Value =
                detail.and_then(|detail| serde_json::from_str(&detail.body).ok()).unwrap_or_default();
            let before = items.len();
            let left = body["artifacts"].as_array().into_iter().flatten();
            items.extend(left.map(|artifact| ArtifactView::of(id.index, artifact)));
            *room -= u32::from(items.len() > before);
            if *room == 0 {
                return Ok(Left::Full(id));
            }
        }
        match found.next.filter(|next| next.index <= last) {
            Some(next) => after = next,
            None => return Ok(Left::All),
        }
    }
}

/// GET /artifacts/{sha256}
pub(in super::super) async fn content(api: Arc<Api>, call: Call) -> Answer {
    let content = api.handle.artifact(|tenant| call.sees(tenant), call.part("sha256")).await?;
    let total = content.bytes();
    let range = call.headers.get(RANGE).and_then(|value| value.to_str().ok());
    let (status, from, length) = match part(range, total) {
        ByteRange::Whole => (200, 0, total),
        ByteRange::Some(from, length) => (206, from, length),
        ByteRange::None => return Ok(Reply::empty(416).header(CONTENT_RANGE, &format!("bytes */{total}"))),
    };
    let pieces = content.part(from, length, PIECE).stream().map_ok(|(_, piece)| piece);
    let reply = Reply::stream("application/octet-stream", Body::from_stream(pieces)).status(status);
    let reply = reply.header(CONTENT_LENGTH, &length.to_string()).header(ACCEPT_RANGES, "bytes");
    let shown = format!("bytes {from}-{}/{total}", (from + length).saturating_sub(1));
    Ok(if status == 206 { reply.header(CONTENT_RANGE, &shown) } else { reply })
}

/// POST /uploads
pub(in super::super) async fn begin(api: Arc<Api>, call: Call) -> Answer {
    let asked: NewUpload = call.json()?;
    if asked.name.is_empty() || asked.name.len() > NAME {
        return Err(Problem::field("name", format!("use 1 to {NAME} bytes")));
    }
    let tenant = call.owner(asked.tenant.as_deref(), &api.options.default_tenant)?;
    api.handle.require_tenant(&tenant, "", |name| call.sees(name)).await?;
    let NewUpload { name, bytes, sha256, upload, executable, .. } = asked;
    let beginning = Beginning { name, bytes, sha256, attempt: None, upload, executable };
    let begun = api.handle.begin_upload(&tenant, beginning).await?;
    let place = format!("{BASE}/uploads/{}", begun.upload_id);
    let view = UploadView { id: begun.upload_id, committed: begun.committed, stored: begun.stored };
    Ok(Reply::json(201, &view)?.at(&place))
}

/// PATCH /uploads/{id}
pub(in super::super) async fn add(api: Arc<Api>, call: Call) -> Answer {
    let offset =
        call.read("offset")?.ok_or_else(|| Problem::field("offset", "is missing; give the offset of these bytes"))?;
    let bytes = call.body.bytes.clone();
    let stored = api.handle.add_to_upload(|tenant| call.sees(tenant), call.part("id"), offset, bytes).await?;
    Ok(Reply::empty(204).header(axum::http::HeaderName::from_static("upload-offset"), &stored.to_string()))
}

/// POST /uploads/{id}/finalize
pub(in super::super) async fn finish(api: Arc<Api>, call: Call) -> Answer {
    let asked: FinishUpload = call.json()?;
    let good = asked.sha256.len() == 64 && asked.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !good {
        return Err(Problem::field("sha256", "is not a SHA-256 digest; use 64 lowercase hexadecimal digits"));
    }
    let made = api.handle.end_upload(|tenant| call.sees(tenant), call.part("id"), &asked.sha256).await?;
    let place = format!("{BASE}/artifacts/{}", made.sha256);
    let Artifact { name, sha256, bytes, executable, .. } = made;
    let view = ArtifactView { index: None, name, path: None, sha256, bytes, executable };
    Ok(Reply::json(201, &view)?.at(&place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_has_them() {
        let of = |range: &str| part(Some(range), 10);
        assert_eq!(
            (part(None, 10), of("bytes=x"), of("lines=1-2"), of("bytes=0-1,3-4")),
            (ByteRange::Whole, ByteRange::Whole, ByteRange::Whole, ByteRange::Whole)
        );
        assert_eq!(
            (of("bytes=0-3"), of("bytes=4-"), of("bytes=4-99")),
            (ByteRange::Some(0, 4), ByteRange::Some(4, 6), ByteRange::Some(4, 6))
        );
        assert_eq!(
            (of("bytes=-3"), of("bytes=-99"), of("bytes=-0")),
            (ByteRange::Some(7, 3), ByteRange::Some(0, 10), ByteRange::None)
        );
        assert_eq!(
            (of("bytes=10-"), part(Some("bytes=0-"), 0), part(Some("bytes=-1"), 0)),
            (ByteRange::None, ByteRange::None, ByteRange::None)
        );
        assert_eq!(of("bytes=5-3"), ByteRange::Whole);
    }
}
