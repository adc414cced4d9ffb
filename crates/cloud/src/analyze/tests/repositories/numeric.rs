//! Repositories of numeric Python, notebooks, scripts and web applications.

use super::Repository;

pub(super) const ALL: &[Repository] = &[
    (
        "course notebooks",
        &[("week1/intro.ipynb", ""), ("week2/plots.ipynb", ""), ("requirements.txt", "jupyter\nmatplotlib\npandas\n")],
        "cpu cores=4 ram=16 disk=50 hours=24 cores!=2 ram!=4 disk!=20",
    ),
    (
        "genomics with much memory",
        &[
            ("environment.yml", "channels: [bioconda]\ndependencies: [python=3.11, samtools, star]\n"),
            ("README.md", "Requires at least 128 GB of RAM and 500 GB of disk space.\n"),
        ],
        "cpu ram!=128 ram=128 disk!=500 disk=500 py=3.11",
    ),
    (
        "simulation on many cores",
        &[
            ("requirements.txt", "numpy\nnumba\nmpi4py\n"),
            ("README.md", "We recommend a machine with 2 x 32-core processors and 256 GB of memory.\n"),
        ],
        "cpu cores=64 cores!=2 ram=256 ram!=4",
    ),
    (
        "flask application",
        &[("requirements.txt", "flask==3.0\ngunicorn\n"), ("app.py", ""), ("runtime.txt", "python-3.12.1\n")],
        "cpu cores=4 ram=8 disk=20 py=3.12 hours=24",
    ),
    (
        "command line tool",
        &[
            ("setup.cfg", "[options]\npython_requires = >=3.8\ninstall_requires =\n  click\n  rich\n"),
            ("setup.py", "from setuptools import setup\nsetup()\n"),
        ],
        "cpu cores=4 ram=8 disk=20 py=3.8",
    ),
    (
        "scripts without a word",
        &[("main.py", ""), ("util.py", "")],
        "cpu cores=4 ram=8 disk=20 os=ubuntu-22.04 hours=24",
    ),
    ("nothing but a licence", &[("LICENSE", "x")], "cpu cores=4 ram=8 disk=40 hours=24 flag=low"),
    (
        "statistics with pipenv",
        &[
            ("Pipfile", "[packages]\npandas = \"*\"\nscikit-learn = \"*\"\n[requires]\npython_version = \"3.9\"\n"),
            ("Pipfile.lock", "{\"default\":{\"pandas\":{\"version\":\"==2.1.0\"}}}"),
        ],
        "cpu ram=16 disk=50 py=3.9 cores=4",
    ),
    (
        "poetry with a group",
        &[(
            "pyproject.toml",
            "[tool.poetry.dependencies]\npython='^3.10'\nxarray='*'\ndask='*'\n[tool.poetry.group.dev.dependencies]\npytest='*'\n",
        )],
        "cpu py=3.10 cores=4 cores!=2 os=ubuntu-22.04",
    ),
    (
        "notebook of an old python",
        &[("environment.yml", "dependencies: [python=3.7, numpy=1.16, jupyter]\n"), ("a.ipynb", "")],
        "cpu py=3.7 ram=16 note=version disk=50",
    ),
    (
        "workflow of continuous integration",
        &[
            ("requirements.txt", "requests\n"),
            (
                ".github/workflows/ci.yml",
                "jobs:\n  a:\n    runs-on: ubuntu-24.04\n    strategy: {matrix: {python-version: ['3.11', '3.12']}}\n",
            ),
        ],
        "cpu os=ubuntu-24.04 py=3.12 cores=4 ram=8",
    ),
    (
        "tool versions",
        &[(".tool-versions", "python 3.11.4\nnodejs 20.1.0\n"), ("requirements.txt", "django\n"), ("manage.py", "")],
        "cpu py=3.11 cores=4 ram=8 disk=20",
    ),
    (
        "lists that name lists",
        &[
            ("requirements.txt", "-r requirements/base.txt\n-r requirements/gpu.txt\n"),
            ("requirements/base.txt", "numpy\n"),
            ("requirements/gpu.txt", "cupy-cuda11x\n"),
        ],
        "gpu! nvidia cuda=11.0 vram=8 ram=16",
    ),
    (
        "arm wheels only",
        &[
            ("requirements.txt", "https://host.example/fast-1.0-cp311-cp311-manylinux_2_17_aarch64.whl\nnumpy\n"),
            ("README.md", "Runs on Graviton.\n"),
        ],
        "cpu arch=aarch64 ram=16 cores=4",
    ),
];
