//! Absolute paths: mounts, private places, outputs, in every way they can become real.

use std::path::{Path, PathBuf};

use orlop_cloud::runtime::pod::Mount;
use orlop_cloud::runtime::process::Paths;
use orlop_core::error::Class;

use super::{PodFixture, container, reason};

const ALL: [Paths; 3] = [Paths::Namespace, Paths::UserNamespace, Paths::Rewritten];
const VIEWS: [Paths; 2] = [Paths::Namespace, Paths::UserNamespace];

fn names(dir: &str) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

fn volume(fixture: &PodFixture, name: &str) -> PathBuf {
    let path = fixture.dir.path().join(name);
    std::fs::create_dir(&path).unwrap();
    path
}

fn mount(source: &Path, target: &str) -> Mount {
    Mount { source: source.to_owned(), target: target.to_owned(), read_only: false }
}

async fn content(fixture: &PodFixture, inside: &str) -> String {
    std::fs::read_to_string(fixture.fetch(inside).await.unwrap()).unwrap()
}

#[tokio::test]
async fn mounts_and_outputs_are_at_their_absolute_paths() {
    let before = (names("/"), names("/opt"), names("/dev"));
    for paths in ALL {
        let mut fixture = PodFixture::with(
            "mkdir /orlop-out /opt/orlop-o; cat /orlop-in/deep/file > /orlop-out/x; echo $A >> /orlop-out/x; echo tmp > /tmp/o; echo opt > /opt/orlop-o/y; \
             echo v > /orlop-in/written; pwd > /orlop-out/pwd",
            Some(paths),
        )
        .env("A", "/orlop-in/deep", false);
        let (deep, shallow) = (volume(&fixture, "deep"), volume(&fixture, "shallow"));
        std::fs::write(deep.join("file"), "in\n").unwrap();
        fixture.plan.main.mounts = vec![mount(&shallow, "/orlop-in"), mount(&deep, "/orlop-in/deep")];
        fixture.plan.main.working_dir = Some("/orlop-work".to_owned());
        fixture.plan.outputs = ["/orlop-out/x", "/tmp/o", "/opt/orlop-o/y"].map(str::to_owned).to_vec();
        let exit = fixture.run().await;
        assert_eq!(reason(&exit), "Succeeded", "{paths:?} {exit:?} {:?}", super::lines(&fixture.plan.stderr));
        let x = content(&fixture, "/orlop-out/x").await;
        assert!(x.starts_with("in\n"), "{paths:?} {x}");
        if paths != Paths::Rewritten {
            assert_eq!(x, "in\n/orlop-in/deep\n");
            assert_eq!(content(&fixture, "/orlop-out/pwd").await, "/orlop-work\n");
        }
        assert_eq!(content(&fixture, "/tmp/o").await, "tmp\n", "{paths:?}");
        assert_eq!(content(&fixture, "/opt/orlop-o/y").await, "opt\n", "{paths:?}");
        assert_eq!(std::fs::read_to_string(shallow.join("written")).unwrap(), "v\n", "{paths:?}");
        assert_eq!((names("/"), names("/opt"), names("/dev")), before, "{paths:?} leaves a trace");
    }
}

#[tokio::test]
async fn a_file_of_the_machine_is_not_taken_for_an_output() {
    let stale = tempfile::Builder::new().prefix("orlop-stale").tempdir_in("/var").unwrap();
    let file = stale.path().join("out");
    std::fs::write(&file, "stale").unwrap();
    std::fs::write(stale.path().join("beside"), "beside").unwrap();
    for paths in ALL {
        let mut fixture = PodFixture::with(
            &format!("cat {0}/beside > {0}/second; test ! -s {0}/out", stale.path().display()),
            Some(paths),
        );
        fixture.plan.outputs =
            vec![file.to_str().unwrap().to_owned(), stale.path().join("second").to_str().unwrap().to_owned()];
        let exit = fixture.run().await;
        assert_eq!(reason(&exit), "Succeeded", "{paths:?} {:?}", super::lines(&fixture.plan.stderr));
        assert_eq!(fixture.fetch(file.to_str().unwrap()).await.unwrap_err().class, Class::NotFound, "{paths:?}");
        assert_eq!(content(&fixture, stale.path().join("second").to_str().unwrap()).await, "beside");
        assert_eq!(
            (names(stale.path().to_str().unwrap()).len(), std::fs::read_to_string(&file).unwrap().as_str()),
            (2, "stale")
        );
    }
}

#[tokio::test]
async fn read_only_mounts_are() {
    for paths in VIEWS {
        let mut fixture = PodFixture::with("echo x > /orlop-ro/file", Some(paths));
        let source = volume(&fixture, "ro");
        fixture.plan.main.mounts = vec![Mount { read_only: true, ..mount(&source, "/orlop-ro") }];
        assert_eq!(reason(&fixture.run().await), "NonZeroExit", "{paths:?}");
        let errors = super::lines(&fixture.plan.stderr).join("\n");
        assert!(errors.contains("Read-only file system"), "{paths:?} {errors}");
    }
}

#[tokio::test]
async fn init_containers_share_private_places_with_main() {
    for paths in ALL {
        let mut fixture = PodFixture::with("cat /tmp/from-init /orlop-shared/from-init", Some(paths));
        let shared = volume(&fixture, "shared");
        let mut init = container("init", "echo one > /tmp/from-init; echo two > /orlop-shared/from-init");
        init.mounts = vec![mount(&shared, "/orlop-shared")];
        fixture.plan.init = vec![init];
        fixture.plan.main.mounts = vec![mount(&shared, "/orlop-shared")];
        assert_eq!(reason(&fixture.run().await), "Succeeded", "{paths:?} {:?}", super::lines(&fixture.plan.stderr));
        assert_eq!(fixture.out(), ["one", "two"], "{paths:?}");
    }
}

#[tokio::test]
async fn devices_are_the_machines_and_what_is_made_beside_them_is_the_pods() {
    for paths in VIEWS {
        let script = "set -e; test -c /dev/zero; test $(head -c 4 /dev/zero | wc -c) = 4; echo gone > /dev/null; stat -f -c %T /dev/shm; \
                      echo mine > /dev/orlop-new; echo shared > /dev/shm/$NAME; echo words > /dev/termination-log";
        let name = format!("orlop-{paths:?}-{}", std::process::id());
        let fixture = PodFixture::with(script, Some(paths)).env("NAME", &name, false);
        let exit = fixture.run().await;
        assert_eq!(reason(&exit), "Succeeded", "{paths:?} {exit:?} {:?}", super::lines(&fixture.plan.stderr));
        assert_eq!(exit.containers[0].message, "words\n", "{paths:?}");
        assert!(!Path::new("/dev/orlop-new").exists() && !Path::new("/dev/termination-log").exists(), "{paths:?}");
        let shared = Path::new("/dev/shm").join(&name);
        assert_eq!(std::fs::read_to_string(&shared).unwrap(), "shared\n", "{paths:?}");
        std::fs::remove_file(&shared).unwrap();
    }
}

#[tokio::test]
async fn two_pods_have_two_tmps() {
    for paths in VIEWS {
        let first = PodFixture::with("echo 1 > /tmp/same; mkdir /orlop-new && echo 1 > /orlop-new/same", Some(paths));
        let second = PodFixture::with("test ! -e /tmp/same && test ! -e /orlop-new", Some(paths));
        assert_eq!(reason(&first.run().await), "Succeeded", "{paths:?}");
        assert_eq!(reason(&second.run().await), "Succeeded", "{paths:?}");
        assert!(!Path::new("/orlop-new").exists());
        assert_eq!(content(&first, "/orlop-new/same").await, "1\n");
    }
}

#[tokio::test]
async fn another_user_owns_its_places_and_its_links_lead_nowhere_else() {
    let mut fixture = PodFixture::new(
        "id -u; id -G; echo x > /tmp/x; echo y > /new-of-mine; ln -s /etc/shadow /tmp/link; echo w > /dev/termination-log; echo $HOME",
    );
    fixture.plan.main.user = Some(65534);
    fixture.plan.main.group = Some(65534);
    fixture.plan.further_groups = vec![4242];
    let exit = fixture.run().await;
    assert_eq!(reason(&exit), "Succeeded", "{exit:?} {:?}", super::lines(&fixture.plan.stderr));
    assert_eq!(fixture.out()[..2], ["65534".to_owned(), "65534 4242".to_owned()]);
    assert_eq!(exit.containers[0].message, "w\n");
    assert_eq!(content(&fixture, "/new-of-mine").await, "y\n");
    assert_eq!(fixture.fetch("/tmp/link").await.unwrap_err().class, Class::Invalid);
    let mut fixture = PodFixture::with("true", Some(Paths::UserNamespace));
    fixture.plan.main.user = Some(65534);
    let error = super::in_time(super::PodRuntime::start(&fixture.runtime, &fixture.plan)).await.unwrap_err();
    insta::assert_snapshot!(error, @"container `main` asks for another user or group; only root may run it as that");
}

#[tokio::test]
async fn what_is_missing_is_not_found() {
    let fixture = PodFixture::new("true");
    assert_eq!(fixture.fetch("/tmp/nothing").await.unwrap_err().class, Class::NotFound);
    fixture.run().await;
    assert_eq!(fixture.fetch("/tmp/nothing").await.unwrap_err().class, Class::NotFound);
}
