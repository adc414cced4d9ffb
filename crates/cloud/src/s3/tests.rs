//! Objects against a store in memory that reads signatures by itself.

use std::io::Write as _;

use orlop_core::helper::KeyVariables;

use super::*;
use crate::http::Options;
use crate::testing::s3::{Keys, Store};

const KEYS: Keys = Keys { id: "AKID+/=", secret: "planted secret/+=" };

fn given() -> Option<(String, String)> {
    Some((KEYS.id.to_owned(), KEYS.secret.to_owned()))
}

fn store() -> Store {
    Store::start("lake", "eu-north-1", Some(KEYS)).unwrap()
}

fn place(store: &Store, key: &str) -> S3Location {
    let keys = Some(KeyVariables::default());
    S3Location { endpoint: store.endpoint(), bucket: "lake".into(), key: key.into(), keys }
}

fn object(store: &Store, key: &str) -> Object {
    Object::new(&place(store, key), given()).unwrap()
}

fn http() -> HttpDownload {
    HttpDownload::new(Options { max_bytes: 1 << 20, ..Options::default() }).unwrap()
}

fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

async fn fetched(object: &Object) -> Result<Vec<u8>, Problem> {
    let into = NamedTempFile::new().unwrap();
    object.fetch(&http(), &into).await?;
    Ok(std::fs::read(into.path()).unwrap())
}

#[tokio::test]
async fn what_is_stored_comes_back_byte_for_byte_whatever_its_key_is() {
    let store = store();
    for (key, bytes) in [("u1/data/2/model", &b"\0bytes\xff"[..]), ("a b/+c#?%25 ü/$(X)=&", b"x"), ("empty", b"")] {
        let object = object(&store, key);
        object.store(&http(), file(bytes).path(), bytes.len() as u64, "text/csv").await.unwrap();
        assert_eq!(store.object(key).as_deref(), Some(bytes), "{:?}", store.keys());
        assert_eq!(store.media_type(key).as_deref(), Some("text/csv"));
        assert_eq!(fetched(&object).await.unwrap(), bytes);
    }
}

#[tokio::test]
async fn a_large_object_goes_in_parts_that_are_tried_again() {
    let store = store();
    let bytes: Vec<u8> = (0..3_000_u32).flat_map(u32::to_le_bytes).collect();
    let spans = [(0, 5_000), (5_000, 5_000), (10_000, 2_000)].map(|(start, bytes)| Span { start, bytes });
    store.fail(&["SlowDown"]);
    object(&store, "big").in_parts(&http(), file(&bytes).path(), spans.to_vec(), "text/csv").await.unwrap();
    assert_eq!(store.object("big").unwrap(), bytes);
    assert_eq!((store.unfinished(), store.media_type("big").as_deref()), (0, Some("text/csv")));
    let asked = store.asked();
    assert_eq!(asked.iter().filter(|line| line.contains("partNumber")).count(), 3, "{asked:?}");
    assert_eq!(asked.iter().filter(|line| line.ends_with("uploads")).count(), 2, "{asked:?}");
}

#[tokio::test]
async fn parts_that_are_left_are_taken_away() {
    let store = store();
    let span = Span { start: 0, bytes: 10 };
    // The file is shorter than it was: the part cannot be sent.
    let done = object(&store, "big").in_parts(&http(), Path::new("/nowhere/at/all"), vec![span], "text/csv").await;
    assert_eq!(done.unwrap_err().class, Class::Fatal);
    assert_eq!((store.unfinished(), store.object("big")), (0, None));
    assert_eq!(store.asked().last().unwrap(), "DELETE /lake/big uploadId");
}

#[tokio::test]
async fn a_store_says_what_is_wrong_and_nothing_of_keys_is_reported() {
    let store = store();
    let all = |place: &S3Location, keys: Option<(String, String)>| {
        let object = Object::new(place, keys).unwrap();
        async move { object.fetch(&http(), &NamedTempFile::new().unwrap()).await.unwrap_err() }
    };
    let at = place(&store, "k");
    let other = |secret: &str| Some((KEYS.id.to_owned(), secret.to_owned()));
    let elsewhere = S3Location { endpoint: at.endpoint.replace("eu-north-1", "us-west-1"), ..at.clone() };
    let mut reported = vec![
        all(&at, given()).await,
        all(&at, other("planted wrong")).await,
        all(&at, Some(("planted".to_owned(), KEYS.secret.to_owned()))).await,
        all(&at, None).await,
        all(&elsewhere, given()).await,
        all(&S3Location { bucket: "pond".into(), ..at.clone() }, given()).await,
    ];
    store.fail(&["PermanentRedirect", "SlowDown"]);
    reported.push(all(&at, given()).await);
    reported.push(all(&at, given()).await);
    store.put("k", vec![0; (1 << 20) + 1]);
    reported.push(all(&at, given()).await);
    let port = store.endpoint();
    let port = port.trim_start_matches("http://").split('?').next().unwrap();
    let lines: Vec<String> =
        reported.iter().map(|error| format!("{}: {}", error.class, error.chain().replace(port, "HOST"))).collect();
    let text = lines.join("\n");
    assert!(!text.contains("planted") && !text.contains("AKID") && !text.contains("X-Amz"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn places_that_are_none_are_refused() {
    let good =
        S3Location { endpoint: "https://s3.example".into(), bucket: "lake".into(), key: "a/b".into(), keys: None };
    assert!(Object::new(&good, None).is_ok());
    let long = "k".repeat(1025);
    let wrong = [
        S3Location { endpoint: "s3.example".into(), ..good.clone() },
        S3Location { endpoint: "ftp://s3.example".into(), ..good.clone() },
        S3Location { endpoint: "https://user:planted@s3.example".into(), ..good.clone() },
        S3Location { bucket: "..".into(), ..good.clone() },
        S3Location { bucket: "a/b".into(), ..good.clone() },
        S3Location { key: String::new(), ..good.clone() },
        S3Location { key: "a/../../pond/x".into(), ..good.clone() },
        S3Location { key: "a//b".into(), ..good.clone() },
        S3Location { key: long, ..good },
    ];
    let reported: Vec<String> =
        wrong.iter().map(|place| format!("{:.160}", Object::new(place, None).unwrap_err().to_string())).collect();
    assert!(!reported.join("").contains("planted"));
    insta::assert_snapshot!(reported.join("\n"));
}

#[test]
fn parts_cover_a_file_and_are_as_many_as_a_store_takes() {
    for bytes in [WHOLE_MAX + 1, 5 << 30, 100 << 30, (5 << 40) - 1] {
        let parts = parts(bytes);
        assert!(parts.len() as u64 <= PARTS_MAX, "{bytes}: {}", parts.len());
        let mut next = 0;
        for part in &parts {
            assert_eq!(part.start, next);
            assert!(part.bytes > 0 && part.bytes <= 5 << 30);
            next += part.bytes;
        }
        assert_eq!(next, bytes);
    }
}

#[test]
fn regions_are_read_from_hosts_where_providers_put_them() {
    for (host, want) in [
        ("s3.amazonaws.com", "us-east-1"),
        ("s3.eu-west-3.amazonaws.com", "eu-west-3"),
        ("s3.dualstack.eu-west-1.amazonaws.com", "eu-west-1"),
        ("s3-us-west-2.amazonaws.com", "us-west-2"),
        ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("s3.eu-central-1.wasabisys.com", "eu-central-1"),
        ("s3.us-west-004.backblazeb2.com", "us-west-004"),
        ("s3.fr-par.scw.cloud", "fr-par"),
        ("fra1.digitaloceanspaces.com", "fra1"),
        ("account.r2.cloudflarestorage.com", "auto"),
        ("storage.googleapis.com", "auto"),
        ("minio.storage.svc", "us-east-1"),
        ("evilamazonaws.com", "us-east-1"),
        ("127.0.0.1", "us-east-1"),
        ("", "us-east-1"),
    ] {
        assert_eq!(region(host), want, "{host}");
    }
}
