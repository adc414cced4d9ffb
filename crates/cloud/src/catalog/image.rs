//! Images: which are trusted, what their names say, which one by rule, and who signs in.

use std::cmp::Reverse;

use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;
use serde_json::Value;

use super::host::Shape;
use super::needs::Needs;
use crate::analyze::Version;
use crate::analyze::os::{Os, OsType};

/// The repository that trusted images are built from.
const BUILD_REPOSITORY: &str = "https://github.com/ChameleonCloud/cc-images";

/// What an image is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Nothing special.
    Plain,
    /// NVIDIA's driver, with the CUDA of this number if the name says.
    Cuda(Option<u32>),
    /// Slices of a card.
    CudaVgpu,
    /// AMD's driver.
    Rocm,
    /// Arm.
    Arm64,
    /// Programmable boards.
    Fpga,
}

/// What the name of an image says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The system.
    pub os: OsType,
    /// Its version.
    pub version: Version,
    /// What it is made for.
    pub variant: Variant,
    /// The date in the name as numbers, if it has one; undated images are the newest.
    pub date: Option<Vec<u64>>,
}

/// An image of a site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Image {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Least disk in GB.
    pub min_disk_gb: u64,
    /// Least memory in MiB.
    pub min_ram_mib: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was made, as written.
    pub created_at: String,
    /// Whether it is active and not hidden.
    pub active: bool,
    /// `public`, `private`, `shared` or `community`.
    pub visibility: String,
    /// The project it belongs to.
    pub owner: String,
    /// Where it was built from.
    pub build_repository: String,
    /// The user it names for signing in.
    pub admin_user: Option<String>,
    /// The system it names, and its version.
    pub distro: (String, String),
}

impl Image {
    /// Reads an image of the image service; nothing if it has no id or name.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or(0);
        let hidden = value.get("os_hidden").and_then(Value::as_bool).unwrap_or(false);
        let user = text("os_admin_user");
        let image = Self {
            id: text("id"),
            name: text("name"),
            min_disk_gb: number("min_disk"),
            min_ram_mib: number("min_ram"),
            bytes: number("size"),
            created_at: text("created_at"),
            active: text("status") == "active" && !hidden,
            visibility: text("visibility"),
            owner: text("owner"),
            build_repository: text("build-repo"),
            admin_user: Some(user).filter(|user| is_user(user)),
            distro: (text("os_distro"), text("os_version")),
        };
        (!image.id.is_empty() && !image.name.is_empty()).then_some(image)
    }

    /// Whether it may be chosen by rule at a site of Chameleon.
    #[must_use]
    pub fn is_trusted(&self, owners: &[String]) -> bool {
        self.active
            && (self.visibility == "public" || owners.contains(&self.owner))
            && self.build_repository == BUILD_REPOSITORY
    }

    /// Who signs in: `cc` for Chameleon's own, else the user it names, else that of its system; nothing if unknown.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        if self.name.get(..3).is_some_and(|front| front.eq_ignore_ascii_case("CC-")) {
            return Some("cc");
        }
        if let Some(user) = &self.admin_user {
            return Some(user);
        }
        let (distro, version) = (&self.distro.0, &self.distro.1);
        let name = if distro.is_empty() { self.name.to_ascii_lowercase() } else { distro.to_ascii_lowercase() };
        let major = Version::read(version).map_or(0, |version| version.major);
        let users = [
            ("ubuntu", "ubuntu"),
            ("debian", "debian"),
            ("fedora", "fedora"),
            ("centos", if major >= 9 || self.name.contains('9') { "cloud-user" } else { "centos" }),
            ("rhel", "cloud-user"),
            ("rocky", "rocky"),
            ("alma", "almalinux"),
            ("opensuse", "opensuse"),
            ("arch", "arch"),
            ("cirros", "cirros"),
        ];
        users.into_iter().find(|(system, _)| name.contains(system)).map(|(_, user)| user)
    }
}

/// Names of users as systems have them.
fn is_user(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
        && !text.starts_with('-')
}

impl Name {
    /// What an image is: by its name, or, where nobody builds them as Chameleon does, by the system that it says it has.
    #[must_use]
    pub fn of(image: &Image) -> Option<Self> {
        if let Some(name) = Self::read(&image.name) {
            return Some(name);
        }
        let os = match image.distro.0.trim().to_ascii_lowercase().as_str() {
            _ if !image.build_repository.is_empty() => return None,
            "ubuntu" => OsType::Ubuntu,
            "centos" => OsType::Centos,
            _ => return None,
        };
        let version = Version::read(image.distro.1.trim())?;
        Some(Self { os, version, variant: Variant::Plain, date: None })
    }

    /// Reads `CC-<OS><version>["-Stream"]{"-"variant}[("-"|"_")date]`, whatever its case; nothing for other names.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        let small = name.trim().to_ascii_lowercase();
        let rest = small.strip_prefix("cc-")?;
        let (os, rest) = match (rest.strip_prefix("ubuntu"), rest.strip_prefix("centos")) {
            (Some(rest), _) => (OsType::Ubuntu, rest),
            (_, Some(rest)) => (OsType::Centos, rest),
            _ => return None,
        };
        let end = rest.find(|ch: char| !(ch.is_ascii_digit() || ch == '.')).unwrap_or(rest.len());
        let (number, rest) = rest.split_at_checked(end)?;
        let fine = match os {
            OsType::Ubuntu => number.len() == 5 && number.as_bytes().get(2) == Some(&b'.'),
            OsType::Centos => number.len() == 1 && !number.starts_with('.'),
        };
        let version = Version::read(number).filter(|_| fine)?;
        let rest = rest.strip_prefix("-stream").filter(|_| os == OsType::Centos).unwrap_or(rest);
        let (variant, rest) = variants(rest)?;
        let date = match rest.strip_prefix(['-', '_']) {
            Some(date) => Some(read_date(date)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Self { os, version, variant, date })
    }
}

/// The variants of a name, of which at most one besides the plain one is known.
fn variants(mut rest: &str) -> Option<(Variant, &str)> {
    let mut found = Variant::Plain;
    while let Some(next) = rest.strip_prefix('-') {
        let end = next.find(['-', '_']).unwrap_or(next.len());
        let (word, after) = next.split_at_checked(end)?;
        if word.starts_with(|ch: char| ch.is_ascii_digit()) {
            break;
        }
        let (variant, after) = match word {
            "cuda" if after.starts_with("-vgpu") => (Variant::CudaVgpu, after.get(5..)?),
            "rocm" => (Variant::Rocm, after),
            "arm64" => (Variant::Arm64, after),
            "fpga" => (Variant::Fpga, after),
            _ => {
                let number = word.strip_prefix("cuda")?;
                let number = if number.is_empty() { None } else { Some(number.parse().ok()?) };
                (Variant::Cuda(number), after)
            }
        };
        if found != Variant::Plain {
            return None;
        }
        (found, rest) = (variant, after);
    }
    Some((found, rest))
}

/// `YYYYMMDD`, `YYYYMMDD.N` or `YYYY-MM-DD HH:MM:SS[.f]` as numbers that compare.
fn read_date(text: &str) -> Option<Vec<u64>> {
    let all: Option<Vec<u64>> = text.split(['.', '-', ' ', ':']).map(|part| part.parse().ok()).collect();
    let mut numbers = all?;
    let compact = text.len() >= 8 && text.get(..8).is_some_and(|day| day.bytes().all(|b| b.is_ascii_digit()));
    if compact && numbers.len() <= 2 {
        let day = numbers.remove(0);
        return Some([vec![day / 10_000, day / 100 % 100, day % 100], numbers].concat());
    }
    (!compact && (6..=7).contains(&numbers.len())).then_some(numbers)
}

/// What an image is chosen for.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// The system.
    pub os: Os,
    /// The needs.
    pub needs: &'a Needs,
    /// The host, for its disk and memory.
    pub shape: &'a Shape,
    /// Whether the card is a slice.
    pub vgpu: bool,
}

impl Wanted<'_> {
    fn variant(&self, variant: Variant) -> bool {
        let arm = self.needs.arch == Arch::Arm64;
        match (self.needs.gpu.as_ref().map(|gpu| gpu.vendor), variant) {
            _ if arm => variant == Variant::Arm64,
            (Some(Vendor::Nvidia), Variant::CudaVgpu) => self.vgpu,
            (Some(Vendor::Nvidia), Variant::Cuda(number)) => {
                let needed = self.needs.gpu.as_ref().and_then(|gpu| gpu.cuda).map_or(0, |cuda| cuda.major);
                !self.vgpu && number.is_none_or(|number| number >= needed)
            }
            (Some(Vendor::Amd), variant) => variant == Variant::Rocm,
            (None | Some(Vendor::Intel), variant) => variant == Variant::Plain,
            (Some(Vendor::Nvidia), _) => false,
        }
    }
}

/// The images that are accepted, the best first: stage A by name, stage B by size. At most 40.
#[must_use]
pub fn candidates<'a>(images: &'a [Image], wanted: &Wanted<'_>) -> Vec<&'a Image> {
    let named = images.iter().filter_map(|image| Some((image, Name::of(image)?)));
    let mut fitting: Vec<(&Image, Name)> = named
        .filter(|(image, name)| {
            name.os == wanted.os.kind && wanted.variant(name.variant) && has_room(image, wanted.shape)
        })
        .collect();
    let distance = |name: &Name| {
        let exact = name.version == wanted.os.version;
        let number = |version: Version| u64::from(version.major) * 100 + u64::from(version.minor);
        let (has, asked) = (number(name.version), number(wanted.os.version));
        // The version asked, else the nearest newer, else the nearest older.
        (!exact, has < asked, has.abs_diff(asked))
    };
    fitting.sort_by_cached_key(|(image, name)| {
        let date = Reverse(name.date.clone().unwrap_or_default());
        (distance(name), name.date.is_some(), date, Reverse(image.created_at.clone()), image.id.clone())
    });
    fitting.into_iter().map(|(image, _)| image).take(40).collect()
}

fn has_room(image: &Image, shape: &Shape) -> bool {
    let root = u64::from(shape.root_disk_gb());
    image.min_disk_gb <= root
        && image.min_ram_mib <= u64::from(shape.ram_gib) * 1024
        && image.bytes < root.saturating_mul(1_000_000_000)
}

/// The usual images of Chameleon, taken by name where no image service can be asked.
const USUAL: [&str; 10] = [
    "CC-Ubuntu26.04",
    "CC-Ubuntu24.04",
    "CC-Ubuntu24.04-CUDA",
    "CC-Ubuntu24.04-ROCm",
    "CC-Ubuntu24.04-ARM64",
    "CC-Ubuntu22.04",
    "CC-Ubuntu22.04-CUDA",
    "CC-Ubuntu22.04-ARM64",
    "CC-CentOS9-Stream",
    "CC-CentOS9-Stream-CUDA",
];

/// The usual images as a list without ids.
#[must_use]
pub fn usual() -> Vec<Image> {
    let of = |name: &&str| Image {
        name: (*name).to_owned(),
        active: true,
        visibility: "public".to_owned(),
        ..Image::default()
    };
    USUAL.iter().map(of).collect()
}

/// The name that is taken when nothing at all can be listed.
#[must_use]
pub(crate) fn default_name(needs: &Needs) -> &'static str {
    match needs.gpu.as_ref().map(|gpu| gpu.vendor) {
        Some(Vendor::Nvidia) => "CC-Ubuntu22.04-CUDA",
        Some(Vendor::Amd) => "CC-Ubuntu22.04-ROCm",
        Some(Vendor::Intel) | None => "CC-Ubuntu22.04",
    }
}
