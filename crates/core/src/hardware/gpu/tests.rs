//! Tests of device names: the texts the contract accepts, the errors it names, and round trips. Owns no production code.

use proptest::prelude::*;

use super::{Catalogue, GpuNeed, GpuType, MigProfile, Vendor, parse_gpu_type};
use crate::hardware::HardwareError;
use crate::named::Named;

fn canonical(text: &str) -> String {
    parse_gpu_type(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

#[test]
fn s1_1_accepted_texts_become_canonical() {
    let cases = [
        ("nvidia-a100", "nvidia-a100"),
        ("A100-SXM4-40GB", "nvidia-a100-sxm4-40gb"),
        ("tesla-t4", "nvidia-t4-16gb"),
        ("mig-1g.5gb", "nvidia-mig-1g.5gb"),
        ("a100-mig-1g.5gb", "nvidia-a100-mig-1g.5gb"),
        ("1g.5gb+me.all", "nvidia-mig-1g.5gb+me.all"),
        ("amd-mi300x", "amd-mi300x-192gb"),
        ("intel-flex-170", "intel-flex170-16gb"),
        ("RTX 6000 Ada Generation", "nvidia-rtx6000ada-48gb"),
        ("Quadro RTX 6000", "nvidia-rtx6000-24gb"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-hbm3-80gb"),
        ("GH200 480GB", "nvidia-gh200-96gb"),
        ("AMD_Instinct_MI300X_OAM", "amd-mi300x-oam-192gb"),
        ("Intel Data Center GPU Max 1550", "intel-max1550-128gb"),
        ("a6000", "nvidia-rtxa6000"),
        ("  A100 / 80GiB : nvlink ", "nvidia-a100-80gb-nvlink"),
        ("gpu", "gpu"),
        ("nvidia", "nvidia"),
        ("24g", "24gb"),
        ("sxm5", "sxm5"),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn s1_1_errors_say_what_is_wrong_and_what_to_write() {
    let error = |text: &str| {
        let error = parse_gpu_type(text).unwrap_err();
        format!("{error}; {}", error.help())
    };
    insta::assert_snapshot!(error(" -_/ "), @"GPU type is empty; name a vendor, a model or both, for example `nvidia-a100` or `A100-SXM4-40GB`");
    insta::assert_snapshot!(error(&"a".repeat(129)), @"GPU type has 129 bytes, at most 128 are allowed; write the device's product name in printable ASCII, for example `Tesla T4`");
    insta::assert_snapshot!(error("a100\u{7}"), @r"GPU type has the character '\u{7}' at position 5; write the device's product name in printable ASCII, for example `Tesla T4`");
    insta::assert_snapshot!(error("amd tesla"), @"GPU type names two vendors, amd and nvidia; ask for one vendor, or leave the vendor out");
    insta::assert_snapshot!(error("a100-mig"), @"GPU type has no single MIG profile at `mig`; write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`");
    insta::assert_snapshot!(error("mig-a100"), @"GPU type has no single MIG profile at `a100`; write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`");
    insta::assert_snapshot!(error("1g.5gb-2g.10gb"), @"GPU type has no single MIG profile at `2g.10gb`; write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`");
    insta::assert_snapshot!(error("mi300x-1g.5gb"), @"amd devices have no MIG profiles; ask for whole devices, or for slices of an NVIDIA device");
    insta::assert_snapshot!(error("a100-40gb-80gb"), @"GPU type names two memory sizes, 40 GiB and 80 GiB; give the memory of one device once, for example `a100-80gb`");
    insta::assert_snapshot!(error("a100-5000gb"), @"GPU memory `5000gb` is out of range; give the memory of one device as 1gb to 4096gb");
    insta::assert_snapshot!(error("a1000"), @"unknown GPU model `a1000`, did you mean a100, h100, a10?; use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`");
    insta::assert_snapshot!(error("voodoo-banshee"), @"unknown GPU model `voodoobanshee`; use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`");
    insta::assert_snapshot!(error("amd-a100"), @"GPU model `a100` is made by nvidia, not by amd; leave the vendor out, or name a model it makes");
}

#[test]
fn s1_3_every_product_is_read_as_itself_with_and_without_its_brand() {
    let table = Catalogue::built_in();
    for model in &table.models {
        for product in &model.products {
            let gpu = parse_gpu_type(&product.name).unwrap_or_else(|error| panic!("{}: {error}", product.name));
            assert_eq!(gpu.model.as_ref(), Some(&model.key), "{}", product.name);
            assert_eq!(
                (gpu.vendor, gpu.memory_gib),
                (Some(model.vendor), Some(product.memory_gib)),
                "{}",
                product.name
            );
            assert_eq!(parse_gpu_type(&format!("{} {}", model.vendor, product.name)).as_ref(), Ok(&gpu));
            for form in &gpu.form {
                assert!(product.name.to_lowercase().contains(form.as_str()), "{}: {form}", product.name);
            }
        }
        assert_eq!(table.model(model.key.as_str()), Some(model));
    }
    assert_eq!(table.model("4090").map(|model| model.key.as_str()), Some("rtx4090"));
    assert_eq!(table.model("A100"), None);
}

#[test]
fn s1_1_mig_profiles_have_one_form() {
    for text in ["1g.5gb", "7g.141gb", "1g.5gb+me", "2g.10gb+me.all"] {
        assert_eq!(text.parse::<MigProfile>().unwrap().to_string(), text);
    }
    for text in ["", "1g", "g.gb", "0g.5gb", "1g.05gb", "1g.5gb+", "1g.5gb+me.some", "+1g.5gb", "256g.5gb", "1g.5GB"] {
        let error = text.parse::<MigProfile>().unwrap_err();
        assert!(matches!(error, HardwareError::BadMigProfile { .. }), "{text}");
    }
}

#[test]
fn json_has_the_fields_of_the_model() {
    let kind = parse_gpu_type("A100-SXM4-40GB nvlink").unwrap();
    let need = GpuNeed { count: 2, kind, allocation: super::Allocation::Auto };
    let json = serde_json::to_string(&need).unwrap();
    insta::assert_snapshot!(json, @r#"{"count":2,"kind":{"vendor":"nvidia","model":"a100","form":["sxm4"],"memoryGib":40,"nvlink":true},"allocation":"auto"}"#);
    assert_eq!(serde_json::from_str::<GpuNeed>(&json).unwrap(), need);
    let bare: GpuNeed = serde_json::from_str(r#"{"count": 1}"#).unwrap();
    assert_eq!((bare.kind, bare.allocation), (GpuType::default(), super::Allocation::DevicePlugin));
    assert!(serde_json::from_str::<GpuNeed>(r#"{"count": 1, "kind": {"model": "A-100"}}"#).is_err());
    assert_eq!(Vendor::ALL.len(), 3);
}

const KNOWN: &[&str] = &[
    "nvidia", "tesla", "amd", "intel", "a100", "h100", "nvl", "pcie", "t4", "mi300x", "oam", "flex", "170", "rtx",
    "6000", "ada", "480gb", "gh200", "80gb", "24g", "hbm3", "sxm4", "nvlink", "mig", "1g.5gb", "gpu", "m40",
];

fn any_word() -> impl Strategy<Value = String> {
    prop_oneof![9 => proptest::sample::select(KNOWN).prop_map(str::to_owned), 1 => "[a-z0-9.+]{1,6}"]
}

proptest! {
    #[test]
    fn h6_the_canonical_text_reads_back(words in proptest::collection::vec(any_word(), 1..6)) {
        if let Ok(gpu) = parse_gpu_type(&words.join("-")) {
            prop_assert_eq!(parse_gpu_type(&gpu.to_string()), Ok(gpu.clone()));
            let json = serde_json::to_string(&gpu).unwrap();
            prop_assert_eq!(serde_json::from_str::<GpuType>(&json).unwrap(), gpu);
        }
    }

    #[test]
    fn h8_no_text_panics(text in "\\PC{0,140}|[\\x00-\\x7f]{0,140}") {
        let _ = parse_gpu_type(&text).map(|gpu| gpu.to_string());
    }
}
