//! Tests of volumes on real directories.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use orlop_core::attempt::AttemptKey;
use orlop_core::error::{Class, Problem};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::VolumeRoot;
use super::beneath::{make_directories, walk};
use super::locate::{Located, locate};
use super::prepare::{VolumeOwner, VolumePlaces, discard, prepare};
use crate::runtime::plan::request::Machine;
use crate::runtime::plan::resolve::PodIdentity;
use crate::runtime::plan::source::Sources;
use crate::runtime::plan::{JobTemplate, TemplatePolicy};
use crate::runtime::pod::{Mount, PodKey};

struct Bench {
    root: TempDir,
    owner: VolumeOwner,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["claims/data", "configs/c", "secrets/s", "host/x"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for (key, text) in [("configs/c/a.txt", "A"), ("configs/c/b.txt", "B"), ("secrets/s/token", "hidden")] {
            fs::write(root.path().join(key), text).unwrap();
        }
        Self { root, owner: VolumeOwner::default() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn places(&self) -> VolumePlaces {
        VolumePlaces {
            pod: self.path("run/pod"),
            memory: Some(self.path("shm/run/pod")),
            claims: vec![self.path("own-claims"), self.path("claims")],
            allow_host_path: vec![self.path("host")],
        }
    }

    fn prepare(&self, volumes: Value) -> Result<BTreeMap<String, VolumeRoot>, Problem> {
        let pod = json!({"containers": [{"name": "main", "resources": {"limits": {"cpu": 2}}}], "volumes": volumes});
        let job = json!({"spec": {"template": {"metadata": {"labels": {"b": "2", "a": "say \"1\""}}, "spec": pod}}});
        let policy = TemplatePolicy { allow_host_path: vec![self.path("host")], ..TemplatePolicy::default() };
        let template = JobTemplate::read(&job, &policy).unwrap();
        let attempt = AttemptKey { flow: "f".into(), step: "s".into(), item: None, attempt: 1 };
        let identity = PodIdentity::new(PodKey { attempt, pod: 0 }, None, ("job", "team"), &template);
        let machine = Machine { name: "box".into(), cpu_milli: 4_000, memory_bytes: 1 << 30, gpus: vec![] };
        let containers = [&template.pod.main];
        let facts = identity.facts(&template, &containers, &machine);
        let sources = Sources { config_maps: vec![self.path("configs")], secrets: vec![self.path("secrets")] };
        prepare(&template.pod.volumes, &self.places(), self.owner, &facts, &sources)
    }

    fn one(&self, mut volume: Value) -> PathBuf {
        volume["name"] = json!("v");
        self.prepare(json!([volume])).unwrap()["v"].path.clone()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn files(root: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn empty_directories_are_new_each_time_and_open_to_all() {
    let bench = Bench::new();
    let disk = bench.one(json!({"emptyDir": {}}));
    fs::write(disk.join("left"), "x").unwrap();
    assert_eq!(bench.one(json!({})), disk, "a volume of no kind is an empty directory");
    assert_eq!((files(&disk), mode(&disk)), (vec![], 0o777));
    assert_eq!(mode(disk.parent().unwrap()), 0o700, "but nobody else enters what is above");
    let memory = bench.one(json!({"emptyDir": {"medium": "Memory"}}));
    assert!(disk.starts_with(bench.path("run/pod")) && memory.starts_with(bench.path("shm/run/pod")));
}

#[test]
fn config_maps_show_all_keys_or_the_chosen_ones() {
    let bench = Bench::new();
    let all = bench.one(json!({"configMap": {"name": "c", "defaultMode": 0o440}}));
    assert_eq!(files(&all), ["a.txt", "b.txt"]);
    assert_eq!(mode(&all.join("a.txt")), 0o440);
    let items = json!([{"key": "a.txt", "path": "deep/er.txt", "mode": 0o600}, {"key": "b.txt", "path": "b"}]);
    let chosen = bench.one(json!({"configMap": {"name": "c", "items": items}}));
    assert_eq!(fs::read_to_string(chosen.join("deep/er.txt")).unwrap(), "A");
    assert_eq!((mode(&chosen.join("deep/er.txt")), mode(&chosen.join("b"))), (0o600, 0o644));
    let volume = json!([{"name": "v", "configMap": {"name": "c"}}]);
    assert!(bench.prepare(volume).unwrap()["v"].read_only);
}

#[test]
fn secrets_lie_in_memory_and_are_gone_afterwards() {
    let bench = Bench::new();
    let root = bench.one(json!({"secret": {"secretName": "s", "defaultMode": 0o400}}));
    assert!(root.starts_with(bench.path("shm")));
    assert_eq!(fs::read_to_string(root.join("token")).unwrap(), "hidden");
    assert_eq!(mode(root.parent().unwrap()), 0o700);
    discard(&bench.places()).unwrap();
    assert!(!root.exists() && !bench.path("run/pod").exists());
    discard(&bench.places()).unwrap();
}

#[test]
fn missing_sources_are_unresolved_unless_optional() {
    let bench = Bench::new();
    let none = |volume: Value| bench.prepare(json!([volume])).unwrap_err();
    for volume in [
        json!({"name": "v", "configMap": {"name": "none"}}),
        json!({"name": "v", "secret": {"secretName": "none"}}),
        json!({"name": "v", "configMap": {"name": "c", "items": [{"key": "none", "path": "x"}]}}),
        json!({"name": "v", "projected": {"sources": [{"secret": {"name": "none"}}]}}),
    ] {
        let error = none(volume);
        assert_eq!((error.class, error.reason), (Class::NotFound, Some("ParameterUnresolved")), "{error}");
    }
    assert_eq!(files(&bench.one(json!({"configMap": {"name": "none", "optional": true}}))), Vec::<String>::new());
    let items = json!([{"key": "none", "path": "x"}, {"key": "a.txt", "path": "y"}]);
    assert_eq!(files(&bench.one(json!({"configMap": {"name": "c", "optional": true, "items": items}}))), ["y"]);
}

#[test]
fn the_downward_api_tells_fields_and_amounts() {
    let bench = Bench::new();
    let items = json!([
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}, "mode": 0o600},
        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}},
    ]);
    let root = bench.one(json!({"downwardAPI": {"items": items}}));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    assert_eq!(read("labels"), "a=\"say \\\"1\\\"\"\nb=\"2\"\nbatch.kubernetes.io/job-name=\"job\"\n");
    assert_eq!((read("name"), read("cpu"), mode(&root.join("name"))), ("job".into(), "2000".into(), 0o600));
}

#[test]
fn projected_volumes_gather_sources_and_the_later_one_stays() {
    let bench = Bench::new();
    let sources = json!([
        {"configMap": {"name": "c", "items": [{"key": "a.txt", "path": "same"}, {"key": "b.txt", "path": "b"}]}},
        {"secret": {"name": "s", "items": [{"key": "token", "path": "same"}]}},
        {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    let root = bench.one(json!({"projected": {"sources": sources, "defaultMode": 0o444}}));
    assert_eq!(files(&root), ["b", "ns", "same"]);
    assert_eq!(fs::read_to_string(root.join("same")).unwrap(), "hidden");
    assert!(mode(&root.join("ns")) == 0o444 && root.starts_with(bench.path("shm")));
}

#[test]
fn claims_are_the_flows_own_before_those_of_the_machine() {
    let bench = Bench::new();
    let claim = || bench.one(json!({"persistentVolumeClaim": {"claimName": "data"}}));
    assert_eq!(claim(), bench.path("claims/data"));
    fs::create_dir_all(bench.path("own-claims/data")).unwrap();
    assert_eq!(claim(), bench.path("own-claims/data"));
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}}]);
    assert!(bench.prepare(volume).unwrap()["v"].read_only);
    for name in ["none", "..", "../host", "a/b"] {
        let error = bench.prepare(json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}])).unwrap_err();
        assert_eq!((error.class, error.reason), (Class::Invalid, Some("Unschedulable")), "{name}");
    }
}

#[test]
fn host_paths_stay_below_what_is_allowed_links_included() {
    let bench = Bench::new();
    let host = |path: &str, kind: &str| {
        let source = json!({"path": bench.path(path), "type": kind});
        bench.prepare(json!([{"name": "v", "hostPath": source}])).map(|roots| roots["v"].path.clone())
    };
    let real = fs::canonicalize(bench.path("host")).unwrap();
    assert_eq!(host("host/x", "Directory").unwrap(), real.join("x"));
    assert_eq!(host("host/new/er", "DirectoryOrCreate").unwrap(), real.join("new/er"));
    assert!(real.join("new/er").is_dir());
    assert!(host("host/file", "FileOrCreate").unwrap().is_file());
    assert_eq!(host("host/none", "Directory").unwrap_err().class, Class::Invalid);
    assert_eq!(host("host/x", "File").unwrap_err().class, Class::Invalid);
    symlink(bench.path("secrets"), bench.path("host/link")).unwrap();
    for escape in ["host/link", "host/link/s", "host/link/new"] {
        assert!(host(escape, "").unwrap_err().to_string().contains("outside of what is allowed"), "{escape}");
    }
}

#[test]
fn the_volumes_group_reads_what_is_projected() {
    let mut bench = Bench::new();
    bench.owner = VolumeOwner { user: Some(1234), group: Some(4321) };
    let root = bench.one(json!({"secret": {"secretName": "s", "defaultMode": 0o400}}));
    assert_eq!(mode(&root.join("token")), 0o440);
    let empty = bench.one(json!({"emptyDir": {}}));
    if geteuid().is_root() {
        assert_eq!((fs::metadata(&empty).unwrap().gid(), mode(&empty)), (4321, 0o2777));
        assert_eq!(fs::metadata(empty.parent().unwrap()).unwrap().uid(), 1234);
    }
}

#[test]
fn no_walk_leaves_its_root() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("in/deep")).unwrap();
    fs::create_dir(root.path().join("out")).unwrap();
    let below = root.path().join("in");
    for (link, target) in
        [("up", "../out"), ("abs", "/etc"), ("fine", "deep"), ("loop", "loop"), ("sly", "deep/../../out")]
    {
        symlink(target, below.join(link)).unwrap();
    }
    for bad in ["up", "up/x", "abs/passwd", "sly", "..", "deep/../..", "none/../../x"] {
        assert_eq!(walk(&below, Path::new(bad)).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied, "{bad}");
        assert!(make_directories(&below, Path::new(bad)).is_err(), "{bad}");
    }
    assert!(walk(&below, Path::new("loop")).is_err());
    assert_eq!(walk(&below, Path::new("fine/x")).unwrap().path, below.join("deep/x"));
    assert_eq!(make_directories(&below, Path::new("fine/a/b")).unwrap(), below.join("deep/a/b"));
    assert!(files(&root.path().join("out")).is_empty());
}

#[test]
fn paths_of_a_container_are_found_through_its_mounts_as_it_sees_them() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    for directory in ["a/sub", "b"] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    for file in ["a/f", "b/g", "secret"] {
        fs::write(at(file), file).unwrap();
    }
    for (link, target) in
        [("a/abs", "/data/b/g"), ("a/up", "../../secret"), ("a/host", "/etc/passwd"), ("a/loop", "loop")]
    {
        symlink(target, at(link)).unwrap();
    }
    let mount = |source: &str, target: &str| Mount { source: at(source), target: target.into(), read_only: false };
    let mounts = [mount("a", "/data"), mount("b", "/data/b"), mount("a/f", "/one/file")];
    let find = |inside: &str| locate(&mounts, inside).unwrap();
    assert_eq!(find("/data/f"), Located::Here(at("a/f")));
    assert_eq!(find("/data/b/g"), Located::Here(at("b/g")), "the deeper mount covers");
    assert_eq!(find("/data/abs"), Located::Here(at("b/g")), "an absolute link is the container's");
    assert_eq!(find("/one/file"), Located::Here(at("a/f")));
    assert_eq!(find("/data/none"), Located::Missing);
    assert_eq!(find("/data/f/x"), Located::Missing);
    assert_eq!(find("/data/up"), Located::Inside("/secret".into()), "not the machine's");
    assert_eq!(find("/data/host"), Located::Inside("/etc/passwd".into()));
    assert_eq!(find("/tmp/./x//y/"), Located::Inside("/tmp/x/y".into()));
    assert_eq!(find("/data/../data/sub/.."), Located::Here(at("a")));
    assert!(locate(&mounts, "/data/loop").is_err());
}
