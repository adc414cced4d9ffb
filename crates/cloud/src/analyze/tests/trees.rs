//! The decision trees of the contract beside a naive reading of it: every mixture of evidence, and both sides of each boundary.

use super::{analysed, expect};

/// Evidence of each strength, as a file says it.
const EVIDENCE: [(&str, &str); 5] = [
    ("a/requirements.txt", "flash-attn\n"),
    ("b/requirements.txt", "tensorflow-rocm\n"),
    ("c/requirements.txt", "torch\n"),
    ("d/requirements.txt", "numba\n"),
    ("README.md", "CPU only.\n"),
];

#[test]
fn hard_counts_always_soft_unless_vetoed_and_weak_never_alone() {
    for mixture in 0_u32..32 {
        let files: Vec<_> = (0..5).filter(|bit| mixture >> bit & 1 == 1).map(|bit| EVIDENCE[bit]).collect();
        let [nvidia, amd, soft, _weak, veto] = [0, 1, 2, 3, 4].map(|bit| mixture >> bit & 1 == 1);
        let hard = nvidia || amd;
        let gpu = hard || soft && !veto;
        let needs = analysed(&files).requirements;
        let shown = format!("{files:?}");
        assert_eq!(needs.wants_gpu(), gpu, "{shown}");
        assert_eq!(needs.gpu_required.hard, hard.then_some(true), "{shown}");
        // A tie goes to NVIDIA, and so does a wish that names nobody.
        let vendor = if amd && !nvidia { "amd" } else { "nvidia" };
        let found = needs.gpu_vendor.target.map(|vendor| vendor.to_string());
        assert_eq!(found.as_deref(), gpu.then_some(vendor), "{shown}");
        assert_eq!(needs.rocm_required.target, Some(gpu && vendor == "amd"), "{shown}");
        assert_eq!(needs.cuda_required.target, Some(gpu && vendor == "nvidia"), "{shown}");
        assert_eq!(needs.gpu_memory_gb.target.is_some(), gpu, "{shown}");
    }
}

#[test]
fn both_sides_of_every_boundary_of_values() {
    let said = |text: &str, wanted: &str| expect(text, &[("README.md", text), ("main.py", "")], wanted);
    said("Requires 8192 GB of RAM.", "ram!=8192 ram=8192 cpu cores=4");
    said("Requires 8193 GB of RAM.", "ram!=4 note=beyond cpu cores=4");
    said("Requires 512 cores.", "cores!=512 cores=512 cpu ram=8");
    said("Requires 513 cores.", "cores!=2 note=beyond cpu ram=8");
    said("Requires a GPU with 288 GB of VRAM.", "gpu vram=288 vram!=288 nvidia");
    said("Requires a GPU with 289 GB of VRAM.", "gpu vram=8 note=beyond nvidia");
    said("Requires a GPU with 4 GB of VRAM.", "gpu vram=8 vram!=4 nvidia");
    said("Requires 200 TB of disk.", "disk!=200000 cpu ram=8");
    said("Requires 201 TB of disk.", "disk!=20 note=beyond cpu");
    said("Training takes 110 hours.", "hours=167 cpu");
    said("Training takes 111 hours.", "hours=168 cpu");
    said("Requires 500 MB of RAM.", "ram!=4 cpu");
    said("Requires 16 GB of RAM.", "ram!=16 ram=16 cpu");
    said("Requires 17 GB of RAM.", "ram!=17 ram=32 cpu");
}

#[test]
fn the_cuda_that_a_framework_implies_changes_where_the_table_says() {
    for (package, wanted) in [
        ("torch==1.13.1", "11.0"),
        ("torch==2.0.1", "11.8"),
        ("torch==2.1.0", "12.1"),
        ("torch==2.3.1", "12.1"),
        ("torch==2.4.0", "12.4"),
        ("tensorflow==2.4.4", "11.0"),
        ("tensorflow==2.5.0", "11.2"),
        ("tensorflow==2.11.1", "11.2"),
        ("tensorflow==2.12.0", "11.8"),
        ("tensorflow==2.14.1", "11.8"),
        ("tensorflow==2.15.0", "12.2"),
        ("tensorflow==2.16.1", "12.3"),
    ] {
        let list = format!("{package}\n");
        expect(package, &[("requirements.txt", &list)], &format!("gpu nvidia cuda={wanted}"));
    }
}
