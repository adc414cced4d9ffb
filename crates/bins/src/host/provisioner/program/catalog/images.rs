//! `catalog images`: images of a site, and which of them are chosen without being named. Owns the table and the document.

use orlop_cloud::analyze::os::Os;
use orlop_cloud::catalog::host::Origin;
use orlop_cloud::catalog::image::{Image, Name, usual};
use orlop_cloud::provision::site::Seen;
use orlop_core::machine::step::StepPhase;
use serde_json::{Value, json};

use super::super::args::CloudImagesArgs;
use super::super::document::Report;
use super::super::examine::Run;
use super::super::failure::Failure;
use super::super::settings::Settings;
use super::super::sign_in::Sources;
use super::{colour, seen, sites_of};
use crate::view::table::columns;
use crate::view::text::{Colour, Mark, one_line};

/// An image of a site.
struct Shown {
    site: String,
    image: Image,
    /// Whether it is chosen by rule; nothing where only its name is known.
    trusted: Option<bool>,
    /// Why it is not.
    why: Option<&'static str>,
}

/// `catalog images`.
pub(super) async fn images(args: &CloudImagesArgs, run: &mut Run) -> Result<Report, Failure> {
    let settings = Settings::read(args.output.env_file.as_deref())?;
    run.warnings.extend(settings.warnings.iter().cloned());
    let sources = Sources::read(&args.cloud, &settings)?;
    let (mut shown, mut origins, mut away) = (Vec::new(), Vec::new(), None);
    let sites = sites_of(&sources, &args.site, None)?;
    let count = sites.len();
    for site in sites {
        let seen = match seen(&sources, &site, run).await {
            Err(failure) if failure.is_away() && count > 1 => {
                run.pass_over(&site, &failure);
                away = Some(failure);
                continue;
            }
            other => other.map_err(|failure| failure.at_site(&site, count))?,
        };
        match seen {
            Some(seen) => {
                shown.extend(live(&seen));
                origins.push((site, Origin::Live));
            }
            None => {
                let known = |image| Shown { site: site.clone(), image, trusted: None, why: None };
                shown.extend(usual().into_iter().map(known));
                origins.push((site, Origin::Embedded));
            }
        }
    }
    if let Some(failure) = away.filter(|_| origins.is_empty()) {
        return Err(failure);
    }
    let data = json!({
        "sites": origins.iter().map(|(site, origin)| json!({"site": site, "source": origin})).collect::<Vec<_>>(),
        "images": shown.iter().map(value).collect::<Vec<_>>(),
    });
    Ok(Report { text: text(&shown, &origins, colour(&args.output)), data, failure: None })
}

/// The images of a site, those that may be chosen by rule first.
fn live(seen: &Seen) -> Vec<Shown> {
    let is_chameleon = seen.is_chameleon();
    let why = |image: &Image| match (seen.trusts(image), is_chameleon) {
        (true, _) => None,
        (false, true) if image.visibility == "public" => Some("not built from the site's own sources"),
        (false, _) => Some("not public"),
    };
    let shown = |image: &Image| {
        let why = why(image);
        Shown { site: seen.site.clone(), trusted: Some(why.is_none()), why, image: image.clone() }
    };
    let mut all: Vec<Shown> = seen.images.iter().map(shown).collect();
    all.sort_by(|a, b| {
        (a.why.is_some(), &a.image.name, &a.image.id).cmp(&(b.why.is_some(), &b.image.name, &b.image.id))
    });
    all
}

/// System and version, as its name says, else as it says itself.
fn system(image: &Image) -> (String, String) {
    match Name::read(&image.name) {
        Some(name) => {
            let os = Os { kind: name.os, version: name.version, mapped: false };
            (name.os.name().to_owned(), os.version_text())
        }
        None => image.distro.clone(),
    }
}

fn value(shown: &Shown) -> Value {
    let image = &shown.image;
    let (os, version) = system(image);
    json!({
        "site": shown.site, "id": Some(&image.id).filter(|id| !id.is_empty()), "name": image.name, "os": os, "version": version,
        "trusted": shown.trusted, "why_not": shown.why, "visibility": image.visibility,
        "created_at": Some(&image.created_at).filter(|at| !at.is_empty()), "bytes": image.bytes,
        "min_disk_gb": image.min_disk_gb, "min_ram_mib": image.min_ram_mib, "user": image.user(),
    })
}

fn text(shown: &[Shown], origins: &[(String, Origin)], colour: Colour) -> String {
    let header = ["SITE", "NAME", "TRUSTED", "SYSTEM", "USER", "GB", "MIN GB", "CREATED", "ID"];
    let rows: Vec<Vec<String>> = shown.iter().map(|one| row(one, colour)).collect();
    let mut out = columns(&header, &rows) + "\n";
    for (site, origin) in origins {
        let words = match origin {
            Origin::Live => "as the site says now; others than trusted ones are taken only by --image",
            _ => "usual names; what is really there is known only with credentials",
        };
        out.push_str(&format!("{}: {words}\n", one_line(site, 40)));
    }
    out
}

fn row(shown: &Shown, colour: Colour) -> Vec<String> {
    let image = &shown.image;
    let (os, version) = system(image);
    let or_dash = |text: &str| if text.trim().is_empty() { "-".to_owned() } else { one_line(text.trim(), 60) };
    let trust = match (shown.trusted, shown.why) {
        (None, _) => "?".to_owned(),
        (Some(true), _) => Mark::of_step(StepPhase::Succeeded).paint("yes", colour),
        (Some(false), why) => {
            Mark::of_step(StepPhase::Failed).paint(&format!("no: {}", why.unwrap_or_default()), colour)
        }
    };
    let tenths = image.bytes.div_ceil(100_000_000);
    let size = if tenths == 0 { "-".to_owned() } else { format!("{}.{}", tenths / 10, tenths % 10) };
    vec![
        one_line(&shown.site, 40),
        one_line(&image.name, 80),
        trust,
        or_dash(&format!("{os} {version}")),
        or_dash(image.user().unwrap_or_default()),
        size,
        if image.min_disk_gb == 0 { "-".to_owned() } else { image.min_disk_gb.to_string() },
        or_dash(&image.created_at),
        or_dash(&image.id),
    ]
}
