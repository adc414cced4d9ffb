//! What is called to send and fetch artifacts.

use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use orlop_core::error::{Code, Problem};

use super::super::super::artifact::*;
use super::super::super::proto::v1::{
    Artifact, BeginUploadRequest, BeginUploadResponse, DownloadRequest, DownloadResponse, FinalizeUploadRequest,
    UploadRequest,
};
use super::super::super::tests::attempt;
use super::workers::{Served, served_channel};
use super::*;

/// Keeps one upload.
#[derive(Default)]
pub(super) struct Shelf(Mutex<Vec<u8>>);

#[async_trait]
impl ArtifactHost for Shelf {
    async fn begin(&self, _: Caller, beginning: Beginning) -> Result<BeginUploadResponse, Problem> {
        let committed = self.0.lock().unwrap().len() as u64;
        let (upload_id, stored) = (format!("u-{}", beginning.name), beginning.attempt.is_some());
        Ok(BeginUploadResponse { upload_id, committed, stored, chunk_bytes: 1 })
    }

    async fn upload(&self, _: Caller, chunk: UploadRequest) -> Result<u64, Problem> {
        let mut bytes = self.0.lock().unwrap();
        if chunk.offset != bytes.len() as u64 {
            return Err(Problem::coded(Code::Conflict, format!("{} bytes are stored", bytes.len())));
        }
        bytes.extend_from_slice(&chunk.data);
        Ok(bytes.len() as u64)
    }

    async fn finalize(&self, _: Caller, end: FinalizeUploadRequest) -> Result<Artifact, Problem> {
        let bytes = self.0.lock().unwrap().len() as u64;
        Ok(Artifact { name: end.upload_id, sha256: end.sha256, bytes, ..Artifact::default() })
    }

    async fn download(&self, _: Caller, download: Download) -> Result<Answers<DownloadResponse>, Problem> {
        let bytes = self.0.lock().unwrap().clone();
        let (offset, total) = (download.offset, bytes.len() as u64);
        let data = Bytes::from(bytes).slice(offset as usize..);
        Ok(futures::stream::iter([Ok(DownloadResponse { offset, total, data })]).boxed())
    }
}

#[tokio::test]
async fn uploads_answer_with_the_stored_offset_and_downloads_begin_anywhere() {
    let served = Served::start(None).await;
    let client = ArtifactClient::new(served_channel(&served).await, None).unwrap();
    let beginning = BeginUploadRequest { name: "a".into(), bytes: 6, ..BeginUploadRequest::default() };
    let begun = client.begin(beginning.clone()).await.unwrap();
    assert_eq!(begun, BeginUploadResponse { upload_id: "u-a".into(), committed: 0, stored: false, chunk_bytes: 1 });
    let of_a_worker = BeginUploadRequest {
        r#ref: Some(attempt(1).into()),
        sha256: "ab".repeat(32),
        upload_id: "u-a".into(),
        ..beginning.clone()
    };
    assert!(client.begin(of_a_worker).await.unwrap().stored);

    let chunk =
        |offset, data: &'static [u8]| UploadRequest { upload_id: "u-a".into(), offset, data: Bytes::from_static(data) };
    let chunks = [chunk(0, b"abc"), chunk(3, b"def"), chunk(5, b"x"), chunk(6, b"y")];
    let answers = client.upload(futures::stream::iter(chunks).boxed()).await.unwrap();
    let answers: Vec<_> = answers.map(|answer| answer.map_err(|problem| problem.message)).collect().await;
    assert_eq!(answers, [Ok(3), Ok(6), Err("6 bytes are stored".to_owned())], "nothing is taken after an error");

    let end = FinalizeUploadRequest { upload_id: "u-a".into(), sha256: "cd".repeat(32) };
    assert_eq!(client.finalize(end).await.unwrap().bytes, 6);
    let download = DownloadRequest { sha256: "cd".repeat(32), offset: 4, r#ref: Some(attempt(1).into()) };
    let chunks: Vec<_> = client.download(download).await.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(chunks, [DownloadResponse { offset: 4, total: 6, data: Bytes::from_static(b"ef") }]);

    let bad = client.download(DownloadRequest { sha256: "x".into(), offset: 0, r#ref: None }).await.err().unwrap();
    insta::assert_snapshot!(bad, @"sha256: is not a SHA-256 digest; use 64 lowercase hexadecimal digits");
    let unnamed = client.begin(BeginUploadRequest { name: String::new(), ..beginning }).await.unwrap_err();
    insta::assert_snapshot!(unnamed, @"name: is missing");
    let large = UploadRequest { data: vec![0; UPLOAD_CHUNK + 1].into(), ..chunk(6, b"") };
    let mut answers = client.upload(futures::stream::iter([large]).boxed()).await.unwrap();
    insta::assert_snapshot!(answers.next().await.unwrap().unwrap_err(), @"data: is 1048577 long; use at most 1048576");
}
