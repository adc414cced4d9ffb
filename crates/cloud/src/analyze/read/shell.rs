//! Commands in recipes: what `pip`, `conda` and `apt` install, and which machine `docker run` is given. Owns the
//! recognition of commands; runs none.

use orlop_core::hardware::gpu::Vendor;

use super::super::fact::{At, Finding, HARD, SOFT, Sink};
use super::super::sizing::Class;
use super::{conda, launch, pip};

/// Words a command may have; beyond that it is cut.
const MAX_WORDS: usize = 4096;

/// Judges a line of shell.
pub(super) fn judge(script: &str, at: At<'_>, sink: &mut Sink<'_>) {
    for command in script.split(['|', ';', '\n']).flat_map(|part| part.split("&&")) {
        let words: Vec<&str> = command.split_whitespace().take(MAX_WORDS).collect();
        let after = |tools: &[&str], verb: &str| {
            let tool = words.iter().position(|word| tools.contains(&word.rsplit('/').next().unwrap_or_default()))?;
            let rest = words.get(tool + 1..)?;
            let verb = rest.iter().take(3).position(|word| *word == verb)?;
            rest.get(verb + 1..)
        };
        if let Some(rest) = after(&["pip", "pip3", "pip2", "uv", "!pip", "%pip"], "install")
            .or_else(|| after(&["uv", "poetry", "pdm", "pipenv"], "add"))
        {
            pip_words(rest, at, sink);
        } else if let Some(rest) = after(&["conda", "mamba", "micromamba"], "install")
            .or_else(|| after(&["conda", "mamba", "micromamba"], "create"))
        {
            rest.iter().for_each(|word| conda::package(word, at, sink));
        } else if let Some(rest) =
            after(&["apt-get", "apt", "apk", "yum", "dnf"], "install").or_else(|| after(&["apk"], "add"))
        {
            rest.iter().for_each(|word| system_package(word, at, sink));
        }
        launch::judge(&words, at, sink);
        // Programs of all kinds have an option of that name.
        let is_container = |word: &&str| ["docker", "podman", "nerdctl", "nvidia-docker"].contains(word);
        if words.iter().any(is_container) {
            run_options(&words, at, sink);
        }
    }
}

fn pip_words(words: &[&str], at: At<'_>, sink: &mut Sink<'_>) {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let word = word.trim_matches(['"', '\'']);
        match word {
            "-r" | "-c" | "--requirement" | "--constraint" | "-t" | "--target" => {
                words.next();
            }
            "--index-url" | "--extra-index-url" | "-i" | "-f" | "--find-links" => {
                let address = words.next().map_or("", |word| word.trim_matches(['"', '\'']));
                pip::entry(&format!("{word} {address}"), at, sink);
            }
            word => pip::entry(word, at, sink),
        }
    }
}

fn system_package(name: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let name = name.split(['=', ':']).next().unwrap_or_default();
    let starts = |fronts: &[&str]| fronts.iter().any(|front| name.starts_with(front));
    if starts(&["nvidia-cuda-", "cuda-toolkit", "cuda-runtime", "libcudnn", "libnvinfer", "nvidia-driver", "cuda-nvcc"])
    {
        sink.add(at, "cuda-system-package", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
    } else if starts(&["rocm", "hipcc", "hip-dev", "hip-runtime-amd", "miopen"]) {
        sink.add(at, "rocm-system-package", Finding::Gpu(Some(Vendor::Amd)), HARD);
    } else if starts(&[
        "openjdk-",
        "default-jdk",
        "maven",
        "gradle",
        "golang",
        "cargo",
        "rustc",
        "g++",
        "clang",
        "gfortran",
    ]) {
        sink.add(at, "class-of-system-package", Finding::Class(Class::Compiled), SOFT);
    } else if starts(&["llvm", "libllvm", "libboost-all"]) {
        sink.add(at, "class-of-system-package", Finding::Class(Class::LargeCompiled), SOFT);
    }
}

/// `--gpus` and `--runtime=nvidia` of a container that is started; a number is how many.
pub(super) fn run_options(words: &[&str], at: At<'_>, sink: &mut Sink<'_>) {
    for (index, word) in words.iter().enumerate() {
        let word = word.trim_matches(['"', '\'', ',', '[', ']']);
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, value),
            None => (word, words.get(index + 1).map_or("", |next| next.trim_matches(['"', '\'', ',', '[', ']']))),
        };
        let nvidia = option == "--gpus" && value != "0" || option == "--runtime" && value == "nvidia";
        if nvidia {
            sink.add(at, "gpus-option", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
            if option == "--gpus"
                && let Ok(count) = value.parse()
            {
                sink.add(at, "gpus-option", Finding::GpuCount(count), HARD);
            }
        } else if option == "--device" && value.starts_with("/dev/kfd") {
            sink.add(at, "kfd-device", Finding::Gpu(Some(Vendor::Amd)), HARD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(script: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        judge(script, At { line: 1, quote: "" }, &mut Sink::new("f", &mut facts, &mut notes));
        facts.iter().map(|fact| format!("{} {:?}", fact.rule, fact.finding)).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn commands_that_install() {
        let scripts = [
            "apt-get update && apt-get install -y --no-install-recommends nvidia-cuda-toolkit curl",
            "pip install --no-cache-dir 'torch==2.0.1' --index-url https://h/whl/cpu -r requirements.txt",
            "/opt/venv/bin/pip3 install vllm; python -m pip install numpy",
            "conda install -y pytorch-cuda=11.8 -c nvidia",
            "apk add openjdk-17-jdk",
            "echo pip; install vllm",
            "docker run --gpus 2 image",
            "docker run --runtime=nvidia x",
            "docker run --device /dev/kfd x",
        ];
        let lines = scripts.map(reported).join("\n");
        insta::assert_snapshot!(lines, @r"
        cuda-system-package Gpu(Some(Nvidia))
        class-of-package Class(DeepLearning); gpu-package Gpu(None); cuda-of-framework Cuda(Version { major: 11, minor: 8 }); cpu-build CpuOnly
        class-of-package Class(LanguageModel); cuda-package Gpu(Some(Nvidia)); class-of-package Class(Numeric)
        cuda-conda-package Gpu(Some(Nvidia)); cuda-conda-package Cuda(Version { major: 11, minor: 8 })
        class-of-system-package Class(Compiled)

        gpus-option Gpu(Some(Nvidia)); gpus-option GpuCount(2)
        gpus-option Gpu(Some(Nvidia))
        kfd-device Gpu(Some(Amd))
        ");
    }
}
