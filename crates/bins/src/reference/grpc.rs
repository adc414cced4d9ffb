//! The page of the gRPC services: services and messages of the protocol with their comments.

use super::{Page, cell, code};

const PROTOCOL: &str = include_str!("../../proto/orlop/v1/orlop.proto");

/// A comment, cut from its lines.
fn take(comment: &mut Vec<String>) -> String {
    std::mem::take(comment).join(" ")
}

/// Pages the protocol, line by line: it is written with one declaration a line.
fn describe(page: &mut Page) {
    let (mut comment, mut rows, mut is_service, mut nested) = (Vec::new(), Vec::new(), false, String::new());
    for line in PROTOCOL.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(text) = line.strip_prefix("//") {
            if !text.trim_start().starts_with("---") {
                comment.push(text.trim().to_owned());
            } else {
                comment.clear();
            }
            continue;
        }
        match words.as_slice() {
            ["service" | "message" | "enum", name, ..] if line.ends_with('{') => {
                is_service = words[0] == "service";
                page.heading(2, name);
                let about = take(&mut comment);
                page.paragraph(&cell(&about));
            }
            ["oneof", name, "{"] => nested = format!("one of {name}: "),
            ["rpc", ..] => {
                let call = line.trim_start_matches("rpc ").trim_end_matches([';', '{', '}', ' ']);
                rows.push([code(call), cell(&take(&mut comment))]);
            }
            ["}"] if !nested.is_empty() => nested.clear(),
            ["}"] => {
                let columns = if is_service { ["call", "does"] } else { ["field", "meaning"] };
                page.table(columns, &rows);
                rows.clear();
            }
            [.., number]
                if line.contains(" = ") && number.ends_with(';') && !matches!(words[0], "syntax" | "option") =>
            {
                let about = format!("{nested}{}", take(&mut comment));
                rows.push([code(line.trim_end_matches(';')), cell(&about)]);
            }
            _ => comment.clear(),
        }
    }
}

#[test]
fn the_page_of_the_grpc_services_is_that_of_the_protocol() {
    let intro = "The protocol of workers, clients and artifacts: \
        [orlop.proto](../../crates/bins/proto/orlop/v1/orlop.proto), package `orlop.v1`. CPU is in\n\
        millicores, sizes are in bytes, durations in milliseconds, times in milliseconds since the Unix epoch; a time of 0 is absent. Errors\n\
        have the [codes](errors.md#rest-and-grpc) in their details.";
    let mut page = Page::new("grpc.md", "gRPC", intro);
    describe(&mut page);
    page.compare();
}
