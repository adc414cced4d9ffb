//! How large a machine a kind of project wants. Owns the tables and the rounding; which kind
//! a project is, is a fact.

/// What kind of project it is, the smallest need first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Scripts or a web application.
    Plain,
    /// A front end that is built.
    FrontEnd,
    /// Numeric Python, notebooks.
    Numeric,
    /// Rust, Go, C, C++ or the JVM.
    Compiled,
    /// Thirty members and more, or a build like LLVM's.
    LargeCompiled,
    /// Deep learning.
    DeepLearning,
    /// Tuning or serving of language models.
    LanguageModel,
}

/// A machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Hardware threads.
    pub cores: u32,
    /// Memory in GiB.
    pub ram_gib: u32,
    /// Disk in GB.
    pub disk_gb: u32,
    /// How long it is wanted, in hours.
    pub hours: u32,
}

const fn size(cores: u32, ram_gib: u32, disk_gb: u32, hours: u32) -> Size {
    Size { cores, ram_gib, disk_gb, hours }
}

/// What is taken when nothing is recognised.
pub const UNKNOWN: Size = size(4, 8, 40, 24);

impl Class {
    /// What a project of this kind wants.
    #[must_use]
    pub const fn size(self) -> Size {
        match self {
            Self::Plain | Self::FrontEnd | Self::Compiled => size(4, 8, 20, 24),
            Self::Numeric | Self::DeepLearning => size(4, 16, 50, 24),
            Self::LargeCompiled => size(8, 32, 100, 24),
            Self::LanguageModel => size(8, 64, 200, 48),
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::FrontEnd => "front-end",
            Self::Numeric => "numeric",
            Self::Compiled => "compiled",
            Self::LargeCompiled => "large-compiled",
            Self::DeepLearning => "deep-learning",
            Self::LanguageModel => "language-model",
        }
    }

    /// The least a machine for it has; nothing lowers that but the user.
    #[must_use]
    pub const fn floor(self) -> Size {
        match self {
            Self::Compiled | Self::LargeCompiled => size(4, 8, 20, 1),
            _ => FLOOR,
        }
    }
}

/// The least any machine has.
pub(crate) const FLOOR: Size = size(2, 4, 20, 1);

/// What a service beside the project adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceClass {
    /// Elasticsearch, Cassandra, ClickHouse, Spark, Neo4j.
    Heavy,
    /// Kafka, MongoDB.
    Medium,
    /// An application on the JVM.
    Jvm,
    /// A database, a queue, anything else.
    Light,
}

impl ServiceClass {
    /// What it adds; the hours mean nothing.
    #[must_use]
    pub const fn size(self) -> Size {
        match self {
            Self::Heavy => size(2, 4, 30, 0),
            Self::Medium => size(1, 2, 30, 0),
            Self::Jvm => size(1, 2, 10, 0),
            Self::Light => size(1, 1, 5, 0),
        }
    }

    /// The class of a service by its image and name.
    #[must_use]
    pub fn of(image: &str, name: &str) -> Self {
        let text = format!("{image} {name}").to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["elasticsearch", "opensearch", "cassandra", "clickhouse", "spark", "neo4j"]) {
            Self::Heavy
        } else if has(&["kafka", "mongo"]) {
            Self::Medium
        } else if has(&["openjdk", "temurin", "maven", "gradle", "tomcat", "jetty", "corretto", "java"]) {
            Self::Jvm
        } else {
            Self::Light
        }
    }
}

/// Memory that services want once, in GiB.
pub(crate) const SERVICES_RAM: u32 = 4;
/// What NVMe adds to the disk, in GB.
pub(crate) const NVME_DISK: u32 = 500;
/// Hours a lease may have.
pub const HOURS: std::ops::RangeInclusive<u32> = 1..=168;

/// Memory of a virtual machine's heap as a service: one and a half times, in GiB.
#[must_use]
pub const fn heap(gib_tenths: u32) -> u32 {
    let tenths = gib_tenths.saturating_mul(3) / 2;
    tenths.div_ceil(10)
}

/// Memory beside cards in GiB: twice what they have together in GB, up to 512.
#[must_use]
pub fn ram_for_cards(gb: u32) -> u32 {
    gb.saturating_mul(2).min(512)
}

/// The next usual size of memory.
#[must_use]
pub fn usual_ram(gib: u32) -> u32 {
    next(gib, &[4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768])
}

/// The next usual size of a disk.
#[must_use]
pub(crate) fn usual_disk(gb: u32) -> u32 {
    next(gb, &[20, 40, 50, 100, 200, 500])
}

/// The next even number.
#[must_use]
pub const fn even(cores: u32) -> u32 {
    cores.saturating_add(cores % 2)
}

/// The first of some steps that is not smaller, then steps that double: 1024 or 1000 and so on.
fn next(wanted: u32, steps: &[u32]) -> u32 {
    if let Some(step) = steps.iter().find(|step| **step >= wanted) {
        return *step;
    }
    let mut step: u32 = if steps.last() == Some(&768) { 1024 } else { 1000 };
    while step < wanted {
        step = match step.checked_mul(2) {
            Some(double) => double,
            None => return wanted,
        };
    }
    step
}

/// Hours to lease for a run time: half as much again, rounded up, and two for setting up.
#[must_use]
pub(crate) fn hours_for(run_time_hours: u32) -> u32 {
    (run_time_hours.saturating_mul(3)).div_ceil(2).saturating_add(2).clamp(*HOURS.start(), *HOURS.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_row() {
        let row = |class: Class| {
            let s = class.size();
            format!("{} {}/{}/{}/{}", class.name(), s.cores, s.ram_gib, s.disk_gb, s.hours)
        };
        let classes = [
            Class::Plain,
            Class::FrontEnd,
            Class::Numeric,
            Class::Compiled,
            Class::LargeCompiled,
            Class::DeepLearning,
            Class::LanguageModel,
        ];
        insta::assert_snapshot!(classes.map(row).join(" · "), @"plain 4/8/20/24 · front-end 4/8/20/24 · numeric 4/16/50/24 · compiled 4/8/20/24 · large-compiled 8/32/100/24 · deep-learning 4/16/50/24 · language-model 8/64/200/48");
        assert_eq!(UNKNOWN, size(4, 8, 40, 24));
        assert_eq!(Class::Compiled.floor(), size(4, 8, 20, 1));
        assert_eq!(Class::Plain.floor(), size(2, 4, 20, 1));
    }

    #[test]
    fn every_service_has_its_row() {
        for (image, wanted) in [
            ("docker.elastic.co/elasticsearch/elasticsearch:8", ServiceClass::Heavy),
            ("cassandra:4", ServiceClass::Heavy),
            ("clickhouse/clickhouse-server", ServiceClass::Heavy),
            ("bitnami/spark", ServiceClass::Heavy),
            ("neo4j", ServiceClass::Heavy),
            ("confluentinc/cp-kafka", ServiceClass::Medium),
            ("mongo:6", ServiceClass::Medium),
            ("eclipse-temurin:17", ServiceClass::Jvm),
            ("postgres:15", ServiceClass::Light),
            ("redis", ServiceClass::Light),
            ("", ServiceClass::Light),
        ] {
            assert_eq!(ServiceClass::of(image, ""), wanted, "{image}");
        }
        let sizes = [ServiceClass::Heavy, ServiceClass::Medium, ServiceClass::Jvm, ServiceClass::Light]
            .map(|class| (class.size().ram_gib, class.size().cores, class.size().disk_gb));
        assert_eq!(sizes, [(4, 2, 30), (2, 1, 30), (2, 1, 10), (1, 1, 5)]);
    }

    #[test]
    fn sizes_are_rounded_up_to_usual_ones() {
        assert_eq!(
            [1, 4, 5, 65, 97, 129, 700, 769, 1025, 5000].map(usual_ram),
            [4, 4, 8, 96, 128, 192, 768, 1024, 2048, 8192]
        );
        assert_eq!([1, 21, 41, 51, 101, 201, 501, 1001].map(usual_disk), [20, 40, 50, 100, 200, 500, 1000, 2000]);
        assert_eq!([1, 2, 3].map(even), [2, 2, 4]);
        assert_eq!(usual_ram(u32::MAX), u32::MAX);
        assert_eq!([5, 20, 33].map(heap), [1, 3, 5]);
    }

    #[test]
    fn hours_are_one_and_a_half_times_the_run_time_plus_two() {
        assert_eq!([1, 2, 10, 110, 111, 1000].map(hours_for), [4, 5, 17, 167, 168, 168]);
    }
}
