//! `catalog nodes`: hardware by type, and how it stands in a window. Owns the table and the document.

use jiff::{SignedDuration, Timestamp};
use orlop_cloud::catalog::embedded;
use orlop_cloud::catalog::host::{Catalogue, Origin, Shape};
use orlop_cloud::catalog::stock::{Stock, stock};
use orlop_cloud::catalog::window::WindowRequest;
use orlop_cloud::provision::reference::Keep;
use orlop_core::machine::step::StepPhase;
use serde_json::{Value, json};

use super::super::args::NodesArgs;
use super::super::document::Report;
use super::super::examine::Run;
use super::super::failure::Failure;
use super::super::hidden::Hidden;
use super::super::request::{margin, start};
use super::super::settings::Settings;
use super::super::sign_in::Sources;
use super::{colour, seen, sites_of};
use crate::view::table::columns;
use crate::view::text::{Colour, Mark, one_line};

/// Hours of a window that nobody named.
const HOURS: u32 = 24;

/// What is known of the hardware of a site.
struct SiteStock {
    site: String,
    origin: Origin,
    stock: Vec<Stock>,
}

/// `catalog nodes`.
pub(super) async fn nodes(args: &NodesArgs, keep: Keep, run: &mut Run) -> Result<Report, Failure> {
    let settings = Settings::read(args.output.env_file.as_deref())?;
    run.warnings.extend(settings.warnings.iter().cloned());
    let sources = Sources::read(&args.cloud, &settings)?;
    let asked = WindowRequest {
        start: start(Timestamp::now(), args.span.start_delay_minutes),
        hours: args.span.lease_duration.unwrap_or(HOURS),
        within: args.span.start_within.0,
        margin: margin(&settings)?,
    };
    let state = settings.state_dir(args.output.state_dir.as_deref())?;
    let file = args.catalog_file.as_deref();
    let all = sources.sites(&args.site);
    let hidden = Hidden::new(file, &all, args.cloud.ca_cert.as_deref(), &settings, &state)?.keeping(keep);
    let sites = sites_of(&sources, &args.site, all.first().filter(|_| file.is_some()).map(String::as_str))?;
    let (mut stocks, mut away) = (Vec::new(), None);
    for site in &sites {
        let one = std::slice::from_ref(site);
        let seen = match seen(&sources, site, run).await {
            Err(failure) if failure.is_away() && sites.len() > 1 => {
                run.pass_over(site, &failure);
                away = Some(failure);
                continue;
            }
            other => other.map_err(|failure| failure.at_site(site, sites.len()))?,
        };
        let otherwise = match &seen {
            Some(seen) if seen.hosts.is_some() => embedded(),
            _ => hidden.catalogue(one, run).await?,
        };
        stocks.push(match seen {
            Some(seen) => stock_of(site, &seen.catalogue(otherwise), seen.allocations.as_deref(), &asked),
            None => stock_of(site, &otherwise, None, &asked),
        });
    }
    if let Some(failure) = away.filter(|_| stocks.is_empty()) {
        return Err(failure);
    }
    Ok(Report { text: text(&stocks, &asked, colour(&args.output)), data: data(&stocks, &asked), failure: None })
}

fn stock_of(
    site: &str,
    catalogue: &Catalogue,
    allocations: Option<&[orlop_cloud::catalog::window::Allocation]>,
    asked: &WindowRequest,
) -> SiteStock {
    // What is known of other hosts says nothing of those in a file or a table.
    let allocations = allocations.filter(|_| catalogue.origin == Origin::Live);
    SiteStock { site: site.to_owned(), origin: catalogue.origin, stock: stock(catalogue, site, allocations, asked) }
}

fn end(asked: &WindowRequest) -> Option<Timestamp> {
    asked.start.checked_add(SignedDuration::from_hours(i64::from(asked.hours))).ok()
}

fn data(stocks: &[SiteStock], asked: &WindowRequest) -> Value {
    let site = |one: &SiteStock| json!({"site": one.site, "source": one.origin});
    let nodes: Vec<&Stock> = stocks.iter().flat_map(|one| &one.stock).collect();
    json!({
        "window": {
            "start": asked.start.to_string(), "end": end(asked).map(|end| end.to_string()), "hours": asked.hours,
            "within_minutes": asked.within.as_mins(),
        },
        "sites": stocks.iter().map(site).collect::<Vec<_>>(),
        "nodes": nodes,
    })
}

fn text(stocks: &[SiteStock], asked: &WindowRequest, colour: Colour) -> String {
    let header =
        ["SITE", "TYPE", "HOSTS", "FREE", "FIRST START", "THREADS", "GiB", "DISKS GB", "CARDS", "FEATURES", "SU/h"];
    let rows: Vec<Vec<String>> = stocks.iter().flat_map(|one| &one.stock).map(|one| row(one, asked, colour)).collect();
    let mut out = columns(&header, &rows);
    let end = end(asked).map(|end| end.to_string()).unwrap_or_default();
    out.push_str(&format!("\nfree: for {} h from {} to {end}\n", asked.hours, asked.start));
    for one in stocks {
        out.push_str(&format!("{}: {}\n", one_line(&one.site, 40), words(one)));
    }
    out
}

fn words(one: &SiteStock) -> &'static str {
    match one.origin {
        Origin::Live => "as the site says now",
        Origin::File => "from the file that was given; whether hosts are free is not known",
        Origin::Public => "from the site's public description; whether hosts are free is not known",
        Origin::Hidden => "its hosts are hidden by the site; name them with --catalog-file",
        Origin::Embedded if one.stock.is_empty() => "nothing is known without credentials",
        Origin::Embedded => "from the built-in table; whether hosts are free, and rates, are not known",
    }
}

fn row(one: &Stock, asked: &WindowRequest, colour: Colour) -> Vec<String> {
    let free = match one.free {
        None if one.hosts.is_none() => "-".to_owned(),
        None => "?".to_owned(),
        Some(0) => Mark::of_step(StepPhase::Failed).paint("0", colour),
        Some(count) => Mark::of_step(StepPhase::Succeeded).paint(&count.to_string(), colour),
    };
    let start = match &one.first_start {
        Some(first) if *first == asked.start.to_string() => "now".to_owned(),
        Some(first) => first.clone(),
        None => "-".to_owned(),
    };
    let hardware = &one.hardware;
    vec![
        one_line(&one.site, 40),
        one_line(&one.node_type, 60),
        one.hosts.map_or_else(|| "-".to_owned(), |hosts| hosts.to_string()),
        free,
        start,
        hardware.threads.to_string(),
        hardware.ram_gib.to_string(),
        disks(hardware),
        cards(hardware),
        features(one),
        one.su_per_hour.map_or_else(|| "?".to_owned(), |rate| rate.to_string()),
    ]
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Disks by size, equal ones counted: `400+16x2000`.
fn disks(hardware: &Shape) -> String {
    let mut groups: Vec<(orlop_cloud::catalog::Disk, usize)> = Vec::new();
    for disk in &hardware.disks {
        match groups.last_mut() {
            Some((last, count)) if last == disk => *count += 1,
            _ => groups.push((*disk, 1)),
        }
    }
    let group = |(disk, count): &(orlop_cloud::catalog::Disk, usize)| {
        let times = if *count > 1 { format!("{count}x") } else { String::new() };
        format!("{times}{}{}", disk.gb, if disk.nvme { " NVMe" } else { "" })
    };
    or_dash(groups.iter().map(group).collect::<Vec<_>>().join("+"))
}

fn cards(hardware: &Shape) -> String {
    hardware.cards.as_ref().map_or_else(
        || "-".to_owned(),
        |cards| one_line(&format!("{}x {} {} GB", cards.count, cards.model, cards.memory_gb), 60),
    )
}

fn features(one: &Stock) -> String {
    let hardware = &one.hardware;
    let linked = hardware.cards.as_ref().is_some_and(|cards| cards.nvlink);
    let arm = hardware.arch == orlop_core::hardware::Arch::Arm64;
    let all = [
        (one.kind == "vm", "vm"),
        (arm, "aarch64"),
        (linked, "nvlink"),
        (hardware.infiniband, "infiniband"),
        (hardware.fpga, "fpga"),
        (hardware.nvdimm, "nvdimm"),
    ];
    or_dash(all.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect::<Vec<_>>().join(","))
}
