//! Fetches from an https server on the loopback interface, whose repositories are given out by Git itself.

mod proxied;
mod safety;
mod server;

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::repository::source::Allow;
use server::Server;

/// Runs Git in a folder, with nothing of the user's configuration.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let out = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// A repository of these files below `root`, named `x`.
fn repository(root: &Path, files: &[(&str, &[u8])]) {
    let folder = root.join("x");
    fs::create_dir_all(&folder).unwrap();
    git(&folder, &["init", "--quiet"]);
    for (path, bytes) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    git(&folder, &["add", "--all"]);
    git(&folder, &["commit", "--quiet", "--allow-empty", "-m", "one"]);
    git(&folder, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
}

/// A server, and where fetches are made.
struct World {
    root: TempDir,
    state: TempDir,
    server: Server,
}

impl World {
    async fn new(files: &[(&str, &[u8])]) -> Self {
        let root = tempfile::tempdir().unwrap();
        repository(root.path(), files);
        let server = Server::new(root.path()).await;
        Self { root, state: tempfile::tempdir().unwrap(), server }
    }

    fn folder(&self) -> std::path::PathBuf {
        self.root.path().join("x")
    }

    fn request(&self, path: &str) -> Request {
        let source = Source::parse(&self.server.url(path), Allow::default()).unwrap();
        Request { source, reference: "HEAD".into(), subdir: String::new(), token: None }
    }

    fn options(&self) -> Options {
        Options {
            ca_file: Some(self.server.ca_file()),
            time: Duration::from_secs(30),
            // Other bounds are what ends a scan here, also where the machine is busy.
            scan_time: Duration::from_secs(150),
            ..Options::new(self.state.path().join("git"))
        }
    }

    /// Fetches through doors that are open for the server's address and no other of this machine.
    async fn fetch(&self, request: &Request, options: &Options) -> Result<Scan, FetchError> {
        let fetched = fetch_through(&self.server.doors(), request, options).await;
        let left = fs::read_dir(&options.folder).map_or(0, Iterator::count);
        assert_eq!(left, 0, "a fetch leaves nothing behind");
        fetched
    }
}

fn paths(scan: &Scan) -> Vec<&str> {
    scan.files.iter().map(|file| file.path.as_str()).collect()
}

#[tokio::test]
async fn one_commit_is_fetched_and_scanned() {
    let world = World::new(&[
        ("requirements.txt", b"torch\n-r deps/a/b/c/more.txt\n"),
        ("deps/a/b/c/more.txt", b"vllm\n"),
        ("sub/README.md", b"hello"),
        ("src/k.cu", b"x"),
        (".env", b"SECRET=1"),
        ("main.py", b"print()"),
    ])
    .await;
    let scan = world.fetch(&world.request("/x/.git"), &world.options()).await.unwrap();
    assert_eq!(paths(&scan), ["deps/a/b/c/more.txt", "main.py", "requirements.txt", "sub/README.md"]);
    assert_eq!((scan.cuda_sources.as_slice(), scan.python_sources), (["src/k.cu".to_owned()].as_slice(), 1));
    assert_eq!(scan.files[2].text, "torch\n-r deps/a/b/c/more.txt\n");
    assert!(scan.warnings.is_empty(), "{:?}", scan.warnings);
}

#[tokio::test]
async fn branches_tags_commits_and_subfolders_can_be_named() {
    let world = World::new(&[("sub/README.md", b"one")]).await;
    let first = git(&world.folder(), &["rev-parse", "HEAD"]);
    git(&world.folder(), &["tag", "-a", "v1", "-m", "v1"]);
    fs::write(world.folder().join("sub/README.md"), "two").unwrap();
    git(&world.folder(), &["commit", "--quiet", "-am", "two"]);
    git(&world.folder(), &["branch", "feature/x"]);
    for (reference, text) in
        [("HEAD", "two"), ("main", "two"), ("feature/x", "two"), ("v1", "one"), (first.as_str(), "one")]
    {
        let request = Request { reference: reference.to_owned(), subdir: "sub/".into(), ..world.request("/x/.git") };
        let scan = world.fetch(&request, &world.options()).await.unwrap();
        assert_eq!((paths(&scan), scan.files[0].text.as_str()), (vec!["README.md"], text), "{reference}");
    }
    for (reference, subdir) in [("nobody", ""), ("main", "nothing"), ("main", "sub/README.md")] {
        let request =
            Request { reference: reference.to_owned(), subdir: subdir.to_owned(), ..world.request("/x/.git") };
        let error = world.fetch(&request, &world.options()).await.unwrap_err();
        assert!(matches!(error, FetchError::Missing { .. }), "{error:?}");
    }
    for bad in ["--upload-pack=id", "a:b", "+x"] {
        let request = Request { reference: bad.to_owned(), ..world.request("/x/.git") };
        assert!(matches!(world.fetch(&request, &world.options()).await, Err(FetchError::Refused(_))), "{bad}");
    }
}
