//! The drawing of a plan: parallel columns, one entry for each step, as a page or another program wants them.

use std::sync::Arc;

use orlop_core::attempt::StepIndex;
use orlop_core::name::sha256_hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fold::{Folded, Group, GroupKind, fold};
use super::graph::{Edge, Error, Graph, Point, Size, Spacing};
use super::layered::{Layout, VERSION, of};
use super::table::{Table, number};
use crate::plan::Plan;

/// A plan with more steps than this is folded, unless another way is asked for.
pub const FOLDED_ABOVE: usize = 400;

/// A drawing with more bends than this has none: that many edges are read one by one, not by the way they take.
pub const MOST_BENDS: usize = 10_000;

/// Space between the frame of an opened group and its members.
const PADDING: i64 = 16;

/// Height of the title of an opened group.
const TITLE: i64 = 24;

/// Digits of the digest of a template.
const DIGITS: usize = 10;

/// Whether a drawing is folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fold {
    /// If the plan has more than [`FOLDED_ABOVE`] steps.
    #[default]
    Auto,
    /// It is.
    Always,
    /// It is not.
    Never,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NodeKind {
    /// It runs.
    Job,
    /// A person decides it.
    Manual,
    /// It runs once for each item; however many these are, it is one node.
    FanOut,
}

/// What a step needs of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Needs {
    /// That it succeeds or its failure is tolerated, or what the `depends` of the step says.
    Satisfied,
    /// That it has ended or is skipped.
    Settled,
}

/// The drawing of a plan. It depends on the plan alone, so it is the same before, while and after the flow runs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PlanLayout {
    /// The steps; the place in each column is the index of the step.
    pub nodes: Nodes,
    /// What the steps wait for, ordered by `from`, then `to`.
    pub edges: Edges,
    /// Where edges bend; an edge that is not named is a straight line.
    pub bends: Bends,
    /// The groups; `nodes.group` is a place in each column.
    pub groups: Groups,
    /// Size of the drawing with all groups closed.
    pub size: Size,
    /// Size of each box, of a closed group too.
    pub node_size: Size,
    /// Where the rule lies below which the `finally` steps are, from the top.
    pub finally_y: Option<i64>,
    /// Number of waves.
    pub waves: u32,
    /// How it was made.
    pub layout: Facts,
}

/// Columns of the steps.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Nodes {
    /// Name.
    pub name: Vec<Arc<str>>,
    /// What it is.
    pub kind: Vec<NodeKind>,
    /// Whether it is one of `finally`.
    pub finally: Vec<bool>,
    /// Wave in which it could run, counted from 0.
    pub wave: Vec<u32>,
    /// Digest of its template, if it has one: steps with different digests have different templates.
    pub template: Vec<Option<String>>,
    /// Its group, if it is in one.
    pub group: Vec<Option<u32>>,
    /// Left side of its box; of a member of a group counted from the left side of the opened group.
    pub x: Vec<i64>,
    /// Upper side of its box; of a member of a group counted from the upper side of the opened group.
    pub y: Vec<i64>,
}

/// Columns of the edges.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Edges {
    /// The step that is waited for.
    pub from: Vec<u32>,
    /// The step that waits.
    pub to: Vec<u32>,
    /// What it waits for.
    pub needs: Vec<Needs>,
}

/// Columns of the bends, ordered by edge, then on the way from its upper to its lower end.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Bends {
    /// The edge; of several that lead from one closed group or step to another the first.
    pub edge: Vec<u32>,
    /// From the left.
    pub x: Vec<i64>,
    /// From the top.
    pub y: Vec<i64>,
}

/// Columns of the groups.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Groups {
    /// Why its members are a group.
    pub kind: Vec<GroupKind>,
    /// What the names of its members begin with; may be empty.
    pub prefix: Vec<String>,
    /// Number of its members.
    pub members: Vec<u32>,
    /// Left side of its box.
    pub x: Vec<i64>,
    /// Upper side of its box.
    pub y: Vec<i64>,
    /// Width when it is open.
    pub width: Vec<i64>,
    /// Height when it is open.
    pub height: Vec<i64>,
}

/// How a drawing was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Facts {
    /// [`VERSION`].
    pub version: u32,
    /// Crossings of edges between neighbouring layers, with all groups closed.
    pub crossings: u64,
    /// Whether the order was improved for as long as that helped; otherwise the plan is too large for it.
    pub complete: bool,
}

/// Draws a plan, with `finally` below a rule.
///
/// ```
/// use orlop_dag::layout::{Fold, of_plan};
/// use orlop_dag::prelude::*;
/// let steps = [Step::new("fetch"), Step::new("build").after(["fetch"]), Step::new("test").after(["fetch"])];
/// let drawing = of_plan(&Plan::build(FlowSpec::new(steps).into())?, Fold::Auto)?;
/// assert_eq!((drawing.nodes.x, drawing.nodes.y), (vec![92, 0, 184], vec![0, 96, 96]));
/// assert_eq!((drawing.edges.from, drawing.edges.to), (vec![0, 0], vec![1, 2]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the plan has more steps or edges than can be laid out.
pub fn of_plan(plan: &Plan, folding: Fold) -> Result<PlanLayout, Error> {
    let mut drawing = Drawing::new(plan);
    match folding {
        Fold::Never => drawing.whole()?,
        Fold::Auto if plan.len() <= FOLDED_ABOVE => drawing.whole()?,
        Fold::Auto | Fold::Always => drawing.folded()?,
    }
    drawing.bound();
    Ok(drawing.out)
}

/// A drawing while it is made.
struct Drawing<'a> {
    plan: &'a Plan,
    graph: Graph,
    spacing: Spacing,
    out: PlanLayout,
}

impl<'a> Drawing<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut edges = Edges::default();
        for from in 0..number(plan.len()) {
            for (to, needs) in plan.dependents(StepIndex(from)) {
                edges.from.push(from);
                edges.to.push(to.0);
                edges.needs.push(if needs { Needs::Satisfied } else { Needs::Settled });
            }
        }
        let ends = edges.from.iter().zip(&edges.to).map(|(from, to)| Edge { from: *from, to: *to });
        let graph = Graph::new(plan.len()).with_edges(ends).below(plan.main_len());
        let spacing = Spacing::default();
        let (nodes, waves) = steps(plan);
        let out = PlanLayout {
            nodes,
            edges,
            bends: Bends::default(),
            groups: Groups::default(),
            size: Size::default(),
            node_size: Size { width: i64::from(spacing.width), height: i64::from(spacing.height) },
            finally_y: None,
            waves,
            layout: Facts { version: VERSION, crossings: 0, complete: true },
        };
        Self { plan, graph, spacing, out }
    }

    fn whole(&mut self) -> Result<(), Error> {
        let layout = of(&self.graph, &self.spacing)?;
        self.frame(&layout);
        for edge in 0..number(self.graph.edges().len()) {
            self.bend(&layout, edge, edge);
        }
        self.place(&layout.nodes);
        Ok(())
    }

    fn folded(&mut self) -> Result<(), Error> {
        let node_kinds: Vec<u32> = self.out.nodes.kind.iter().map(|kind| *kind as u32).collect();
        let edge_kinds: Vec<u32> = self.out.edges.needs.iter().map(|needs| *needs as u32).collect();
        let folded = fold(&self.graph, &node_kinds, &edge_kinds);
        let layout = of(&folded.graph, &self.spacing)?;
        self.frame(&layout);
        self.first_edges(&folded, &layout);
        let nodes = Table::from(layout.nodes);
        let mut places = Table::from(folded.node_of.iter().map(|node| nodes.at(*node)).collect::<Vec<_>>());
        for group in &folded.groups {
            self.group(group, &mut places)?;
        }
        self.place(places.values());
        self.out.nodes.group = folded.group_of;
        Ok(())
    }

    fn place(&mut self, places: &[Point]) {
        self.out.nodes.x = places.iter().map(|at| at.x).collect();
        self.out.nodes.y = places.iter().map(|at| at.y).collect();
    }

    fn frame(&mut self, layout: &Layout) {
        self.out.size = layout.size;
        self.out.finally_y = layout.rule;
        self.out.layout.crossings = layout.crossings;
        self.out.layout.complete = layout.complete;
    }

    /// Takes the bends out if there are too many.
    fn bound(&mut self) {
        if self.out.bends.edge.len() > MOST_BENDS {
            self.out.bends = Bends::default();
        }
    }

    /// Bends of an edge of the layout, for an edge of the plan.
    fn bend(&mut self, layout: &Layout, drawn: u32, edge: u32) {
        for bend in layout.bends(drawn) {
            self.out.bends.edge.push(edge);
            self.out.bends.x.push(bend.x);
            self.out.bends.y.push(bend.y);
        }
    }

    /// Bends of the edges of a folded graph, each for the first edge of the plan that it stands for.
    fn first_edges(&mut self, folded: &Folded, layout: &Layout) {
        let mut seen = Table::new(folded.graph.edges().len(), false);
        for (edge, drawn) in (0..).zip(&folded.edge_of) {
            if let Some(drawn) = drawn.filter(|drawn| !seen.at(*drawn)) {
                seen.set(drawn, true);
                self.bend(layout, drawn, edge);
            }
        }
    }

    /// Lays the members of a group out within its frame, in place of where the closed group lies.
    fn group(&mut self, group: &Group, places: &mut Table<Point>) -> Result<(), Error> {
        let closed = group.members.first().map(|member| places.at(*member)).unwrap_or_default();
        let inner = of(&inside(group), &Spacing { columns: row(group), ..self.spacing })?;
        for (member, at) in group.members.iter().zip(&inner.nodes) {
            places.set(*member, Point { x: at.x + PADDING, y: at.y + PADDING + TITLE });
        }
        let groups = &mut self.out.groups;
        groups.kind.push(group.kind);
        groups.prefix.push(prefix(self.plan, &group.members));
        groups.members.push(number(group.members.len()));
        groups.x.push(closed.x);
        groups.y.push(closed.y);
        groups.width.push(inner.size.width + 2 * PADDING);
        groups.height.push(inner.size.height + 2 * PADDING + TITLE);
        Ok(())
    }
}

/// The members of a group and their edges.
fn inside(group: &Group) -> Graph {
    let members = number(group.members.len());
    let next = (1..members).map(|to| Edge { from: to - 1, to });
    Graph::new(group.members.len()).with_edges(next.filter(|_| group.kind == GroupKind::Chain))
}

/// Boxes in a row of an opened group: about as many as make it as wide as a screen is to its height.
fn row(group: &Group) -> u16 {
    let root = (group.members.len() / 2).isqrt().clamp(4, usize::from(Spacing::default().columns));
    u16::try_from(root).unwrap_or(u16::MAX)
}

/// What the names of all these steps begin with.
fn prefix(plan: &Plan, steps: &[u32]) -> String {
    let mut names = steps.iter().map(|step| plan.name(StepIndex(*step)));
    let first = names.next().unwrap_or_default();
    let same = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let shared = names.map(|name| same(first, name)).min().unwrap_or(first.len());
    first.get(..shared).unwrap_or_default().to_owned()
}

/// The columns of the steps without places, and the number of waves.
fn steps(plan: &Plan) -> (Nodes, u32) {
    let mut wave = Table::new(plan.len(), 0);
    let waves = plan.ranks().waves();
    for (number, steps) in (0..).zip(&waves) {
        steps.iter().for_each(|step| wave.set(*step, number));
    }
    let mut nodes = Nodes { wave: wave.into_values(), group: vec![None; plan.len()], ..Nodes::default() };
    for index in 0..number(plan.len()) {
        let Some((planned, step)) = plan.get(index).zip(plan.step(StepIndex(index))) else { continue };
        let digest = |template: &Value| sha256_hex(template.to_string().as_bytes(), DIGITS);
        nodes.name.push(Arc::clone(&planned.name));
        nodes.kind.push(match &planned.fan_out {
            Some(_) => NodeKind::FanOut,
            None if planned.manual => NodeKind::Manual,
            None => NodeKind::Job,
        });
        nodes.finally.push(planned.finally);
        nodes.template.push(step.template.as_ref().map(digest));
    }
    (nodes, number(waves.len()))
}
