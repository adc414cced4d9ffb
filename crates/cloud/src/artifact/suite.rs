//! What holds for the fleet's artifacts wherever they are kept. Each adapter runs it.

use orlop_core::error::Code;

use super::ArtifactBackend;
use super::uploads::{unknown_upload, wrong_offset};

/// The SHA-256 of `hello`.
pub(crate) const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

/// Runs all checks. `open` opens the same place again, as another process does.
pub(crate) fn check(open: &mut dyn FnMut() -> Box<dyn ArtifactBackend>) {
    an_upload_goes_on_at_its_offset_and_is_there_when_it_is_whole(open);
    what_is_not_what_was_announced_is_refused_and_gone(&*open());
    content_is_read_from_any_offset(&*open());
    equal_content_is_kept_once(&*open());
}

fn an_upload_goes_on_at_its_offset_and_is_there_when_it_is_whole(open: &mut dyn FnMut() -> Box<dyn ArtifactBackend>) {
    let first = open();
    first.begin("u1").unwrap();
    assert!(first.begin("u1").is_err(), "its name is used");
    assert_eq!(first.append("u1", 0, b"hel").unwrap(), 3);
    assert!(first.append("u1", 0, b"x") == Err(wrong_offset(3)));
    assert_eq!(first.uploads().unwrap(), ["u1"]);
    assert!(first.append("u1", 4, b"x") == Err(wrong_offset(3)));
    assert!(first.append("u2", 0, b"x") == Err(unknown_upload()));
    let second = open();
    assert_eq!(second.received("u1").unwrap(), 3);
    assert_eq!(second.append("u1", 3, b"lo").unwrap(), 5);
    assert!(second.content(HELLO).unwrap().is_none());
    second.check("u1", HELLO).unwrap();
    assert_eq!(second.finish("u1", HELLO).unwrap(), 5);
    assert!(second.received("u1") == Err(unknown_upload()));
    assert!(second.uploads().unwrap().is_empty());
    let content = open().content(HELLO).unwrap().unwrap();
    assert_eq!((content.read_at(0, 100).unwrap().as_slice(), content.bytes()), (&b"hello"[..], 5));
    assert_eq!(second.shard(0x2c).unwrap(), [HELLO]);
    second.remove(HELLO).unwrap();
    second.remove(HELLO).unwrap();
    assert!(second.shard(0x2c).unwrap().is_empty() && second.shard(0).unwrap().is_empty());
    assert!(second.content(HELLO).unwrap().is_none());
    assert!(second.content("../../etc/passwd").unwrap().is_none());
    second.discard("u1").unwrap();
}

fn what_is_not_what_was_announced_is_refused_and_gone(place: &dyn ArtifactBackend) {
    place.begin("u3").unwrap();
    place.append("u3", 0, b"hullo").unwrap();
    let wrong = place.check("u3", HELLO).unwrap_err();
    assert!(wrong.code == Code::Checksum && wrong.message.contains(HELLO), "{wrong}");
    assert!(place.append("u3", 5, b"x") == Err(unknown_upload()));
    assert!(place.uploads().unwrap().is_empty());
}

fn content_is_read_from_any_offset(place: &dyn ArtifactBackend) {
    // Larger than what adapters read at once, in pieces that are no multiples of it.
    let all: Vec<u8> = (0..3_000_000_u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
    let (sha256, _) = super::digest_of(&mut all.as_slice()).unwrap();
    place.begin("u4").unwrap();
    let mut at = 0;
    for piece in all.chunks(1_000_001) {
        at = place.append("u4", at, piece).unwrap();
    }
    place.check("u4", &sha256).unwrap();
    assert_eq!(place.finish("u4", &sha256).unwrap(), 3_000_000);
    let content = place.content(&sha256).unwrap().unwrap();
    for (offset, most) in [(0, 3_000_000), (0, 1), (262_143, 2), (262_144, 300_000), (1_000_000, 7), (2_999_999, 9)] {
        let end = (offset + most).min(all.len());
        assert_eq!(content.read_at(offset as u64, most).unwrap(), all[offset..end], "{most} at {offset}");
    }
    assert!(content.read_at(3_000_000, 5).unwrap().is_empty());
    place.remove(&sha256).unwrap();
}

fn equal_content_is_kept_once(place: &dyn ArtifactBackend) {
    for upload in ["u5", "u6"] {
        place.begin(upload).unwrap();
        place.append(upload, 0, b"hello").unwrap();
        place.check(upload, HELLO).unwrap();
        assert_eq!(place.finish(upload, HELLO).unwrap(), 5);
    }
    assert_eq!(place.shard(0x2c).unwrap(), [HELLO]);
    assert!(place.uploads().unwrap().is_empty());
    assert_eq!(place.content(HELLO).unwrap().unwrap().read_at(1, 2).unwrap(), b"el");
    place.remove(HELLO).unwrap();
    assert!(place.content(HELLO).unwrap().is_none());
}
