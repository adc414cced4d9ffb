//! The suite of flows on real substrates: processes of this machine, and containers where an engine answers.

use std::path::Path;
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use orlop::conformance::{Case, Ground, Hosted, all, check};
use orlop::host::local::{Backend, LocalSetup};
use orlop_cloud::runtime::process::ShimProgram;
use orlop_core::testing::MemoryJournal;

/// Flows that run at once: enough to hide their waiting, few enough for a small machine.
const AT_ONCE: usize = 4;

/// Where a case runs: a directory of its own, kept until the suite is over.
async fn ground(root: &Path, backend: Backend, case: &Case) -> Result<Ground, String> {
    let run_dir = root.join(case.name);
    std::fs::create_dir_all(&run_dir).map_err(|error| error.to_string())?;
    let setup = LocalSetup { backend, ..LocalSetup::default() };
    let shim = ShimProgram { path: env!("CARGO_BIN_EXE_orlop").into(), args: vec!["__shim".into()] };
    let opened = setup.substrate(&run_dir, shim, true).await;
    let substrate = opened.map_err(|error| error.chain())?;
    Ok(Ground { substrate, journal: Arc::new(MemoryJournal::new()) })
}

/// Runs every case and names what differs.
async fn run_all(image: &str, backend: Backend) -> Vec<String> {
    let root = tempfile::tempdir().expect("a temporary directory");
    let runs = futures::stream::iter(all()).map(|case| {
        let (root, image) = (root.path().to_owned(), image.to_owned());
        // A task of its own: no case can hold another one up.
        tokio::spawn(async move {
            let harness = Hosted::new(image, move |case: &Case| {
                let (root, case) = (root.clone(), case.clone());
                async move { ground(&root, backend, &case).await }.boxed()
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
    let differences = run_all("busybox", Backend::Process).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Runs a program and gives what it printed.
///
/// # Errors
/// A sentence when it cannot be run or fails.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = std::process::Command::new(program).args(arguments).stdin(std::process::Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// An image of busybox that is imported, never pulled, and deleted in the end.
struct Image(String);

impl Image {
    fn import() -> Result<Self, String> {
        run("docker", &["version"])?;
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).is_file());
        let busybox = busybox.ok_or("no busybox on this machine (Debian: busybox-static)")?;
        let root = tempfile::tempdir().map_err(|error| error.to_string())?;
        let name = format!("localhost/orlop-suite:{}", std::process::id());
        let path = root.path().to_str().ok_or("a temporary directory that is not UTF-8")?;
        let script = format!(
            "mkdir -p {path}/bin {path}/tmp {path}/etc {path}/dev && chmod 1777 {path}/tmp && cp {busybox} {path}/bin/busybox \
             && for a in $({busybox} --list); do [ $a = busybox ] || ln -s busybox {path}/bin/$a; done \
             && tar -C {path} -c . | docker import - {name}"
        );
        run("sh", &["-euc", &script])?;
        Ok(Self(name))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Err(error) = run("docker", &["image", "rm", "--force", &self.0]) {
            println!("{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_conforms_as_containers() {
    let image = match Image::import() {
        Ok(image) => image,
        Err(why) => return println!("\nskipped: every_case_conforms_as_containers: {why}"),
    };
    let differences = run_all(&image.0, Backend::Docker).await;
    remove_containers(&image.0);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Deletes the containers the runs have kept.
fn remove_containers(image: &str) {
    let kept = run("docker", &["ps", "--all", "--quiet", "--filter", &format!("ancestor={image}")]).unwrap_or_default();
    for container in kept.lines() {
        if let Err(error) = run("docker", &["rm", "--force", "--volumes", container]) {
            println!("{error}");
        }
    }
}
