//! An image of busybox for tests of containers, where an engine answers, and what `docker` says of containers made of it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Images of this process so far.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Runs a program and gives what it printed.
///
/// # Errors
/// A sentence when it cannot be run or fails.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = std::process::Command::new(program).args(arguments).stdin(std::process::Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// An image of busybox that is imported, never pulled, and deleted in the end.
pub(crate) struct Image(pub(crate) String);

impl Image {
    pub(crate) fn import() -> Result<Self, String> {
        run("docker", &["version"])?;
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).is_file());
        let busybox = busybox.ok_or("no busybox on this machine (Debian: busybox-static)")?;
        let root = tempfile::tempdir().map_err(|error| error.to_string())?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("localhost/orlop-suite:{}-{number}", std::process::id());
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

/// Deletes the containers the runs have kept.
pub(crate) fn remove_containers(image: &str) {
    let kept = run("docker", &["ps", "--all", "--quiet", "--filter", &format!("ancestor={image}")]).unwrap_or_default();
    for container in kept.lines() {
        if let Err(error) = run("docker", &["rm", "--force", "--volumes", container]) {
            println!("{error}");
        }
    }
}
