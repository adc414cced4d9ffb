//! Modes and links on their way through the store, and deliveries in the place of something else.

use orlop_core::spec::artifact::{ArchiveFormat, Compression};

use super::*;

const TAR: Archive = Archive { format: Some(ArchiveFormat::Tar), compression: None };
const GZIP: Archive = Archive { format: Some(ArchiveFormat::Tar), compression: Some(Compression::Gzip) };
const ZIP: Archive = Archive { format: Some(ArchiveFormat::Zip), compression: None };

fn open(folder: &TempDir) -> CasStore {
    CasStore::open(folder.path(), Limits::default()).unwrap()
}

#[tokio::test]
async fn what_is_private_stays_private_and_what_can_be_run_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let source = folder.path().join("source");
    let inner = Node::folder([("key", Node::file("k")), ("tool", Node::program("t"))]);
    plant(&source, &Node::folder([("a", Node::file("x")), ("keys", inner)]));
    let modes = [("a", 0o644), ("keys", 0o700), ("keys/key", 0o600), ("keys/tool", 0o700)];
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (path, bits) in modes {
        set(&source.join(path), bits);
    }
    for (number, archive) in [None, Some(TAR), Some(GZIP), Some(ZIP)].into_iter().enumerate() {
        let location = store.put(&source, archive).await.unwrap();
        let target = folder.path().join(format!("target-{number}"));
        store.get(&location, archive, true, &target).await.unwrap();
        assert_eq!(modes.map(|(path, _)| (path, mode(&target.join(path)))), modes, "{archive:?}");
    }
    for (path, bits) in modes.into_iter().filter(|(path, _)| *path != "keys") {
        let location = store.put(&source.join(path), None).await.unwrap();
        let target = folder.path().join(path.replace('/', "-"));
        store.get(&location, None, true, &target).await.unwrap();
        assert_eq!(mode(&target), bits, "{path}: {}", location.reference);
    }
}

#[tokio::test]
async fn a_link_that_leads_out_is_refused_when_the_folder_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let source = folder.path().join("source");
    plant(&source, &Node::folder([("bin", Node::folder([("python", Node::link("/usr/bin/python3"))]))]));
    let error = store.put(&source, None).await.unwrap_err();
    insta::assert_snapshot!(error, @"link bin/python leads out of the folder, to /usr/bin/python3; put a copy in its place, or pack the folder by `archive` and take it with `unpack: false`");
    assert_eq!((error.class, error.reason), (Class::Invalid, Some("OutputInvalid")));
    assert_eq!(std::fs::read_dir(folder.path().join("cas/tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_delivery_may_replace_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (tree, file, target) = (folder.path().join("tree"), folder.path().join("file"), folder.path().join("out/it"));
    plant(&tree, &Node::folder([("a", Node::file("x"))]));
    plant(&file, &Node::file("text"));
    std::fs::create_dir(folder.path().join("out")).unwrap();
    let (tree, file) = (store.put(&tree, None).await.unwrap(), store.put(&file, None).await.unwrap());
    for location in [&tree, &file, &file, &tree, &tree] {
        store.replace(location, None, true, &target).await.unwrap();
        assert_eq!(target.is_dir(), location == &tree);
        assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 1, "nothing else is left");
    }
    let gone = ArtifactLocation { reference: format!("sha256/{}", "0".repeat(64)), sha256: String::new(), ..tree };
    assert_eq!(store.replace(&gone, None, true, &target).await.unwrap_err().class, Class::NotFound);
    assert!(target.join("a").exists(), "what is there stays where nothing can take its place");
}
