//! What a cloud answers, what people write down to sign in, and what a deployment writes down of itself.

use orlop_cloud::openstack::classify::{Answer, Call, Meaning, Service, classify, fault, message};
use orlop_cloud::openstack::credentials::{cloud_names, read_assignments, read_clouds, read_profile, read_secure};
use orlop_cloud::openstack::read;
use orlop_cloud::provision::journal::{encode, replay};
use orlop_cloud::provision::saga::replayed;

use super::{first_line, text};

const CALLS: [Call; 7] =
    [Call::SignIn, Call::Read, Call::CreateKeypair, Call::Create, Call::Bind, Call::Change, Call::Delete];

/// A status on the first line, then a body.
pub fn cloud_answers(bytes: &[u8]) {
    let Some(all) = text(bytes) else { return };
    let (status, body) = first_line(all);
    let status: Option<u16> = status.trim().parse().ok();
    for service in Service::ALL {
        for call in CALLS {
            let answer = Answer { service, call, status, body, application_credential: true, quick: true };
            let meaning = classify(&answer);
            assert_eq!(meaning == Meaning::Done, meaning.class().is_none());
            if meaning == Meaning::Done {
                assert!(status.is_some_and(|status| (200..300).contains(&status)));
            }
            let creates = matches!(call, Call::Create | Call::CreateKeypair);
            assert!(creates || meaning != Meaning::Ambiguous, "only creates are ambiguous");
        }
    }
    let words = message(body);
    assert!(words.chars().count() <= body.chars().count().max(500) + 500);
    let _meaning = fault(&words);
    let document: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let of = |key: &str| document.get(key).unwrap_or(&document);
    assert!(read::lease(of("lease")).is_none_or(|lease| !lease.id.is_empty()));
    assert!(read::server(of("server")).is_none_or(|server| !server.id.is_empty()));
    assert!(read::floating_ip(of("floatingip")).is_none_or(|address| !address.id.is_empty()));
    assert!(read::net_port(of("port")).is_none_or(|port| !port.id.is_empty()));
    assert!(read::network(of("network")).is_none_or(|network| !network.id.is_empty()));
    assert!(read::security_group(of("security_group")).is_none_or(|group| !group.id.is_empty()));
    assert!(read::keypair(&document).is_none_or(|pair| !pair.name.is_empty()));
    let _limits = read::limits(&document);
}

/// Files of settings: `clouds.yaml`, `.env`.
pub fn cloud_settings(bytes: &[u8]) {
    let Some(all) = text(bytes) else { return };
    let found = read_assignments(all);
    for name in found.values.keys() {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
    }
    assert!(found.ignored.iter().all(|line| *line <= all.lines().count()));
    // The name of a cloud is told to people, and is what they made it.
    let named = cloud_names("f", all).is_ok_and(|names| names.iter().any(|name| name.contains("hunter22")));
    let profile = read_profile("f", all, "a").map(Option::unwrap_or_default);
    for answer in [read_clouds("f", all, "a"), read_secure("f", all, "a"), profile] {
        if let Err(error) = answer {
            assert!(named || !error.to_string().contains("hunter22"), "no message quotes a file: {error}");
        }
    }
}

/// A journal: what is believed is written again as it was.
pub fn deployment_journal(bytes: &[u8]) {
    let Ok((lines, whole)) = replay(bytes) else { return };
    assert!(whole <= bytes.len());
    let again: Vec<u8> =
        lines.iter().filter_map(|line| encode(line).ok()).flat_map(|line| (line + "\n").into_bytes()).collect();
    assert_eq!(replay(&again).map(|(lines, _)| lines).as_ref(), Ok(&lines));
    drop(replayed(&lines));
}
