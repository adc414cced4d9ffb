//! Reading and checking the largest flow: 100,000 steps with full templates and 300,000 dependencies, as one YAML file of
//! about 30 MB. Run with `cargo bench -p orlop-dag --bench manifest`.

#![allow(missing_docs)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orlop_dag::manifest::{Limits, Options, Source, TextLimits, read, validate};

const STEPS: usize = 100_000;

fn flow() -> Arc<str> {
    let mut text = String::from(
        "apiVersion: workflow.kube-zen.io/v1alpha1\nkind: JobFlow\nmetadata: {name: big}\nspec:\n  steps:\n",
    );
    for n in 0..STEPS {
        let dependencies =
            if n == 0 { String::new() } else { format!("step-{:06}, step-{:06}, step-{:06}", n / 2, n / 3, n / 4) };
        let written = write!(
            text,
            "  - name: step-{n:06}\n    dependencies: [{dependencies}]\n    template:\n      apiVersion: batch/v1\n      kind: Job\n      spec:\n        template:\n          spec:\n            containers:\n              - name: main\n                image: busybox\n                command: [\"true\"]\n"
        );
        debug_assert!(written.is_ok(), "a String takes any text");
    }
    text.into()
}

fn manifests(criterion: &mut Criterion) {
    let text = flow();
    let mut options = Options::new(Limits::elsewhere());
    options.text = TextLimits::large();
    let mut group = criterion.benchmark_group("manifest of 100,000 steps");
    group.sample_size(10).throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("parse", |bench| bench.iter(|| Source::parse("flow.yaml", Arc::clone(&text), &options.text)));
    group.bench_function("read", |bench| bench.iter(|| read("flow.yaml", Arc::clone(&text), &options)));
    if let Ok(reading) = read("flow.yaml", Arc::clone(&text), &options)
        && let Some(manifest) = reading.manifests.first()
    {
        group.bench_function("validate", |bench| bench.iter(|| validate(black_box(&manifest.flow), &options.limits)));
    }
    group.finish();
}

criterion_group!(benches, manifests);
criterion_main!(benches);
