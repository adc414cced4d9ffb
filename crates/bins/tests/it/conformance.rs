//! The suite of flows on real substrates: processes of this machine, and containers where an engine answers.

use std::path::Path;
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use orlop::conformance::{Case, Ground, Hosted, all, check};
use orlop::dag::manifest::substrate::Runtime;
use orlop::host::local::LocalSetup;
use orlop_cloud::runtime::process::{ProcessRuntime, RoleProgram};
use orlop_core::testing::MemoryJournal;

use crate::image::{Image, remove_containers};

/// Flows that run at once: enough to hide their waiting, few enough for a small machine.
const AT_ONCE: usize = 4;

/// Where a case runs: a directory of its own, kept until the suite is over.
async fn ground(root: &Path, runtime: Runtime, case: &Case) -> Result<Ground, String> {
    let run_dir = root.join(case.name);
    std::fs::create_dir_all(&run_dir).map_err(|error| error.to_string())?;
    let setup = LocalSetup { runtime, ..LocalSetup::default() };
    let supervisor = RoleProgram { path: env!("CARGO_BIN_EXE_orlop").into(), args: vec!["__supervisor".into()] };
    let processes = std::sync::Arc::new(ProcessRuntime::new(supervisor));
    let opened = setup.substrate(&run_dir, processes, true).await;
    let substrate = opened.map_err(|error| error.to_string())?;
    Ok(Ground { substrate, journal: Arc::new(MemoryJournal::new()) })
}

/// Runs every case and names what differs.
async fn run_all(image: &str, runtime: Runtime) -> Vec<String> {
    let root = tempfile::tempdir().expect("a temporary directory");
    let runs = futures::stream::iter(all()).map(|case| {
        let (root, image) = (root.path().to_owned(), image.to_owned());
        // A task of its own: no case can hold another one up.
        tokio::spawn(async move {
            let harness = Hosted::new(image, move |case: &Case| {
                let (root, case) = (root.clone(), case.clone());
                async move { ground(&root, runtime, &case).await }.boxed()
            });
            let limit = std::time::Duration::from_secs(120);
            match tokio::time::timeout(limit, check(&harness, &case)).await {
                Ok(found) => found,
                Err(_) => vec![format!("{} did not end", case.name)],
            }
        })
    });
    let found = runs.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    found.into_iter().flat_map(|found| found.unwrap_or_else(|error| vec![error.to_string()])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_conforms_as_processes() {
    let differences = run_all("busybox", Runtime::Process).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_conforms_as_containers() {
    let image = match Image::import() {
        Ok(image) => image,
        Err(why) => return println!("\nskipped: every_case_conforms_as_containers: {why}"),
    };
    let differences = run_all(&image.0, Runtime::ByImage).await;
    remove_containers(&image.0);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
