//! A state machine as a picture: states in columns by their distance from the beginning, those that end it last; one arrow for all
//! transitions between two states, dashed where it leads back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use orlop_core::machine::{Machine, Named};

const WIDE: usize = 150;
const HIGH: usize = 34;
/// From one column, and from one row, to the next.
const COLUMN: usize = 205;
const ROW: usize = 62;
/// So many columns stand beside one another; further ones stand below them.
const BESIDE: usize = 5;
/// A picture with more arrows than that shows nothing.
const LEGIBLE: usize = 45;

/// Where things are, in the order of the states.
struct Layout {
    places: Vec<(usize, usize)>,
    columns: usize,
    rows: usize,
}

/// Pairs of states that a transition leads between; births lead from none.
fn arrows<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>) -> BTreeSet<(Option<usize>, usize)> {
    let place = |state: S| S::ALL.iter().position(|one| *one == state).expect("it is one of all");
    let mut arrows = BTreeSet::new();
    for row in machine.rows() {
        let Some(to) = row.to else { continue };
        arrows.extend(row.from.iter().map(|from| (Some(place(*from)), place(to))));
        if row.from.is_empty() {
            arrows.insert((None, place(to)));
        }
    }
    arrows.retain(|(from, to)| *from != Some(*to));
    arrows
}

/// `last` are the states that end the life.
fn layout(states: usize, arrows: &BTreeSet<(Option<usize>, usize)>, last: &BTreeSet<usize>) -> Layout {
    let mut column: BTreeMap<usize, usize> = BTreeMap::new();
    let mut reached: Vec<usize> = arrows.iter().filter(|(from, _)| from.is_none()).map(|(_, to)| *to).collect();
    let mut distance = 0;
    while !reached.is_empty() {
        reached.retain(|state| !column.contains_key(state));
        column.extend(reached.iter().map(|state| (*state, distance)));
        reached = arrows
            .iter()
            .filter(|(from, _)| from.is_some_and(|from| reached.contains(&from)))
            .map(|(_, to)| *to)
            .collect();
        distance += 1;
    }
    let ongoing = column.iter().filter(|(state, _)| !last.contains(state)).map(|(_, column)| *column);
    let end = ongoing.max().unwrap_or_default() + 1;
    column.extend(last.iter().map(|state| (*state, end)));
    let mut heights = BTreeMap::new();
    let places: Vec<_> = (0..states)
        .map(|state| {
            let column = column.get(&state).copied().unwrap_or_default();
            let row = heights.entry(column).or_insert(0);
            *row += 1;
            (column, *row - 1)
        })
        .collect();
    let rows = heights.values().copied().max().unwrap_or(1);
    Layout { columns: heights.len(), rows, places }
}

/// Where a state is: its column in the order of the life, and its corner in the picture.
#[derive(Clone, Copy)]
struct Place {
    column: usize,
    left: usize,
    top: usize,
}

/// An arrow between two states, or from the beginning to one.
fn arrow(from: Option<Place>, to: Place) -> String {
    let (x, y) = (to.left, to.top);
    let path = match from {
        None => {
            let (left, dot, middle) = (x - 18, x - 20, y + HIGH / 2);
            format!(
                "<path d=\"M{left} {middle}L{x} {middle}\" class=\"a\"/>\
                 <circle cx=\"{dot}\" cy=\"{middle}\" r=\"5\" fill=\"#475569\"/>"
            )
        }
        Some(Place { column, left, top }) if column < to.column && left < x => {
            let (from, middle) = (left + WIDE, (left + WIDE + x) / 2);
            let (start, end) = (top + HIGH / 2, y + HIGH / 2);
            format!("<path d=\"M{from} {start}C{middle} {start} {middle} {end} {x} {end}\" class=\"a\"/>")
        }
        Some(Place { column, left, top }) if column == to.column && top.abs_diff(y) == ROW => {
            let (start, end, x) =
                if top < y { (top + HIGH, y, left + WIDE / 2 - 30) } else { (top, y + HIGH, left + WIDE / 2 + 30) };
            format!("<path d=\"M{x} {start}L{x} {end}\" class=\"a\"/>")
        }
        Some(Place { column, left, top }) if column == to.column => {
            let (edge, side, start, end) = (left + WIDE, left + WIDE + 40, top + HIGH / 2, y + HIGH / 2);
            format!("<path d=\"M{edge} {start}C{side} {start} {side} {end} {edge} {end}\" class=\"a\"/>")
        }
        // To the columns below.
        Some(Place { column, left, top }) if column < to.column => {
            let (start, end, middle) = (left + WIDE / 2, x + WIDE / 2, (top + HIGH + y) / 2);
            format!("<path d=\"M{start} {}C{start} {middle} {end} {middle} {end} {y}\" class=\"a\"/>", top + HIGH)
        }
        Some(Place { left, top, .. }) => {
            let low = top.max(y) + HIGH + 22;
            let (start, end) = (left + WIDE / 2, x + WIDE / 2);
            format!("<path d=\"M{start} {}C{start} {low} {end} {low} {end} {}\" class=\"a b\"/>", top + HIGH, y + HIGH)
        }
    };
    path + "\n"
}

/// The picture as SVG; none where it would have too many arrows to be read.
pub(super) fn svg<S: Named, E: Named, G: Named>(machine: &Machine<S, E, G>) -> Option<String> {
    let arrows = arrows(machine);
    if arrows.len() > LEGIBLE {
        return None;
    }
    let ends = |(_, state): &(usize, &S)| machine.terminal().contains(*state);
    let last = S::ALL.iter().enumerate().filter(ends).map(|(place, _)| place).collect();
    let Layout { places, columns, rows } = layout(S::ALL.len(), &arrows, &last);
    let block = rows * ROW + 30;
    let at = |state: usize| {
        let (column, row) = places[state];
        let left = 30 + column % BESIDE * COLUMN;
        Place { column, left, top: 24 + column / BESIDE * block + row * ROW }
    };
    let (width, height) = (30 + columns.min(BESIDE) * COLUMN, 24 + columns.div_ceil(BESIDE) * block);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\">\n\
         <title>States: {}</title>\n\
         <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" fill=\"#475569\"/></marker></defs>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        machine.name()
    );
    for (from, to) in &arrows {
        out.push_str(&arrow(from.map(at), at(*to)));
    }
    for (place, state) in S::ALL.iter().enumerate() {
        if !arrows.iter().any(|(from, to)| *to == place || *from == Some(place)) {
            continue;
        }
        let Place { left: x, top: y, .. } = at(place);
        let (fill, line) = if last.contains(&place) { ("#e2e8f0", 2) } else { ("#f0f9ff", 1) };
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDE}\" height=\"{HIGH}\" rx=\"6\" fill=\"{fill}\" stroke=\"#334155\" stroke-width=\"{line}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#0f172a\">{}</text>",
            x + WIDE / 2,
            y + 22,
            state.as_str()
        );
    }
    out.push_str("<style>.a{fill:none;stroke:#475569;marker-end:url(#end)}.b{stroke-dasharray:5 4}</style>\n</svg>\n");
    Some(out)
}
