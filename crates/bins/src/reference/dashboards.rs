//! The page of dashboards: each that ships in `deploy/grafana`, as a picture of its panels and as a table of what they ask for.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Page, anchor, cell, code, compare};

/// Pixels of a unit of Grafana's grid, which is 24 wide.
const UNIT: u64 = 40;
/// A unit of height.
const TALL: u64 = 14;

fn number(panel: &Value, key: &str) -> u64 {
    panel["gridPos"][key].as_u64().unwrap_or_default()
}

fn title(value: &Value) -> &str {
    value["title"].as_str().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What a kind of panel looks like: a number, bars or curves, inside a frame.
fn sketch(kind: &str, [x, y, width, height]: [u64; 4]) -> String {
    let (left, right, bottom) = (x + 14, x + width - 14, y + height - 16);
    let (top, middle) = (y + 34, x + width / 2);
    match kind {
        "stat" => format!(
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-size=\"20\" fill=\"#7ee787\">0</text>",
            y + height - 10
        ),
        "bargauge" => (0..3)
            .map(|bar| {
                let (at, long) = (top + bar * 18, (right - left) * (4 - bar) / 5);
                format!("<rect x=\"{left}\" y=\"{at}\" width=\"{long}\" height=\"10\" fill=\"#f2cc60\"/>")
            })
            .collect(),
        _ => ["#7ee787", "#79c0ff"]
            .iter()
            .enumerate()
            .map(|(line, color)| {
                let (line, third) = (line as u64, (right - left) / 3);
                let (from, to) = (bottom - 8 - 12 * line, top + 10 + 16 * line);
                format!(
                    "<path d=\"M{left} {from}C{} {to} {} {bottom} {right} {to}\" fill=\"none\" stroke=\"{color}\"/>",
                    left + third,
                    left + 2 * third
                )
            })
            .collect(),
    }
}

fn picture(dashboard: &Value, panels: &[Value]) -> String {
    let bottom = panels.iter().map(|panel| number(panel, "y") + number(panel, "h")).max().unwrap_or(1);
    let (width, height) = (24 * UNIT + 8, bottom * TALL + 8);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#111217\"/>\n",
        escaped(title(dashboard))
    );
    for panel in panels {
        let frame @ [x, y, wide, tall] = [
            number(panel, "x") * UNIT + 6,
            number(panel, "y") * TALL + 6,
            number(panel, "w") * UNIT - 6,
            number(panel, "h") * TALL - 6,
        ];
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{tall}\" rx=\"3\" fill=\"#181b1f\" stroke=\"#2f3237\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"#d8d9da\">{}</text>{}",
            x + 10,
            y + 20,
            escaped(title(panel)),
            sketch(panel["type"].as_str().unwrap_or_default(), frame)
        );
    }
    out.push_str("</svg>\n");
    out
}

#[test]
fn the_page_of_dashboards_is_that_of_the_files() {
    let intro = "Dashboards for Grafana in [deploy/grafana](../../deploy/grafana), and what each panel asks Prometheus for. The pictures show\n\
        which panels there are, not values. [Metrics](metrics.md) says what is measured, [monitoring](../how-to/monitoring.md) how it is\n\
        collected.";
    let mut page = Page::new("dashboards.md", "Dashboards", intro);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let panels = dashboard["panels"].as_array().expect("a dashboard has panels");
        let name = title(&dashboard);
        let svg = format!("dashboard-{}.svg", anchor(name.rsplit('/').next().unwrap_or(name).trim()));
        compare(&svg, &picture(&dashboard, panels));
        page.heading(2, name);
        page.paragraph(&format!("![The panels of {name}]({svg})"));
        let rows = panels.iter().map(|panel| {
            let asked = panel["targets"].as_array().into_iter().flatten();
            let asked: Vec<_> = asked.filter_map(|target| target["expr"].as_str()).map(code).collect();
            [cell(title(panel)), asked.join("; ")]
        });
        page.table(["panel", "asks for"], &rows.collect::<Vec<_>>());
    }
    page.compare();
}
