//! Which sentences count, and what they say.

use super::*;

fn reported(sentence: &str) -> String {
    let (mut facts, mut notes) = (Vec::new(), Vec::new());
    judge(
        sentence,
        Around::default(),
        At { line: 1, quote: sentence },
        &mut Sink::new("README.md", &mut facts, &mut notes),
    );
    let one = |finding: &Finding| match finding {
        Finding::Cores(n) => format!("{n} cores"),
        Finding::Ram(n) => format!("{n} ram"),
        Finding::Disk(n) => format!("{n} disk"),
        Finding::Vram(n) => format!("{n} vram"),
        Finding::GpuCount(n) => format!("{n} cards"),
        Finding::Gpu(vendor) => vendor.map_or("gpu".to_owned(), |vendor| format!("gpu {vendor}")),
        Finding::CpuOnly => "veto".to_owned(),
        Finding::Card(card) => card.key.to_owned(),
        Finding::Cuda(version) => format!("cuda {version}"),
        Finding::Python(version) => format!("python {version}"),
        Finding::PythonFrom(version) => format!("python from {version}"),
        Finding::Os(os) => format!("{} {}", os.kind.name(), os.version_text()),
        Finding::Hours(n) => format!("{n} hours"),
        Finding::Special(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let mark = |strength| match strength {
        Strength::Hard => "!",
        Strength::Target => "",
        Strength::Weak => "?",
    };
    facts.iter().map(|fact| format!("{}{}", one(&fact.finding), mark(fact.strength))).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_sentence_counts_by_its_words() {
    for (sentence, wanted) in [
        ("Requires 16 GB of RAM", "16 ram!"),
        ("You need 16GB RAM", "16 ram!"),
        ("There must be 16 GB memory", "16 ram!"),
        ("Minimum: 16 GB RAM", "16 ram!"),
        ("at least 16 GiB of RAM", "16 ram!"),
        ("We recommend 16 GB of RAM", "16 ram"),
        ("Tested on 16 GB RAM", "16 ram"),
        ("Evaluated on a server with 256 GB of memory", "256 ram"),
        ("It ran on a machine with 64 GB RAM", "64 ram"),
        ("We used 128 GB of RAM", "128 ram"),
        ("Our testbed has 32 cores", "32 cores"),
        ("It has 16 GB of RAM", ""),
        ("You don't need 64 GB of RAM", ""),
        ("This does not require 64 GB of RAM", ""),
        ("needless 16 GB of RAM", "16 ram!"),
        ("unneeded 16 GB of RAM", ""),
    ] {
        assert_eq!(reported(sentence), wanted, "{sentence}");
    }
}

#[test]
fn quantities_with_their_units() {
    for (sentence, wanted) in [
        ("needs 8 cores", "8 cores!"),
        ("needs an 8-core CPU", "8 cores!"),
        ("needs 16 CPU cores", "16 cores!"),
        ("needs 32 threads", "32 cores!"),
        ("needs 2 x 16-core processors", "32 cores!"),
        ("needs dual 12-core CPUs", "24 cores!"),
        ("needs 4 vCPUs and 8 GB RAM", "4 cores!, 8 ram!"),
        ("needs 1 TB of RAM", "1024 ram!"),
        ("needs 512 MB of memory", "1 ram!"),
        ("needs 2 TB of disk space", "2000 disk!"),
        ("needs 1,500 GB of storage", "1500 disk!"),
        ("needs 1.5 TB SSD", "1500 disk!"),
        ("needs 100 GB free disk, 16 GB RAM", "100 disk!, 16 ram!"),
        ("RAM: at least 16 GB, disk: at least 200 GB", "16 ram!, 200 disk!"),
        ("Minimum 16 GB (32 GB recommended) of RAM", "16 ram!, 32 ram"),
        ("needs 24 GB of GPU memory", "24 vram!, gpu"),
        ("needs a GPU with at least 24 GB of memory", "24 vram!, gpu"),
        ("needs a GPU with 11GB VRAM", "11 vram!, gpu"),
        ("needs a GPU and 64 GB of memory", "64 ram!, gpu"),
        ("needs 80GB GPUs", "80 vram!, gpu"),
        ("needs 4 GPUs", "4 cards, gpu"),
        ("needs 12 GB", ""),
        ("needs 4 nodes", ""),
        ("needs 9999999999999999999999 GB RAM", ""),
    ] {
        assert_eq!(reported(sentence), wanted, "{sentence}");
    }
}

#[test]
fn cards_are_alternatives_and_the_smallest_counts() {
    for (sentence, wanted) in [
        ("Requires an A100 or a V100", "a100!, v100!, 16 vram!, 1 cards, gpu"),
        ("Requires an NVIDIA A100 80GB GPU", "80 vram!, a100!, 80 vram!, 1 cards, gpu nvidia"),
        ("Trained on 8x V100 32GB", "v100, 32 vram, 8 cards, gpu?"),
        ("Tested on RTX 3090 and RTX 4090", "3090, 4090, 24 vram, gpu?"),
        ("Tested on AMD MI250", "mi250, 64 vram, gpu amd!"),
        ("A GPU is required", "gpu"),
        ("A GPU is optional but at least 8 cores are needed", "8 cores!, gpu?"),
        ("Tested on a GPU", "gpu?"),
    ] {
        assert_eq!(reported(sentence), wanted, "{sentence}");
    }
}

#[test]
fn vetoes_in_prose() {
    for sentence in [
        "CPU only.",
        "No GPU needed",
        "It runs on CPU",
        "There is no GPU required",
        "This does not require a GPU",
        "Works without a GPU",
    ] {
        assert_eq!(reported(sentence), "veto", "{sentence}");
    }
    for (sentence, wanted) in [
        ("A GPU is required, it does not run on CPU", "gpu"),
        ("Cannot be used without a GPU, which is required", "gpu"),
        ("It runs on CPU and GPU", "gpu?"),
    ] {
        assert_eq!(reported(sentence), wanted, "{sentence}");
    }
}

#[test]
fn memory_of_models_by_their_parameters() {
    for (sentence, wanted) in [
        ("Inference with the 7B model needs a GPU", "17 vram, gpu"),
        ("LoRA fine-tuning of a 13B model needs a GPU", "38 vram, gpu"),
        ("QLoRA of the 70B model requires a GPU", "60 vram, gpu"),
        ("Full fine-tuning of the 7B model requires GPUs", "2 cards, 56 vram, gpu?"),
        ("Inference of 70B models requires GPUs", "3 cards, 56 vram, gpu"),
        ("needs 7B steps", ""),
    ] {
        assert_eq!(reported(sentence), wanted, "{sentence}");
    }
}

#[test]
fn systems_cuda_python_kernels() {
    for (sentence, wanted) in [
        ("Requires Ubuntu 20.04", "ubuntu 20.04"),
        ("Tested on Ubuntu 18.04 and 22.04 LTS", "ubuntu 18.04, ubuntu 22.04"),
        ("Tested on Ubuntu Linux 24.04.", "ubuntu 24.04"),
        ("Tested on CentOS 7 with Python 3.10", "centos 7, python 3.10"),
        ("Requires Debian 12", "ubuntu 24.04"),
        ("Requires CUDA 11.8", "cuda 11.8!"),
        ("Tested with CUDA toolkit 12.1", "cuda 12.1"),
        ("Requires Python 3.8+", "python from 3.8"),
        ("Requires Python >= 3.10", "python from 3.10"),
        ("Requires Python 3", ""),
        ("Requires Linux kernel 5.15", "Linux kernel 5.15"),
        ("Requires CUDA 2023", ""),
    ] {
        assert_eq!(reported(sentence), wanted, "{sentence}");
    }
}

#[test]
fn special_hardware_in_prose() {
    for (sentence, wanted) in [
        ("Requires a Xilinx Alveo FPGA", "Feature(Fpga)!"),
        ("Requires RDMA", "Feature(Infiniband)!"),
        ("InfiniBand is recommended", "Feature(Infiniband)"),
        ("Needs NVMe disks", "Feature(Nvme)!"),
        ("Needs Optane", "Feature(Nvdimm)!"),
        ("Needs GPUs with NVLink", "gpu, Feature(Nvlink)!"),
        ("NVMe is nice", ""),
    ] {
        assert_eq!(reported(sentence), wanted, "{sentence}");
    }
}

#[test]
fn run_times() {
    for (sentence, wanted) in [
        ("Training takes 10 hours", "10 hours"),
        ("It took 2.5 days", "60 hours"),
        ("The run time is 30 minutes", "1 hours"),
        ("Training time: 1 week", "168 hours"),
        ("We worked 10 hours", ""),
    ] {
        assert_eq!(reported(sentence), wanted, "{sentence}");
    }
}

#[test]
fn any_sentence_is_read_without_harm() {
    for sentence in [
        "",
        ".",
        "1",
        "needs 1.2.3.4 GB RAM",
        "needs ,,,1,2 GB",
        "needs 1e9 GB RAM",
        "№ 5 needs ½ GB",
        "needs #### 5 cores",
    ] {
        reported(sentence);
    }
    reported(&"needs 1 ".repeat(10_000));
}
