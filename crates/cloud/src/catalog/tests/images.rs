//! Names of images, trust, the choice in two stages, users.

use serde_json::json;

use super::*;
use crate::analyze::Version;
use crate::analyze::os::{Os, OsType};
use crate::catalog::image::{Image, Name, Wanted, candidates, default_name, usual};

fn name(text: &str) -> String {
    match Name::read(text) {
        Some(name) => {
            format!("{} {} {:?} {:?}", name.os.name(), name.version, name.variant, name.date.unwrap_or_default())
        }
        None => "-".to_owned(),
    }
}

#[test]
fn the_grammar_of_names() {
    let names = [
        "CC-Ubuntu22.04",
        "cc-ubuntu24.04-cuda",
        "CC-Ubuntu22.04-CUDA12",
        "CC-Ubuntu24.04-CUDA-VGPU",
        "CC-Ubuntu24.04-ROCm-20250101",
        "CC-Ubuntu24.04-ARM64",
        "CC-CentOS9-Stream",
        "CC-CentOS9-Stream-CUDA-20241001.10",
        "CC-CentOS7-FPGA",
        "CC-Ubuntu20.04_2023-05-01 10:11:12.5",
        "CC-Ubuntu20.04-20230501",
        "CC-Ubuntu20",
        "CC-Ubuntu22.04-Docker",
        "CC-Ubuntu22.04-CUDA-ROCm",
        "CC-Debian12",
        "Ubuntu22.04",
        "CC-Ubuntu22.04-",
        "CC-Ubuntu22.04x",
        "CC-CentOS10",
    ];
    insta::assert_snapshot!(names.map(|text| format!("{text}: {}", name(text))).join("\n"), @r"
    CC-Ubuntu22.04: ubuntu 22.4 Plain []
    cc-ubuntu24.04-cuda: ubuntu 24.4 Cuda(None) []
    CC-Ubuntu22.04-CUDA12: ubuntu 22.4 Cuda(Some(12)) []
    CC-Ubuntu24.04-CUDA-VGPU: ubuntu 24.4 CudaVgpu []
    CC-Ubuntu24.04-ROCm-20250101: ubuntu 24.4 Rocm [2025, 1, 1]
    CC-Ubuntu24.04-ARM64: ubuntu 24.4 Arm64 []
    CC-CentOS9-Stream: centos 9.0 Plain []
    CC-CentOS9-Stream-CUDA-20241001.10: centos 9.0 Cuda(None) [2024, 10, 1, 10]
    CC-CentOS7-FPGA: centos 7.0 Fpga []
    CC-Ubuntu20.04_2023-05-01 10:11:12.5: ubuntu 20.4 Plain [2023, 5, 1, 10, 11, 12, 5]
    CC-Ubuntu20.04-20230501: ubuntu 20.4 Plain [2023, 5, 1]
    CC-Ubuntu20: -
    CC-Ubuntu22.04-Docker: -
    CC-Ubuntu22.04-CUDA-ROCm: -
    CC-Debian12: -
    Ubuntu22.04: -
    CC-Ubuntu22.04-: -
    CC-Ubuntu22.04x: -
    CC-CentOS10: -
    ");
}

fn image(name: &str, created: &str) -> Image {
    Image {
        id: format!("{name}@{created}"),
        name: name.to_owned(),
        created_at: created.to_owned(),
        active: true,
        ..Image::default()
    }
}

fn chosen(images: &[Image], os: Os, needs: &Needs) -> Vec<String> {
    let catalogue = embedded();
    let shape = &catalogue.at("uc").find(|variant| variant.node_type == "compute_skylake").unwrap().shape;
    candidates(images, &Wanted { os, needs, shape, vgpu: false }).into_iter().map(|image| image.id.clone()).collect()
}

fn ubuntu(major: u32) -> Os {
    Os { kind: OsType::Ubuntu, version: Version::new(major, 4), mapped: false }
}

#[test]
fn the_variant_follows_the_need() {
    let images = usual();
    let names = |needs: &Needs, os: Os| {
        let catalogue = embedded();
        let shape = catalogue.variants[0].shape.clone();
        candidates(&images, &Wanted { os, needs, shape: &shape, vgpu: false }).first().map(|image| image.name.clone())
    };
    let mut amd = card(8);
    amd.gpu.as_mut().unwrap().vendor = Vendor::Amd;
    let arm = Needs { arch: Arch::Arm64, ..plain() };
    assert_eq!(names(&plain(), ubuntu(22)).unwrap(), "CC-Ubuntu22.04");
    assert_eq!(names(&card(8), ubuntu(22)).unwrap(), "CC-Ubuntu22.04-CUDA");
    assert_eq!(names(&amd, ubuntu(22)).unwrap(), "CC-Ubuntu24.04-ROCm", "the nearest newer with the variant");
    assert_eq!(names(&card(8), ubuntu(26)).unwrap(), "CC-Ubuntu24.04-CUDA", "else the nearest older");
    assert_eq!(names(&arm, ubuntu(24)).unwrap(), "CC-Ubuntu24.04-ARM64");
    assert_eq!(
        names(&plain(), Os { kind: OsType::Centos, version: Version::new(7, 0), mapped: false }).unwrap(),
        "CC-CentOS9-Stream"
    );
    assert_eq!(
        [default_name(&plain()), default_name(&card(8)), default_name(&amd)],
        ["CC-Ubuntu22.04", "CC-Ubuntu22.04-CUDA", "CC-Ubuntu22.04-ROCm"]
    );
}

#[test]
fn undated_before_dated_and_dates_by_number() {
    let images = [
        image("CC-Ubuntu22.04-20240101.9", "2024"),
        image("CC-Ubuntu22.04-20240101.10", "2024"),
        image("CC-Ubuntu22.04", "2020"),
        image("CC-Ubuntu22.04", "2021"),
        image("CC-Ubuntu24.04", "2025"),
        image("CC-Ubuntu20.04", "2025"),
        image("CC-Ubuntu22.04-Custom", "2026"),
    ];
    assert_eq!(
        chosen(&images, ubuntu(22), &plain()),
        [
            "CC-Ubuntu22.04@2021",
            "CC-Ubuntu22.04@2020",
            "CC-Ubuntu22.04-20240101.10@2024",
            "CC-Ubuntu22.04-20240101.9@2024",
            "CC-Ubuntu24.04@2025",
            "CC-Ubuntu20.04@2025"
        ]
    );
}

#[test]
fn an_image_must_have_room_and_the_cuda_that_is_needed() {
    let big = Image { min_disk_gb: 241, ..image("CC-Ubuntu22.04", "1") };
    let hungry = Image { min_ram_mib: 192 * 1024 + 1, ..image("CC-Ubuntu22.04", "2") };
    let fat = Image { bytes: 240_000_000_000, ..image("CC-Ubuntu22.04", "3") };
    let fits =
        Image { min_disk_gb: 240, min_ram_mib: 192 * 1024, bytes: 239_999_999_999, ..image("CC-Ubuntu22.04", "4") };
    assert_eq!(chosen(&[big, hungry, fat, fits], ubuntu(22), &plain()), ["CC-Ubuntu22.04@4"]);
    let mut needs = card(8);
    needs.gpu.as_mut().unwrap().cuda = Some(Version::new(12, 1));
    let images = [
        image("CC-Ubuntu22.04-CUDA11", "1"),
        image("CC-Ubuntu22.04-CUDA12", "1"),
        image("CC-Ubuntu22.04-CUDA-VGPU", "1"),
    ];
    assert_eq!(chosen(&images, ubuntu(22), &needs), ["CC-Ubuntu22.04-CUDA12@1"]);
}

#[test]
fn trust() {
    let base = json!({"id": "i", "name": "CC-Ubuntu22.04", "status": "active", "visibility": "public", "owner": "o", "build-repo": "https://github.com/ChameleonCloud/cc-images"});
    let trusted = |change: serde_json::Value| {
        let mut value = base.clone();
        value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Image::read(&value).unwrap().is_trusted(&["friend".to_owned()])
    };
    assert!(trusted(json!({})));
    assert!(trusted(json!({"visibility": "shared", "owner": "friend"})));
    for change in [
        json!({"status": "queued"}),
        json!({"os_hidden": true}),
        json!({"visibility": "community"}),
        json!({"build-repo": "https://github.com/evil/cc-images"}),
        json!({"build-repo": null}),
    ] {
        assert!(!trusted(change.clone()), "{change}");
    }
    assert!(Image::read(&json!({"name": "x"})).is_none() && Image::read(&json!(3)).is_none());
}

#[test]
fn users_of_images() {
    let user = |name: &str, distro: &str, version: &str, admin: Option<&str>| {
        let image = Image {
            name: name.into(),
            distro: (distro.into(), version.into()),
            admin_user: admin.map(str::to_owned),
            ..Image::default()
        };
        image.user().map(str::to_owned)
    };
    let table = [
        (("CC-Ubuntu22.04", "", "", Some("x")), Some("cc")),
        (("a", "", "", Some("x")), Some("x")),
        (("a", "ubuntu", "22.04", None), Some("ubuntu")),
        (("a", "debian", "12", None), Some("debian")),
        (("a", "fedora", "40", None), Some("fedora")),
        (("a", "centos", "8", None), Some("centos")),
        (("a", "centos", "9", None), Some("cloud-user")),
        (("a", "rhel", "9", None), Some("cloud-user")),
        (("a", "rocky", "9", None), Some("rocky")),
        (("a", "almalinux", "9", None), Some("almalinux")),
        (("a", "opensuse", "15", None), Some("opensuse")),
        (("a", "arch", "", None), Some("arch")),
        (("cirros-0.6", "", "", None), Some("cirros")),
        (("a", "", "", None), None),
    ];
    for ((name, distro, version, admin), wanted) in table {
        assert_eq!(user(name, distro, version, admin).as_deref(), wanted, "{name} {distro} {version}");
    }
    let hostile = json!({"id": "i", "name": "a", "os_admin_user": "x; rm -rf /"});
    assert_eq!(Image::read(&hostile).unwrap().user(), None);
}

#[test]
fn elsewhere_an_image_is_what_it_says_of_its_system() {
    let says = |id: &str, distro: &str, version: &str, repository: &str| Image {
        id: id.to_owned(),
        distro: (distro.to_owned(), version.to_owned()),
        build_repository: repository.to_owned(),
        ..image(id, "2025-01-01")
    };
    let images = [
        says("jammy", "Ubuntu", "22.04", ""),
        says("noble", "ubuntu", "24.04", ""),
        says("stream", "centos", "9", ""),
        says("debian", "debian", "12", ""),
        says("unknown", "ubuntu", "latest", ""),
        says("strange", "ubuntu", "22.04", "https://github.com/somebody/images"),
        image("plain", "2025-01-01"),
    ];
    let os = |kind, major, minor| Os { kind, version: Version::new(major, minor), mapped: false };
    assert_eq!(chosen(&images, os(OsType::Ubuntu, 22, 4), &plain()), ["jammy", "noble"]);
    assert_eq!(chosen(&images, os(OsType::Centos, 9, 0), &plain()), ["stream"]);
    assert!(chosen(&images, os(OsType::Ubuntu, 22, 4), &card(16)).is_empty(), "none says that it has drivers");
}
