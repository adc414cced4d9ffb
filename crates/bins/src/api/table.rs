//! The table of routes: everything the interface answers, with the role each needs. What is not in it is not there.

use super::auth::Role;
use super::live;
use super::route::{BATCH, BODY, Method, Needs, Param, Repeat, Route, shape};
use super::routes::{
    again, artifacts, cancel, events, flow_logs, flows, jobs, join_tokens, logs, parts, pipelines, secrets, server,
    session, submit, tenants, tokens, workers,
};
use super::view::artifact::{ArtifactList, ArtifactView, FinishUpload, NewUpload, UploadView};
use super::view::explain::ExplainShape;
use super::view::fleet::{Health, Stats, Version};
use super::view::flow::{DagView, FlowAccepted, FlowList, FlowOrdered, FlowView, PipelineList, PipelineView, StepView};
use super::view::flow_check::CheckedView;
use super::view::flow_order::{
    CancelFlow, CheckFlow, DecisionOrder, FlowOrder, NoOrder, PipelineOrder, PipelineRun, PipelineVersion, RetryFlow,
};
use super::view::flow_state::FlowState;
use super::view::job::{
    AttemptList, CancelAnswer, CancelFilter, CancelOrder, ElementList, JobList, JobView, RetryOrder, Submitted,
};
use super::view::join_token::{JoinTokenList, JoinTokenView, NewJoinToken};
use super::view::live::{ApprovalList, GraphShape, Topics};
use super::view::secret::{NewSecret, SecretList};
use super::view::session::{ConsoleView, NewSessionLink, SessionBegun, SessionLinkView, SignIn};
use super::view::spec::SubmitShape;
use super::view::tenant::{NewTenant, QuotaView, TenantList, TenantPatch, TenantView, UsageView};
use super::view::token::{NewToken, TokenList, TokenView};
use super::view::worker::{DrainRequest, WorkerList, WorkerOrdered, WorkerView};

const VIEWER: Needs = Needs::Role(Role::Viewer);
const SUBMITTER: Needs = Needs::Role(Role::Submitter);
const OPERATOR: Needs = Needs::Role(Role::Operator);
const ADMIN: Needs = Needs::Role(Role::Admin);

/// Paths that are also found at the root.
pub(super) const ROOT: &[&str] = &["/metrics"];

const fn param(name: &'static str, help: &'static str) -> Param {
    Param { name, help }
}

const LIMIT: Param = param("limit", "At most as many items: 1 to 1000, else 100");
const CURSOR: Param = param("cursor", "`next_cursor` of the page before");
const INDICES: Param = param("index", "Only of this element, or of several, such as 0-99,200");
const STATE: Param = param("state", "Only in these states (repeatable, or separated by commas)");
const TENANT: &[Param] = &[param("tenant", "Of this tenant; else the caller's only one")];
/// A secret in JSON, where each of its bytes may take six.
const SECRET: usize = 6 * (64 << 10) + 1024;
const OF_TENANT: Param = param("tenant", "Only of this tenant");
const PAGES: &[Param] = &[LIMIT, CURSOR];
const OF_LABEL: Param = param("label", "Only with this label, KEY=VALUE (repeatable)");

macro_rules! by {
    ($handler:path) => {
        |api, call| Box::pin($handler(api, call))
    };
}

/// The routes.
pub(super) const ROUTES: &[Route] = &[
    Route::new(Method::Post, "/jobs", SUBMITTER, by!(submit::submit))
        .named("jobs.submit", "Submits a job, or up to 10 000 that are accepted all or none")
        .takes(BATCH, shape::<SubmitShape>)
        .gives(202, shape::<Submitted>)
        .repeats(Repeat::Loop),
    Route::new(Method::Get, "/jobs", VIEWER, by!(jobs::list))
        .named("jobs.list", "Lists jobs, the newest first")
        .query(&[
            STATE,
            OF_TENANT,
            OF_LABEL,
            param("since", "Only those submitted at this time or later, RFC 3339"),
            param("flow", "Only of this flow"),
            param("order", "newest or oldest first"),
            param("details", "Also how far the elements of arrays are, and what each job runs"),
            LIMIT,
            CURSOR,
        ])
        .gives(200, shape::<JobList>),
    Route::new(Method::Post, "/jobs/cancel", SUBMITTER, by!(cancel::many))
        .named("jobs.cancel_many", "Cancels the jobs that pass a filter")
        .takes(BODY, shape::<CancelFilter>)
        .gives(202, shape::<CancelAnswer>),
    Route::new(Method::Get, "/jobs/{id}", VIEWER, by!(jobs::get))
        .named("jobs.get", "Shows a job")
        .query(&[param("wait", "Answers once the job has ended, or after this time, such as 30s; at most 5m")])
        .gives(200, shape::<JobView>),
    Route::new(Method::Get, "/jobs/{id}/attempts", VIEWER, by!(parts::attempts))
        .named("jobs.attempts", "Lists the attempts of a job")
        .query(&[param("index", "Only of this element"), LIMIT, CURSOR])
        .gives(200, shape::<AttemptList>),
    Route::new(Method::Get, "/jobs/{id}/elements", VIEWER, by!(parts::elements))
        .named("jobs.elements", "Lists the elements of an array")
        .query(&[STATE, INDICES, LIMIT, CURSOR])
        .gives(200, shape::<ElementList>),
    Route::new(Method::Get, "/jobs/{id}/logs", VIEWER, by!(logs::logs))
        .named(
            "jobs.logs",
            "Shows the log of a job: as text, or as a stream of events (SSE) for `Accept: text/event-stream`",
        )
        .query(&[
            param("follow", "Follows the log until the job has ended"),
            param("stream", "Only stdout, stderr or system"),
            param("attempt", "Only of this attempt; else the latest, and where it is followed those after it"),
            param(
                "index",
                "Of this element of an array or member of a gang, else 0; of several, such as 0-99,200, or of `all`: as text one \
                 after the other, as events with `index` in each and `event: part` at the end of each, and without ids: what a \
                 client has it knows by index, attempt and seq",
            ),
            param("since_seq", "From this position on, of one log"),
            param("since", "Only what was written at this time or later, RFC 3339"),
        ])
        .gives_text("text/plain; charset=utf-8"),
    Route::new(Method::Get, "/jobs/{id}/artifacts", VIEWER, by!(artifacts::of_job))
        .named("jobs.artifacts", "Lists the artifacts of a job")
        .query(&[INDICES, param("limit", "Artifacts of at most this many attempts: 1 to 1000, default 100"), CURSOR])
        .gives(200, shape::<ArtifactList>),
    Route::new(Method::Get, "/artifacts/{sha256}", VIEWER, by!(artifacts::content))
        .named("artifacts.get", "Gives the content of an artifact, or the `Range` of it that is asked for (206)")
        .gives_text("application/octet-stream")
        .also(&[206]),
    Route::new(Method::Post, "/uploads", SUBMITTER, by!(artifacts::begin))
        .named("uploads.begin", "Begins an upload, or says how far one is")
        .takes(BODY, shape::<NewUpload>)
        .gives(201, shape::<UploadView>),
    Route::new(Method::Patch, "/uploads/{id}", SUBMITTER, by!(artifacts::add))
        .named(
            "uploads.add",
            "Adds a piece, which begins where the stored bytes end; else 409 with `errors[].path` offset",
        )
        .query(&[param("offset", "Where these bytes begin")])
        .takes_bytes(BATCH)
        .gives_nothing(),
    Route::new(Method::Post, "/uploads/{id}/finalize", SUBMITTER, by!(artifacts::finish))
        .named("uploads.finish", "Ends an upload: from then on the artifact is there")
        .takes(BODY, shape::<FinishUpload>)
        .gives(201, shape::<ArtifactView>),
    Route::new(Method::Get, "/jobs/{id}/explain", VIEWER, by!(again::explain))
        .named("jobs.explain", "Tells why a job is where it is, worker by worker")
        .query(&[param("index", "Of this element of an array")])
        .gives(200, shape::<ExplainShape>),
    Route::new(Method::Post, "/jobs/{id}/retry", SUBMITTER, by!(again::retry))
        .named(
            "jobs.retry",
            "Submits a job that has ended again; of an array its unsuccessful elements, or those that are named",
        )
        .may_take(BODY, shape::<RetryOrder>)
        .gives(202, shape::<Submitted>)
        .repeats(Repeat::Loop),
    Route::new(Method::Post, "/jobs/{id}/cancel", SUBMITTER, by!(cancel::one))
        .named("jobs.cancel", "Cancels a job, or elements of it; one that has ended stays as it is (200)")
        .may_take(BODY, shape::<CancelOrder>)
        .gives(202, shape::<CancelAnswer>)
        .also(&[200]),
    Route::new(Method::Post, "/pipelines", SUBMITTER, by!(pipelines::create))
        .named("pipelines.create", "Stores a definition of flows; an invalid one is rejected with all its errors")
        .takes(BATCH, shape::<PipelineOrder>)
        .gives(201, shape::<PipelineView>),
    Route::new(Method::Get, "/pipelines", VIEWER, by!(pipelines::list))
        .named("pipelines.list", "Lists pipelines")
        .query(&[OF_TENANT, LIMIT, CURSOR])
        .gives(200, shape::<PipelineList>),
    Route::new(Method::Get, "/pipelines/{id}", VIEWER, by!(pipelines::get))
        .named("pipelines.get", "Shows a pipeline")
        .gives(200, shape::<PipelineView>),
    Route::new(Method::Put, "/pipelines/{id}", SUBMITTER, by!(pipelines::put))
        .named("pipelines.put", "Stores a new version of a pipeline; running flows keep theirs")
        .takes(BATCH, shape::<PipelineVersion>)
        .gives(200, shape::<PipelineView>),
    Route::new(Method::Delete, "/pipelines/{id}", SUBMITTER, by!(pipelines::delete))
        .named("pipelines.delete", "Deletes a pipeline; its flows keep running")
        .gives_nothing(),
    Route::new(Method::Get, "/pipelines/{id}/dag", VIEWER, by!(pipelines::dag))
        .named("pipelines.dag", "Shows the graph of a pipeline")
        .gives(200, shape::<DagView>),
    Route::new(Method::Post, "/pipelines/{id}/flows", SUBMITTER, by!(pipelines::run))
        .named("pipelines.run", "Begins a flow of a pipeline")
        .may_take(BODY, shape::<PipelineRun>)
        .gives(202, shape::<FlowAccepted>),
    Route::new(Method::Post, "/flows", SUBMITTER, by!(flows::submit))
        .named("flows.submit", "Begins a flow of a definition in either form")
        .takes(BATCH, shape::<FlowOrder>)
        .gives(202, shape::<FlowAccepted>),
    Route::new(Method::Post, "/flows/validate", VIEWER, by!(flows::validate))
        .named("flows.validate", "Says what is wrong with a definition and what it would be; keeps nothing of it")
        .takes(BATCH, shape::<CheckFlow>)
        .gives(200, shape::<CheckedView>)
        .repeats(Repeat::Reads),
    Route::new(Method::Get, "/flows", VIEWER, by!(flows::list))
        .named("flows.list", "Lists flows")
        .query(&[
            STATE,
            OF_TENANT,
            param("name", "Only of this name"),
            param("pipeline", "Only of the pipeline with this id"),
            OF_LABEL,
            param("since", "Only those submitted at this time or later, RFC 3339"),
            LIMIT,
            CURSOR,
        ])
        .gives(200, shape::<FlowList>),
    Route::new(Method::Get, "/flows/{id}", VIEWER, by!(flows::get))
        .named("flows.get", "Shows a flow, named by its id or its name, with its steps")
        .query(&[
            param("wait", "Answers once the flow has ended, or after this time, such as 30s; at most 5m"),
            param("object", "Also as the object it was submitted as, with its status"),
        ])
        .gives(200, shape::<FlowView>),
    Route::new(Method::Get, "/flows/{id}/graph", VIEWER, by!(live::graph))
        .named("flows.graph", "Shows the graph of a flow with places for its steps, the same while it runs and after")
        .query(&[param("fold", "Whether steps that are alike are one group: auto, which is above 400 steps, always or never")])
        .gives(200, shape::<GraphShape>),
    Route::new(Method::Get, "/flows/{id}/state", VIEWER, by!(live::state))
        .named("flows.state", "Shows where each step of a flow stands, in column form, in the order of the graph")
        .gives(200, shape::<FlowState>),
    Route::new(Method::Delete, "/flows/{id}", SUBMITTER, by!(flows::delete))
        .named("flows.delete", "Deletes a flow that has ended")
        .gives_nothing(),
    Route::new(Method::Get, "/flows/{id}/steps/{step}", VIEWER, by!(flows::step))
        .named("flows.step", "Shows a step of a flow")
        .gives(200, shape::<StepView>),
    Route::new(Method::Get, "/flows/{id}/logs", VIEWER, by!(flow_logs::logs))
        .named("flows.logs", "What the steps of a flow wrote, each line behind `<step>/<attempt>`")
        .query(&[
            param("step", "Only of this step or instance"),
            param("item", "Only of this instance of each fan-out"),
            param("attempt", "Only of this attempt"),
            param("failed", "Only of steps that failed"),
            param("since", "Only what was written at this time or later, RFC 3339"),
            param("follow", "Follows the log until the flow has ended, including steps that start later"),
            param("timestamps", "Prefixes every line with its time"),
        ])
        .gives_text("text/plain; charset=utf-8"),
    Route::new(Method::Post, "/flows/{id}/cancel", SUBMITTER, by!(flows::cancel))
        .named("flows.cancel", "Ends a flow; one that has ended stays as it is (200)")
        .may_take(BODY, shape::<CancelFlow>)
        .gives(202, shape::<FlowOrdered>)
        .also(&[200]),
    Route::new(Method::Post, "/flows/{id}/suspend", SUBMITTER, by!(flows::suspend))
        .named("flows.suspend", "Suspends a flow: it starts nothing more")
        .may_take(BODY, shape::<NoOrder>)
        .gives(202, shape::<FlowOrdered>),
    Route::new(Method::Post, "/flows/{id}/resume", SUBMITTER, by!(flows::resume))
        .named("flows.resume", "Resumes a suspended flow")
        .may_take(BODY, shape::<NoOrder>)
        .gives(202, shape::<FlowOrdered>),
    Route::new(Method::Post, "/flows/{id}/retry", SUBMITTER, by!(flows::retry))
        .named("flows.retry", "Runs again in a new flow what failed")
        .may_take(BODY, shape::<RetryFlow>)
        .gives(202, shape::<FlowAccepted>),
    Route::new(Method::Post, "/flows/{id}/steps/{step}/approve", SUBMITTER, by!(flows::approve))
        .named("flows.approve", "Approves a Manual step: for operators and the approvers that the step names")
        .may_take(BODY, shape::<DecisionOrder>)
        .gives(202, shape::<FlowOrdered>),
    Route::new(Method::Post, "/flows/{id}/steps/{step}/reject", SUBMITTER, by!(flows::reject))
        .named("flows.reject", "Rejects a Manual step: for operators and the approvers that the step names")
        .may_take(BODY, shape::<DecisionOrder>)
        .gives(202, shape::<FlowOrdered>),
    Route::new(Method::Post, "/flows/{id}/steps/{step}/confirm-gone", SUBMITTER, by!(flows::confirm_gone))
        .named("flows.confirmGone", "Confirms that a cancelled attempt that does not end is gone, so that the flow continues")
        .may_take(BODY, shape::<DecisionOrder>)
        .gives(202, shape::<FlowOrdered>),
    Route::new(Method::Get, "/workers", VIEWER, by!(workers::list))
        .named("workers.list", "Lists workers")
        .query(&[STATE, OF_LABEL, LIMIT, CURSOR])
        .gives(200, shape::<WorkerList>),
    Route::new(Method::Get, "/workers/{id}", VIEWER, by!(workers::get))
        .named("workers.get", "Shows a worker")
        .gives(200, shape::<WorkerView>),
    Route::new(Method::Post, "/workers/{id}/drain", OPERATOR, by!(workers::drain))
        .named("workers.drain", "Has a worker finish what it has and leave")
        .may_take(BODY, shape::<DrainRequest>)
        .gives(202, shape::<WorkerOrdered>),
    Route::new(Method::Post, "/workers/{id}/undrain", OPERATOR, by!(workers::undrain))
        .named("workers.undrain", "Withdraws a drain")
        .gives(202, shape::<WorkerOrdered>),
    Route::new(Method::Post, "/workers/{id}/cordon", OPERATOR, by!(workers::cordon))
        .named("workers.cordon", "Gives a worker no new work")
        .gives(202, shape::<WorkerOrdered>),
    Route::new(Method::Post, "/workers/{id}/uncordon", OPERATOR, by!(workers::uncordon))
        .named("workers.uncordon", "Allows new work on a worker again")
        .gives(202, shape::<WorkerOrdered>),
    Route::new(Method::Post, "/workers/{id}/revoke", OPERATOR, by!(workers::revoke))
        .named(
            "workers.revoke",
            "Revokes a worker: its certificate is rejected until it joins with a new join token",
        )
        .gives(202, shape::<WorkerOrdered>),
    Route::new(Method::Delete, "/workers/{id}", OPERATOR, by!(workers::remove))
        .named("workers.remove", "Removes a worker, and releases its name")
        .query(&[param("force", "Gives up the remaining attempts, and revokes the worker, as `revoke` does")])
        .gives(202, shape::<WorkerOrdered>),
    Route::new(Method::Get, "/tenants", VIEWER, by!(tenants::list))
        .named("tenants.list", "Lists tenants")
        .query(PAGES)
        .gives(200, shape::<TenantList>),
    Route::new(Method::Post, "/tenants", ADMIN, by!(tenants::create))
        .named("tenants.create", "Creates a tenant")
        .takes(BODY, shape::<NewTenant>)
        .gives(201, shape::<TenantView>),
    Route::new(Method::Get, "/tenants/{name}", VIEWER, by!(tenants::get))
        .named("tenants.get", "Shows a tenant")
        .gives(200, shape::<TenantView>),
    Route::new(Method::Patch, "/tenants/{name}", ADMIN, by!(tenants::change))
        .named("tenants.change", "Changes weight, state or best priority of a tenant")
        .takes(BODY, shape::<TenantPatch>)
        .gives(200, shape::<TenantView>),
    Route::new(Method::Delete, "/tenants/{name}", ADMIN, by!(tenants::close))
        .named("tenants.close", "Closes a tenant that has no live jobs")
        .gives_nothing(),
    Route::new(Method::Get, "/tenants/{name}/quota", VIEWER, by!(tenants::get_quota))
        .named("tenants.quota", "Shows the limits of a tenant")
        .gives(200, shape::<QuotaView>),
    Route::new(Method::Put, "/tenants/{name}/quota", ADMIN, by!(tenants::put_quota))
        .named("tenants.set_quota", "Replaces the limits of a tenant")
        .takes(BODY, shape::<QuotaView>)
        .gives(200, shape::<QuotaView>),
    Route::new(Method::Get, "/tenants/{name}/usage", VIEWER, by!(tenants::usage))
        .named("tenants.usage", "Shows what a tenant holds")
        .gives(200, shape::<UsageView>),
    Route::new(Method::Get, "/tokens", ADMIN, by!(tokens::list))
        .named("tokens.list", "Lists tokens, without their secrets")
        .query(PAGES)
        .gives(200, shape::<TokenList>),
    Route::new(Method::Post, "/tokens", ADMIN, by!(tokens::create))
        .named("tokens.create", "Creates a token; it is shown in this response only")
        .takes(BODY, shape::<NewToken>)
        .gives(201, shape::<TokenView>)
        .repeats(Repeat::Secret),
    Route::new(Method::Delete, "/tokens/{id}", ADMIN, by!(tokens::revoke))
        .named("tokens.revoke", "Revokes a token at once")
        .gives_nothing(),
    Route::new(Method::Get, "/secrets", OPERATOR, by!(secrets::list))
        .named("secrets.list", "Lists names of secrets; their values are never shown")
        .query(TENANT)
        .gives(200, shape::<SecretList>),
    Route::new(Method::Put, "/secrets/{name}", OPERATOR, by!(secrets::put))
        .named("secrets.put", "Stores a secret (201), or replaces it (204)")
        .query(TENANT)
        .takes(SECRET, shape::<NewSecret>)
        .gives_nothing()
        .also(&[201]),
    Route::new(Method::Delete, "/secrets/{name}", OPERATOR, by!(secrets::delete))
        .named("secrets.delete", "Deletes a secret; attempts that have it keep it")
        .query(TENANT)
        .gives_nothing(),
    Route::new(Method::Get, "/join-tokens", OPERATOR, by!(join_tokens::list))
        .named("join_tokens.list", "Lists the tokens with which workers join, without their secrets")
        .query(PAGES)
        .gives(200, shape::<JoinTokenList>),
    Route::new(Method::Post, "/join-tokens", OPERATOR, by!(join_tokens::create))
        .named("join_tokens.create", "Creates a token with which workers join; it is shown in this response only")
        .may_take(BODY, shape::<NewJoinToken>)
        .gives(201, shape::<JoinTokenView>)
        .repeats(Repeat::Secret),
    Route::new(Method::Delete, "/join-tokens/{id}", OPERATOR, by!(join_tokens::revoke))
        .named("join_tokens.revoke", "Revokes a token: it can no longer be used to join")
        .gives_nothing(),
    Route::new(Method::Get, "/console", Needs::Nothing, by!(session::console_of))
        .named("console.get", "Shows what the web page has to know of this server")
        .gives(200, shape::<ConsoleView>),
    Route::new(Method::Post, "/session", Needs::Nothing, by!(session::begin))
        .named("session.begin", "Signs a browser in, by the key of a link or a token")
        .takes(BODY, shape::<SignIn>)
        .gives(201, shape::<SessionBegun>)
        .repeats(Repeat::Never),
    Route::new(Method::Delete, "/session", VIEWER, by!(session::end))
        .named("session.end", "Signs a browser out")
        .gives_nothing(),
    Route::new(Method::Post, "/session-links", VIEWER, by!(session::link))
        .named("session.link", "Creates a link to the web page that signs a browser in once")
        .may_take(BODY, shape::<NewSessionLink>)
        .gives(201, shape::<SessionLinkView>)
        .repeats(Repeat::Secret),
    Route::new(Method::Get, "/live", VIEWER, by!(live::live))
        .named("live.open", "Shows topics as they change, as a stream (SSE): the whole of each first")
        .query(&[param(
            "topics",
            "What is shown, separated by commas: overview, flows, jobs, workers, approvals, flow:ID, job:ID; at most 64",
        )])
        .gives_text("text/event-stream"),
    Route::new(Method::Post, "/live/{stream}", VIEWER, by!(live::change))
        .named("live.topics", "Changes the topics of an open stream of the same caller")
        .takes(BODY, shape::<Topics>)
        .gives_nothing()
        .repeats(Repeat::Never),
    Route::new(Method::Get, "/approvals", VIEWER, by!(live::approvals))
        .named("approvals.list", "Lists steps that wait for a decision, of all flows")
        .gives(200, shape::<ApprovalList>),
    Route::new(Method::Get, "/events", VIEWER, by!(events::events))
        .named("server.events", "Events from now on, as a stream (SSE)")
        .query(&[param("type", "Only these, such as `job.*` or `job.completed`")])
        .gives_text("text/event-stream"),
    Route::new(Method::Get, "/stats", VIEWER, by!(server::stats))
        .named("server.stats", "Shows the fleet at a glance")
        .gives(200, shape::<Stats>),
    Route::new(Method::Get, "/health/live", Needs::Nothing, by!(server::live))
        .named("server.live", "Answers while the server lives")
        .gives(200, shape::<Health>),
    Route::new(Method::Get, "/health/ready", Needs::Nothing, by!(server::ready))
        .named("server.ready", "Answers 200 once the server leads or is on standby")
        .gives(200, shape::<Health>),
    Route::new(Method::Get, "/version", VIEWER, by!(server::version))
        .named("server.version", "Shows the version")
        .gives(200, shape::<Version>),
    Route::new(Method::Get, "/metrics", VIEWER, by!(server::metrics))
        .named("server.metrics", "Metrics in the text form of OpenMetrics")
        .gives_text("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    Route::new(Method::Get, "/openapi.json", VIEWER, by!(server::openapi))
        .named("server.openapi", "This document")
        .gives_text("application/json"),
];
