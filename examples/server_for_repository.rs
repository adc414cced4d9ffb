//! Which server a repository needs, without credentials: `server_for_repository [FOLDER]` reads a folder, analyses it by rules and
//! plans over the built-in table of hardware. Nothing is executed, sent or created.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::path::Path;

use anyhow::{Context, Result};
use orlop_cloud::analyze::{Analysis, FileKind, analyze};
use orlop_cloud::catalog::embedded;
use orlop_cloud::provision::plan::{Request, World, plan};
use orlop_cloud::repository::{Scan, ScannedFile, folder};

/// What is looked at where no folder is named.
const EXAMPLE: [(&str, &str); 2] = [
    ("requirements.txt", "torch==2.1.0+cu121\ntransformers\npeft\n"),
    ("README.md", "# Tuning\n\nRequires a GPU with at least 24 GB of memory. Training takes 10 hours.\n"),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let scan = match std::env::args().nth(1) {
        Some(path) => folder::scan(Path::new(&path), "").await?,
        None => example()?,
    };
    let analysis = analyze(&scan);
    show(&analysis);

    let catalogue = embedded();
    let world = World { catalogue: &catalogue, allocations: None, images: None };
    let mut request = Request::new("2026-12-01T08:00:00Z".parse()?);
    request.sites = vec!["uc".to_owned(), "tacc".to_owned()];
    request.attempts = 3;
    let plan = plan(&analysis, &world, &request)?;
    println!("\nfor {} hours, the best first:", plan.hours);
    for offering in &plan.offerings {
        println!(
            "  {} at {} with {}, {}",
            offering.node_type, offering.site, offering.image.name, offering.su_estimate
        );
    }
    for note in plan.notes.iter().chain(&plan.warnings) {
        println!("  note: {note}");
    }
    Ok(())
}

/// A repository that a program holds itself.
fn example() -> Result<Scan> {
    let files = EXAMPLE.iter().map(|(path, text)| {
        let kind = FileKind::of(path).context("no rule reads this file")?;
        Ok(ScannedFile { path: (*path).to_owned(), kind, text: (*text).to_owned() })
    });
    Ok(Scan { files: files.collect::<Result<_>>()?, ..Scan::default() })
}

fn show(analysis: &Analysis) {
    let needs = &analysis.requirements;
    println!(
        "cores {:?}, memory {:?} GiB, disk {:?} GB",
        needs.cpu_cores.target, needs.ram_gb.target, needs.disk_gb.target
    );
    if needs.wants_gpu() {
        println!("cards {:?} with {:?} GB each", needs.gpu_count.target, needs.gpu_memory_gb.target);
    }
    for fact in &needs.gpu_required.evidence {
        println!("  because of {}:{} \u{201c}{}\u{201d} ({})", fact.file, fact.line, fact.quote, fact.rule);
    }
}
