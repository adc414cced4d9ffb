//! Repositories: addresses that lead nowhere else, and files of any kind that are read without harm.

use orlop_cloud::analyze::{Analysis, FileKind, analyze};
use orlop_cloud::repository::scan::{Entry, EntryKind, choose, is_secret, referenced};
use orlop_cloud::repository::source::{check_reference, check_subdir};
use orlop_cloud::repository::{Allow, Scan, ScannedFile, Source};

use super::{first_line, text};

/// Names of which each stands for a kind of file.
const NAMES: [&str; 24] = [
    "requirements.txt",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "environment.yml",
    "Pipfile",
    "uv.lock",
    "Pipfile.lock",
    "conda-lock.yml",
    ".python-version",
    ".tool-versions",
    "Dockerfile",
    ".devcontainer/devcontainer.json",
    "docker-compose.yml",
    "package.json",
    "Cargo.toml",
    "Cargo.lock",
    "go.mod",
    "build.gradle",
    "CMakeLists.txt",
    "Makefile",
    ".github/workflows/ci.yml",
    "README.md",
    "meson.build",
];

/// One byte that chooses the kind, then a file. Alone and beside another at the top that needs a GPU: the need stays.
pub fn repository_file(bytes: &[u8]) {
    let Some((choice, source)) = bytes.split_first() else { return };
    let Some(source) = text(source) else { return };
    let Some(name) = NAMES.get(usize::from(*choice) % NAMES.len()) else { return };
    let Some(file) = file(name, source) else { return };
    let paths = referenced(std::slice::from_ref(&file));
    assert!(
        paths.iter().all(|path| !path.starts_with('/') && path.split('/').all(|part| part != "..") && !is_secret(path))
    );
    let alone = analysed(vec![file.clone()]);
    check(&alone);
    assert_eq!(alone, analysed(vec![file.clone()]));
    let needs = if *name == "requirements.txt" {
        self::file("pyproject.toml", "[project]\nname = \"a\"\ndependencies = [\"vllm\", \"numpy\"]\n")
    } else {
        self::file("requirements.txt", "vllm\nnumpy\n")
    };
    let beside = analysed(vec![file].into_iter().chain(needs).collect());
    check(&beside);
    assert_eq!(beside.requirements.gpu_required.hard, Some(true), "a need for a GPU is never weakened");
    for (less, more) in hard(&alone).into_iter().zip(hard(&beside)) {
        assert!(less <= more, "more files never lower a minimum");
    }
}

fn file(path: &str, text: &str) -> Option<ScannedFile> {
    Some(ScannedFile { path: path.to_owned(), kind: FileKind::of(path)?, text: text.to_owned() })
}

fn analysed(files: Vec<ScannedFile>) -> Analysis {
    analyze(&Scan { files, ..Scan::default() })
}

fn hard(analysis: &Analysis) -> [u32; 5] {
    let needs = &analysis.requirements;
    [&needs.cpu_cores, &needs.ram_gb, &needs.disk_gb, &needs.gpu_memory_gb, &needs.gpu_count]
        .map(|need| need.hard.unwrap_or(0))
}

fn check(analysis: &Analysis) {
    let needs = &analysis.requirements;
    let within = |value: Option<u32>, most: u32| value.is_none_or(|value| value <= most);
    assert!(
        within(needs.cpu_cores.hard, 512) && within(needs.ram_gb.hard, 8192) && within(needs.disk_gb.hard, 200_000)
    );
    assert!(
        within(needs.gpu_memory_gb.target, 192)
            && within(needs.gpu_count.target, 64)
            && within(needs.duration_hours.target, 168)
    );
    assert!(needs.wants_gpu() == needs.gpu_memory_gb.target.is_some());
    let shown = serde_json::to_string(analysis).unwrap_or_default();
    assert!(
        !shown.is_empty() && !shown.contains('\u{1b}') && !shown.contains("\\u001b"),
        "no control sequence is passed on"
    );
}

/// Flags, then an address, a ref, a folder and paths, one a line.
pub fn repository_address(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let Some(rest) = text(rest) else { return };
    let allow = Allow { ssh: choice & 1 == 1, local: choice & 2 == 2, private_hosts: choice & 4 == 4 };
    let (address, rest) = first_line(rest);
    match Source::parse(address, allow) {
        Ok(Source::Https(url)) => {
            assert_eq!((url.scheme(), url.username(), url.password()), ("https", "", None));
            assert!(url.has_host() && !url.as_str().starts_with('-') && url.query().is_none());
        }
        Ok(Source::Ssh(url)) => {
            assert!(allow.ssh && url.scheme() == "ssh" && url.password().is_none());
            assert!(!url.username().starts_with('-') && !url.host_str().unwrap_or("-").starts_with('-'));
        }
        Ok(Source::Folder(_)) => assert!(allow.local && !address.starts_with('-') && !address.contains("::")),
        Err(_) => {}
    }
    let (reference, rest) = first_line(rest);
    if check_reference(reference).is_ok() {
        assert!(!reference.starts_with('-') && !reference.contains([':', ' ', '\0', '\n']));
    }
    let (folder, rest) = first_line(rest);
    if let Ok(folder) = check_subdir(folder) {
        assert!(!folder.starts_with('/') && folder.split('/').all(|part| part != ".."));
    }
    let entries: Vec<Entry> = rest
        .lines()
        .map(|path| Entry { path: path.to_owned(), kind: EntryKind::File, bytes: u64::from(*choice) })
        .collect();
    let choice = choose(&entries);
    assert!(choice.read.len() <= 300 && choice.read.iter().all(|(entry, _)| !is_secret(&entry.path)));
}
