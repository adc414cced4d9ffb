//! The answer as people read it.

use orlop_core::hardware::placement::Placement;
use serde_json::Value;

use super::dialect::{Answer, Fleet, NodeVerdict, Pod, Refusal, Site, Translation, conditions};

/// The answer as a text.
pub(super) fn text(answer: &Answer) -> String {
    let mut out = String::new();
    section(&mut out, "asked for", &asked(answer));
    section(&mut out, "kubernetes", &translated(&answer.kubernetes, kubernetes));
    section(&mut out, "openstack", &translated(&answer.openstack, site));
    section(&mut out, "docker", &translated(&answer.docker, members));
    section(&mut out, "fleet", &translated(&answer.fleet, fleet));
    for (what, judged) in [("nodes", &answer.nodes), ("hosts", &answer.hosts)] {
        if let Some(judged) = judged {
            let fitting = judged.iter().filter(|one| one.fits).count();
            section(&mut out, &format!("{what}: {fitting} of {} fit", judged.len()), &verdicts(judged));
        }
    }
    out
}

fn verdicts(judged: &[NodeVerdict]) -> Vec<(String, String)> {
    let one = |node: &NodeVerdict| {
        let why: Vec<&str> = node.reasons.iter().map(|reason| reason.message.as_str()).collect();
        line(&node.name, if node.fits { "fits".to_owned() } else { why.join("; ") })
    };
    judged.iter().map(one).collect()
}

/// A heading and lines of names and values, the values in one column.
fn section(out: &mut String, title: &str, lines: &[(String, String)]) {
    if !out.is_empty() {
        out.push('\n');
    }
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    out.push_str(title);
    out.push('\n');
    for (name, value) in lines {
        out.push_str(&format!("  {name:width$}  {value}\n"));
    }
}

fn line(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn translated<T>(translation: &Translation<T>, becomes: impl Fn(&T) -> Vec<(String, String)>) -> Vec<(String, String)> {
    match translation {
        Translation::Becomes(value) => {
            let lines = becomes(value);
            if lines.is_empty() { vec![line("nothing", "special")] } else { lines }
        }
        Translation::Refused(Refusal { error, help }) => {
            vec![line("refused", error.clone()), line("help", help.clone())]
        }
    }
}

fn asked(answer: &Answer) -> Vec<(String, String)> {
    let resolved = &answer.resolved;
    let mut lines = Vec::new();
    if let Some(gpu) = &resolved.gpu {
        lines.push(line("gpu", format!("{} × {} ({})", gpu.count, gpu.kind, gpu.class)));
        if let Some(products) = &gpu.products {
            let names: Vec<&str> = products.iter().map(|product| product.name.as_str()).collect();
            lines.push(line("products", names.join(", ")));
        }
    }
    lines.extend(resolved.tee.map(|tee| line("tee", format!("{} {}", tee.level, tee.kind))));
    lines.extend(resolved.arch.map(|arch| line("arch", arch.to_string())));
    lines.extend(resolved.labels.iter().map(|(key, value)| line("label", format!("{key}={value}"))));
    lines.extend(answer.warnings.iter().map(|warning| line("warning", warning)));
    if lines.is_empty() { vec![line("nothing", "special")] } else { lines }
}

fn kubernetes(pod: &Pod) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let spec = |name: &str| pod.pod.get(name).filter(|value| !value.is_null());
    for (name, label) in [
        ("nodeSelector", "nodeSelector"),
        ("affinity", "affinity"),
        ("tolerations", "tolerations"),
        ("runtimeClassName", "runtimeClassName"),
        ("resourceClaims", "resourceClaims"),
    ] {
        lines.extend(spec(name).map(|value| line(label, scalar(value))));
    }
    let resources = pod.pod.pointer("/containers/0/resources");
    lines.extend(resources.map(|value| line("resources", value.to_string())));
    lines.extend(pod.claim_template.iter().map(|template| {
        line("claim", template.pointer("/spec/spec/devices/requests").unwrap_or(template).to_string())
    }));
    lines.extend(pod.notes.iter().map(|note| line("note", note.to_string())));
    let families: Vec<String> = pod.label_families.iter().map(ToString::to_string).collect();
    // Those of the vendors count wherever nothing else is said.
    lines.extend((families.len() > 1).then(|| line("labels of", families.join(", "))));
    lines
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn members(value: &Value) -> Vec<(String, String)> {
    let members = value.as_object().into_iter().flatten();
    members.filter(|(_, value)| !value.is_null()).map(|(name, value)| line(name, scalar(value))).collect()
}

fn placement(placement: &Placement) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> =
        placement.device.iter().map(|device| line("devices", device.to_string())).collect();
    lines.extend(conditions(placement).into_iter().map(|condition| line("needs", condition)));
    lines.extend(placement.preferred.iter().map(|wish| line("prefers", wish.alternative.to_string())));
    if !placement.resources.is_zero() {
        lines.push(line("resources", placement.resources.to_string()));
    }
    lines.extend(placement.notes.iter().map(|note| line("note", note.to_string())));
    lines
}

fn site(site: &Site) -> Vec<(String, String)> {
    let mut lines = placement(&site.placement);
    lines.extend(site.reserve.iter().map(|candidate| line("reserve", candidate.filter.to_string())));
    lines
}

fn fleet(fleet: &Fleet) -> Vec<(String, String)> {
    let mut lines = placement(&fleet.placement);
    lines.push(match &fleet.job {
        Translation::Becomes(job) => line("job", serde_json::to_string(job).unwrap_or_default()),
        Translation::Refused(refusal) => line("job", format!("refused: {}", refusal.error)),
    });
    lines
}
