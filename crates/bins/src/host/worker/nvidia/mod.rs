//! The GPUs of NVIDIA on this machine, and the slices of those that are divided (MIG), as `nvidia-smi` lists them. Where it does not
//! answer, whole devices as the driver tells of them in `/proc`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use orlop_cloud::runtime::worker::GpuDevice;
use orlop_core::hardware::gpu::{Catalogue, MigProfile, ModelKey, Vendor, parse_gpu_type};

use super::gpus::Gpu;
use super::{nvlink, tool};

/// How long an answer is waited for: where a device is lost, the program hangs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the driver tells of devices.
const DRIVER: &str = "/proc/driver/nvidia/gpus";
/// What the list of devices does not say of them.
const DETAILS: [&str; 2] = ["--query-gpu=index,memory.total,mig.mode.current", "--format=csv,noheader,nounits"];

/// A device as it is listed.
#[derive(Debug, Default)]
struct Card {
    index: u32,
    name: String,
    uuid: Option<String>,
    memory_mib: Option<u64>,
    /// Whether it can be had in slices only, of which there may be none yet.
    is_divided: bool,
    slices: Vec<Slice>,
}

/// A slice as it is listed.
#[derive(Debug)]
struct Slice {
    profile: String,
    uuid: String,
}

/// All devices that can be given to attempts.
pub(super) fn detect() -> Vec<Gpu> {
    detect_by(Path::new("nvidia-smi"), Path::new(DRIVER))
}

fn detect_by(program: &Path, driver: &Path) -> Vec<Gpu> {
    let ask = |arguments: &[&str]| {
        let answer = tool::ask(Command::new(program).args(arguments), PATIENCE);
        if answer.is_none() && driver.exists() {
            tracing::info!(arguments = arguments.join(" "), "`nvidia-smi` does not answer");
        }
        answer
    };
    let Some(list) = ask(&["-L"]) else { return offered(known_to(driver), false) };
    let mut cards = listed(&list);
    if !cards.is_empty() {
        add_details(&mut cards, &ask(&DETAILS).unwrap_or_default());
    }
    let links = if cards.len() > 1 { ask(&["topo", "-m"]) } else { None };
    let nvlink = links.is_some_and(|table| nvlink::connects_all(&table, cards.len()));
    offered(cards, nvlink)
}

/// Reads `nvidia-smi -L`: a line for each device, below it one for each of its slices.
fn listed(list: &str) -> Vec<Card> {
    let mut cards: Vec<Card> = Vec::new();
    for line in list.lines().map(str::trim) {
        let (text, id) = line.rsplit_once("(UUID:").unwrap_or((line, ""));
        let uuid = uuid(id.trim_end_matches(')'));
        if let Some((number, name)) = text.strip_prefix("GPU ").and_then(|text| text.split_once(':')) {
            let Ok(index) = number.parse() else { continue };
            cards.push(Card { index, name: name.trim().to_owned(), uuid, ..Card::default() });
        } else if let (Some(slice), Some(uuid), Some(card)) = (text.strip_prefix("MIG "), uuid, cards.last_mut()) {
            let profile = slice.split_whitespace().next().unwrap_or_default().to_owned();
            card.is_divided = true;
            card.slices.push(Slice { profile, uuid });
        }
    }
    cards
}

/// A UUID, where it is one: a driver that has not started a device yet writes question marks.
fn uuid(text: &str) -> Option<String> {
    let text = text.trim();
    let is_named = text.starts_with("GPU-") || text.starts_with("MIG-");
    let is_plain = text.chars().all(|ch| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '/'));
    (is_named && is_plain).then(|| text.to_owned())
}

/// Reads lines of number, memory in MiB and mode; `[N/A]` and `[Not Supported]` say nothing.
fn add_details(cards: &mut [Card], lines: &str) {
    for line in lines.lines() {
        let mut fields = line.split(',').map(str::trim);
        let Some(index) = fields.next().and_then(|index| index.parse::<u32>().ok()) else { continue };
        let Some(card) = cards.iter_mut().find(|card| card.index == index) else { continue };
        card.memory_mib = fields.next().and_then(|mib| mib.parse().ok());
        card.is_divided |= fields.next() == Some("Enabled");
    }
}

/// The devices that the driver tells of, by their minor numbers. It tells neither memory nor slices.
fn known_to(driver: &Path) -> Vec<Card> {
    let mut cards: Vec<Card> = Vec::new();
    for entry in fs::read_dir(driver).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path().join("information")).unwrap_or_default();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
        let index = field("Device Minor:").and_then(|minor| minor.parse().ok());
        let (Some(index), Some(name)) = (index, field("Model:")) else { continue };
        let uuid = field("GPU UUID:").and_then(uuid);
        cards.push(Card { index, name: name.to_owned(), uuid, ..Card::default() });
    }
    cards.sort_by_key(|card| card.index);
    cards
}

/// What of these devices is offered: whole ones, and of divided ones their slices.
fn offered(cards: Vec<Card>, nvlink: bool) -> Vec<Gpu> {
    // CUDA does not number whole devices as `nvidia-smi` does once it sees slices of others.
    let has_slices = cards.iter().any(|card| card.is_divided);
    let mut all = Vec::new();
    for card in cards {
        let read = parse_gpu_type(&card.name).unwrap_or_default();
        let model = read.model.map_or_else(|| key(&card.name), String::from);
        if !card.is_divided {
            let gib = read.memory_gib.or_else(|| Some(nominal_gib(&model, card.memory_mib?)));
            let given = card.uuid.clone().filter(|_| has_slices);
            let device = GpuDevice { uuid: given, ..GpuDevice::numbered("nvidia", card.index) };
            let memory_bytes = gib.map_or(0, |gib| u64::from(gib) << 30);
            all.push(Gpu { device, model, uuid: card.uuid, memory_bytes, nvlink });
            continue;
        }
        if card.slices.is_empty() {
            tracing::info!(device = card.index, "MIG is enabled and it has no slices: it is not offered");
        }
        for Slice { profile, uuid } in card.slices {
            let Some((profile, model)) =
                profile.parse().ok().and_then(|read: MigProfile| Some((read, read.model_key(&model)?)))
            else {
                tracing::info!(device = card.index, profile, "slices of this kind are not offered");
                continue;
            };
            let device = GpuDevice { uuid: Some(uuid.clone()), ..GpuDevice::numbered("nvidia", card.index) };
            let memory_bytes = u64::from(profile.memory_gb) << 30;
            all.push(Gpu { device, model: model.into(), uuid: Some(uuid), memory_bytes, nvlink: false });
        }
    }
    all
}

/// Nominal memory of a device, of which a driver leaves a little less: that of a product of its model, else the next whole GiB.
fn nominal_gib(model: &str, mib: u64) -> u32 {
    let products = ModelKey::new(model).ok().and_then(|key| Catalogue::built_in().model(key.as_str()));
    let sizes = products.into_iter().flat_map(|model| &model.products).map(|product| product.memory_gib);
    let fits =
        |gib: &u32| Catalogue::built_in().threshold_mib(Vendor::Nvidia, *gib) < mib && mib <= u64::from(*gib) << 10;
    sizes.filter(fits).min().unwrap_or_else(|| u32::try_from(mib.div_ceil(1024)).unwrap_or(u32::MAX))
}

/// A name that no table knows, as the key of a model: its letters and digits.
fn key(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.trim_start_matches("nvidia").chars().filter(char::is_ascii_alphanumeric).take(32).collect()
}

#[cfg(test)]
mod tests;
