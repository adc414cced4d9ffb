//! Archives no honest producer makes: none of them writes outside the target, fills the disk or leaves anything behind.

use std::io::Write as _;

use orlop_core::name::sha256_hex;
use proptest::prelude::*;
use tar::{EntryType, Header};
use zip::write::SimpleFileOptions;

use super::super::reference::Packing;
use super::*;

/// A store with one hostile artifact, and a place to deliver it to.
struct Trap {
    folder: TempDir,
    store: CasStore,
}

const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_entries: 100 };

impl Trap {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inside")).unwrap();
        let store = CasStore::open(folder.path(), LIMITS).unwrap();
        Self { folder, store }
    }

    /// Puts bytes into the store as though they were an artifact.
    fn smuggle(&self, bytes: &[u8], packing: Packing) -> ArtifactLocation {
        let sha256 = sha256_hex(bytes, 64);
        let mut file = self.store.files.unfinished().unwrap();
        file.write_all(bytes).unwrap();
        self.store.files.keep(file, &sha256).unwrap();
        let reference = Reference { sha256: sha256.clone(), packing }.to_string();
        ArtifactLocation { kind: "cas".to_owned(), reference, size_bytes: bytes.len() as u64, sha256 }
    }

    async fn unpack(&self, bytes: &[u8], packing: Packing) -> Result<Node, Problem> {
        let location = self.smuggle(bytes, packing);
        let target = self.folder.path().join("inside/target");
        self.store.get(&location, None, true, &target).await?;
        let node = harvest(&target).unwrap();
        remove(&target);
        Ok(node)
    }

    /// What is in the folder of the target, and beside it.
    fn left(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in ["", "inside", "cas/tmp"] {
            for member in std::fs::read_dir(self.folder.path().join(folder)).unwrap() {
                names.push(member.unwrap().file_name().into_string().unwrap());
            }
        }
        names.sort();
        names
    }

    /// The message with which an archive is refused, after which nothing is left.
    async fn refuses(&self, bytes: &[u8], packing: Packing) -> String {
        let error = self.unpack(bytes, packing).await.unwrap_err();
        assert_eq!(error.class, Class::Invalid, "{}", error.chain());
        assert_eq!(self.left(), ["cas", "inside"]);
        error.message
    }
}

/// One entry of a tar archive, exactly as given.
fn tar_entry(archive: &mut Vec<u8>, kind: EntryType, name: &str, link: &str, data: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(data.len() as u64);
    header.set_mode(0o777);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    archive.extend(header.as_bytes());
    archive.extend(data);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

/// Kind, name, link target and data of an entry.
type Entry<'a> = (EntryType, &'a str, &'a str, &'a [u8]);

/// A tree of these entries.
fn tar(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = Vec::new();
    tar_entry(&mut archive, EntryType::Directory, "./", "", b"");
    for (kind, name, link, data) in entries {
        tar_entry(&mut archive, *kind, name, link, data);
    }
    archive.extend([0; 1024]);
    archive
}

const FILE: EntryType = EntryType::Regular;
const LINK: EntryType = EntryType::Symlink;

#[tokio::test]
async fn names_that_leave_are_refused() {
    let trap = Trap::new();
    let mut reported = Vec::new();
    for name in ["/etc/evil", "../evil", "a/../../evil", "..", "a//b", "./a", "a/./b", "/", "//x", "./../evil"] {
        reported.push(trap.refuses(&tar(&[(FILE, name, "", b"evil")]), Packing::Tar).await);
    }
    insta::assert_snapshot!(reported.join("\n"), @r"
    the artifact cannot be unpacked: entry `/etc/evil` has an absolute name
    the artifact cannot be unpacked: entry `../evil` leaves the target
    the artifact cannot be unpacked: entry `a/../../evil` leaves the target
    the artifact cannot be unpacked: entry `..` leaves the target
    the artifact cannot be unpacked: entry `a//b` has a name that is not in its normal form
    the artifact cannot be unpacked: entry `./a` has a name that is not in its normal form
    the artifact cannot be unpacked: entry `a/./b` has a name that is not in its normal form
    the artifact cannot be unpacked: entry `/` has an absolute name
    the artifact cannot be unpacked: entry `//x` has an absolute name
    the artifact cannot be unpacked: entry `./../evil` has a name that is not in its normal form
    ");
}

#[tokio::test]
async fn kinds_that_are_no_files_are_refused() {
    let trap = Trap::new();
    let kinds = [
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::XHeader,
        EntryType::GNUSparse,
        EntryType::new(b'Z'),
    ];
    let mut reported = Vec::new();
    for kind in kinds {
        reported.push(trap.refuses(&tar(&[(kind, "x", "/etc/passwd", b"")]), Packing::Tar).await);
    }
    insta::assert_snapshot!(reported.join("\n"), @r"
    the artifact cannot be unpacked: entry `x` is a hard link
    the artifact cannot be unpacked: entry `x` is a device
    the artifact cannot be unpacked: entry `x` is a device
    the artifact cannot be unpacked: entry `x` is a named pipe
    the artifact cannot be unpacked: entry `x` is a PAX extension
    the artifact cannot be unpacked: entry `x` is of a kind that is not delivered
    the artifact cannot be unpacked: entry `x` is of a kind that is not delivered
    ");
}

#[tokio::test]
async fn nothing_is_written_through_a_link() {
    let trap = Trap::new();
    let bad: [&[Entry<'_>]; 5] = [
        &[(LINK, "a", "..", b""), (FILE, "a/evil", "", b"evil")],
        &[(LINK, "a", "b", b""), (FILE, "a", "", b"evil")],
        &[(FILE, "a", "", b"good"), (LINK, "a", "b", b"")],
        &[(LINK, "a", "b", b""), (LINK, "a", "c", b"")],
        &[(FILE, "a", "", b"good"), (FILE, "a", "", b"evil")],
    ];
    let mut reported = Vec::new();
    for entries in bad {
        reported.push(trap.refuses(&tar(entries), Packing::Tar).await);
    }
    insta::assert_snapshot!(reported.join("\n"), @r"
    the artifact cannot be unpacked: entry `a/evil` is in no folder of it
    the artifact cannot be unpacked: entry `a` appears twice
    the artifact cannot be unpacked: entry `a` appears twice
    the artifact cannot be unpacked: entry `a` appears twice
    the artifact cannot be unpacked: entry `a` appears twice
    ");
}

#[test]
fn a_folder_that_is_unpacked_beside_others_stays_in_its_place() {
    let trap = Trap::new();
    let store = UploadStore::open(trap.folder.path()).unwrap();
    let target = trap.folder.path().join("inside");
    let unpack = |bytes: &[u8]| store.unpack(&trap.smuggle(bytes, Packing::Tar).sha256, &target);
    let folder = EntryType::Directory;
    assert!(unpack(&tar(&[(folder, "a/", "", b""), (FILE, "a/x", "", b"1"), (LINK, "l", "a", b"")])).unwrap());
    // By way of the link of another one.
    let through = unpack(&tar(&[(folder, "l/", "", b""), (FILE, "l/x", "", b"2")])).unwrap_err();
    assert_eq!(through.message, "the artifact cannot be unpacked: another input is at `l`");
    for hostile in [
        tar(&[(FILE, "../evil", "", b"evil")]),
        tar(&[(FILE, "/evil", "", b"evil")]),
        tar(&[(LINK, "out", "../..", b"")]),
        tar(&[(LINK, "b", "/etc", b""), (FILE, "b/evil", "", b"evil")]),
        b"no archive".to_vec(),
    ] {
        assert_eq!(unpack(&hostile).unwrap_err().class, Class::Invalid);
    }
    assert!(!store.unpack(&"0".repeat(64), &target).unwrap(), "it is not here");
    let mut names: Vec<_> = std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "l"]);
    assert_eq!(std::fs::read_to_string(target.join("a/x")).unwrap(), "1");
}

#[test]
fn a_folder_is_packed_as_it_is_and_links_that_leave_it_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let tree = Node::folder([
        ("run", Node::program("x")),
        ("link", Node::link("run")),
        ("empty", Node::folder([] as [(&str, Node); 0])),
    ]);
    plant(&from, &tree);
    std::fs::create_dir(&to).unwrap();
    let packed = pack_folder(&from, LIMITS).unwrap();
    super::super::unpack::into_folder(packed, &to, &mut Meter::of_one_call(LIMITS)).unwrap();
    assert_eq!(harvest(&to), Some(tree));
    let small = pack_folder(&from, Limits { max_entries: 3, ..LIMITS }).unwrap_err();
    assert_eq!(small.message, "the artifact has more than 3 files, folders and links");
    std::os::unix::fs::symlink("../from/run", from.join("out")).unwrap();
    let refused = pack_folder(&from, LIMITS).unwrap_err();
    assert!(refused.message.contains("from/out leads out of the folder"), "{}", refused.message);
    assert!(pack_folder(&from.join("run"), LIMITS).unwrap_err().message.ends_with("is not a folder"));
}

#[tokio::test]
async fn archives_of_another_shape_are_refused() {
    let trap = Trap::new();
    let mut bare = Vec::new();
    tar_entry(&mut bare, FILE, "a/b", "", b"x");
    let mut two = Vec::new();
    tar_entry(&mut two, FILE, "a", "", b"x");
    tar_entry(&mut two, FILE, "b", "", b"x");
    let rootless = tar(&[(FILE, "no/folder", "", b"x")]);
    let roots = tar(&[(EntryType::Directory, "./", "", b"")]);
    let mut cut = tar(&[(FILE, "a", "", &[b'x'; 5000])]);
    cut.truncate(3000);
    let mut reported = Vec::new();
    for archive in [&[][..], &[0; 1024], b"no archive at all, just text", &bare, &two, &rootless, &roots, &cut] {
        reported.push(trap.refuses(archive, Packing::Tar).await);
    }
    reported.push(trap.refuses(&bare, Packing::TarGz).await);
    reported.push(trap.refuses(&bare, Packing::Zip).await);
    insta::assert_snapshot!(reported.join("\n"), @r"
    the artifact cannot be unpacked: it is empty
    the artifact cannot be unpacked: it is empty
    the artifact cannot be unpacked: it cannot be decoded
    the artifact cannot be unpacked: it does not begin with the root of a tree
    the artifact cannot be unpacked: something follows its only file
    the artifact cannot be unpacked: entry `no/folder` is in no folder of it
    the artifact cannot be unpacked: it has two roots
    the artifact cannot be unpacked: it cannot be decoded
    the artifact cannot be unpacked: it cannot be decoded
    the artifact cannot be unpacked: it is not a zip archive without a comment
    ");
}

#[tokio::test]
async fn totals_over_the_limit_are_refused() {
    let trap = Trap::new();
    let zeros = vec![0; 600_000];
    let mut reported = Vec::new();
    // A small archive of much: only what is unpacked counts.
    let large = tar(&[(FILE, "a", "", &zeros), (FILE, "b", "", &zeros)]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&large).unwrap();
    reported.push(trap.refuses(&gzip.finish().unwrap(), Packing::TarGz).await);
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.add_directory("./", SimpleFileOptions::default()).unwrap();
    for name in ["a", "b"] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(&zeros).unwrap();
    }
    let bomb = zip.finish().unwrap().into_inner();
    assert!(bomb.len() < 5_000);
    reported.push(trap.refuses(&bomb, Packing::Zip).await);
    // An entry that claims to be small but is not.
    let mut liar = bomb.clone();
    for at in 0..liar.len() - 4 {
        if liar[at..at + 4] == 600_000_u32.to_le_bytes() {
            liar[at..at + 4].copy_from_slice(&10_u32.to_le_bytes());
        }
    }
    trap.refuses(&liar, Packing::Zip).await;
    let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| (FILE, name.as_str(), "", &b""[..])).collect();
    reported.push(trap.refuses(&tar(&many), Packing::Tar).await);
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in &names {
        zip.add_directory(name.as_str(), SimpleFileOptions::default()).unwrap();
    }
    reported.push(trap.refuses(&zip.finish().unwrap().into_inner(), Packing::Zip).await);
    insta::assert_snapshot!(reported.join("\n"), @r"
    the artifact has more than 1048576 bytes; raise --artifact-max-bytes
    the artifact has more than 1048576 bytes; raise --artifact-max-bytes
    the artifact has more than 100 files, folders and links
    the artifact has more than 100 files, folders and links
    ");
}

#[tokio::test]
async fn an_endless_name_is_not_read() {
    let trap = Trap::new();
    let long = tar(&[(EntryType::GNULongName, "././@LongLink", "", &[b'x'; 100_000]), (FILE, "a", "", b"")]);
    let link = tar(&[(EntryType::GNULongLink, "././@LongLink", "", &[b'x'; 100_000]), (LINK, "a", "b", b"")]);
    let nul = tar(&[(EntryType::GNULongName, "././@LongLink", "", b"a\0b\0"), (FILE, "a", "", b"")]);
    let mut reported = Vec::new();
    for archive in [long, link, nul] {
        reported.push(trap.refuses(&archive, Packing::Tar).await);
    }
    insta::assert_snapshot!(reported.join("\n"), @r"
    the artifact cannot be unpacked: an entry has a name longer than a system takes
    the artifact cannot be unpacked: an entry has a name longer than a system takes
    the artifact cannot be unpacked: entry `a\0b` has a NUL in its name
    ");
}

#[tokio::test]
async fn modes_are_normal_whatever_an_archive_says() {
    let trap = Trap::new();
    let location = trap.smuggle(&tar(&[(FILE, "a", "", b"x")]), Packing::Tar);
    let target = trap.folder.path().join("target");
    trap.store.get(&location, None, true, &target).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&target), mode(&target.join("a"))), (0o755, 0o755));
}

/// A good archive of each kind.
fn good() -> impl Strategy<Value = (Vec<u8>, Packing)> {
    let tarred = tar(&[
        (EntryType::Directory, "d/", "", b""),
        (FILE, "d/a", "", b"some text"),
        (LINK, "d/l", "../b", b""),
        (EntryType::GNULongName, "././@LongLink", "", b"d/long-name\0"),
        (FILE, "short", "", b"more text"),
    ]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tarred).unwrap();
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.add_directory("./", SimpleFileOptions::default()).unwrap();
    zip.start_file("a", SimpleFileOptions::default()).unwrap();
    zip.write_all(b"some text").unwrap();
    zip.add_symlink("l", "a", SimpleFileOptions::default()).unwrap();
    prop_oneof![
        Just((tarred, Packing::Tar)),
        Just((gzip.finish().unwrap(), Packing::TarGz)),
        Just((zip.finish().unwrap().into_inner(), Packing::Zip)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_an_archive_breaks_out(
        (mut archive, packing) in good(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        for (at, byte) in changes {
            let at = at.index(archive.len());
            archive[at] = byte;
        }
        if let Some(cut) = cut {
            archive.truncate(cut.index(archive.len()));
        }
        let trap = Trap::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        match runtime.block_on(trap.unpack(&archive, packing)) {
            Ok(node) => prop_assert!(node.links_stay_inside()),
            Err(error) => prop_assert_eq!(error.class, Class::Invalid, "{}", error.chain()),
        }
        prop_assert_eq!(trap.left(), ["cas", "inside"]);
    }
}
