//! Layers: the longest path decides how deep a node lies, and an edge over more than one layer gets a virtual vertex in each
//! layer that it passes. Edges that are too long for that are left to a side channel.

use super::graph::{Edge, Error, Graph, MOST_EDGES, MOST_NODES};
use super::table::{Lists, Table, number, predecessors, successors};

/// Virtual vertices that any graph may have, and how many more for each of its nodes.
const VIRTUAL: usize = 40_000;
const VIRTUAL_PER_NODE: usize = 4;

/// How an edge gets from its upper to its lower end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Route {
    /// To the next layer.
    #[default]
    Direct,
    /// By so many virtual vertices, the first of which is given.
    Virtual { first: u32, count: u32 },
    /// Past all boxes.
    Side,
}

/// A graph in layers: vertices are its nodes, then the virtual vertices; the neighbours of a vertex are one layer away.
#[derive(Debug)]
pub(super) struct Layers {
    /// Layer of each vertex.
    pub(super) of: Table<u32>,
    /// Number of layers.
    pub(super) count: u32,
    /// Layers above the rule.
    pub(super) upper: u32,
    /// Number of nodes; vertices from here on are virtual.
    pub(super) nodes: u32,
    /// Neighbours in the layer above.
    pub(super) up: Lists<u32>,
    /// Neighbours in the layer below.
    pub(super) down: Lists<u32>,
    /// Per edge of the graph.
    pub(super) routes: Vec<Route>,
    /// Edges that were visited.
    pub(super) work: u64,
}

impl Layers {
    /// Number of vertices.
    pub(super) fn vertices(&self) -> usize {
        self.of.values().len()
    }

    /// Number of edges between neighbours.
    pub(super) fn segments(&self) -> u64 {
        self.down.total() as u64
    }

    pub(super) fn is_virtual(&self, vertex: u32) -> bool {
        vertex >= self.nodes
    }
}

/// Puts a graph into layers.
pub(super) fn layers(graph: &Graph) -> Result<Layers, Error> {
    check(graph)?;
    let (nodes, edges) = (graph.nodes(), graph.edges());
    let below = successors(nodes, edges);
    let above = predecessors(nodes, edges);
    let (mut depth, upper) = longest_paths(&below, &above, number(graph.upper()))?;
    pull_sources(&mut depth, &below, &above, Rule { node: number(graph.upper()), layer: upper });
    let count = depth.values().iter().map(|depth| depth + 1).max().unwrap_or(0);
    let (routes, virtuals) = routes(nodes, edges, &depth);
    let mut of = depth.into_values();
    let segments = expand(edges, &routes, &mut of);
    let vertices = nodes + virtuals;
    let work = 4 * edges.len() as u64 + segments.len() as u64;
    Ok(Layers {
        up: predecessors(vertices, &segments),
        down: successors(vertices, &segments),
        of: of.into(),
        count,
        upper,
        nodes: number(nodes),
        routes,
        work,
    })
}

fn check(graph: &Graph) -> Result<(), Error> {
    let (nodes, edges) = (graph.nodes(), graph.edges());
    if nodes > MOST_NODES || edges.len() > MOST_EDGES {
        return Err(Error::TooLarge { nodes, edges: edges.len() });
    }
    for (edge, ends) in edges.iter().copied().enumerate() {
        if ends.from.max(ends.to) as usize >= nodes {
            return Err(Error::UnknownNode { edge, ends, nodes });
        }
        if ends.from as usize >= graph.upper() && (ends.to as usize) < graph.upper() {
            return Err(Error::Upwards { edge, ends });
        }
    }
    Ok(())
}

/// Where the rule lies: the first node and the first layer below it.
#[derive(Clone, Copy)]
struct Rule {
    node: u32,
    layer: u32,
}

/// Depth of each node: edges on the longest path to it, for those below the rule counted from the first layer below it. The number
/// of layers above the rule comes with them.
fn longest_paths(below: &Lists<u32>, above: &Lists<u32>, upper: u32) -> Result<(Table<u32>, u32), Error> {
    let nodes = below.len();
    let mut depth = Table::new(nodes as usize, 0_u32);
    let mut waits: Table<u32> = (0..nodes).map(|node| number(above.of(node).len())).collect::<Vec<_>>().into();
    let is_free = |waits: &Table<u32>, node: &u32| waits.at(*node) == 0;
    let mut ready: Vec<u32> = (0..upper).filter(|node| is_free(&waits, node)).collect();
    let mut later: Vec<u32> = (upper..nodes).filter(|node| is_free(&waits, node)).collect();
    let (mut done, mut floor) = (0, 0);
    while done < nodes {
        let Some(node) = ready.pop() else {
            if later.is_empty() {
                break;
            }
            // All above the rule are done, and what lies below it lies deeper than they.
            ready = std::mem::take(&mut later);
            for node in &ready {
                depth.set(*node, floor);
            }
            continue;
        };
        done += 1;
        let next = depth.at(node) + 1;
        if node < upper {
            floor = floor.max(next);
        }
        for target in below.of(node) {
            depth.change(*target, |depth| *depth = (*depth).max(next));
            waits.change(*target, |waits| *waits -= 1);
            if waits.at(*target) == 0 {
                let list = if (node < upper) == (*target < upper) { &mut ready } else { &mut later };
                list.push(*target);
            }
        }
    }
    if done == nodes {
        return Ok((depth, floor));
    }
    Err(Error::Cycle { node: on_cycle(above, &waits) })
}

/// A node on a cycle: walks up from a node that still waits, always to one that does, until a node comes again.
fn on_cycle(above: &Lists<u32>, waits: &Table<u32>) -> u32 {
    let mut seen = Table::new(above.len() as usize, false);
    let mut node = (0..above.len()).find(|node| waits.at(*node) > 0).unwrap_or(0);
    while !seen.at(node) {
        seen.set(node, true);
        node = above.of(node).iter().copied().find(|above| waits.at(*above) > 0).unwrap_or(node);
    }
    node
}

/// Moves each node that waits for nothing down to its first dependent; its edges get shorter, and no other node moves. One above
/// the rule stays above it.
fn pull_sources(depth: &mut Table<u32>, below: &Lists<u32>, above: &Lists<u32>, rule: Rule) {
    for node in (0..below.len()).filter(|node| above.of(*node).is_empty()) {
        if let Some(first) = below.of(node).iter().map(|target| depth.at(*target)).min() {
            let first = if node < rule.node { first.min(rule.layer) } else { first };
            depth.set(node, first.saturating_sub(1));
        }
    }
}

/// Gives virtual vertices to the shorter edges first, as long as there are some; returns their number too.
fn routes(nodes: usize, edges: &[Edge], depth: &Table<u32>) -> (Vec<Route>, usize) {
    let mut routes = Table::new(edges.len(), Route::Direct);
    let passed = |edge: &Edge| depth.at(edge.to).saturating_sub(depth.at(edge.from) + 1);
    let mut long: Vec<(u32, u32)> =
        (0..).zip(edges).map(|(number, edge)| (passed(edge), number)).filter(|(passed, _)| *passed > 0).collect();
    long.sort_unstable();
    let most = VIRTUAL + VIRTUAL_PER_NODE * nodes;
    let mut used = 0;
    for (passed, edge) in long {
        let route = if used + passed as usize <= most {
            let first = number(nodes + used);
            used += passed as usize;
            Route::Virtual { first, count: passed }
        } else {
            Route::Side
        };
        routes.set(edge, route);
    }
    (routes.into_values(), used)
}

/// The edges between neighbouring layers that stand for all edges but those of the side channel; appends the layers of the
/// virtual vertices.
fn expand(edges: &[Edge], routes: &[Route], layer: &mut Vec<u32>) -> Vec<Edge> {
    let mut segments = Vec::with_capacity(edges.len());
    let virtuals: usize =
        routes.iter().map(|route| if let Route::Virtual { count, .. } = route { *count as usize } else { 0 }).sum();
    let nodes = layer.len();
    layer.resize(nodes + virtuals, 0);
    for (edge, route) in edges.iter().zip(routes) {
        match route {
            Route::Direct => segments.push(*edge),
            Route::Side => {}
            Route::Virtual { first, count } => {
                let top = layer.get(edge.from as usize).copied().unwrap_or(0);
                let mut from = edge.from;
                for (vertex, layer_below) in (*first..first + count).zip(top + 1..) {
                    if let Some(layer) = layer.get_mut(vertex as usize) {
                        *layer = layer_below;
                    }
                    segments.push(Edge { from, to: vertex });
                    from = vertex;
                }
                segments.push(Edge { from, to: edge.to });
            }
        }
    }
    segments
}
