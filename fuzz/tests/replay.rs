//! Replays every committed input of every target, and bytes nobody chose, as a plain test without a fuzzer.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panic")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use orlop_fuzz::targets::ALL;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_input_of_the_corpora_keeps_the_laws() {
    let mut broken = Vec::new();
    for (target, run) in ALL {
        let folder = here("corpus").join(target);
        let inputs = names(&folder);
        assert!(!inputs.is_empty(), "{target} has a corpus");
        for name in &inputs {
            let bytes = fs::read(folder.join(name)).expect("an input can be read");
            if catch_unwind(|| run(&bytes)).is_err() {
                broken.push(format!("{target}/{name}"));
            }
        }
        println!("{target}: {} inputs", inputs.len());
    }
    assert!(broken.is_empty(), "inputs that break a law: {broken:#?}");
}

#[test]
fn every_target_has_an_entry_and_a_corpus_and_the_reverse() {
    let known: BTreeSet<String> = ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    let entries = names(&here("fuzz_targets")).into_iter().map(|file| file.trim_end_matches(".rs").to_owned());
    assert_eq!(entries.collect::<BTreeSet<_>>(), known);
    assert_eq!(names(&here("corpus")), known);
}

#[test]
fn bytes_that_are_no_text_harm_no_target() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for bytes in [&[][..], &[0], &[0xff, 0xfe], &all, &[b'{'; 4096], &[b'('; 4096], &[b'['; 4096], &[b' '; 4096]] {
        ALL.iter().for_each(|(_, run)| run(bytes));
    }
}
