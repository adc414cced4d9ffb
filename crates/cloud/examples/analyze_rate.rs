//! How long the analysis of 4 MiB takes, as one document and as the 64 files a scan may hold of that size.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::time::Instant;

use orlop_cloud::analyze::{FileKind, analyze};
use orlop_cloud::repository::scan::{MAX_BYTES, MAX_FILE_BYTES};
use orlop_cloud::repository::{Scan, ScannedFile};

/// Text of which nearly every sentence counts, and text of which none does.
const SENTENCES: [(&str, &str); 3] = [
    ("dense", "This requires 16 GB of RAM, a GPU with 24 GB VRAM such as an A100 or RTX 3090, and Ubuntu 20.04.\n\n"),
    ("plain", "The quick brown fox jumps over the lazy dog, again and again, and says nothing about machines.\n"),
    ("one line", "We recommend at least 8 cores and token=abcdef0123456789abcdef0123456789abcdef, see a@b.example. "),
];

fn main() {
    for (name, sentence) in SENTENCES {
        let whole = sentence.repeat(MAX_BYTES / sentence.len());
        let part = sentence.repeat(MAX_FILE_BYTES / sentence.len());
        let one = vec![("README.md".to_owned(), whole)];
        let many = (0..MAX_BYTES / MAX_FILE_BYTES).map(|n| (format!("p{n:02}/README.md"), part.clone())).collect();
        for (shape, files) in [("one file", one), ("64 files", many)] {
            let file = |(path, text)| ScannedFile { path, kind: FileKind::Readme, text };
            let scan = Scan { files: files.into_iter().map(file).collect(), ..Scan::default() };
            let bytes: usize = scan.files.iter().map(|file| file.text.len()).sum();
            let started = Instant::now();
            let analysis = analyze(&scan);
            let took = started.elapsed();
            println!(
                "{name:8} {shape}: {:.2} MiB in {:.3} s, {} facts",
                bytes as f64 / 1_048_576.0,
                took.as_secs_f64(),
                analysis.facts.len()
            );
        }
    }
}
