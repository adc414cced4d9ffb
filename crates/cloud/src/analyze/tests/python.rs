//! Repositories of Python: package lists, projects, environments, locks.

use super::expect;

#[test]
fn plain_torch_is_soft() {
    expect(
        "torch",
        &[("requirements.txt", "torch\nnumpy\n"), ("train.py", "")],
        "gpu nvidia vram=8 cards=1 cuda=? cores=4 ram=16 disk=50 hours=24",
    );
}

#[test]
fn torch_with_a_pin_knows_its_cuda() {
    expect("pin", &[("requirements.txt", "torch==2.1.0\n")], "gpu nvidia cuda=12.1");
    expect("old", &[("requirements.txt", "torch==1.13.1\n")], "gpu cuda=11.0 os=ubuntu-22.04");
}

#[test]
fn a_cpu_index_vetoes_soft_evidence() {
    expect(
        "index",
        &[("requirements.txt", "--index-url https://download.pytorch.org/whl/cpu\ntorch==2.1.0\n")],
        "cpu cuda=? ram=16",
    );
    expect("local", &[("requirements.txt", "torch==2.1.0+cpu\n")], "cpu");
    expect("tensorflow-cpu", &[("requirements.txt", "tensorflow-cpu\nkeras\n")], "cpu");
}

#[test]
fn a_veto_never_beats_hard_evidence() {
    expect("both", &[("requirements.txt", "torch==2.1.0+cpu\nvllm\n")], "gpu! nvidia note=also");
    expect("readme", &[("requirements.txt", "flash-attn\n"), ("README.md", "CPU only.\n")], "gpu! note=also");
}

#[test]
fn cuda_indexes_and_builds() {
    expect(
        "cu118",
        &[("requirements.txt", "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch\n")],
        "gpu! nvidia cuda=11.8",
    );
    expect("local", &[("requirements.txt", "torch==2.2.0+cu121\n")], "gpu! nvidia cuda=12.1");
    expect("outranks", &[("requirements.txt", "torch==2.4.0+cu118\n")], "gpu! cuda=11.8");
}

#[test]
fn language_models_want_more() {
    expect(
        "tuning",
        &[("requirements.txt", "transformers\npeft\naccelerate\n")],
        "gpu vram=24 cores=8 ram=64 disk=200 hours=48",
    );
    expect("serving", &[("requirements.txt", "vllm==0.4.0\n")], "gpu! vram=24 ram=64");
}

#[test]
fn numeric_python_needs_no_gpu() {
    expect(
        "numeric",
        &[("requirements.txt", "numpy\npandas\nscikit-learn\n")],
        "cpu cores=4 ram=16 disk=50 cores!=2 ram!=4 disk!=20",
    );
    expect("notebooks", &[("a.ipynb", ""), ("b/c.ipynb", "")], "cpu ram=16 disk=50");
    expect("numba", &[("requirements.txt", "numba\n")], "cpu");
}

#[test]
fn web_applications_are_plain() {
    expect("flask", &[("requirements.txt", "flask\ngunicorn\n"), ("app.py", "")], "cpu cores=4 ram=8 disk=20 hours=24");
}

#[test]
fn nothing_recognised() {
    expect(
        "empty",
        &[("LICENSE", "x")],
        "cpu cores=4 ram=8 disk=40 hours=24 os=ubuntu-22.04 py=3.10 arch=x86_64 flag=low",
    );
}

#[test]
fn tensorflow_by_release() {
    for (version, cuda) in
        [("2.4.1", "11.0"), ("2.10.0", "11.2"), ("2.13.0", "11.8"), ("2.15.1", "12.2"), ("2.17.0", "12.3")]
    {
        let list = format!("tensorflow=={version}\n");
        expect(version, &[("requirements.txt", &list)], &format!("gpu nvidia cuda={cuda}"));
    }
    expect("gpu", &[("requirements.txt", "tensorflow-gpu==2.4.0\n")], "gpu! cuda=11.0");
}

#[test]
fn rocm_is_amd() {
    expect(
        "index",
        &[("requirements.txt", "--index-url https://download.pytorch.org/whl/rocm5.6\ntorch\n")],
        "gpu! amd rocm cuda=?",
    );
    expect("tensorflow", &[("requirements.txt", "tensorflow-rocm\n")], "gpu! amd rocm");
    expect("jax", &[("pyproject.toml", "[project]\ndependencies=['jax[rocm]']\n")], "gpu! amd rocm");
}

#[test]
fn both_makers() {
    expect("tie", &[("requirements.txt", "vllm\ntensorflow-rocm\n")], "gpu! nvidia note=AMD");
    let files = [("Dockerfile", "FROM rocm/dev-ubuntu-22.04\n"), ("README.md", "Requires CUDA 11.8.\n")];
    expect("better", &files, "gpu! amd rocm note=AMD");
}

#[test]
fn lists_in_folders_and_references() {
    expect(
        "folder",
        &[("requirements/base.txt", "numpy\n"), ("requirements/gpu.txt", "cupy-cuda12x\n")],
        "cpu alternative=requirements/gpu.txt",
    );
    expect("constraints", &[("constraints.txt", "torch==2.0.1\n")], "gpu cuda=11.8");
}

#[test]
fn projects() {
    let text = "[project]\nrequires-python='>=3.10'\ndependencies=['jax[cuda12]', 'numpy']\n";
    expect("jax", &[("pyproject.toml", text)], "gpu! nvidia cuda=12.0 py=3.10");
    let poetry = "[tool.poetry.dependencies]\npython='^3.11'\ntorch={version='^2.1', source='cpu'}\n[[tool.poetry.source]]\nname='cpu'\nurl='https://download.pytorch.org/whl/cpu'\n";
    expect("poetry", &[("pyproject.toml", poetry)], "cpu py=3.11 note=version");
    expect(
        "uv",
        &[(
            "pyproject.toml",
            "[project]\ndependencies=['torch']\n[[tool.uv.index]]\nurl='https://download.pytorch.org/whl/cu124'\n",
        )],
        "gpu! cuda=12.4",
    );
}

#[test]
fn an_optional_extra_is_weak() {
    expect(
        "extra",
        &[(
            "pyproject.toml",
            "[project]\ndependencies=['numpy']\n[project.optional-dependencies]\ngpu=['cupy-cuda11x']\n",
        )],
        "cpu ram=16",
    );
    expect(
        "setup.cfg",
        &[("setup.cfg", "[options]\ninstall_requires =\n  scipy\n[options.extras_require]\ncuda =\n  pycuda\n")],
        "cpu",
    );
}

#[test]
fn setup_py() {
    expect("extension", &[("setup.py", "setup(ext_modules=[CUDAExtension('a', ['a.cu'])])\n")], "gpu! nvidia");
    expect(
        "packages",
        &[("setup.py", "setup(python_requires='>=3.6', install_requires=['torch==1.9', 'timm'])\n")],
        "gpu cuda=11.0",
    );
}

#[test]
fn conda() {
    let text = "channels: [pytorch, nvidia]\ndependencies:\n - python=3.9\n - pytorch=2.0.1\n - pytorch-cuda=11.7\n";
    expect("pytorch-cuda", &[("environment.yml", text)], "gpu! nvidia cuda=11.7 py=3.9");
    expect(
        "cudatoolkit",
        &[("environment.yaml", "dependencies: [cudatoolkit=10.2, python=3.7]")],
        "gpu! cuda=10.2 py=3.7",
    );
    expect("cpuonly", &[("environment.yml", "dependencies: [pytorch, cpuonly]")], "cpu");
    expect(
        "lock",
        &[("conda-lock.yml", "package:\n- {name: pytorch, version: 2.1.0, platform: linux-64}\n")],
        "gpu cuda=12.1",
    );
}

#[test]
fn locks_outrank_ranges() {
    let files = [
        ("pyproject.toml", "[project]\ndependencies=['torch>=1.9']\n"),
        ("uv.lock", "[[package]]\nname='torch'\nversion='2.4.1'\n"),
    ];
    expect("uv", &files, "gpu cuda=12.4");
    expect("pipenv", &[("Pipfile.lock", "{\"default\":{\"tensorflow\":{\"version\":\"==2.12.0\"}}}")], "gpu cuda=11.8");
}

#[test]
fn versions_of_python() {
    expect("file", &[(".python-version", "3.8.10\n"), ("requirements.txt", "x\n")], "py=3.8 note=version");
    expect("runtime", &[("runtime.txt", "python-3.10.4\n")], "py=3.10");
    expect("tools", &[(".tool-versions", "python 3.11.1\n")], "py=3.11");
    expect("pins", &[(".python-version", "3.8\n"), ("environment.yml", "dependencies: [python=3.9]")], "py=3.9");
    expect("range", &[("pyproject.toml", "[project]\nrequires-python='>=3.7'\n")], "py=3.7");
    expect("matrix", &[(".github/workflows/ci.yml", "python-version: [3.7, 3.8]\n")], "py=3.8");
}

#[test]
fn old_cuda_keeps_an_old_system() {
    let files = [("requirements.txt", "torch==1.12.1+cu113\n"), ("Dockerfile", "FROM ubuntu:24.04\n")];
    expect("cuda 11", &files, "gpu! cuda=11.3 os=ubuntu-22.04 note=CUDA");
    let older = [("requirements.txt", "torch==1.12.1+cu113\n"), ("Dockerfile", "FROM ubuntu:20.04\n")];
    expect("older", &older, "gpu! os=ubuntu-20.04");
    let newer = [("requirements.txt", "torch==2.3.0+cu121\n"), ("Dockerfile", "FROM ubuntu:24.04\n")];
    expect("cuda 12", &newer, "gpu! os=ubuntu-24.04");
}

#[test]
fn packages_of_other_systems_do_not_count() {
    expect("darwin", &[("requirements.txt", "tensorflow-metal; sys_platform == 'darwin'\nnumpy\n")], "cpu");
    expect("linux", &[("requirements.txt", "vllm; sys_platform == 'linux'\n")], "gpu!");
}

#[test]
fn wheels_for_arm_only() {
    let files = [("requirements.txt", "https://h/torch-2.0-cp310-cp310-linux_aarch64.whl\n")];
    expect("wheel", &files, "arch=aarch64");
}

#[test]
fn programs_for_speech_and_scenes_want_a_card() {
    for name in ["openai-whisper", "faster-whisper", "whisperx", "coqui-tts", "nerfstudio"] {
        expect(name, &[("requirements.txt", &format!("{name}\nfastapi\n"))], "gpu");
    }
}
