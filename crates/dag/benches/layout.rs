//! The layout of graphs at the sizes of its contract: 2,000 nodes with 4,000 edges and 10,000 with 20,000, which lead over at most
//! 200 places; 100,000 with 300,000 in 334 layers; and the shapes that a careless layout would not survive. Beside them stand the
//! same plans folded. Run with `cargo bench -p orlop-dag --bench layout`.

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::step::Step;
use orlop_dag::layout::{Edge, Fold, Graph, Spacing, of, of_plan};
use orlop_dag::plan::Plan;

/// Marsaglia's xorshift of 32 bits: the same graphs can be made in any language.
struct Random(u32);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % bound
    }
}

/// Edges over at most `reach` places.
fn near(nodes: u32, edges: u32, reach: u32) -> Graph {
    let mut random = Random(7);
    let edge = |number: u32| {
        let to = 1 + number % (nodes - 1);
        Edge { from: to - 1 - random.below(reach.min(to)), to }
    };
    Graph::new(nodes as usize).with_edges((0..edges).map(edge))
}

/// Edges from each layer to the next.
fn layered(nodes: u32, edges: u32, layers: u32) -> Graph {
    let mut random = Random(7);
    let width = nodes / layers;
    let edge = |_| {
        let layer = random.below(layers - 1);
        Edge { from: layer * width + random.below(width), to: (layer + 1) * width + random.below(width) }
    };
    Graph::new(nodes as usize).with_edges((0..edges).map(edge))
}

fn graphs(criterion: &mut Criterion) {
    let all = [
        ("2,000 nodes, 4,000 edges", near(2_000, 4_000, 200)),
        ("10,000 nodes, 20,000 edges", near(10_000, 20_000, 200)),
        ("100,000 nodes, 300,000 edges", layered(100_000, 300_000, 334)),
        ("chain of 100,000", near(100_000, 99_999, 1)),
        ("star of 100,000", Graph::new(100_000).with_edges((1..100_000).map(|to| Edge { from: 0, to }))),
        (
            "1,000 after 1,000",
            Graph::new(2_000).with_edges((0..1_000).flat_map(|from| (1_000..2_000).map(move |to| Edge { from, to }))),
        ),
    ];
    let mut group = criterion.benchmark_group("layout");
    group.sample_size(10);
    for (name, graph) in all {
        group.throughput(Throughput::Elements(graph.nodes() as u64));
        group.bench_function(name, |bench| bench.iter(|| of(black_box(&graph), &Spacing::default())));
    }
    group.finish();
}

/// Steps that need two of the 200 before them.
fn tangled(steps: u32) -> FlowSpec {
    let mut random = Random(7);
    let name = |number: u32| format!("step-{number:06}");
    let step = |number: u32| {
        let mut needs = [0, 0].map(|_| number.saturating_sub(1 + random.below(200)));
        needs.sort_unstable();
        let needs = needs.into_iter().take(if needs[0] == needs[1] { 1 } else { 2 }).filter(|need| *need < number);
        Step::new(name(number)).after(needs.map(name).collect::<Vec<_>>())
    };
    FlowSpec::new((0..steps).map(step).collect::<Vec<_>>())
}

/// Ten stages of equal steps, each after one step that waits for all of the stage before.
fn staged(steps: u32) -> FlowSpec {
    let part = |stage: u32, number: u32| format!("part-{stage}-{number:05}");
    let mut all = Vec::new();
    for stage in 0..10 {
        let before = (0..steps / 10).map(|number| part(stage.max(1) - 1, number)).filter(|_| stage > 0);
        all.push(Step::new(format!("join-{stage}")).after(before.collect::<Vec<_>>()));
        all.extend((0..steps / 10).map(|number| Step::new(part(stage, number)).after([format!("join-{stage}")])));
    }
    FlowSpec::new(all)
}

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan of 10,000 steps");
    group.sample_size(10);
    for (shape, spec) in [("tangled", tangled(10_000)), ("staged", staged(10_000))] {
        let plan = Plan::build(spec.into()).unwrap_or_else(|errors| unreachable!("the flow plans: {errors:?}"));
        for (name, fold) in [("folded", Fold::Always), ("whole", Fold::Never)] {
            group.bench_function(BenchmarkId::new(shape, name), |bench| bench.iter(|| of_plan(black_box(&plan), fold)));
        }
    }
    group.finish();
}

criterion_group!(benches, graphs, plans);
criterion_main!(benches);
