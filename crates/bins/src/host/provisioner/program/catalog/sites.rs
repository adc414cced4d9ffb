//! `catalog sites`: the sites that can be named, where they are, and whether there are credentials for them. Asks nobody.

use orlop_cloud::catalog::embedded;
use orlop_cloud::catalog::site::{SITES, site_named};
use serde_json::{Value, json};

use super::super::args::SitesArgs;
use super::super::document::Report;
use super::super::examine::Run;
use super::super::failure::Failure;
use super::super::settings::Settings;
use super::super::sign_in::Sources;
use crate::view::table::columns;
use crate::view::text::one_line;

/// `catalog sites`.
pub(super) fn sites(args: &SitesArgs, run: &mut Run) -> Result<Report, Failure> {
    let settings = Settings::read(args.output.env_file.as_deref())?;
    run.warnings.extend(settings.warnings.iter().cloned());
    let sources = Sources::read(&args.cloud, &settings)?;
    let mut all: Vec<Value> = SITES.iter().map(|site| known(site.name, &sources)).collect();
    let own = sources.own().into_iter().filter(|name| site_named(name).is_none());
    all.extend(own.map(|name| configured(&name, &sources)));
    Ok(Report { text: text(&all), data: json!({"sites": all}), failure: None })
}

/// A site of the table.
fn known(name: &str, sources: &Sources<'_>) -> Value {
    let table = embedded();
    let hosts: usize = table.at(name).map(|variant| variant.count).sum();
    let mut types: Vec<&str> = table.at(name).map(|variant| variant.node_type.as_str()).collect();
    types.dedup();
    site_named(name).map_or(Value::Null, |site| {
        json!({
            "site": site.name, "region": site.region, "auth_url": site.auth_url,
            "kind": if site.virtual_machines { "vm" } else { "baremetal" }, "credentials": sources.is_for(name),
            "types": types.len(), "hosts": hosts,
        })
    })
}

/// A cloud of clouds.yaml; what it has is known only to those who sign in.
fn configured(name: &str, sources: &Sources<'_>) -> Value {
    let (auth_url, region) = sources.place_of(name);
    json!({
        "site": name, "region": region, "auth_url": auth_url, "kind": null, "credentials": sources.is_for(name),
        "types": null, "hosts": null,
    })
}

fn text(all: &[Value]) -> String {
    let header = ["SITE", "REGION", "KIND", "CREDENTIALS", "TYPES", "HOSTS", "SIGN IN AT"];
    let cell = |site: &Value, key: &str| match site.get(key) {
        Some(Value::String(text)) => one_line(text, 120),
        Some(Value::Bool(yes)) => if *yes { "yes" } else { "no" }.to_owned(),
        Some(Value::Number(number)) if number.as_u64() == Some(0) => "-".to_owned(),
        None | Some(Value::Null) => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let row = |site: &Value| {
        ["site", "region", "kind", "credentials", "types", "hosts", "auth_url"].map(|key| cell(site, key)).to_vec()
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    columns(&header, &rows)
        + "\ntypes and hosts: of the built-in table; with credentials `catalog nodes` shows what is there now\n"
}
