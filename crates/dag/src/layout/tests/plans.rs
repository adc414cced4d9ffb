//! Drawings of plans.

use std::collections::BTreeSet;

use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::step::Step;
use proptest::prelude::*;

use super::super::{Edge, Fold, Graph, GroupKind, MOST_BENDS, PlanLayout, Point, Size, of_plan};
use super::folding::repetitive;
use crate::plan::Plan;

fn planned(spec: FlowSpec) -> Plan {
    Plan::build(spec.into()).unwrap()
}

/// A plan of the shape of a graph.
fn shaped(graph: &Graph) -> Plan {
    let name = |node: u32| format!("n{node:04}");
    let step = |node: u32| {
        let needs: BTreeSet<String> =
            graph.edges().iter().filter(|edge| edge.to == node).map(|edge| name(edge.from)).collect();
        Step { name: name(node), dependencies: needs.into_iter().collect(), ..Step::default() }
    };
    let mut steps: Vec<Step> = (0..graph.nodes() as u32).map(step).collect();
    let finally = steps.split_off(graph.upper());
    planned(FlowSpec { steps, finally, ..FlowSpec::default() })
}

/// The graph without the edges across the rule, which no plan has.
fn without_edges_across(graph: &Graph) -> Graph {
    let upper = graph.upper() as u32;
    let edges = graph.edges().iter().copied().filter(|edge| (edge.from < upper) == (edge.to < upper));
    Graph::new(graph.nodes()).with_edges(edges).below(graph.upper())
}

/// A box of a drawing with some groups open.
#[derive(Clone, Copy, Debug)]
struct Area {
    at: Point,
    size: Size,
}

impl Area {
    fn overlaps(&self, other: &Self) -> bool {
        let apart = |a: i64, extent: i64, b: i64| a + extent <= b;
        !(apart(self.at.x, self.size.width, other.at.x)
            || apart(other.at.x, other.size.width, self.at.x)
            || apart(self.at.y, self.size.height, other.at.y)
            || apart(other.at.y, other.size.height, self.at.y))
    }

    fn holds(&self, other: &Self) -> bool {
        let within = |a: i64, extent: i64, b: i64, inner: i64| a <= b && b + inner <= a + extent;
        within(self.at.x, self.size.width, other.at.x, other.size.width)
            && within(self.at.y, self.size.height, other.at.y, other.size.height)
    }
}

/// Opens groups as the documentation of the module says: the boxes and frames that lie side by side then, and the members of each
/// frame.
fn opened(drawing: &PlanLayout, open: &[bool]) -> (Vec<Area>, Vec<(Area, Vec<Area>)>) {
    let groups = &drawing.groups;
    let is_open = |group: usize| open[group % open.len()];
    // For each lower or right side of a closed box that is opened: how much the highest or widest frame is larger.
    let grown = |corner: &[i64], closed: i64, frame: &[i64]| {
        let mut sides = std::collections::BTreeMap::new();
        for group in (0..corner.len()).filter(|group| is_open(*group)) {
            let most = sides.entry(corner[group] + closed).or_insert(0);
            *most = (frame[group] - closed).max(*most);
        }
        sides
    };
    let right = grown(&groups.x, drawing.node_size.width, &groups.width);
    let lower = grown(&groups.y, drawing.node_size.height, &groups.height);
    let moved = |x: i64, y: i64| {
        let (dx, dy): (i64, i64) = (right.range(..=x).map(|at| at.1).sum(), lower.range(..=y).map(|at| at.1).sum());
        Point { x: x + dx, y: y + dy }
    };
    let (mut areas, mut frames) = (Vec::new(), Vec::new());
    for group in 0..groups.x.len() {
        let at = moved(groups.x[group], groups.y[group]);
        if is_open(group) {
            frames.push((
                Area { at, size: Size { width: groups.width[group], height: groups.height[group] } },
                Vec::new(),
            ));
        } else {
            areas.push(Area { at, size: drawing.node_size });
            frames.push((Area { at, size: drawing.node_size }, Vec::new()));
        }
    }
    for (node, group) in drawing.nodes.group.iter().enumerate() {
        let (x, y) = (drawing.nodes.x[node], drawing.nodes.y[node]);
        match group.map(|group| group as usize) {
            None => areas.push(Area { at: moved(x, y), size: drawing.node_size }),
            Some(group) if is_open(group) => {
                let corner = frames[group].0.at;
                let at = Point { x: corner.x + x, y: corner.y + y };
                frames[group].1.push(Area { at, size: drawing.node_size });
            }
            Some(_) => {}
        }
    }
    let frames: Vec<_> = (0..).zip(frames).filter(|(group, _)| is_open(*group)).map(|(_, frame)| frame).collect();
    areas.extend(frames.iter().map(|(frame, _)| *frame));
    (areas, frames)
}

fn none_overlap(areas: &[Area]) {
    for (number, area) in areas.iter().enumerate() {
        assert!(!areas[..number].iter().any(|other| area.overlaps(other)), "{area:?}");
    }
}

proptest! {
    #[test]
    fn whichever_groups_are_open_no_box_lies_on_another(
        graph in repetitive(),
        open in prop::collection::vec(any::<bool>(), 1..6),
    ) {
        let plan = shaped(&without_edges_across(&graph));
        let drawing = of_plan(&plan, Fold::Always).unwrap();
        let (areas, frames) = opened(&drawing, &open);
        none_overlap(&areas);
        for (frame, members) in frames {
            none_overlap(&members);
            prop_assert!(members.iter().all(|member| frame.holds(member)));
        }
        let members: usize = drawing.groups.members.iter().map(|count| *count as usize).sum();
        prop_assert_eq!(members, drawing.nodes.group.iter().flatten().count());
    }

    #[test]
    fn a_drawing_has_every_step_and_edge_of_its_plan_in_the_order_of_the_plan(graph in repetitive()) {
        let plan = shaped(&without_edges_across(&graph));
        for fold in [Fold::Auto, Fold::Always, Fold::Never] {
            let drawing = of_plan(&plan, fold).unwrap();
            let nodes = &drawing.nodes;
            let lengths = [nodes.kind.len(), nodes.wave.len(), nodes.template.len(), nodes.group.len(), nodes.x.len(), nodes.y.len()];
            prop_assert_eq!(lengths, [plan.len(); 6]);
            let names: Vec<String> = nodes.name.iter().map(ToString::to_string).collect();
            prop_assert_eq!(names, (0..plan.len()).map(|node| format!("n{node:04}")).collect::<Vec<_>>());
            let edges: Vec<(u32, u32)> = drawing.edges.from.iter().copied().zip(drawing.edges.to.iter().copied()).collect();
            prop_assert!(edges.is_sorted());
            prop_assert_eq!(edges.len(), plan.edges());
            prop_assert!(edges.iter().all(|(from, to)| nodes.wave[*from as usize] < nodes.wave[*to as usize]));
        }
    }
}

/// A step over a list, one that a person decides, a condition that only orders, and steps of `finally`.
fn small() -> Plan {
    let shards = Step::new("shards").after(["fetch"]).for_each("fetch:$.list");
    let ask = Step::manual("ask", "Go on?").after(["shards"]);
    let report = Step::new("report").after(["fetch"]).when("steps.ask.phase == 'Succeeded'");
    let report = report.template(serde_json::json!({"kind": "Job"}));
    let steps = [Step::new("fetch"), shards, ask, report].to_vec();
    let finally = [Step::new("notify"), Step::new("clean").after(["notify"])].to_vec();
    planned(FlowSpec { steps, finally, ..FlowSpec::default() })
}

#[test]
fn a_small_plan_is_drawn_as_parallel_columns() {
    let drawing = of_plan(&small(), Fold::Auto).unwrap();
    let lines = serde_json::to_string(&drawing).unwrap().replace("],\"", "],\n\"").replace("},\"", "},\n\"");
    insta::assert_snapshot!(lines, @r#"
    {"nodes":{"name":["fetch","shards","ask","report","notify","clean"],
    "kind":["job","fan-out","manual","job","job","job"],
    "finally":[false,false,false,false,true,true],
    "wave":[0,1,2,3,4,5],
    "template":[null,null,null,"b805ab8bd2",null,null],
    "group":[null,null,null,null,null,null],
    "x":[64,0,0,48,48,48],
    "y":[0,96,192,288,424,520]},
    "edges":{"from":[0,0,1,2,4],
    "to":[1,3,2,3,5],
    "needs":["satisfied","satisfied","satisfied","settled","satisfied"]},
    "bends":{"edge":[1,1],
    "x":[172,172],
    "y":[96,232]},
    "groups":{"kind":[],
    "prefix":[],
    "members":[],
    "x":[],
    "y":[],
    "width":[],
    "height":[]},
    "size":{"width":224,"height":560},
    "node_size":{"width":160,"height":40},
    "finally_y":376,"waves":6,"layout":{"version":1,"crossings":0,"complete":true}}
    "#);
}

/// A flow of `parts` equal steps between two others, and a path of ten steps after them.
fn wide(parts: usize) -> Plan {
    let part = |number: usize| format!("part-{number:03}");
    let mut steps = vec![Step::new("begin")];
    steps.extend((0..parts).map(|number| Step::new(part(number)).after(["begin"])));
    steps.push(Step::new("join").after((0..parts).map(part).collect::<Vec<_>>().iter().map(String::as_str)));
    let mut last = "join".to_owned();
    for number in 0..10 {
        let name = format!("stage-{number}");
        steps.push(Step::new(name.as_str()).after([last.as_str()]));
        last = name;
    }
    planned(FlowSpec::new(steps))
}

#[test]
fn plans_of_more_than_400_steps_are_folded_unless_asked_otherwise() {
    assert_eq!(wide(388).len(), 400);
    let groups = |plan: &Plan, fold: Fold| of_plan(plan, fold).unwrap().groups.members;
    assert!(groups(&wide(388), Fold::Auto).is_empty());
    assert_eq!(groups(&wide(388), Fold::Always), [388, 9]);
    assert_eq!(groups(&wide(389), Fold::Auto), [389, 9]);
    assert!(groups(&wide(389), Fold::Never).is_empty());
}

#[test]
fn a_group_is_named_by_what_its_members_begin_with_and_opens_into_rows_or_a_path() {
    let drawing = of_plan(&wide(389), Fold::Auto).unwrap();
    assert_eq!(drawing.groups.kind, [GroupKind::Parallel, GroupKind::Chain]);
    assert_eq!(drawing.groups.prefix, ["part-", "stage-"]);
    let of = |group: u32| -> Vec<Point> {
        let nodes = &drawing.nodes;
        let places = nodes.x.iter().zip(&nodes.y).zip(&nodes.group).filter(|(_, of)| **of == Some(group));
        places.map(|((x, y), _)| Point { x: *x, y: *y }).collect()
    };
    let rows: BTreeSet<i64> = of(0).iter().map(|at| at.y).collect();
    let columns: BTreeSet<i64> = of(0).iter().map(|at| at.x).collect();
    assert_eq!((rows.len(), columns.len()), (30, 13));
    assert!(of(1).is_sorted_by(|above, below| above.x == below.x && above.y < below.y));
}

#[test]
fn a_drawing_with_too_many_bends_has_none() {
    let tangled = |nodes: u32| {
        let graph = (0..nodes).flat_map(|from| (from + 1..nodes).map(move |to| Edge { from, to }));
        of_plan(&shaped(&Graph::new(nodes as usize).with_edges(graph)), Fold::Never).unwrap().bends.edge.len()
    };
    assert!((1..=MOST_BENDS).contains(&tangled(20)));
    assert_eq!(tangled(80), 0);
}
