//! Repositories of deep learning and language models.

use super::Repository;

pub(super) const ALL: &[Repository] = &[
    (
        "image classifier",
        &[
            (
                "README.md",
                "# Classifier\nTrains a ResNet.\n\n## Requirements\n- Python 3.10\n- A GPU with at least 8 GB of memory\n",
            ),
            ("requirements.txt", "torch==2.1.2\ntorchvision==0.16.2\ntimm>=0.9\nPillow\n"),
            ("train.py", ""),
        ],
        "gpu nvidia vram=8 cards=1 cuda=12.1 cores=4 ram=16 disk=50 py=3.10 os=ubuntu-22.04 hours=24",
    ),
    (
        "detector with its own kernels",
        &[
            (
                "setup.py",
                "from torch.utils.cpp_extension import CUDAExtension\nsetup(ext_modules=[CUDAExtension('nms', ['src/nms.cu'])], install_requires=['torch>=1.8', 'mmcv'])\n",
            ),
            ("src/nms.cu", ""),
            ("README.md", "Tested on Ubuntu 20.04 with a Tesla V100 (32GB).\n"),
        ],
        "gpu! nvidia vram=16..32 os=ubuntu-20.04 cores!=4 ram=32..64",
    ),
    (
        "tuning of a language model",
        &[
            ("requirements.txt", "transformers==4.38.0\npeft\nbitsandbytes\naccelerate\ndatasets\n"),
            ("README.md", "QLoRA tuning of a 7B model fits on one card.\n"),
        ],
        "gpu! nvidia vram=10..24 cores=8 ram=64 disk=200 hours=48",
    ),
    (
        "serving of a language model",
        &[
            ("Dockerfile", "FROM nvidia/cuda:12.1.0-runtime-ubuntu22.04\nRUN pip install vllm==0.4.1\n"),
            ("requirements.txt", "vllm==0.4.1\nfastapi\nuvicorn\n"),
        ],
        "gpu! nvidia vram=24 cuda=12.1 cores=8 ram=64 disk=200 hours=48 os=ubuntu-22.04",
    ),
    (
        "paper on eight cards",
        &[
            (
                "environment.yml",
                "name: paper\nchannels: [pytorch, nvidia]\ndependencies:\n  - python=3.9\n  - pytorch=2.0.1\n  - pytorch-cuda=11.8\n",
            ),
            ("README.md", "We trained on 8x A100 80GB GPUs. Training takes 3 days.\n"),
        ],
        "gpu! nvidia vram=80 cards=8 cuda=11.8 py=3.9 ram=512 hours=110 os=ubuntu-22.04",
    ),
    (
        "old tensorflow",
        &[
            ("requirements.txt", "tensorflow-gpu==2.4.1\nnumpy==1.19.5\n"),
            ("Dockerfile", "FROM tensorflow/tensorflow:2.4.1-gpu\n"),
            (".python-version", "3.8\n"),
        ],
        "gpu! nvidia cuda=11.0 py=3.8 vram=8 ram=16 note=version",
    ),
    (
        "keras on the processor",
        &[("requirements.txt", "tensorflow-cpu==2.15.0\nkeras\n"), ("README.md", "Runs on CPU.\n")],
        "cpu cuda=? cores=4 ram=16 disk=50",
    ),
    (
        "torch of the processor index",
        &[
            (
                "requirements.txt",
                "--extra-index-url https://download.pytorch.org/whl/cpu\ntorch==2.2.0+cpu\nsentence-transformers\n",
            ),
            ("Dockerfile", "FROM python:3.11-slim-bookworm\nENV CUDA_VISIBLE_DEVICES=\"\"\n"),
        ],
        "cpu cuda=? py=3.11 os=ubuntu-24.04 cores!=2",
    ),
    (
        "rocm wheel",
        &[
            ("requirements.txt", "--index-url https://download.pytorch.org/whl/rocm5.7\ntorch==2.2.1\n"),
            ("README.md", "Evaluated on an AMD Instinct MI210.\n"),
        ],
        "gpu! amd rocm cuda=? vram=64 cards=1",
    ),
    (
        "rocm container",
        &[("Dockerfile", "FROM rocm/pytorch:rocm6.0_ubuntu22.04_py3.9_pytorch_2.1.1\nCOPY . /x\n"), ("train.py", "")],
        "gpu! amd rocm vram=8 ram=16 hours=24",
    ),
    (
        "jax for accelerators",
        &[(
            "pyproject.toml",
            "[project]\nname='j'\nrequires-python='>=3.10'\ndependencies=['jax[cuda12]==0.4.25','flax','optax']\n",
        )],
        "gpu! nvidia cuda=12.0 py=3.10 vram=8",
    ),
    (
        "optional acceleration",
        &[
            (
                "pyproject.toml",
                "[project]\nname='o'\ndependencies=['numpy','scipy']\n[project.optional-dependencies]\ncuda=['cupy-cuda12x']\n",
            ),
            ("README.md", "An optional extra uses a GPU if you have one.\n"),
        ],
        "cpu cuda=? ram=16 cores=4 disk=50",
    ),
    (
        "diffusion",
        &[
            ("requirements.txt", "diffusers==0.27.0\ntorch==2.2.0\nxformers==0.0.24\n"),
            ("README.md", "Requires a GPU with 16 GB of VRAM.\n"),
        ],
        "gpu! nvidia vram=16 vram!=16 cuda=12.1 ram=32",
    ),
    (
        "speech with a named small card",
        &[("requirements.txt", "torch==1.13.1\nlightning\n"), ("README.md", "Trained on a single RTX 2080 Ti.\n")],
        "gpu nvidia vram=11 cuda=11.0 ram=32 os=ubuntu-22.04",
    ),
    (
        "old card that is named",
        &[("requirements.txt", "torch==1.7.1\n"), ("README.md", "Tested on a Tesla K80 with CUDA 10.2.\n")],
        "gpu nvidia vram=12 flag=legacy ram=32 noflag=instruction",
    ),
    (
        "kernels behind a graph library",
        &[("requirements.txt", "dgl-cu118==1.1.0\ntorch==2.0.1\n"), ("README.md", "Training takes 10 hours.\n")],
        "gpu! nvidia cuda=11.8 hours=17 vram=8",
    ),
    (
        "data frames on cards",
        &[(
            "environment.yaml",
            "channels: [rapidsai, nvidia]\ndependencies:\n - cudf=24.02\n - cuml=24.02\n - python=3.10\n - cuda-version=12.0\n",
        )],
        "gpu! nvidia cuda=12.0 py=3.10 vram=8",
    ),
    (
        "reinforcement learning beside a veto",
        &[("requirements.txt", "stable-baselines3\ngymnasium\ntorch\n"), ("README.md", "No GPU needed.\n")],
        "cpu cuda=? ram=16 cores=4",
    ),
    (
        "hard evidence beside a veto",
        &[
            ("requirements.txt", "flash-attn==2.5.6\ntorch\n"),
            ("README.md", "Small models run without a GPU. CPU only works too.\n"),
        ],
        "gpu! nvidia note=also cores=4..8 hours=24..48",
    ),
    (
        "lock that knows more than the range",
        &[
            ("pyproject.toml", "[project]\nname='l'\nrequires-python='>=3.9,<3.13'\ndependencies=['torch>=2']\n"),
            (
                "uv.lock",
                "version = 1\n[[package]]\nname = \"torch\"\nversion = \"2.4.0\"\n[[package]]\nname = \"numpy\"\nversion = \"1.26.4\"\n",
            ),
        ],
        "gpu nvidia cuda=12.4 py=3.9 ram=16",
    ),
];
