//! Which files of a repository say something, by name and place. Owns the names; reads no file.

/// What a file is, as far as it says what a machine must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Packages of pip, one a line.
    PipList,
    /// `pyproject.toml`.
    Pyproject,
    /// `setup.cfg`.
    SetupCfg,
    /// `setup.py`.
    SetupPy,
    /// An environment of conda.
    Conda,
    /// `Pipfile`.
    Pipfile,
    /// Lock files in TOML: poetry, uv, pdm.
    TomlLock,
    /// `Pipfile.lock`.
    PipfileLock,
    /// `conda-lock.yml`.
    CondaLock,
    /// `.python-version`, `runtime.txt`.
    PythonVersion,
    /// `.tool-versions`.
    ToolVersions,
    /// `Dockerfile`, `Containerfile` and their variants.
    Dockerfile,
    /// `devcontainer.json`.
    Devcontainer,
    /// Compose files.
    Compose,
    /// `package.json`.
    PackageJson,
    /// `Cargo.toml`.
    CargoToml,
    /// `Cargo.lock`.
    CargoLock,
    /// `rust-toolchain`, `go.mod`: compiled, nothing else.
    Compiled,
    /// Maven, Gradle, sbt and their settings.
    Jvm,
    /// CMake, make, meson.
    Native,
    /// Workflows of GitHub and GitLab.
    Ci,
    /// `Project.toml` of Julia.
    Julia,
    /// `DESCRIPTION` of a package of R.
    RPackage,
    /// Nextflow: pipelines and their settings.
    Nextflow,
    /// Rules of Snakemake.
    Snakemake,
    /// A script for a batch manager: Slurm, PBS.
    BatchScript,
    /// A script of a shell, which may be one for a batch manager.
    Shell,
    /// A source in Python.
    PythonSource,
    /// A notebook.
    Notebook,
    /// Something that says what is needed in a way that is not understood.
    Other,
    /// README, INSTALL, documents about installation or hardware.
    Readme,
}

impl FileKind {
    /// What the file at a path is, if anything. Letters of the name may be of either case.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let path = path.to_ascii_lowercase();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path.as_str()));
        let parent = folder.rsplit('/').next().unwrap_or_default();
        let has_ending = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        let yaml = has_ending(&[".yml", ".yaml"]);
        Self::by_name(name).or_else(|| match name {
            _ if parent == ".devcontainer" && name.ends_with(".json") => Some(Self::Devcontainer),
            _ if has_ending(&[".txt", ".in"]) && is_pip_list(parent, name) => Some(Self::PipList),
            _ if name.starts_with("dockerfile")
                || name.starts_with("containerfile")
                || name.ends_with(".dockerfile") =>
            {
                Some(Self::Dockerfile)
            }
            _ if yaml && (name.starts_with("docker-compose") || name.starts_with("compose")) => Some(Self::Compose),
            _ if yaml && name.starts_with("conda-lock") => Some(Self::CondaLock),
            _ if yaml && (name.starts_with("conda") || name.starts_with("environment")) => Some(Self::Conda),
            _ if yaml && folder.ends_with(".github/workflows") => Some(Self::Ci),
            _ if name.starts_with("build.gradle") => Some(Self::Jvm),
            _ if name.ends_with(".cmake") => Some(Self::Native),
            _ if is_document(folder, name) => Some(Self::Readme),
            _ if name.ends_with(".nf") || name.ends_with(".config") && parent == "conf" => Some(Self::Nextflow),
            _ if name.ends_with(".smk") => Some(Self::Snakemake),
            _ if has_ending(&[".sbatch", ".slurm", ".pbs"]) => Some(Self::BatchScript),
            _ if has_ending(&[".sh", ".bash", ".job"]) => Some(Self::Shell),
            _ if name.ends_with(".py") => Some(Self::PythonSource),
            _ if name.ends_with(".ipynb") => Some(Self::Notebook),
            _ if has_ending(&[".cabal", ".gemspec"]) => Some(Self::Other),
            _ => None,
        })
    }

    fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "pyproject.toml" => Self::Pyproject,
            "setup.cfg" => Self::SetupCfg,
            "setup.py" => Self::SetupPy,
            "pipfile" => Self::Pipfile,
            "pipfile.lock" => Self::PipfileLock,
            "poetry.lock" | "uv.lock" | "pdm.lock" | "pylock.toml" => Self::TomlLock,
            ".python-version" | "runtime.txt" => Self::PythonVersion,
            ".tool-versions" => Self::ToolVersions,
            "devcontainer.json" | ".devcontainer.json" => Self::Devcontainer,
            "package.json" => Self::PackageJson,
            "cargo.toml" => Self::CargoToml,
            "cargo.lock" => Self::CargoLock,
            "rust-toolchain" | "rust-toolchain.toml" | "go.mod" => Self::Compiled,
            "pom.xml" | "gradle.properties" | "jvm.config" | "build.sbt" => Self::Jvm,
            "cmakelists.txt" | "makefile" | "gnumakefile" | "meson.build" => Self::Native,
            ".gitlab-ci.yml" => Self::Ci,
            "project.toml" | "juliaproject.toml" => Self::Julia,
            "description" => Self::RPackage,
            "nextflow.config" => Self::Nextflow,
            "snakefile" => Self::Snakemake,
            "gemfile" | "composer.json" | "mix.exs" | "package.swift" | "sconstruct" | "allwmake" | "wscript"
            | "workspace.bazel" | "module.bazel" | "build.zig" | "pubspec.yaml" | "stack.yaml" => Self::Other,
            _ => return None,
        })
    }

    /// Whether it is a source, of which only the imports count.
    #[must_use]
    pub const fn is_source(self) -> bool {
        matches!(self, Self::PythonSource | Self::Notebook | Self::Shell)
    }

    /// Whether a program wrote it, so that it may be long.
    #[must_use]
    pub const fn is_lock(self) -> bool {
        matches!(self, Self::TomlLock | Self::PipfileLock | Self::CondaLock | Self::CargoLock)
    }
}

fn is_pip_list(parent: &str, name: &str) -> bool {
    parent == "requirements"
        || ["requirements", "constraints"].iter().any(|word| name.starts_with(word))
        || name.ends_with(".in") && name.contains("require")
}

fn is_document(folder: &str, name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_text = ["", "md", "rst", "txt", "markdown", "adoc", "org"].contains(&ending);
    let documents = folder == "docs" || folder == "doc" || folder.starts_with("docs/");
    is_text
        && (stem.starts_with("readme")
            || stem.starts_with("install")
            || documents
                && ["install", "hardware", "requirement", "prerequisite", "manual"]
                    .iter()
                    .any(|word| stem.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_its_files() {
        let rows: [(FileKind, &[&str]); 30] = [
            (
                FileKind::PipList,
                &[
                    "requirements.txt",
                    "requirements-dev.txt",
                    "a/requirements/base.txt",
                    "constraints.txt",
                    "requirements.in",
                ],
            ),
            (FileKind::Pyproject, &["pyproject.toml"]),
            (FileKind::SetupCfg, &["setup.cfg"]),
            (FileKind::SetupPy, &["pkg/setup.py"]),
            (
                FileKind::Conda,
                &["environment.yml", "environment.yaml", "conda.yml", "conda_env.yml", "environment-gpu.yml"],
            ),
            (FileKind::Pipfile, &["Pipfile"]),
            (FileKind::TomlLock, &["poetry.lock", "uv.lock", "pdm.lock"]),
            (FileKind::PipfileLock, &["Pipfile.lock"]),
            (FileKind::CondaLock, &["conda-lock.yml"]),
            (FileKind::PythonVersion, &[".python-version", "runtime.txt"]),
            (FileKind::ToolVersions, &[".tool-versions"]),
            (FileKind::Dockerfile, &["Dockerfile", "docker/Dockerfile.gpu", "Containerfile", "app.dockerfile"]),
            (FileKind::Devcontainer, &[".devcontainer/devcontainer.json", ".devcontainer/cuda/devcontainer.json"]),
            (FileKind::Compose, &["docker-compose.yml", "docker-compose.gpu.yaml", "compose.yml"]),
            (FileKind::PackageJson, &["web/package.json"]),
            (FileKind::CargoToml, &["Cargo.toml"]),
            (FileKind::Compiled, &["rust-toolchain", "rust-toolchain.toml", "go.mod"]),
            (
                FileKind::Jvm,
                &["pom.xml", "build.gradle", "build.gradle.kts", "gradle.properties", ".mvn/jvm.config", "build.sbt"],
            ),
            (FileKind::Julia, &["Project.toml"]),
            (FileKind::RPackage, &["DESCRIPTION"]),
            (FileKind::Nextflow, &["nextflow.config", "conf/base.config", "main.nf"]),
            (FileKind::Snakemake, &["Snakefile", "workflow/rules/map.smk"]),
            (FileKind::BatchScript, &["run.sbatch", "jobs/a.slurm", "a.pbs"]),
            (FileKind::Shell, &["run.sh", "scripts/train.bash"]),
            (FileKind::PythonSource, &["main.py", "pkg/model.py"]),
            (FileKind::Notebook, &["a.ipynb"]),
            (FileKind::Other, &["Gemfile", "Allwmake", "composer.json"]),
            (FileKind::Native, &["CMakeLists.txt", "cmake/FindX.cmake", "Makefile", "meson.build"]),
            (FileKind::Ci, &[".github/workflows/ci.yml", ".gitlab-ci.yml"]),
            (
                FileKind::Readme,
                &["README.md", "readme", "INSTALL", "docs/installation.rst", "docs/hardware-needs.md", "README.zh.md"],
            ),
        ];
        for (kind, paths) in rows {
            for path in paths {
                assert_eq!(FileKind::of(path), Some(kind), "{path}");
            }
        }
        for path in
            ["main.rb", "docs/index.md", "notes.txt", ".github/x.yml", "README.png", "app.config", "installer.exe"]
        {
            assert_eq!(FileKind::of(path), None, "{path}");
        }
    }
}
