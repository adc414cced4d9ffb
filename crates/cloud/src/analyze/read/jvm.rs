//! Builds for the JVM: Maven, Gradle, sbt. Owns the patterns; the files are programs, and none is run.

use super::super::fact::{At, Finding, SOFT, Sink};
use super::super::sizing::{Class, heap};
use super::{locate, size};

/// Memory that work with clusters in one process wants, in GiB.
const CLUSTER_RAM: u32 = 16;

/// Reads a build file or the settings of one.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    sink.add(
        At { line: 1, quote: text.lines().next().unwrap_or_default() },
        "class-of-project",
        Finding::Class(Class::Compiled),
        SOFT,
    );
    let small = text.to_lowercase();
    for name in
        ["org.apache.spark", "spark-core", "spark-sql", "org.apache.flink", "flink-", "org.apache.hadoop", "hadoop-"]
    {
        if small.contains(name) {
            sink.add(locate(text, name), "cluster-library", Finding::Ram(CLUSTER_RAM), SOFT);
            break;
        }
    }
    if let Some(tenths) = size::heap_tenths(text) {
        sink.add(locate(text, "-Xmx"), "heap", Finding::Ram(heap(tenths)), SOFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("pom.xml", &mut facts, &mut notes));
        facts.iter().map(|fact| format!("{} {:?}", fact.line, fact.finding)).collect::<Vec<_>>().join(" · ")
    }

    #[test]
    fn builds_for_the_jvm() {
        assert_eq!(reported("plugins { id 'java' }"), "1 Class(Compiled)");
        assert_eq!(reported("a\n<artifactId>spark-core_2.12</artifactId>"), "1 Class(Compiled) · 2 Ram(16)");
        assert_eq!(reported("org.gradle.jvmargs=-Xmx8g -Xms1g"), "1 Class(Compiled) · 1 Ram(12)");
        assert_eq!(reported("-Xmx512m"), "1 Class(Compiled) · 1 Ram(1)");
        assert_eq!(reported(""), "1 Class(Compiled)");
    }
}
