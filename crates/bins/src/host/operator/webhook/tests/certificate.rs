//! Pairs come, are renewed, torn, turned by links, and run out; what fits last stays in use.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use orlop_core::time::Time;

use super::super::certificate::{CertificateFiles, Files, Look};
use super::now;
use crate::wire::identity::{Authority, ServerIdentity};

/// A pair of its own authority, made at a time and good for a year.
fn pair(made: Time) -> ServerIdentity {
    Authority::create(made).unwrap().0.server(&[], made).unwrap()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn files(&self) -> Files {
        Files::new(self.0.path().join("tls.crt"), self.0.path().join("tls.key"))
    }

    fn write(&self, certificate: &str, key: &str) {
        std::fs::write(self.files().certificate, certificate).unwrap();
        std::fs::write(self.files().key, key).unwrap();
    }
}

/// What a look comes to, in a word; words on failures without the folder.
fn look(folder: &Folder, known: &mut CertificateFiles) -> String {
    match known.look(folder.files().read(), now()) {
        Look::Same => "same".to_owned(),
        Look::Taken(pair) => format!("taken, good until {}", pair.expires),
        Look::Failed(why) => why.replace(folder.0.path().to_str().unwrap(), "DIR"),
    }
}

#[test]
fn a_pair_is_taken_when_it_changes_and_fits() {
    let (folder, mut known) = (Folder::new(), CertificateFiles::default());
    let first = pair(now());
    folder.write(&first.chain, &first.key);
    assert_eq!(look(&folder, &mut known), "taken, good until 2027-11-22T10:00:00Z");
    assert_eq!(look(&folder, &mut known), "same");
    let second = pair("2026-12-01T10:00:00Z".parse().unwrap());
    folder.write(&second.chain, &second.key);
    assert_eq!(look(&folder, &mut known), "taken, good until 2027-12-01T10:00:00Z");
}

#[test]
fn a_pair_that_does_not_fit_is_reported_once_and_the_last_one_stays() {
    let (folder, mut known) = (Folder::new(), CertificateFiles::default());
    let (first, second) = (pair(now()), pair(now()));
    folder.write(&first.chain, &first.key);
    assert!(look(&folder, &mut known).starts_with("taken"));
    // Somebody has written one file and is about to write the other.
    folder.write(&second.chain, &first.key);
    assert_eq!(look(&folder, &mut known), "same");
    folder.write(&second.chain, &second.key);
    assert!(look(&folder, &mut known).starts_with("taken"));
    folder.write(&second.chain, &first.key);
    assert_eq!(look(&folder, &mut known), "same");
    insta::assert_snapshot!(look(&folder, &mut known), @"the key does not match the certificate");
    assert_eq!(look(&folder, &mut known), "same", "it is told already");
    // The one in use is back, and the same trouble is reported again when it comes again.
    folder.write(&second.chain, &second.key);
    assert_eq!(look(&folder, &mut known), "same");
    folder.write(&second.chain, &first.key);
    assert_eq!(look(&folder, &mut known), "same");
    assert_ne!(look(&folder, &mut known), "same");
}

#[test]
fn what_is_wrong_with_the_first_pair_is_reported_at_once() {
    let (folder, mut known) = (Folder::new(), CertificateFiles::default());
    insta::assert_snapshot!(look(&folder, &mut known), @"DIR/tls.crt: No such file or directory (os error 2)");
    assert_eq!(look(&folder, &mut known), "same");
    let first = pair(now());
    folder.write("", &first.key);
    insta::assert_snapshot!(look(&folder, &mut known), @"the certificate file contains no PEM certificate");
    folder.write(&first.chain, "");
    insta::assert_snapshot!(look(&folder, &mut known), @"the key file contains no PEM private key");
    folder.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &first.key);
    insta::assert_snapshot!(look(&folder, &mut known), @"the certificate is not well formed");
    let old = pair("2020-01-01T00:00:00Z".parse().unwrap());
    folder.write(&old.chain, &old.key);
    insta::assert_snapshot!(look(&folder, &mut known), @"the certificate was good until 2020-12-31T00:00:00Z");
    folder.write(&"x".repeat((1 << 20) + 1), &first.key);
    insta::assert_snapshot!(look(&folder, &mut known), @"DIR/tls.crt: has more than 1048576 bytes");
    folder.write(&first.chain, &first.key);
    assert!(look(&folder, &mut known).starts_with("taken"));
}

/// Turns `..data` to a new folder as a kubelet does, with this text in both files.
fn turn(root: &Path, text: &str) {
    let (data, next) = (root.join("..data"), root.join("..data_tmp"));
    let before = std::fs::read_link(&data).ok();
    let folder = format!("..{text}");
    std::fs::create_dir(root.join(&folder)).unwrap();
    for file in ["tls.crt", "tls.key"] {
        std::fs::write(root.join(&folder).join(file), text).unwrap();
    }
    std::os::unix::fs::symlink(&folder, &next).unwrap();
    std::fs::rename(&next, &data).unwrap();
    if let Some(before) = before {
        std::fs::remove_dir_all(root.join(before)).unwrap();
    }
}

/// Tells a thread to stop when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_mounted_pair_is_never_read_torn_while_it_is_turned() {
    let folder = Folder::new();
    let root = folder.0.path();
    turn(root, "0");
    for file in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{file}"), root.join(file)).unwrap();
    }
    let (done, whole) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (files, done, whole) = (folder.files(), &done, &whole);
        // A scope waits for its threads even where something fails.
        let stop = Stop(done);
        let reader = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                if let Ok(pem) = files.read() {
                    assert!(pem.is_pair_of_equals());
                    whole.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // Until it was read between two turns, and often enough besides.
        let began = std::time::Instant::now();
        for number in 1.. {
            turn(root, &number.to_string());
            if number > 400 && (whole.load(Ordering::Relaxed) > 0 || reader.is_finished()) {
                break;
            }
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "it is never read whole");
        }
        drop(stop);
        reader.join().unwrap();
    });
}
