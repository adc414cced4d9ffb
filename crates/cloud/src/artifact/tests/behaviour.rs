//! What the port does not ask of every store: equal digests whatever the source's times and owners, clean folders,
//! clear trouble.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use orlop_core::spec::artifact::{ArchiveFormat, Compression};
use proptest::prelude::*;

use super::*;

const TAR: Archive = Archive { format: Some(ArchiveFormat::Tar), compression: None };
const GZIP: Archive = Archive { format: Some(ArchiveFormat::Tar), compression: Some(Compression::Gzip) };
const ZIP: Archive = Archive { format: Some(ArchiveFormat::Zip), compression: None };

fn open(folder: &TempDir) -> CasStore {
    CasStore::open(folder.path(), Limits::default()).unwrap()
}

/// Names in a folder and below, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for member in std::fs::read_dir(folder).unwrap() {
        let path = member.unwrap().path();
        names.push(path.display().to_string());
        if path.is_dir() {
            names.extend(self::names(&path));
        }
    }
    names.sort();
    names
}

#[tokio::test]
async fn times_of_the_source_and_its_umask_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let node = Node::folder([("a", Node::file("x")), ("b", Node::folder([("c", Node::program("y"))]))]);
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    plant(&one, &node);
    plant(&two, &node);
    std::fs::File::open(two.join("a")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    for (path, mode) in [("a", 0o664), ("b/c", 0o711), ("b", 0o775)] {
        std::fs::set_permissions(two.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    for archive in [TAR, GZIP, ZIP] {
        let first = store.put(&one, Some(archive)).await.unwrap();
        assert_eq!(store.put(&two, Some(archive)).await.unwrap(), first);
    }
}

#[tokio::test]
async fn digests_stay_the_same_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let source = folder.path().join("source");
    let nested = Node::folder([("c", Node::program("y")), ("l", Node::link("../a"))]);
    plant(&source, &Node::folder([("a", Node::file("x")), ("b", nested), ("n".repeat(120).as_str(), Node::file(""))]));
    let location = store.put(&source, Some(TAR)).await.unwrap();
    insta::assert_snapshot!(format!("{} {}", location.size_bytes, location.reference), @"6144 sha256/14d5127782596e5af9b02a25c351adc2e924bee34227a55dd4845a485b4d12ea.tar");
}

#[tokio::test]
async fn a_stored_file_is_read_only_and_where_the_specification_says() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let source = folder.path().join("source");
    plant(&source, &Node::file("text"));
    let location = store.put(&source, None).await.unwrap();
    let (shard, rest) = location.sha256.split_at(2);
    let path = folder.path().join("cas/sha256").join(shard).join(rest);
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o444);
    assert_eq!(location.reference, format!("sha256/{}", location.sha256));
}

#[tokio::test]
async fn a_delivery_is_no_link_to_the_stored_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    plant(&source, &Node::file("text"));
    let location = store.put(&source, None).await.unwrap();
    store.get(&location, None, true, &target).await.unwrap();
    let found = std::fs::metadata(&target).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o644);
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&found), 1);
}

#[tokio::test]
async fn nothing_but_the_artifact_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let source = folder.path().join("source");
    plant(&source, &Node::folder([("a", Node::file("x"))]));
    let location = store.put(&source, Some(GZIP)).await.unwrap();
    store.get(&location, Some(GZIP), true, &work.join("tree")).await.unwrap();
    store.get(&location, Some(GZIP), false, &work.join("packed")).await.unwrap();
    let found: Vec<String> = names(&work).iter().map(|name| name.rsplit_once("work/").unwrap().1.to_owned()).collect();
    assert_eq!(found, ["packed", "tree", "tree/a"]);
    assert!(names(&folder.path().join("cas/tmp")).is_empty());
}

#[tokio::test]
async fn what_cannot_be_stored_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    nix::unistd::mkfifo(&source.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = store.put(&source, None).await.unwrap_err();
    assert_eq!(error.class, Class::Invalid);
    insta::assert_snapshot!(error, @"pipe is a named pipe, which cannot be stored; remove it");
    let error = store.put(Path::new("/dev/null"), Some(TAR)).await.unwrap_err();
    insta::assert_snapshot!(error, @"null is a device, which cannot be stored; remove it");
    assert!(names(&folder.path().join("cas/tmp")).is_empty());
}

#[tokio::test]
async fn names_of_any_bytes_survive_tar_and_are_refused_by_zip() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join(OsStr::from_bytes(b"\xff\xfe")), "x").unwrap();
    let location = store.put(&source, None).await.unwrap();
    store.get(&location, None, true, &target).await.unwrap();
    assert_eq!(std::fs::read(target.join(OsStr::from_bytes(b"\xff\xfe"))).unwrap(), b"x");
    let error = store.put(&source, Some(ZIP)).await.unwrap_err();
    assert_eq!(error.class, Class::Invalid);
    assert!(error.message.ends_with("cannot be stored in a zip archive: it is not UTF-8; use tar"), "{error}");
}

#[tokio::test]
async fn too_many_entries_are_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = CasStore::open(folder.path(), Limits { max_entries: 3, ..Limits::default() }).unwrap();
    let source = folder.path().join("source");
    plant(&source, &Node::folder([("a", Node::file("")), ("b", Node::file(""))]));
    store.put(&source, None).await.unwrap();
    plant(&source.join("c"), &Node::file(""));
    let error = store.put(&source, None).await.unwrap_err();
    assert_eq!(error.class, Class::Invalid);
    insta::assert_snapshot!(error, @"the artifact has more than 3 files, folders and links");
}

#[tokio::test]
async fn storing_again_mends_a_damaged_file() {
    let worlds = Worlds(tempfile::tempdir().unwrap());
    let store = worlds.open(0).await;
    let (source, target) = (worlds.path(0, "source"), worlds.path(0, "target"));
    plant(&source, &Node::file("text"));
    let location = store.put(&source, None).await.unwrap();
    worlds.damage(0, &location);
    let error = store.get(&location, None, true, &target).await.unwrap_err();
    assert!(error.message.contains("are damaged: their digest is "), "{error}");
    assert_eq!(store.put(&source, None).await.unwrap(), location);
    store.get(&location, None, true, &target).await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_stops_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let source = folder.path().join("source");
    // Endless for all that matters, without a byte on the disk.
    std::fs::File::create(&source).unwrap().set_len(1 << 36).unwrap();
    let put = store.put(&source, None);
    assert!(tokio::time::timeout(Duration::from_millis(100), put).await.is_err());
    let began = std::time::Instant::now();
    while !names(&folder.path().join("cas/tmp")).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "the work goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn what_a_crashed_writer_left_is_swept_up_later() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder);
    let (old, new) = (folder.path().join("cas/tmp/old"), folder.path().join("cas/tmp/new"));
    std::fs::write(&old, "x").unwrap();
    std::fs::write(&new, "x").unwrap();
    let before = SystemTime::now() - Duration::from_secs(25 * 60 * 60);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(before).unwrap();
    open(&folder);
    assert!(!old.exists() && new.exists());
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let error = CasStore::open(folder.path().join("no"), Limits::default()).unwrap_err();
    assert_eq!(error.class, Class::NotFound);
    let store = open(&folder);
    let source = folder.path().join("source");
    plant(&source, &Node::file("text"));
    let location = store.put(&source, None).await.unwrap();
    let error = store.get(&location, None, true, &folder.path().join("no/target")).await.unwrap_err();
    assert_eq!(error.class, Class::NotFound);
    assert!(error.message.ends_with("no/target cannot be written"), "{error}");
}

/// Greatest memory this process has used, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// A test of this binary, to be run again in its own process.
fn alone(command: &mut Command, test: &str) {
    let output = command.args(["--exact", &format!("artifact::tests::behaviour::{test}"), "--nocapture"]).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_large_artifact_takes_little_memory() {
    if std::env::var_os("ORLOP_TEST_ALONE").is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        return alone(command.env("ORLOP_TEST_ALONE", "1"), "a_large_artifact_takes_little_memory");
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("large"), "small").unwrap();
    // The program's own pages are read as they are used, and are not what an artifact takes.
    for archive in [GZIP, ZIP] {
        let location = store.put(&source, Some(archive)).await.unwrap();
        store.get(&location, Some(archive), true, &target).await.unwrap();
        remove(&target);
    }
    std::fs::File::create(source.join("large")).unwrap().set_len(48 << 20).unwrap();
    let before = peak_memory();
    for archive in [GZIP, ZIP] {
        let location = store.put(&source, Some(archive)).await.unwrap();
        store.get(&location, Some(archive), true, &target).await.unwrap();
        remove(&target);
    }
    let taken = peak_memory() - before;
    assert!(taken < 16 << 20, "{taken} bytes");
}

/// Runs a test of this binary again where `ORLOP_TEST_DISK` is a separate small disk. False where that is not allowed.
fn on_a_small_disk(test: &str) -> bool {
    let namespaces = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]);
        command
    };
    if !namespaces().arg("true").status().is_ok_and(|status| status.success()) {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$ORLOP_TEST_DISK\" && exec \"$@\"";
    let mut command = namespaces();
    command.args(["sh", "-c", script, "sh"]).arg(std::env::current_exe().unwrap());
    alone(command.env("ORLOP_TEST_DISK", folder.path()), test);
    true
}

#[tokio::test]
async fn a_full_disk_is_capacity_and_a_read_only_one_is_denied() {
    let Some(disk) = std::env::var_os("ORLOP_TEST_DISK").map(PathBuf::from) else {
        if !on_a_small_disk("a_full_disk_is_capacity_and_a_read_only_one_is_denied") {
            eprintln!("not tested: this system allows no mounts");
        }
        return;
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let (large, small) = (elsewhere.path().join("large"), elsewhere.path().join("small"));
    plant(&large, &Node::folder([("a", Node::file(vec![7; 700_000])), ("b", Node::file(vec![8; 700_000]))]));
    plant(&small, &Node::folder([("a", Node::file(vec![7; 600_000]))]));
    let store = CasStore::open(&disk, Limits::default()).unwrap();
    for archive in [None, Some(TAR)] {
        let error = store.put(&large, archive).await.unwrap_err();
        assert_eq!(error.class, Class::Capacity, "{}", error.chain());
        assert!(error.message.ends_with("cannot be written; free some space"), "{error}");
    }
    assert!(names(&disk.join("cas/tmp")).is_empty());
    // There is room for the artifact, but not for what it unpacks to.
    for archive in [None, Some(GZIP), Some(ZIP)] {
        let location = store.put(&small, archive).await.unwrap();
        if archive.is_none() {
            let error = store.get(&location, archive, true, &disk.join("target")).await.unwrap_err();
            assert_eq!(error.class, Class::Capacity, "{}", error.chain());
            let error = store.get(&location, archive, false, &disk.join("target")).await.unwrap_err();
            assert_eq!(error.class, Class::Capacity, "{}", error.chain());
        }
    }
    let found: Vec<_> = std::fs::read_dir(&disk).unwrap().map(|member| member.unwrap().file_name()).collect();
    assert_eq!(found, ["cas"]);
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&disk).status().unwrap();
    assert!(status.success());
    let error = store.put(&small, None).await.unwrap_err();
    assert_eq!(error.class, Class::Denied, "{}", error.chain());
    assert!(error.message.ends_with("use a run directory on a disk that can be written"), "{error}");
}

/// Trees of a few levels with names of any kind.
fn trees() -> impl Strategy<Value = Node> {
    let file = (prop::collection::vec(any::<u8>(), 0..3000), any::<bool>())
        .prop_map(|(bytes, executable)| Node::File { bytes, executable });
    let link = "[a-z./]{1,12}".prop_map(Node::link);
    let leaf = prop_oneof![4 => file, 1 => link];
    let name = "[^/\0]{1,40}".prop_filter("no name of a folder itself", |name| name != "." && name != "..");
    let folder = leaf.prop_recursive(4, 24, 5, move |inner| {
        prop::collection::btree_map(name.clone(), inner, 0..5).prop_map(Node::Folder)
    });
    folder.prop_map(|node| Node::folder([("root", node)]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_comes_back_or_is_refused_for_its_links(node in trees()) {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let source = folder.path().join("source");
        plant(&source, &node);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (archive, target) in [(TAR, "tar"), (GZIP, "gzip"), (ZIP, "zip")] {
            let target = folder.path().join(target);
            let location = runtime.block_on(store.put(&source, Some(archive))).unwrap();
            match runtime.block_on(store.get(&location, Some(archive), true, &target)) {
                Ok(()) => prop_assert_eq!(harvest(&target), Some(node.clone())),
                Err(error) => {
                    prop_assert!(!node.links_stay_inside(), "{}", error.chain());
                    prop_assert!(error.message.contains("leads out of it"), "{}", error);
                    prop_assert_eq!(harvest(&target), None);
                }
            }
        }
    }
}

#[tokio::test]
async fn an_artifact_of_an_earlier_run_is_taken_over() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (before, after) = (open(&old), open(&new));
    std::fs::write(old.path().join("data"), "kept").unwrap();
    let location = before.put(&old.path().join("data"), None).await.unwrap();
    assert!(after.take_over(old.path(), &location).await.unwrap());
    assert!(after.take_over(old.path(), &location).await.unwrap(), "twice is once");
    drop(old);
    let target = new.path().join("target");
    after.get(&location, None, true, &target).await.unwrap();
    assert_eq!(std::fs::read_to_string(target).unwrap(), "kept");
    let elsewhere = ArtifactLocation { kind: "s3".to_owned(), ..location.clone() };
    assert!(!after.take_over(new.path(), &elsewhere).await.unwrap());
    let empty = tempfile::tempdir().unwrap();
    assert!(!open(&empty).take_over("/does/not/exist", &location).await.unwrap());
    assert!(!open(&empty).contains(&location).await.unwrap());
}
