//! Tests of device names: the texts the contract accepts, the errors it names, and round trips. Owns no production code.

use proptest::prelude::*;

use super::{Catalogue, Form, GpuNeed, GpuType, MigProfile, Vendor, Wanted, parse_gpu_type};
use crate::hardware::HardwareError;
use crate::named::Named;

fn canonical(text: &str) -> String {
    parse_gpu_type(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

#[test]
fn accepted_texts_become_canonical() {
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
fn every_word_of_a_vendor_names_it_and_two_vendors_are_refused() {
    let words = [("nvidia tesla quadro geforce", "nvidia"), ("amd radeon instinct", "amd"), ("intel arc", "intel")];
    let words: Vec<(&str, &str)> =
        words.iter().flat_map(|(all, made_by)| all.split(' ').map(move |word| (word, *made_by))).collect();
    for (word, made_by) in &words {
        assert_eq!(canonical(word), *made_by, "{word}");
        for (second, other) in &words {
            let said = parse_gpu_type(&format!("{word}/{second}"));
            assert_eq!(said.is_ok(), made_by == other, "{word} {second}: {said:?}");
            assert!(said.is_ok() || matches!(said, Err(HardwareError::MixedVendors { .. })), "{word} {second}");
        }
    }
}

#[test]
fn every_form_word_is_one_and_must_occur_in_the_products_name() {
    let words = "sxm sxm2 sxm3 sxm4 sxm5 sxm6 pcie nvl oam hbm2 hbm2e hbm3 hbm3e";
    for word in words.split(' ') {
        let gpu = parse_gpu_type(&format!("A100_{}", word.to_uppercase())).unwrap();
        assert_eq!(gpu.to_string(), format!("nvidia-a100-{word}"));
        assert_eq!(gpu.form.iter().map(|form| form.as_str()).collect::<Vec<_>>(), [word]);
    }
    assert_eq!(Form::ALL.len(), words.split(' ').count());
    let having = |words: &str| {
        let form = parse_gpu_type(words).unwrap().form;
        let all = Catalogue::built_in().models.iter().flat_map(|model| &model.products);
        let names: Vec<&str> = all.filter(|one| one.has_form(&form)).map(|one| one.name.as_str()).collect();
        names.join(", ")
    };
    insta::assert_snapshot!(having("sxm"), @"B300 SXM6 AC, B200, H200, H20, H100 80GB HBM3, A100-SXM4-40GB, A100-SXM4-80GB, A800-SXM4-80GB, Tesla V100-SXM2-16GB, Tesla V100-SXM2-32GB, Tesla V100-SXM3-32GB, Tesla P100-SXM2-16GB");
    insta::assert_snapshot!(having("sxm2"), @"Tesla V100-SXM2-16GB, Tesla V100-SXM2-32GB, Tesla P100-SXM2-16GB");
    insta::assert_snapshot!(having("pcie"), @"H200 NVL, H100 PCIe, H100 NVL, A100-PCIE-40GB, A100 80GB PCIe, A800 80GB PCIe, A30, A10, L4, L20, L40, L40S, A40, A16, A2, Tesla T4, Tesla V100-PCIE-16GB, Tesla V100-PCIE-32GB, Tesla V100S-PCIE-32GB, Tesla P4, Tesla P40, Tesla P100-PCIE-16GB, Tesla K80, AMD Instinct MI210, AMD Instinct MI100");
    insta::assert_snapshot!(having("nvl"), @"H200 NVL, H100 NVL");
    insta::assert_snapshot!(having("hbm3"), @"H20, GH200 144G HBM3e, H100 80GB HBM3, H100 NVL, AMD Instinct MI300X OAM, AMD Instinct MI300X");
    insta::assert_snapshot!(having("oam"), @"AMD Instinct MI355X OAM, AMD Instinct MI355X, AMD Instinct MI325X OAM, AMD Instinct MI325X, AMD Instinct MI325 OAM, AMD Instinct MI300X OAM, AMD Instinct MI300X");
    assert_eq!(having("sxm-pcie"), "");
}

#[test]
fn words_that_say_nothing_are_dropped() {
    for word in "gpu data center graphics accelerator tensor core generation series".split(' ') {
        assert_eq!(canonical(word), "gpu", "{word}");
        assert_eq!(canonical(&format!("{word} A100 {word}")), "nvidia-a100", "{word}");
        // Dropped as a word only: a part of a word stays.
        assert!(parse_gpu_type(&format!("a100{word}")).is_err(), "{word}");
    }
}

#[test]
fn other_characters_are_refused_where_they_stand() {
    let at = |text: &str| match parse_gpu_type(text) {
        Err(HardwareError::IllegalCharacter { ch, at }) => Some((ch, at)),
        _ => None,
    };
    for ch in ('\0'..' ').chain(['\u{7f}', '\u{80}', 'é', '×', '\u{a0}', '\u{2003}', '１', '🖥']) {
        assert_eq!(at(&format!("a1{ch}00")), Some((ch, 3)), "{ch:?}");
    }
    assert_eq!(at(" ａ100"), Some(('ａ', 2)));
    assert_eq!(at("a100\u{a0}"), Some(('\u{a0}', 5)));
    assert_eq!(at("é\u{7}"), Some(('é', 1)));
}

#[test]
fn a_text_is_trimmed_and_has_128_bytes_at_most() {
    assert_eq!(canonical("\t a100 \r\n"), "nvidia-a100");
    assert_eq!(parse_gpu_type(" \n"), Err(HardwareError::EmptyGpuType));
    assert_eq!(canonical(&format!("a100{}", "-".repeat(124))), "nvidia-a100");
    let long = |text: &str| matches!(parse_gpu_type(text), Err(HardwareError::GpuTypeTooLong { max: 128, .. }));
    assert!(long(&format!("a100{}", "-".repeat(125))));
    // Bytes, not characters.
    assert!(long(&"é".repeat(65)) && !long(&"é".repeat(64)));
}

#[test]
fn memory_is_1_to_4096_in_any_unit() {
    for (text, gib) in [("1g", 1), ("a100-24GB", 24), ("40gib", 40), ("4096g", 4096)] {
        assert_eq!(parse_gpu_type(text).unwrap().memory_gib, Some(gib), "{text}");
    }
    for text in ["0g", "4097gb", "99999999999gib"] {
        assert_eq!(parse_gpu_type(text), Err(HardwareError::MemoryOutOfRange { given: text.to_owned() }));
    }
}

#[test]
fn errors_say_what_is_wrong_and_what_to_write() {
    let error = |text: &str| {
        let error = parse_gpu_type(text).unwrap_err();
        format!("{error}; {}", error.help())
    };
    insta::assert_snapshot!(error(" -_/ "), @"GPU type is empty; name a vendor, a model or both, for example `nvidia-a100` or `A100-SXM4-40GB`");
    insta::assert_snapshot!(error(&"a".repeat(129)), @"GPU type has 129 bytes, at most 128 are allowed; write the device's product name in printable ASCII, for example `Tesla T4`");
    insta::assert_snapshot!(error("a100\u{7}"), @r"GPU type has the character '\u{7}' at position 5; write the device's product name in printable ASCII, for example `Tesla T4`");
    insta::assert_snapshot!(error("amd tesla"), @"GPU type names two vendors, amd and nvidia; ask for one vendor, for example `nvidia-a100`, or leave the vendor out");
    insta::assert_snapshot!(error("a100-mig"), @"GPU type has no single MIG profile at `mig`; write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`");
    insta::assert_snapshot!(error("mig-a100"), @"GPU type has no single MIG profile at `a100`; write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`");
    insta::assert_snapshot!(error("1g.5gb-2g.10gb"), @"GPU type has no single MIG profile at `2g.10gb`; write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`");
    insta::assert_snapshot!(error("mi300x-1g.5gb"), @"amd devices have no MIG profiles; ask for whole devices, or for slices of an NVIDIA device, for example `a100-mig-1g.5gb`");
    insta::assert_snapshot!(error("a100-40gb-80gb"), @"GPU type names two memory sizes, 40 GiB and 80 GiB; give the memory of one device once, for example `a100-80gb`");
    insta::assert_snapshot!(error("a100-5000gb"), @"GPU memory `5000gb` is out of range; give the memory of one device as 1gb to 4096gb");
    insta::assert_snapshot!(error("a1000"), @"unknown GPU model `a1000`, did you mean a100, h100, a800?; use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`");
    insta::assert_snapshot!(error("voodoo-banshee"), @"unknown GPU model `voodoobanshee`; use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`");
    insta::assert_snapshot!(error("amd-a100"), @"GPU model `a100` is made by nvidia, not by amd; leave the vendor out, or name a model it makes, for example `amd-mi300x`");
}

#[test]
fn every_product_is_read_as_itself_with_and_without_its_brand() {
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
    assert_eq!(table.model("A100"), None);
}

#[test]
fn an_alias_names_its_model_with_and_without_the_vendor() {
    for (alias, key) in
        [("a6000", "rtxa6000"), ("4090", "rtx4090"), ("3090", "rtx3090"), ("5090", "rtx5090"), ("a5000", "rtxa5000")]
    {
        assert_eq!(canonical(alias), format!("nvidia-{key}"));
        assert_eq!(canonical(&format!("GeForce {alias} 24gb nvlink")), format!("nvidia-{key}-24gb-nvlink"));
        assert!(matches!(parse_gpu_type(&format!("amd-{alias}")), Err(HardwareError::VendorMismatch { .. })));
    }
    let aliases = Catalogue::built_in().models.iter().filter(|model| model.alias.is_some()).count();
    assert_eq!(aliases, 15);
}

#[test]
fn a_model_that_no_table_knows_is_asked_for_by_its_exact_name() {
    let table = Catalogue::built_in();
    let ask = |text: &str| table.ask(text).map(|kind| (kind.vendor, kind.name.map(|name| name.to_string())));
    let named = |vendor, name: &str| Ok((vendor, Some(name.to_owned())));
    let nvidia = Some(Vendor::Nvidia);
    assert_eq!(ask("RTX 5880 Ada Generation"), named(None, "RTX 5880 Ada Generation"));
    assert_eq!(ask(" NVIDIA-RTX-5880-Ada-Generation\n"), named(nvidia, "RTX-5880-Ada-Generation"));
    assert_eq!(ask("Tesla Foo 80GB SXM9"), named(nvidia, "Tesla Foo 80GB SXM9"));
    assert_eq!(ask("AMD Instinct MI400X"), named(Some(Vendor::Amd), "Instinct MI400X"));
    assert_eq!(ask("a100").unwrap(), (nvidia, None));
    // What slices, links and shares are called is no part of a name, and what is no name stays unknown.
    for text in ["foo-nvlink", "foo-mig-1g.5gb", "Foo-SHARED", "[A100]", "foo."] {
        assert!(matches!(ask(text), Err(HardwareError::UnknownGpuModel { .. })), "{text}");
    }
    assert!(matches!(ask("amd-tesla-foo"), Err(HardwareError::MixedVendors { .. })));
    let remark = |text: &str| table.remark(&table.ask(text).unwrap()).unwrap_or_default();
    insta::assert_snapshot!(remark("nvidia-A1000"), @"model `A1000` is not in Orlop's tables; it is matched by its exact name among devices of nvidia; did you mean a100, h100, a800?");
    insta::assert_snapshot!(remark("Strange Accelerator Card 9"), @"model `Strange Accelerator Card 9` is not in Orlop's tables; it is matched by its exact name");
    assert_eq!(remark("A100"), "");
}

#[test]
fn usual_spellings_of_known_models_are_read() {
    for (text, expected) in [
        ("H100 SXM 80 GB", "nvidia-h100-sxm-80gb"),
        ("A100 (80GB)", "nvidia-a100-80gb"),
        ("A100, 80GB", "nvidia-a100-80gb"),
        ("A100-80", "nvidia-a100-80gb"),
        ("h100-94", "nvidia-h100-94gb"),
        ("HGX H100", "nvidia-h100-sxm"),
        ("RTX PRO 6000 Blackwell", "nvidia-rtxpro6000"),
        ("nvidia-h100-mega-80gb", "nvidia-h100-sxm-80gb"),
        ("RTX 3080 Ti", "nvidia-rtx3080ti-12gb"),
        ("Intel(R) Data Center GPU Flex 170", "intel-flex170-16gb"),
        ("NVIDIA GH200 144G HBM3e", "nvidia-gh200-hbm3e-144gb"),
        ("GH200 144GB", "nvidia-gh200-144gb"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
    // A number that is no size of the model is not read as one.
    for text in ["A100-81", "a100-8", "a100-8080", "80-a100"] {
        assert!(matches!(parse_gpu_type(text), Err(HardwareError::UnknownGpuModel { .. })), "{text}");
    }
}

#[test]
fn an_unknown_model_of_a_known_family_is_of_its_maker() {
    let ask = |text: &str| Catalogue::built_in().ask(text).unwrap();
    for (text, vendor) in [
        ("MI350X", Vendor::Amd),
        ("MI 350X", Vendor::Amd),
        ("Instinct Foo", Vendor::Amd),
        ("Radeon Foo", Vendor::Amd),
        ("W7900", Vendor::Amd),
        ("RX 7900 XTX", Vendor::Amd),
        ("Max 1350", Vendor::Intel),
        ("Flex 200", Vendor::Intel),
        ("Arc B580", Vendor::Intel),
    ] {
        let kind = ask(text);
        assert_eq!((kind.vendor, kind.name.is_some()), (Some(vendor), true), "{text}");
    }
    for text in ["Mighty", "Wombat", "Maximum", "RTX 5880 Ada", "Rxx"] {
        assert_eq!(ask(text).vendor, None, "{text}");
    }
    let said = |text: &str| Catalogue::built_in().remark(&ask(text)).unwrap();
    insta::assert_snapshot!(said("MI350X"), @"model `MI350X` is not in Orlop's tables; it is matched by its exact name among devices of amd; did you mean mi355x, mi300x, mi250x?");
}

#[test]
fn what_is_no_gpu_is_refused_with_what_to_do() {
    let said = |text: &str| {
        let error = Catalogue::built_in().ask(text).unwrap_err();
        assert!(matches!(error, HardwareError::NoGpu { .. }), "{text}: {error}");
        format!("{error}; {}", error.help())
    };
    insta::assert_snapshot!(said("none"), @"GPU type `none` is not a GPU; leave gpuType and gpuCount out where no GPU is needed");
    insta::assert_snapshot!(said("TPU v5e"), @"GPU type `TPU v5e` is not a GPU; ask for `google.com/tpu` among the resources, and for its nodes by customLabels");
    insta::assert_snapshot!(said("Gaudi2"), @"GPU type `Gaudi2` is not a GPU; ask for `habana.ai/gaudi` among the resources, and for its nodes by customLabels");
    for text in ["N/A", "tpu-v5-lite-podslice", "gaudi3", "Intel Gaudi 3", "HABANA Gaudi"] {
        said(text);
    }
}

#[test]
fn a_known_model_of_an_unknown_size_or_form_is_asked_for_by_its_exact_name() {
    let table = Catalogue::built_in();
    for (text, name) in [
        ("H20-141GB", "H20-141GB"),
        ("NVIDIA H100 96GB", "H100 96GB"),
        ("H100 PCIe 96GB", "H100 PCIe 96GB"),
        ("B200 PCIe", "B200 PCIe"),
    ] {
        let kind = table.ask(text).unwrap();
        assert!(table.remark(&kind).is_some(), "{text} is told");
        assert_eq!(
            (kind.vendor, kind.name.map(|name| name.to_string())),
            (Some(Vendor::Nvidia), Some(name.to_owned()))
        );
    }
    // What is connected or a slice is told by words of its own, which no name has.
    let linked = table.ask("H100 96GB nvlink").unwrap();
    assert_eq!((linked.name, linked.memory_gib), (None, Some(96)));
}

#[test]
fn resource_names_are_read_as_what_they_count() {
    for (text, expected) in [
        ("nvidia.com/gpu", "nvidia"),
        ("amd.com/gpu", "amd"),
        ("nvidia.com/mig-1g.5gb", "nvidia-mig-1g.5gb"),
        ("nvidia.com/mig-1g.10gb.me", "nvidia-mig-1g.10gb+me"),
        ("nvidia.com/mig-1g.5gb.me.all", "nvidia-mig-1g.5gb+me.all"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn slices_have_keys_that_no_whole_device_has() {
    let key = |profile: &str, model: &str| profile.parse::<MigProfile>().unwrap().model_key(model).unwrap();
    assert_eq!(key("1g.10gb+me.all", "h100").to_string(), "h100mig1g10gbmeall");
    assert_eq!(key("3g.40gb", &"x".repeat(40)).as_str().len(), 32);
    for profile in ["1g.10gb", "7g.141gb", "1g.5gb+me", "1g.5gb+me.all"] {
        assert!(key(profile, "a100").is_slice(), "{profile}");
    }
    assert!("1g.10gb".parse::<MigProfile>().unwrap().model_key("A 100").is_none());
    assert!(Catalogue::built_in().models.iter().all(|model| !model.key.is_slice()));
    for key in ["mig", "amig1g10", "migx1g5gb"] {
        assert!(!super::ModelKey::new(key).unwrap().is_slice(), "{key}");
    }
}

#[test]
fn mig_profiles_have_one_form() {
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

#[test]
fn a_model_in_several_words_is_the_product_of_one() {
    let whole = parse_gpu_type("t4").unwrap();
    for text in ["t-4", "T 4", "nvidia t_4", "tesla/t/4"] {
        assert_eq!(parse_gpu_type(text), Ok(whole.clone()), "{text}");
    }
    assert!(whole.memory_gib.is_some());
}

proptest! {
    #[test]
    fn the_canonical_text_reads_back(words in proptest::collection::vec(any_word(), 1..6)) {
        if let Ok(gpu) = parse_gpu_type(&words.join("-")) {
            prop_assert_eq!(parse_gpu_type(&gpu.to_string()), Ok(gpu.clone()));
            let json = serde_json::to_string(&gpu).unwrap();
            prop_assert_eq!(serde_json::from_str::<GpuType>(&json).unwrap(), gpu);
        }
    }

    #[test]
    fn what_is_asked_for_by_name_reads_back(
        words in proptest::collection::vec(prop_oneof![any_word(), "[A-Za-z0-9.+()\\[]{1,6}"], 1..6), blank in "[-_ /]",
    ) {
        if let Ok(gpu) = Catalogue::built_in().ask(&words.join(&blank)) {
            prop_assert_eq!(Catalogue::built_in().ask(&gpu.to_string()), Ok(gpu.clone()));
            let json = serde_json::to_string(&gpu).unwrap();
            prop_assert_eq!(serde_json::from_str::<GpuType>(&json).unwrap(), gpu);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,140}|[\\x00-\\x7f]{0,140}") {
        let _ = parse_gpu_type(&text).map(|gpu| gpu.to_string());
    }
}

#[test]
fn forms_that_names_leave_out_are_known_of_their_products() {
    let products = |text: &str| {
        let gpu = parse_gpu_type(text).unwrap();
        let (form, vendor) = (gpu.form.clone(), gpu.vendor.unwrap());
        let wanted =
            Wanted { model: gpu.model.as_ref(), form: Some(&form), memory_gib: gpu.memory_gib, ..Wanted::default() };
        let found = Catalogue::built_in().products(vendor, wanted);
        found.into_iter().map(|product| product.name).collect::<Vec<_>>().join(", ")
    };
    for (text, expected) in [
        ("H100 SXM", "H100 80GB HBM3"),
        ("H100 SXM5", "H100 80GB HBM3"),
        ("H100-SXM5-80GB", "H100 80GB HBM3"),
        ("H200-SXM", "H200"),
        ("H200 SXM5 141GB", "H200"),
        ("B200 SXM6", "B200"),
        ("A30 PCIe", "A30"),
        ("H100 PCIe", "H100 PCIe, H100 NVL"),
        ("A100-SXM4-80GB HBM2e", "A100-SXM4-80GB"),
        ("MI300X OAM HBM3", "AMD Instinct MI300X OAM, AMD Instinct MI300X"),
        // No such card was ever built.
        ("B200 PCIe", ""),
        ("A100 SXM5", ""),
    ] {
        assert_eq!(products(text), expected, "{text}");
    }
}

#[test]
fn names_of_lists_of_pci_ids_are_read_by_what_stands_in_brackets() {
    for (text, expected) in [
        ("GA100 [A100 PCIe 80GB]", "nvidia-a100-pcie-80gb"),
        ("GA100 [A100 SXM4 40GB]", "nvidia-a100-sxm4-40gb"),
        ("GA100GL [A30 PCIe]", "nvidia-a30-pcie"),
        ("GH100 [H100 SXM5 94GB]", "nvidia-h100-sxm5-94gb"),
        ("GV100GL [Tesla V100 SXM2 16GB]", "nvidia-v100-sxm2-16gb"),
        ("TU102GL [Quadro RTX 6000/8000]", "nvidia-rtx6000-24gb"),
        ("GK210GL [Tesla K80]", "nvidia-k80-12gb"),
        ("Arcturus GL-XL [Instinct MI100]", "amd-mi100-32gb"),
        ("Aldebaran/MI200 [Instinct MI210]", "amd-mi210-64gb"),
        ("Ponte Vecchio XT (2 Tile) [Data Center GPU Max 1550]", "intel-max1550-128gb"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
    for text in ["[A100]", "GA100 [", "GA100 [A100 PCIe", "GA100 []"] {
        assert!(parse_gpu_type(text).is_err(), "{text}");
    }
}
