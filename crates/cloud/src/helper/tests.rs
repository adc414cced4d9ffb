//! What is kept of one pod is delivered byte for byte in another, and what is said of what cannot be. The command itself is
//! tested as the program: its caller adopts all children of the process.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use orlop_core::attempt::{FileTrouble, OutputFile};
use orlop_core::helper::{Fetch, Keep, KeepTarget, Kept, SMALL_MAX, Source};
use orlop_core::spec::artifact::{Archive, ArchiveFormat, Compression};
use tempfile::TempDir;

use super::*;

struct Pod {
    dir: TempDir,
}

#[test]
fn the_helper_answers_questions_about_itself() {
    for flag in ["--help", "-h", "--version", "-V"] {
        assert_eq!(main([OsString::from(flag)].into_iter(), &Environment::default()), ExitCode::SUCCESS, "{flag}");
    }
    assert_eq!(main(["nonsense".into()].into_iter(), &Environment::default()), ExitCode::from(BROKEN));
}

/// Nothing is handed in, and no store asks for keys.
fn secrets() -> Secrets<'static> {
    static NONE: std::sync::LazyLock<Keys> = std::sync::LazyLock::new(Keys::default);
    Secrets { token: "", keys: &NONE }
}

impl Pod {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        Self { dir }
    }

    fn at(&self, path: &str) -> String {
        self.dir.path().join(path).to_str().unwrap().to_owned()
    }

    fn order(&self) -> RunOrder {
        RunOrder { v: VERSION, scratch: self.at("keeping"), max_bytes: 1 << 20, ..RunOrder::default() }
    }

    /// An artifact that goes to a folder.
    fn keep(&self, name: &str, path: &str, archive: Option<Archive>) -> Keep {
        let to = KeepTarget::File { path: self.at(&format!("store/u1/make/1/{name}")) };
        Keep { name: name.into(), path: self.at(path), archive, to }
    }

    async fn kept(&self, keeps: Vec<Keep>) -> Report {
        keep::all(&RunOrder { artifacts: keeps, ..self.order() }, secrets(), true).await
    }

    /// The same artifact in another pod.
    async fn fetched(&self, kept: &Kept, target: &str, unpack: bool) -> Result<(), Problem> {
        let path = self.at(&format!("store/u1/make/1/{}", kept.name));
        let from = Source::File { path, content: kept.content.clone() };
        let fetch = vec![Fetch { name: kept.name.clone(), target: self.at(target), unpack, into: false, from }];
        let (scratch, message) = (self.at("fetching"), self.at("message"));
        fetch::all(
            &FetchOrder { v: VERSION, scratch, message, max_bytes: 1 << 20, fetch, ..FetchOrder::default() },
            secrets().keys,
        )
        .await
    }
}

#[tokio::test]
async fn files_programs_and_trees_arrive_as_they_were() {
    let pod = Pod::new();
    fs::write(pod.at("out/raw"), b"\x00bytes\xff").unwrap();
    fs::write(pod.at("out/tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(pod.at("out/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(pod.at("out/tree/a")).unwrap();
    fs::write(pod.at("out/tree/a/f"), "deep").unwrap();
    symlink("a/f", pod.at("out/tree/link")).unwrap();
    symlink("raw", pod.at("out/to-raw")).unwrap();
    let zip = Archive { format: Some(ArchiveFormat::Zip), compression: None };
    let gzip = Archive { format: Some(ArchiveFormat::Tar), compression: Some(Compression::Gzip) };
    let cases = [
        ("raw", "out/raw", None),
        ("tool", "out/tool", None),
        ("tree", "out/tree", None),
        ("zip", "out/tree", Some(zip)),
        ("gzip", "out/raw", Some(gzip)),
        ("link", "out/to-raw", None),
    ];
    let report = pod.kept(cases.iter().map(|(name, path, archive)| pod.keep(name, path, *archive)).collect()).await;
    assert_eq!(report.trouble, None);
    assert_eq!(report.artifacts.iter().filter(|kept| kept.stored).count(), cases.len());
    for kept in &report.artifacts {
        pod.fetched(kept, &format!("in/{}", kept.name), true).await.unwrap();
    }
    for name in ["raw", "gzip", "link"] {
        assert_eq!(fs::read(pod.at(&format!("in/{name}"))).unwrap(), b"\x00bytes\xff", "{name}");
    }
    assert_eq!(fs::metadata(pod.at("in/tool")).unwrap().permissions().mode() & 0o111, 0o111);
    for tree in ["tree", "zip"] {
        assert_eq!(fs::read_to_string(pod.at(&format!("in/{tree}/link"))).unwrap(), "deep", "{tree}");
    }
    // As it is stored, in place of what an earlier try left.
    pod.fetched(&report.artifacts[4], "in/raw", false).await.unwrap();
    assert_eq!(fs::read(pod.at("in/raw")).unwrap()[..2], [0x1f, 0x8b]);
    assert!(!Path::new(&pod.at("keeping")).exists() && !Path::new(&pod.at("fetching")).exists());
}

#[tokio::test]
async fn values_of_files_are_taken_and_what_is_none_is_said() {
    let pod = Pod::new();
    fs::write(pod.at("out/one"), "1\n").unwrap();
    fs::write(pod.at("out/blob"), b"\xff").unwrap();
    let file = |name: &str| OutputFile { name: name.into(), path: pod.at(&format!("out/{name}")) };
    let order = RunOrder { files: vec![file("one"), file("blob"), file("none")], ..pod.order() };
    let report = keep::all(&order, secrets(), false).await;
    assert_eq!(report.parameters.into_iter().collect::<Vec<_>>(), [("one".to_owned(), "1".to_owned())]);
    assert_eq!(report.unfit.into_iter().collect::<Vec<_>>(), [("blob".to_owned(), FileTrouble::NotText)]);
    assert_eq!(report.trouble, None);
}

#[tokio::test]
async fn what_is_missing_is_left_out_and_what_is_too_large_for_its_store_is_not_stored() {
    let pod = Pod::new();
    let bytes = usize::try_from(SMALL_MAX).unwrap() + 1;
    fs::write(pod.at("out/large"), vec![0; bytes]).unwrap();
    // Nobody listens there, and nobody is asked.
    let to = KeepTarget::Operator { url: "http://127.0.0.1:1/".into() };
    let large = Keep { to, ..pod.keep("large", "out/large", None) };
    let order =
        RunOrder { max_bytes: 10 << 20, artifacts: vec![pod.keep("none", "out/none", None), large], ..pod.order() };
    let report = keep::all(&order, secrets(), true).await;
    let kept: Vec<_> = report.artifacts.iter().map(|kept| (kept.name.as_str(), kept.stored)).collect();
    assert_eq!((kept, report.trouble), (vec![("large", false)], None));
}

#[tokio::test]
async fn what_is_larger_than_an_artifact_may_be_is_trouble() {
    let pod = Pod::new();
    fs::write(pod.at("out/large"), vec![0; (1 << 20) + 1]).unwrap();
    let report = pod.kept(vec![pod.keep("large", "out/large", None)]).await;
    let trouble = report.trouble.unwrap();
    assert_eq!((trouble.reason.as_str(), report.artifacts.len()), ("OutputTooLarge", 0));
    assert!(trouble.message.contains("--artifact-max-bytes"), "{}", trouble.message);
}

#[tokio::test]
async fn stored_bytes_that_are_gone_or_damaged_are_not_delivered() {
    let pod = Pod::new();
    fs::write(pod.at("out/raw"), "bytes").unwrap();
    let report = pod.kept(vec![pod.keep("raw", "out/raw", None)]).await;
    let kept = &report.artifacts[0];
    fs::write(pod.at("store/u1/make/1/raw"), "other").unwrap();
    let error = pod.fetched(kept, "in/raw", true).await.unwrap_err().to_string();
    assert!(error.starts_with("input artifact raw is not available: what was fetched is "), "{error}");
    fs::remove_file(pod.at("store/u1/make/1/raw")).unwrap();
    let error = pod.fetched(kept, "in/raw", true).await.unwrap_err().to_string();
    assert_eq!(error, "input artifact raw is not available: it is not stored any more; run its step again");
    assert!(!Path::new(&pod.at("in/raw")).exists());
}

#[test]
fn an_order_of_another_version_is_refused_and_never_quoted() {
    let reported = |order: Option<&str>| {
        let environment = Environment { order: order.map(str::to_owned), ..Environment::default() };
        environment.order(|order: &FetchOrder| order.v).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        [reported(None), reported(Some("secret")), reported(Some(r#"{"v":2,"scratch":"/s","maxBytes":1,"message":"/m"}"#))]
            .join("\n"),
        @r"
    the variable ORLOP_PORTER is not set: this program is started in a pod that an operator created
    the variable ORLOP_PORTER cannot be read: line 1 column 1; give operator and helper the same version
    the variable ORLOP_PORTER cannot be read: its version is 2 and not 1; give operator and helper the same version
    "
    );
}

#[tokio::test]
async fn a_tree_goes_into_the_root_of_a_volume_whose_folder_stays() {
    let pod = Pod::new();
    fs::create_dir_all(pod.at("out/tree/a")).unwrap();
    fs::write(pod.at("out/tree/a/f"), "deep").unwrap();
    fs::write(pod.at("out/one"), "file").unwrap();
    let report = pod.kept(vec![pod.keep("tree", "out/tree", None), pod.keep("one", "out/one", None)]).await;
    let volume = pod.at("volume");
    fs::create_dir_all(pod.at("volume/lost+found")).unwrap();
    let folder = fs::metadata(&volume).unwrap();
    let into = |kept: &Kept| {
        let path = pod.at(&format!("store/u1/make/1/{}", kept.name));
        let from = Source::File { path, content: kept.content.clone() };
        let fetch = vec![Fetch { name: kept.name.clone(), target: volume.clone(), unpack: true, into: true, from }];
        let (scratch, message) = (pod.at("fetching"), pod.at("message"));
        FetchOrder { v: VERSION, scratch, message, max_bytes: 1 << 20, fetch, ..FetchOrder::default() }
    };
    fetch::all(&into(&report.artifacts[0]), secrets().keys).await.unwrap();
    assert_eq!(fs::read_to_string(pod.at("volume/a/f")).unwrap(), "deep");
    let names: Vec<_> = fs::read_dir(&volume).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a"]);
    let ino = std::os::unix::fs::MetadataExt::ino;
    assert_eq!(ino(&fs::metadata(&volume).unwrap()), ino(&folder));
    let refused = fetch::all(&into(&report.artifacts[1]), secrets().keys).await.unwrap_err().to_string();
    assert!(refused.contains("it is one file, and a volume is mounted at"), "{refused}");
    assert_eq!(fs::read_dir(&volume).unwrap().count(), 0, "nothing is half there");
}

#[tokio::test]
async fn what_stays_in_place_is_looked_for_and_no_more() {
    let pod = Pod::new();
    fs::create_dir_all(pod.at("out/tree")).unwrap();
    let stay = |name: &str, path: &str| Keep { to: KeepTarget::InPlace, ..pod.keep(name, path, None) };
    let report = pod.kept(vec![stay("tree", "out/tree"), stay("none", "out/none")]).await;
    let kept: Vec<_> = report.artifacts.iter().map(|kept| (kept.name.as_str(), kept.stored)).collect();
    assert_eq!((kept, report.trouble), (vec![("tree", true)], None));
    assert!(!fs::exists(pod.at("store")).unwrap());
}

#[tokio::test]
async fn folders_and_files_are_made_with_the_permissions_that_are_set() {
    let pod = Pod::new();
    fs::write(pod.at("out/one"), "file").unwrap();
    let modes = orlop_core::helper::Modes { dir: 0o700, file: 0o600 };
    let order = RunOrder { artifacts: vec![pod.keep("one", "out/one", None)], modes, ..pod.order() };
    assert_eq!(keep::all(&order, secrets(), true).await.trouble, None);
    let mode = |path: &str| fs::metadata(pod.at(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("store/u1/make"), mode("store/u1/make/1/one")), (0o700, 0o600));
}

#[tokio::test]
async fn less_may_go_through_the_operator_than_the_most_there_is() {
    let pod = Pod::new();
    fs::write(pod.at("out/one"), "12345").unwrap();
    // Nobody listens there: it is not sent.
    let to = KeepTarget::Operator { url: "http://127.0.0.1:1/one".into() };
    let artifacts = vec![Keep { to, ..pod.keep("one", "out/one", None) }];
    let report = keep::all(&RunOrder { artifacts, small_max: Some(4), ..pod.order() }, secrets(), true).await;
    assert_eq!((report.artifacts[0].stored, report.trouble), (false, None));
}

#[tokio::test]
async fn an_object_goes_to_a_store_and_comes_back_with_the_keys_of_its_variables() {
    use crate::testing::s3::{Keys as OfStore, Store};
    use orlop_core::helper::{KeyVariables, S3Location};
    let pod = Pod::new();
    fs::create_dir_all(pod.at("out/tree")).unwrap();
    fs::write(pod.at("out/tree/f"), "deep").unwrap();
    let store = Store::start("lake", "auto", Some(OfStore { id: "AKID", secret: "planted" })).unwrap();
    let names = KeyVariables { id: "ORLOP_PORTER_KEY_0".into(), secret: "ORLOP_PORTER_KEY_1".into() };
    let place = S3Location {
        endpoint: store.endpoint(),
        bucket: "lake".into(),
        key: "u1/make/1/tree".into(),
        keys: Some(names.clone()),
    };
    let given = [(names.id, "AKID"), (names.secret, " planted\n"), ("OTHER".to_owned(), "planted")];
    let keys: Keys = given.into_iter().map(|(name, text)| (name, text.to_owned())).collect();
    assert_eq!(format!("{keys:?}"), r#"{"ORLOP_PORTER_KEY_0", "ORLOP_PORTER_KEY_1"}"#);
    let artifacts = vec![Keep { to: KeepTarget::S3(place.clone()), ..pod.keep("tree", "out/tree", None) }];
    let order = RunOrder { artifacts, ..pod.order() };
    let report = keep::all(&order, Secrets { token: "", keys: &keys }, true).await;
    assert_eq!((report.trouble, report.artifacts[0].stored), (None, true));
    let content = report.artifacts[0].content.clone();
    let from = Source::S3 { object: place, content };
    let fetch = vec![Fetch { name: "tree".into(), target: pod.at("in"), unpack: true, into: false, from }];
    let (scratch, message) = (pod.at("fetching"), pod.at("message"));
    let order = FetchOrder { v: VERSION, scratch, message, max_bytes: 1 << 20, fetch, ..FetchOrder::default() };
    fetch::all(&order, &keys).await.unwrap();
    assert_eq!(fs::read_to_string(pod.at("in/f")).unwrap(), "deep");
    // Somebody has changed it.
    store.put("u1/make/1/tree", "other");
    let refused = fetch::all(&order, &keys).await.unwrap_err().to_string();
    assert!(refused.contains("what was fetched is"), "{refused}");
    let refused = fetch::all(&order, &Keys::default()).await.unwrap_err().to_string();
    assert!(refused.contains("the access key id of the S3 store is empty"), "{refused}");
}
