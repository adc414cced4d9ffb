//! Every row of the table, with bodies as the services send them.

use proptest::prelude::*;

use super::*;

fn meaning(service: Service, call: Call, status: u16, body: &str) -> Meaning {
    classify(&Answer { service, call, status: Some(status), body, application_credential: false, quick: true })
}

fn blazar(call: Call, status: u16, words: &str) -> Meaning {
    let body = serde_json::json!({"error_code": status, "error_message": words, "error_name": status}).to_string();
    meaning(Service::Reservation, call, status, &body)
}

fn neutron(call: Call, status: u16, kind: &str, words: &str) -> Meaning {
    let body = serde_json::json!({"NeutronError": {"type": kind, "message": words, "detail": ""}}).to_string();
    meaning(Service::Network, call, status, &body)
}

fn nova(call: Call, status: u16, words: &str) -> Meaning {
    let body = serde_json::json!({"badRequest": {"code": status, "message": words}}).to_string();
    meaning(Service::Compute, call, status, &body)
}

#[test]
fn reservations() {
    use Call::{Change, Create, Delete};
    for (call, status, words, wanted) in [
        (Create, 500, "Not enough hosts available", Meaning::Capacity),
        (Create, 400, "not enough resources available", Meaning::Capacity),
        (Create, 409, "Not enough networks available", Meaning::Capacity),
        (Create, 500, "Not enough floating IPs available", Meaning::Capacity),
        (Create, 400, "Reservation would spend 24 SUs, only 3 left", Meaning::Quota),
        (Create, 400, "end date is beyond the project expiration", Meaning::Quota),
        (
            Create,
            403,
            "Lease duration of 691200 seconds must be less than or equal to the maximum lease duration of 604800 seconds.",
            Meaning::Policy,
        ),
        (Change, 400, "Lease duration of 2592000 seconds must be less", Meaning::Policy),
        (Change, 400, "a lease can only be extended within 48 hours of its end", Meaning::Policy),
        (Create, 400, "enforcement filter denied", Meaning::Policy),
        (Create, 403, "Policy doesn't allow blazar:leases:post to be performed", Meaning::Policy),
        (Change, 409, "flavor:instance leases cannot be updated", Meaning::Policy),
        (Create, 400, "Start date must be later than current date", Meaning::Clock),
        (Create, 500, "BlazarDBNotFound: A database error occurred", Meaning::Invalid),
        (Create, 500, "The no:such resource type is not supported", Meaning::Invalid),
        (Create, 400, "Missing parameter min", Meaning::Invalid),
        (Create, 400, "Malformed requirements node_type=1", Meaning::Invalid),
        (Delete, 500, "Invalid lease status", Meaning::Conflict),
        (Change, 500, "Invalid lease status", Meaning::Conflict),
        (Create, 500, "Internal Server Error", Meaning::Ambiguous),
        (Change, 500, "Internal Server Error", Meaning::Transient),
        (Call::Read, 404, "Object with {'lease_id': 'x'} not found", Meaning::Gone),
        (Create, 404, "not found", Meaning::Invalid),
    ] {
        assert_eq!(blazar(call, status, words), wanted, "{status} {words}");
    }
}

#[test]
fn a_service_that_cannot_make_its_trust_is_suspected() {
    let body =
        r#"{"error_code": 500, "error_message": "Internal Server Error", "error_name": "INTERNAL_SERVER_ERROR"}"#;
    let of = |application_credential, quick| {
        classify(&Answer {
            service: Service::Reservation,
            call: Call::Create,
            status: Some(500),
            body,
            application_credential,
            quick,
        })
    };
    assert_eq!(of(true, true), Meaning::TrustSuspected);
    assert_eq!([of(true, false), of(false, true)], [Meaning::Ambiguous, Meaning::Ambiguous]);
}

#[test]
fn servers_and_keys() {
    use Call::{Create, CreateKeypair, Delete, Read};
    for (call, status, words, wanted) in [
        (Create, 403, "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances", Meaning::Quota),
        (Create, 413, "Quota exceeded", Meaning::Quota),
        (Create, 403, "Policy doesn't allow os_compute_api:servers:create to be performed.", Meaning::Policy),
        (Create, 400, "Can not find requested image", Meaning::Image),
        (Create, 400, "Flavor's disk is too small for requested image", Meaning::Image),
        (Create, 400, "Invalid key_name provided.", Meaning::Key),
        (CreateKeypair, 409, "Key pair 'k' already exists.", Meaning::Exists),
        (Delete, 409, "Cannot delete instance while it is in this task state", Meaning::Conflict),
        (Delete, 404, "Instance could not be found.", Meaning::Gone),
        (Read, 406, "Version 2.99 is not supported", Meaning::Microversion),
        (Read, 401, "", Meaning::Auth),
        (Create, 503, "", Meaning::Ambiguous),
    ] {
        assert_eq!(nova(call, status, words), wanted, "{status} {words}");
    }
}

#[test]
fn networks_and_addresses() {
    use Call::{Bind, Create, Read};
    for (call, status, kind, words, wanted) in [
        (Create, 409, "OverQuota", "Quota exceeded for resources: ['floatingip'].", Meaning::Exhausted),
        (Create, 409, "OverQuota", "Quota exceeded for resources: ['security_group'].", Meaning::Quota),
        (Create, 409, "IpAddressGenerationFailure", "No more IP addresses available on network N.", Meaning::Exhausted),
        (
            Create,
            400,
            "ExternalIpAddressExhausted",
            "Unable to find any IP address on external network N.",
            Meaning::Exhausted,
        ),
        (Create, 400, "BadRequest", "Network N is not a valid external network", Meaning::Invalid),
        (
            Bind,
            404,
            "ExternalGatewayForFloatingIPNotFound",
            "External network N is not reachable from subnet S.",
            Meaning::NextPort,
        ),
        (Bind, 400, "BadRequest", "Port P has no fixed IPv4 addresses", Meaning::NextPort),
        (
            Bind,
            409,
            "FloatingIPPortAlreadyAssociated",
            "port P is already associated with a floating ip",
            Meaning::NextPort,
        ),
        (Read, 404, "NetworkNotFound", "Network N could not be found.", Meaning::Gone),
        (Create, 404, "NetworkNotFound", "Network N could not be found.", Meaning::Invalid),
    ] {
        assert_eq!(neutron(call, status, kind, words), wanted, "{status} {kind}");
    }
}

#[test]
fn signing_in_and_images() {
    let keystone = r#"{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}"#;
    assert_eq!(meaning(Service::Identity, Call::SignIn, 401, keystone), Meaning::Auth);
    assert_eq!(
        meaning(Service::Identity, Call::SignIn, 404, keystone),
        Meaning::Auth,
        "an unknown application credential"
    );
    assert_eq!(meaning(Service::Identity, Call::SignIn, 503, "<html>"), Meaning::Transient);
    assert_eq!(meaning(Service::Image, Call::Read, 401, "<html>"), Meaning::Auth, "also when identity is down");
    assert_eq!(meaning(Service::Image, Call::Read, 404, "<html>"), Meaning::Gone);
    assert_eq!(message(keystone), "Unauthorized: The request you have made requires authentication.");
}

#[test]
fn what_says_nothing_is_transient_and_on_a_create_ambiguous() {
    for status in [408, 425, 429, 500, 502, 503, 504, 302] {
        assert_eq!(meaning(Service::Compute, Call::Create, status, "<html>"), Meaning::Ambiguous, "{status}");
        assert_eq!(meaning(Service::Compute, Call::Read, status, ""), Meaning::Transient, "{status}");
    }
    for body in ["", "<html>", "{\"server\":", "[]"] {
        assert_eq!(meaning(Service::Compute, Call::Create, 202, body), Meaning::Ambiguous, "{body}");
        assert_eq!(meaning(Service::Reservation, Call::Read, 200, body), Meaning::Transient, "{body}");
    }
    let none = Answer {
        service: Service::Reservation,
        call: Call::Create,
        status: None,
        body: "",
        application_credential: true,
        quick: true,
    };
    assert_eq!(classify(&none), Meaning::Ambiguous);
    assert_eq!(meaning(Service::Compute, Call::Create, 202, "{}"), Meaning::Done);
    assert_eq!(meaning(Service::Network, Call::Delete, 204, ""), Meaning::Done);
    assert_eq!(meaning(Service::Reservation, Call::Delete, 200, "{}"), Meaning::Done);
}

#[test]
fn faults_of_servers() {
    for (words, wanted) in [
        ("No valid host was found. There are not enough hosts available.", Fault::HostCapacity),
        ("Exceeded maximum number of retries.", Fault::HostCapacity),
        ("Failed to allocate the network(s), not rescheduling.", Fault::NetworkCapacity),
        ("Quota exceeded", Fault::Quota),
        ("Image i could not be found", Fault::Image),
        ("Failed to provision instance: power failure", Fault::Host),
        ("", Fault::Host),
    ] {
        assert_eq!(fault(words), wanted, "{words}");
    }
}

#[test]
fn every_meaning_has_a_class_and_refusals_are_not_repeated() {
    assert_eq!(Meaning::Done.class(), None);
    assert_eq!(meaning(Service::Image, Call::Read, 418, "").class(), Some(Class::Invalid));
    for (meaning, class) in [
        (Meaning::Capacity, Class::Capacity),
        (Meaning::Quota, Class::Capacity),
        (Meaning::Exhausted, Class::Capacity),
        (Meaning::Policy, Class::Denied),
        (Meaning::Auth, Class::Denied),
        (Meaning::Clock, Class::Conflict),
        (Meaning::Conflict, Class::Conflict),
        (Meaning::Exists, Class::Exists),
        (Meaning::Gone, Class::NotFound),
        (Meaning::Transient, Class::Transient),
        (Meaning::Untrusted, Class::Fatal),
        (Meaning::Invalid, Class::Invalid),
    ] {
        assert_eq!(meaning.class(), Some(class), "{meaning:?}");
    }
}

proptest! {
    #[test]
    fn classifying_is_total_and_no_answer_to_a_create_is_lost(status in proptest::option::of(0_u16..1000), body in "\\PC{0,80}", service in 0_usize..5) {
        let services = [Service::Identity, Service::Image, Service::Compute, Service::Network, Service::Reservation];
        let service = services[service];
        for call in [Call::SignIn, Call::Read, Call::CreateKeypair, Call::Create, Call::Bind, Call::Change, Call::Delete] {
            let answer = Answer { service, call, status, body: &body, application_credential: true, quick: true };
            let meaning = classify(&answer);
            prop_assert!(!(call.creates() && meaning == Meaning::Transient), "a create is never plainly repeated");
        }
        prop_assert!(message(&body).len() <= 2000 && [Fault::Host, Fault::Quota, Fault::Image].contains(&fault(&body)));
    }
}
