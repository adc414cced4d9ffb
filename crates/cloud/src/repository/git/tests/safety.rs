//! What is refused, and what is bounded.

use super::server::{Answer, INNER, header};
use super::*;

#[tokio::test]
async fn links_submodules_and_large_file_pointers_are_never_followed() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 99999999999\n";
    let modules =
        b"[submodule \"m\"]\n\tpath = m\n\turl = file:///etc\n[submodule \"n\"]\n\tpath = n\n\turl = ext::sh -c id\n";
    let world = World::new(&[
        ("README.md", b"hello"),
        (".gitmodules", modules),
        ("requirements-big.txt", pointer),
        (".gitattributes", b"*.txt filter=lfs\n"),
    ])
    .await;
    let folder = world.folder();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("requirements.txt")).unwrap();
    git(&folder, &["add", "requirements.txt"]);
    let commit = git(&folder, &["rev-parse", "HEAD"]);
    git(&folder, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},m")]);
    git(&folder, &["commit", "--quiet", "-m", "two"]);
    let scan = world.fetch(&world.request("/x/.git"), &world.options()).await.unwrap();
    assert_eq!(paths(&scan), ["README.md", "requirements-big.txt"]);
    assert_eq!(scan.files[1].text.as_bytes(), pointer, "the pointer, and not what it points to");
}

#[tokio::test]
async fn private_hosts_are_refused_before_a_connection() {
    let world = World::new(&[]).await;
    let request = world.request("/x/.git");
    let at = format!("https://127.0.0.1:{}/x/.git", world.server.port);
    let direct = Request { source: Source::parse(&at, Allow::default()).unwrap(), ..request.clone() };
    let error = fetch(&direct, &world.options()).await.unwrap_err();
    assert!(matches!(error, FetchError::Private { .. }), "{error:?}");
    assert!(world.server.asked().is_empty());
    let open = Options { private_hosts: true, ..world.options() };
    assert!(fetch(&direct, &open).await.is_ok());
}

#[tokio::test]
async fn redirects_are_checked_each_time() {
    let world = World::new(&[("README.md", b"hello")]).await;
    let url = |name: &str, path: &str| {
        format!("https://{name}:{}{path}/info/refs?service=git-upload-pack", world.server.port)
    };
    world.server.redirect("/one/", &url("other.test", "/x/.git"));
    world.server.redirect("/two/", &url("git.test", "/one"));
    world.server.redirect("/three/", "/two/info/refs?service=git-upload-pack");
    world.server.redirect("/four/", "/three/info/refs?service=git-upload-pack");
    for path in ["/one", "/two", "/three"] {
        assert_eq!(paths(&world.fetch(&world.request(path), &world.options()).await.unwrap()), ["README.md"], "{path}");
    }
    world.server.redirect("/inner/", &url(INNER, "/x/.git"));
    world.server.redirect("/metadata/", "https://169.254.169.254/latest/info/refs?service=git-upload-pack");
    world.server.redirect("/plain/", "http://git.test/x/info/refs?service=git-upload-pack");
    world.server.redirect("/file/", "file:///etc/info/refs");
    for (path, private) in
        [("/four", false), ("/inner", true), ("/metadata", true), ("/plain", false), ("/file", false)]
    {
        let error = world.fetch(&world.request(path), &world.options()).await.unwrap_err();
        let wanted = if private {
            matches!(error, FetchError::Private { .. })
        } else {
            matches!(error, FetchError::Redirect { .. })
        };
        assert!(wanted, "{path}: {error:?}");
    }
}

#[tokio::test]
async fn a_redirect_after_the_question_is_not_followed_by_git() {
    let world = World::new(&[("README.md", b"hello")]).await;
    let to = format!("https://{INNER}:{}/x/.git/git-upload-pack", world.server.port);
    world.server.redirect("/x/.git/git-upload-pack", &to);
    let error = world.fetch(&world.request("/x/.git"), &world.options()).await.unwrap_err();
    assert!(matches!(error, FetchError::Network { .. } | FetchError::Denied { .. }), "{error:?}");
}

#[tokio::test]
async fn a_token_goes_to_the_first_host_only_and_into_no_message() {
    let world = World::new(&[("README.md", b"hello")]).await;
    let other = format!("https://other.test:{}/x/.git/info/refs?service=git-upload-pack", world.server.port);
    world.server.redirect("/moved/", &other);
    let request = Request { token: Some("s3cr3t".into()), ..world.request("/moved") };
    world.fetch(&request, &world.options()).await.unwrap();
    let seen: Vec<bool> = world.server.asked().iter().map(|head| header(head, "authorization").is_some()).collect();
    assert_eq!((seen.first(), seen.iter().skip(1).any(|sent| *sent)), (Some(&true), false));
    world.fetch(&Request { token: Some("s3cr3t".into()), ..world.request("/x/.git") }, &world.options()).await.unwrap();
    assert!(
        world.server.asked().iter().skip(seen.len()).all(|head| header(head, "authorization").is_some()),
        "git sends it too"
    );
    let missing = Request { token: Some("s3cr3t".into()), ..world.request("/nothing") };
    let error = world.fetch(&missing, &world.options()).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cr3t"));
    let broken = Request { token: Some("a\nb".into()), ..world.request("/x/.git") };
    // In base64 every token can be sent.
    world.fetch(&broken, &world.options()).await.unwrap();
}

#[tokio::test]
async fn too_much_is_cut_off_and_removed() {
    let noise: Vec<u8> = (0..4_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let world = World::new(&[("noise.bin", &noise)]).await;
    let options = Options { max_bytes: 1024 * 1024, ..world.options() };
    let error = world.fetch(&world.request("/x/.git"), &options).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { mib: 1, .. }), "{error:?}");
}

#[tokio::test]
async fn a_silent_server_ends_at_the_time_limit() {
    let world = World::new(&[]).await;
    world.server.tell("/silent", Answer::Silence);
    world.server.tell("/x/.git/git-upload-pack", Answer::Silence);
    let options = Options { time: Duration::from_secs(1), ..world.options() };
    for path in ["/silent", "/x/.git"] {
        let error = world.fetch(&world.request(path), &options).await.unwrap_err();
        assert!(matches!(error, FetchError::TooSlow { seconds: 1, .. }), "{path}: {error:?}");
    }
}

#[tokio::test]
async fn the_network_is_tried_twice_and_a_refusal_once() {
    let world = World::new(&[]).await;
    world
        .server
        .tell("/broken", Answer::Words("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()));
    let error = world.fetch(&world.request("/broken"), &world.options()).await.unwrap_err();
    assert!(matches!(error, FetchError::Network { .. }), "{error:?}");
    assert_eq!(world.server.asked().len(), 2);
    let error = world.fetch(&world.request("/nothing"), &world.options()).await.unwrap_err();
    assert!(matches!(error, FetchError::Denied { .. }), "{error:?}");
    assert_eq!(world.server.asked().len(), 3);
}

#[tokio::test]
async fn certificates_are_verified() {
    let world = World::new(&[]).await;
    let options = Options { ca_file: None, ..world.options() };
    let error = world.fetch(&world.request("/x/.git"), &options).await.unwrap_err();
    assert!(matches!(&error, FetchError::Network { why, .. } if why.contains("certificate")), "{error:?}");
}

#[tokio::test]
async fn endless_readmes_and_huge_trees_are_bounded() {
    let readme = "endless ".repeat(1_000_000);
    let world = World::new(&[("README.md", readme.as_bytes()), ("requirements.txt", b"torch\n")]).await;
    let scan = world.fetch(&world.request("/x/.git"), &world.options()).await.unwrap();
    assert_eq!(scan.files[0].text.len(), 64 * 1024);
    assert_eq!(scan.files[1].text, "torch\n", "the answer after a long one is read whole");
    let folder = world.folder();
    let blob = git(&folder, &["rev-parse", "HEAD:requirements.txt"]);
    let listing: String = (0..100_001).map(|n| format!("100644 blob {blob}\tf{n:06}\n")).collect();
    fs::write(world.state.path().join("listing"), listing).unwrap();
    let shell = format!("git mktree < '{}'", world.state.path().join("listing").display());
    let tree = Command::new("sh").args(["-c", &shell]).current_dir(&folder).output().unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap().trim().to_owned();
    let commit = git(&folder, &["commit-tree", &tree, "-m", "huge"]);
    git(&folder, &["update-ref", "refs/heads/main", &commit]);
    let scan = world.fetch(&world.request("/x/.git"), &world.options()).await.unwrap();
    assert!(scan.warnings.iter().any(|warning| warning.contains("100000")), "{:?}", scan.warnings);
}

#[tokio::test]
async fn a_fetch_that_nobody_waits_for_ends_and_leaves_nothing() {
    let world = World::new(&[("README.md", b"hello")]).await;
    world.server.tell("/x/.git/git-upload-pack", Answer::Silence);
    let (request, options, doors) = (world.request("/x/.git"), world.options(), world.server.doors());
    let folder = options.folder.clone();
    let fetch = tokio::spawn(async move { fetch_through(&doors, &request, &options).await });
    // The second question is Git's own: then it runs, in a folder.
    while world.server.asked().iter().filter(|head| head.starts_with("POST")).count() == 0 {
        assert!(!fetch.is_finished(), "it waits for an answer that never comes");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let marks: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(marks.len(), 1);
    fetch.abort();
    assert!(fetch.await.unwrap_err().is_cancelled());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    let mark = marks[0].display().to_string();
    let runs = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|process| fs::read(process.path().join("environ")).ok())
            .any(|environment| String::from_utf8_lossy(&environment).contains(&format!("GIT_DIR={mark}")))
    };
    let since = std::time::Instant::now();
    while runs() {
        assert!(since.elapsed() < Duration::from_secs(60), "git still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn trees_within_trees_without_end_are_bounded() {
    let world = World::new(&[("README.md", b"hello")]).await;
    let folder = world.folder();
    let make = |listing: &str| {
        fs::write(world.state.path().join("listing"), listing).unwrap();
        let shell = format!("git mktree < '{}'", world.state.path().join("listing").display());
        let tree = Command::new("sh").args(["-c", &shell]).current_dir(&folder).output().unwrap();
        String::from_utf8(tree.stdout).unwrap().trim().to_owned()
    };
    let blob = git(&folder, &["rev-parse", "HEAD:README.md"]);
    // Each level names the one below it ten times: 10^9 paths of one blob.
    let mut tree = make(&format!("100644 blob {blob}\tREADME.md\n"));
    for _ in 0..9 {
        tree = make(&(0..10).map(|n| format!("040000 tree {tree}\td{n}\n")).collect::<String>());
    }
    let top = make(&format!("100644 blob {blob}\tREADME.md\n040000 tree {tree}\td\n"));
    let commit = git(&folder, &["commit-tree", &top, "-m", "bomb"]);
    git(&folder, &["update-ref", "refs/heads/main", &commit]);
    let started = std::time::Instant::now();
    let scan = world.fetch(&world.request("/x/.git"), &world.options()).await.unwrap();
    assert!(paths(&scan).contains(&"README.md"), "what is near the top is read");
    assert!(!scan.warnings.is_empty() && started.elapsed() < Duration::from_secs(120), "{:?}", scan.warnings);
}
