//! The page of error codes: those of the two interfaces with cause and remedy, and those of manifests.

use orlop_core::error::Code;
use orlop_dag::manifest;

use super::{Page, cell, code};

/// What brings an error of the interfaces about, and what to do.
fn cause_and_remedy(code: Code) -> [&'static str; 2] {
    match code {
        Code::InvalidSpec => [
            "a field of the request or of the job is missing or wrong; `errors` names each",
            "mend the fields that are named",
        ],
        Code::Unauthenticated => {
            ["no token, an unknown, revoked or expired one", "send a valid token; `orlop token create` makes one"]
        }
        Code::Forbidden => [
            "the role of the token is too low, or it is not for this tenant",
            "use a token with the role and tenant that are named",
        ],
        Code::NotFound => ["there is no such object, or the token may not see it", "check name, id and tenant"],
        Code::MethodNotAllowed => {
            ["the path is there, with other methods", "use a method that the page of the interface lists"]
        }
        Code::Conflict => [
            "the object has ended, the name is taken, or another holds it",
            "read its state; use another name or another verb",
        ],
        Code::Precondition => {
            ["a condition of the request does not hold any more", "read the object again and decide anew"]
        }
        Code::TooLarge => [
            "the body has more bytes or items than one request may have",
            "send it in several requests, or as an artifact",
        ],
        Code::MediaType => {
            ["the body is not JSON, or not bytes where bytes are expected", "set `Content-Type` as the interface says"]
        }
        Code::NeverFits => [
            "no worker that there is or may come can ever hold the job, or a quota is below it",
            "ask for less, or add such a worker",
        ],
        Code::IdempotencyMismatch => {
            ["the key was used within a day for another request", "use a key of its own for each request"]
        }
        Code::Checksum => {
            ["the bytes that arrived are not those that were announced", "send them again; check what lies between"]
        }
        Code::QuotaExceeded => ["a limit of the tenant is reached", "wait until jobs have ended, or raise the quota"],
        Code::RateLimited => {
            ["too many requests, or queues of the server are full", "wait as long as `Retry-After` says, then repeat"]
        }
        Code::Internal => ["a fault of the server", "read its log by the id of the request, and report it"],
        Code::NotLeader => {
            ["another server leads", "repeat at the address that is named, or give all servers to the client"]
        }
        Code::StoreUnavailable => {
            ["the store does not answer or has no room", "free room or mend the store, then repeat"]
        }
        Code::Deadline => ["no answer in time", "repeat with the same idempotency key"],
        _ => panic!("{code} has no row in the page of codes"),
    }
}

#[test]
fn the_page_of_error_codes_has_every_code() {
    let intro = "What errors are called, for programs. [Exit codes](exit-codes.md) say how a command ends.";
    let mut page = Page::new("errors.md", "Error codes", intro);
    page.heading(2, "REST and gRPC");
    page.paragraph(
        "An error over HTTP is an `application/problem+json` whose `code` is one of these. Over gRPC the same code is in the details of the\n\
         status. Where *again* is yes, the same request may succeed later.",
    );
    let row = |&one: &Code| {
        let [cause, remedy] = cause_and_remedy(one);
        let again = if one.is_retryable() { "yes" } else { "no" };
        let grpc = tonic::Code::from_i32(one.grpc());
        [code(one.as_str()), one.http().to_string(), format!("{grpc:?}"), again.to_owned(), cell(cause), cell(remedy)]
    };
    page.table(
        ["code", "HTTP", "gRPC", "again", "cause", "what to do"],
        &Code::ALL.iter().map(row).collect::<Vec<_>>(),
    );
    page.heading(2, "Manifests");
    page.paragraph(
        "`orlop flow validate`, `orlop run` and the admission webhook report each finding with one of these, as in\n\
         `error[unknown-field]`, with the file, the line and the field. The help line of the finding says what to do. Fields are described at\n\
         [flow](flow.md), [pipeline](pipeline.md) and [performer](performer.md).",
    );
    let row = |one: &manifest::Code| [code(one.as_str()), cell(one.about())];
    page.table(["code", "cause"], &manifest::Code::ALL.iter().map(row).collect::<Vec<_>>());
    page.compare();
}
