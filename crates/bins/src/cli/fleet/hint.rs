//! What to do when a server cannot be reached or does not let one in: the option that is missing, by its name.

use orlop_core::error::Code;

/// What to do about a connection that failed.
pub(super) fn of_connection(server: &str, error: &str) -> &'static str {
    let secure = server.starts_with("https://");
    let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if has(&["UnknownIssuer", "BadSignature", "unknown issuer"]) {
        "its certificate is signed by an unknown authority: give the certificate of that authority with --ca-file FILE \
         (or ORLOP_CA_FILE); the server keeps it as authority.pem in its TLS directory"
    } else if has(&["NotValidForName", "not valid for name"]) {
        "its certificate is for other names: use one of them with --server, or start the server with --name HOST \
         (`orlop scheduler`: tls.names)"
    } else if has(&["Expired", "NotValidYet", "expired", "not valid yet"]) {
        "its certificate is expired or not yet valid: compare the clocks of both machines; a server issues a new one \
         when it starts"
    } else if secure && has(&["InvalidContentType", "corrupt message", "WrongVersion"]) {
        "it does not use TLS: use http:// in --server"
    } else if !secure && has(&["invalid HTTP version", "connection closed before message completed", "HTTP/0.9"]) {
        "it may require TLS: use https:// in --server, with --ca-file"
    } else if has(&["failed to lookup", "Name or service not known", "name resolution"]) {
        "check the name in --server (or ORLOP_SERVER)"
    } else {
        "is `orlop up` running there? Name another server with --server (or ORLOP_SERVER)"
    }
}

/// What to do about a refusal, where an option of the command line answers it.
pub(super) fn of_problem(code: Code) -> Option<&'static str> {
    match code {
        Code::Unauthenticated => Some(
            "give a token with --token-file FILE, ORLOP_TOKEN_FILE or ORLOP_TOKEN; a server of this machine that \
             runs as the same user needs none of them",
        ),
        Code::NotLeader => Some("name all servers with --server, separated by commas"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_option_that_is_missing() {
        let https = |error: &str| of_connection("https://a", error);
        let http = |error: &str| of_connection("http://a", error);
        assert!(https("invalid peer certificate: UnknownIssuer").contains("--ca-file FILE"));
        assert!(https("invalid peer certificate: certificate not valid for name \"a\"").contains("--name HOST"));
        assert!(https("received corrupt message of type InvalidContentType").contains("use http://"));
        assert!(http("invalid HTTP version parsed").contains("use https://"));
        assert!(http("Connection refused (os error 111)").contains("`orlop up`"));
        assert!(of_problem(Code::Unauthenticated).is_some_and(|hint| hint.contains("--token-file")));
        assert_eq!(of_problem(Code::NotFound), None);
    }
}
