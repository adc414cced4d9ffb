//! The page of states: each state machine as a table and as a picture.

use orlop_core::machine::{self, Machine, Named, Row};

use super::{Page, cell, code, compare, picture};

fn list<T: Named>(all: &[T]) -> String {
    if all.len() == T::ALL.len() {
        "any".to_owned()
    } else {
        all.iter().map(|one| cell(one.as_str())).collect::<Vec<_>>().join(", ")
    }
}

fn row<S: Named, E: Named, G: Named>(row: &Row<S, E, G>) -> [String; 4] {
    let from = if row.from.is_empty() { "(new)".to_owned() } else { list(row.from) };
    let mut event = list(row.on);
    if let Some(guard) = row.guard {
        event.push_str(&format!("; if {}", cell(guard.as_str())));
    }
    let to = row.to.map_or_else(|| "the same".to_owned(), |to| code(to.as_str()));
    [from, event, to, row.effects.iter().map(|effect| cell(effect)).collect::<Vec<_>>().join("; ")]
}

fn section<S: Named, E: Named, G: Named>(page: &mut Page, about: &str, machine: &Machine<S, E, G>) {
    page.heading(2, machine.name());
    page.paragraph(about);
    let file = format!("states-{}.svg", machine.name().replace(' ', "-"));
    if let Some(svg) = picture::svg(machine) {
        compare(&file, &svg);
        page.paragraph(&format!("![States of {}]({file})", machine.name()));
    }
    page.table(["from", "event", "to", "what is done"], &machine.rows().iter().map(row).collect::<Vec<_>>());
}

#[test]
fn the_page_of_states_is_that_of_the_tables() {
    let intro = "How flows, steps, jobs, workers and leases live: the tables that the engines run by. Rows are tried in order; the first whose\n\
        condition holds is taken. What no row allows is refused and changes nothing. In the pictures the dot is where a life begins, a dashed\n\
        arrow leads back, and states with a thick frame end the life.";
    let mut page = Page::new("states.md", "States", intro);
    section(&mut page, "A `JobFlow`, by its phase.", &machine::flow::MACHINE);
    section(&mut page, "A step of a flow, by the state of the engine.", &machine::step::MACHINE);
    section(&mut page, "A job of a fleet, or an element of an array.", &machine::job::MACHINE);
    section(&mut page, "One attempt at a job on a worker.", &machine::attempt::MACHINE);
    section(&mut page, "A worker of a fleet.", &machine::worker::MACHINE);
    section(&mut page, "A tenant of a fleet.", &machine::tenant::MACHINE);
    section(&mut page, "A `Performer`.", &machine::performer::MACHINE);
    section(&mut page, "A `HourglassExecutor`.", &machine::executor::MACHINE);
    section(&mut page, "A deployment of the provisioner.", &machine::saga::MACHINE);
    section(&mut page, "A lease of hosts, as the cloud reports it.", &machine::lease::LEASE);
    section(&mut page, "A reservation of a lease, as the cloud reports it.", &machine::lease::RESERVATION);
    section(&mut page, "A server, as the cloud reports it.", &machine::server::MACHINE);
    page.compare();
}
