//! Artifacts for agents over the protocol: outputs come in for the tenant of their job, inputs go out.

use futures::StreamExt as _;
use orlop_core::error::{Code, Problem};
use orlop_core::id::{Epoch, TenantName, WorkerId};
use orlop_core::machine::attempt::AttemptState;
use orlop_core::ports::fleet_store::{AttemptFilter, AttemptRow, Page};
use orlop_core::task::TaskRef;

use super::super::{Handle, error};
use crate::wire::artifact::{Beginning, Download, UPLOAD_CHUNK};
use crate::wire::grpc::{Answers, ArtifactHost, Caller};
use crate::wire::v1;

/// The service.
#[derive(Debug)]
pub(super) struct Artifacts {
    handle: Handle,
    /// Of callers who may use any and name none.
    tenant: TenantName,
}

/// Whether a caller has to do with a tenant. The interceptor has let it pass: without a token it is a worker with its certificate
/// or session, whose attempt is looked at beside this.
fn sees(caller: &Caller, tenant: &TenantName) -> bool {
    caller.sees(tenant)
}

impl Artifacts {
    pub(super) fn new(handle: Handle, tenant: TenantName) -> Self {
        Self { handle, tenant }
    }

    /// Whose an upload is: that of the job whose output it is, or of the client.
    async fn owner(&self, caller: &Caller, attempt: Option<TaskRef>) -> Result<TenantName, Problem> {
        let Some(attempt) = attempt else {
            let whose = caller.who.as_ref().and_then(|who| who.tenant(None, &self.tenant));
            return whose.ok_or_else(|| Problem::coded(Code::Forbidden, "say whose output it is"));
        };
        let tenant = self.handle.job(attempt.job).await?.job.tenant;
        if caller.who.is_none() {
            self.own(caller, attempt).await?;
        }
        if sees(caller, &tenant) { Ok(tenant) } else { Err(unknown(attempt)) }
    }

    /// An attempt of the worker that calls: with its certificate, or with its session.
    async fn own(&self, caller: &Caller, attempt: TaskRef) -> Result<AttemptRow, Problem> {
        let worker = match (&caller.certificate, caller.session) {
            (Some(_), _) => None,
            (None, Some(session)) => Some(self.handle.alive(session, None, None).await?.worker),
            (None, None) => return Err(unknown(attempt)),
        };
        let filter = AttemptFilter { index: Some(attempt.index) };
        let TaskRef { job, index, member, attempt: number, .. } = attempt;
        let before = TaskRef { job, index, member, attempt: number, epoch: Epoch(0) };
        let found = self.handle.store().attempts(job, &filter, &Page::after(before, 1)).await;
        let found = found?.items.into_iter().next();
        let is_it = |of: &WorkerId| match &caller.certificate {
            Some(certificate) => certificate.is_of(of),
            None => worker.as_ref() == Some(of),
        };
        let own = found.filter(|row| row.attempt.id.member == member && row.attempt.id.attempt == number);
        own.filter(|row| is_it(&row.attempt.worker)).ok_or_else(|| unknown(attempt))
    }

    /// Whose artifacts a download may be of; none = all that the caller sees. A worker gets those of an attempt's tenant while it
    /// has that attempt.
    async fn readable(&self, caller: &Caller, attempt: Option<TaskRef>) -> Result<Option<TenantName>, Problem> {
        if caller.who.is_some() {
            return Ok(None);
        }
        let attempt = attempt.ok_or_else(|| Problem::coded(Code::Forbidden, "say which attempt needs it"))?;
        let state = self.own(caller, attempt).await?.state;
        if !matches!(
            state,
            AttemptState::Assigned | AttemptState::Accepted | AttemptState::Running | AttemptState::Suspect
        ) {
            return Err(Problem::coded(Code::Forbidden, format!("attempt {attempt} has ended")));
        }
        Ok(Some(self.handle.job(attempt.job).await?.job.tenant))
    }
}

fn unknown(attempt: TaskRef) -> Problem {
    error::not_found(format_args!("attempt {attempt}"))
}

#[async_trait::async_trait]
impl ArtifactHost for Artifacts {
    async fn begin(&self, caller: Caller, beginning: Beginning) -> Result<v1::BeginUploadResponse, Problem> {
        let tenant = self.owner(&caller, beginning.attempt).await?;
        if beginning.attempt.is_none() {
            self.handle.require_tenant(&tenant, "", |name| sees(&caller, name)).await?;
        }
        self.handle.begin_upload(&tenant, beginning).await
    }

    async fn upload(&self, caller: Caller, chunk: v1::UploadRequest) -> Result<u64, Problem> {
        let sees = |tenant: &TenantName| sees(&caller, tenant);
        self.handle.add_to_upload(sees, &chunk.upload_id, chunk.offset, chunk.data).await
    }

    async fn finalize(&self, caller: Caller, end: v1::FinalizeUploadRequest) -> Result<v1::Artifact, Problem> {
        let sees = |tenant: &TenantName| sees(&caller, tenant);
        self.handle.end_upload(sees, &end.upload_id, &end.sha256).await
    }

    async fn download(&self, caller: Caller, download: Download) -> Result<Answers<v1::DownloadResponse>, Problem> {
        let Download { sha256, offset, attempt } = download;
        let whose = self.readable(&caller, attempt).await?;
        let may = |tenant: &TenantName| sees(&caller, tenant) && whose.as_ref().is_none_or(|whose| whose == tenant);
        let content = self.handle.artifact(may, &sha256).await?;
        let total = content.bytes();
        let offset = offset.min(total);
        let chunk = move |piece: std::io::Result<_>| match piece {
            Ok((offset, data)) => Ok(v1::DownloadResponse { offset, total, data }),
            Err(wrong) => Err(Problem::coded(Code::StoreUnavailable, wrong.to_string())),
        };
        let chunks = content.part(offset, total - offset, UPLOAD_CHUNK).stream().map(chunk);
        Ok(chunks.boxed())
    }
}
