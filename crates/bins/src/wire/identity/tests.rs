//! Join tokens and certificates, without sockets.

use orlop_core::id::WorkerId;
use orlop_core::time::Time;

use super::*;

fn now() -> Time {
    Time::from_millis(1_763_740_000_000)
}

#[test]
fn a_join_token_reads_back_and_hides_its_secret() {
    let token = JoinToken::new("ab12", [7; 32], [9; 32]).unwrap();
    let text = token.reveal();
    assert_eq!(text, format!("orlopj.ab12.{}.{}", "07".repeat(32), "09".repeat(32)));
    let read: JoinToken = text.parse().unwrap();
    assert_eq!((&read, read.id(), read.authority()), (&token, "ab12", [9; 32]));
    assert!(!format!("{token:?}").contains("0707"));
    assert!(read.matches(&token.stored()) && !read.matches(&[0; 32]));
    let other = JoinToken::new("ab12", [8; 32], [9; 32]).unwrap();
    assert!(!other.matches(&token.stored()));
}

#[test]
fn what_is_no_join_token_is_refused_without_showing_it() {
    let (a, b) = ("0".repeat(64), "f".repeat(64));
    for bad in [
        String::new(),
        format!("orlop.ab.{a}.{b}"),
        format!("orlopj..{a}.{b}"),
        format!("orlopj.AB.{a}.{b}"),
        format!("orlopj.ab.{a}"),
        format!("orlopj.ab.{a}.{b}.c"),
        format!("orlopj.ab.{}.{b}", "F".repeat(64)),
        format!("orlopj.ab.{}.{b}", "+1".repeat(32)),
        format!("orlopj.{}.{a}.{b}", "x".repeat(33)),
    ] {
        let error = bad.parse::<JoinToken>().unwrap_err().to_string();
        assert!(bad.is_empty() || !error.contains(&bad), "{error}");
    }
    assert!(format!(" orlopj.ab.{a}.{b}\n").parse::<JoinToken>().is_ok(), "as a file holds it");
}

#[test]
fn a_worker_gets_a_certificate_in_its_name_whatever_it_asks_for() {
    let (authority, key) = Authority::create(now()).unwrap();
    let worker: WorkerId = "gpu-7.rack-2".parse().unwrap();
    let csr = Csr::new().unwrap();
    let certificate = PeerCertificate::new(authority.sign(&csr.request, &worker, now()).unwrap());
    assert!(certificate.is_of(&worker));
    assert!(!certificate.is_of(&"gpu-8.rack-2".parse().unwrap()) && !certificate.is_of(&"rack-2".parse().unwrap()));
    assert!(!PeerCertificate::new(vec![1, 2, 3]).is_of(&worker));
    let again = Authority::load(authority.pem(), &key).unwrap();
    assert_eq!((again.fingerprint(), again.certificate()), (authority.fingerprint(), authority.certificate()));
    assert!(PeerCertificate::new(again.sign(&csr.request, &worker, now()).unwrap()).is_of(&worker));
    assert!(!format!("{csr:?} {authority:?}").contains("PRIVATE"));
}

#[test]
fn a_request_that_is_none_and_a_name_that_cannot_be_certified_are_refused() {
    let (authority, _) = Authority::create(now()).unwrap();
    let csr = Csr::new().unwrap();
    let mut damaged = csr.request.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let worker: WorkerId = "w".parse().unwrap();
    assert!(authority.sign(&damaged, &worker, now()).is_err(), "it is not signed by its key");
    assert!(authority.sign(b"x", &worker, now()).is_err());
    insta::assert_snapshot!(authority.sign(&csr.request, &"a..b".parse().unwrap(), now()).unwrap_err(), @"signing a worker's certificate: `a..b` cannot be the name of a certificate; use labels of letters, digits and `-`");
    assert!(
        authority.server(&["not a name".to_owned()], now()).is_ok_and(|identity| identity.chain.contains("BEGIN"))
            || authority.server(&["ä".to_owned()], now()).is_err()
    );
    assert!(Authority::load("", "").is_err());
}

#[test]
fn certificates_of_workers_are_renewed_after_two_thirds_of_a_day() {
    assert_eq!(renewal(now()).since(now()).as_secs(), 16 * 3600);
}
