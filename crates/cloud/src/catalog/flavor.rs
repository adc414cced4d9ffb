//! Flavors of virtual machines as types. Owns what a flavor says of itself: its size, and cards in its
//! extra specs and its name. Where it does not say, nothing is made up: it has no card, or one without memory.

use orlop_core::hardware::Arch;
use serde_json::Value;

use super::host::{Cards, Disk, Host, Shape, Variant};
use crate::analyze::card::{CARDS, Card};

/// Flavors that are read.
const MAX_FLAVORS: usize = 10_000;

/// What makes a variant a type of virtual machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmType {
    /// The flavor's id.
    pub id: String,
    /// Whether its card is a slice of one.
    pub vgpu: bool,
    /// Threads of the dearest host that it may run on; 0 where nobody says.
    pub host_threads: u32,
}

/// A flavor of virtual machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flavor {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What a machine of it has.
    pub shape: Shape,
    /// Whether its card is a slice of one.
    pub vgpu: bool,
}

/// The flavors of virtual machines among documents of the compute service: not those of whole hosts, of reservations, or that
/// are switched off.
#[must_use]
pub fn read_flavors(documents: &[Value]) -> Vec<Flavor> {
    documents.iter().take(MAX_FLAVORS).filter_map(read).collect()
}

fn read(document: &Value) -> Option<Flavor> {
    let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |key: &str| small(document.get(key).and_then(Value::as_u64).unwrap_or(0));
    let (id, name) = (text("id"), text("name"));
    let is_off = document.get("OS-FLV-DISABLED:disabled").and_then(Value::as_bool).unwrap_or(false);
    if id.is_empty() || name.is_empty() || is_off || number("vcpus") == 0 || !is_virtual(&name, document) {
        return None;
    }
    let (cards, vgpu) = cards(&name, document);
    let disk = number("disk");
    let shape = Shape {
        arch: if words(&name).iter().any(|word| word == "arm64" || word == "aarch64") {
            Arch::Arm64
        } else {
            Arch::Amd64
        },
        threads: number("vcpus"),
        ram_gib: number("ram") / 1024,
        cards,
        disks: if disk == 0 { Vec::new() } else { vec![Disk { gb: disk, nvme: false }] },
        infiniband: false,
        fpga: false,
        nvdimm: false,
    };
    Some(Flavor { id, name, shape, vgpu })
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn spec(document: &Value, key: &str) -> Option<String> {
    match document.get("extra_specs")?.get(key)? {
        Value::String(text) => Some(text.trim().to_owned()),
        other => Some(other.to_string()),
    }
}

/// Whole hosts go by flavors too, and the reservation service makes one for each of its reservations.
fn is_virtual(name: &str, document: &Value) -> bool {
    let keys = document.get("extra_specs").and_then(Value::as_object).into_iter().flat_map(serde_json::Map::keys);
    let mut keys = keys.map(|key| key.to_ascii_lowercase());
    let is_host =
        keys.any(|key| key.contains("baremetal") || key.contains("aggregate_instance_extra_specs:reservation"));
    let is_bare = spec(document, "resources:VCPU").is_some_and(|count| count == "0");
    !(name.to_ascii_lowercase().contains("baremetal") || name.starts_with("reservation:") || is_host || is_bare)
}

/// Runs of letters and digits, in lower case.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|ch: char| !ch.is_ascii_alphanumeric());
    parts.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect()
}

/// The card that words name, each for itself or two of them together.
fn named(words: &[String]) -> Option<&'static Card> {
    let pairs = words.windows(2).map(<[String]>::concat);
    let all: Vec<String> = words.iter().cloned().chain(pairs).collect();
    CARDS.iter().find(|card| all.iter().any(|word| word == card.key))
}

/// A memory among words, such as `12gb`.
fn memory(words: &[String]) -> Option<u32> {
    words.iter().find_map(|word| word.strip_suffix("gb")?.parse().ok().filter(|gb| (1..=512).contains(gb)))
}

/// The cards, and whether they are slices.
fn cards(name: &str, document: &Value) -> (Option<Cards>, bool) {
    let name_words = words(name);
    let slices =
        spec(document, "resources:VGPU").and_then(|count| count.parse::<u32>().ok()).filter(|count| *count > 0);
    let vgpu = slices.is_some() || name_words.iter().any(|word| word == "vgpu");
    let aliases = spec(document, "pci_passthrough:alias").unwrap_or_default();
    let passed = aliases.split(',').filter_map(|alias| {
        let (alias, count) = alias.trim().rsplit_once(':')?;
        Some((words(alias), count.trim().parse::<u32>().ok().filter(|count| (1..=64).contains(count))?))
    });
    // A device that is passed through may be no card at all.
    let passed = passed.filter_map(|(alias, count)| {
        let is_card = alias.iter().any(|word| word == "gpu");
        Some((named(&alias).or_else(|| named(&name_words).filter(|_| is_card))?, memory(&alias), count))
    });
    let best = passed.max_by_key(|(card, memory, _)| memory.unwrap_or(card.memory_gb));
    // By its name alone only a card whose name means nothing else.
    let by_name = || named(&name_words).filter(|card| vgpu || card.stands_alone());
    let (card, written, count) = match best {
        Some((card, memory, count)) => (card, memory, count),
        None => match by_name() {
            Some(card) => (card, None, slices.unwrap_or(1)),
            None => return (None, vgpu),
        },
    };
    let written = memory(&name_words).or(written);
    // A slice has as much of its card as is written, and nobody knows how much else.
    let memory_gb = written.unwrap_or(if vgpu { 0 } else { card.memory_gb });
    let model = if vgpu { format!("{} slice", card.key) } else { card.key.to_owned() };
    let cards = Cards { model, vendor: card.vendor, memory_gb, count, capability: card.capability, nvlink: false };
    (Some(cards), vgpu)
}

/// The flavors of a site as variants, at the rate of the dearest host that each may run on.
#[must_use]
pub fn variants(site: &str, flavors: &[Flavor], hosts: &[Host]) -> Vec<Variant> {
    let variant = |flavor: &Flavor| {
        let host = dearest(flavor, hosts);
        Variant {
            site: site.to_owned(),
            node_type: flavor.name.clone(),
            shape: flavor.shape.clone(),
            ids: Vec::new(),
            uids: Vec::new(),
            count: 1,
            su_milli: host.and_then(|host| host.su_milli),
            whole_type: true,
            typed: true,
            vm: Some(VmType {
                id: flavor.id.clone(),
                vgpu: flavor.vgpu,
                host_threads: host.map_or(0, |host| host.shape.threads),
            }),
        }
    };
    let mut all: Vec<Variant> = flavors.iter().map(variant).collect();
    all.sort_by(|a, b| (&a.node_type, &a.shape).cmp(&(&b.node_type, &b.shape)));
    all
}

/// The host at which a thread costs most, of those that have room for a machine and the same cards.
fn dearest<'a>(flavor: &Flavor, hosts: &'a [Host]) -> Option<&'a Host> {
    let key = |cards: &Option<Cards>| Some(named(&words(&cards.as_ref()?.model))?.key);
    let may_run = |host: &&Host| {
        host.shape.threads >= flavor.shape.threads
            && host.shape.ram_gib >= flavor.shape.ram_gib
            && host.shape.cards.is_some() == flavor.shape.cards.is_some()
            && key(&host.shape.cards) == key(&flavor.shape.cards)
    };
    let price =
        |host: &Host| u64::from(host.su_milli.unwrap_or(1000)) * 1_000_000 / u64::from(host.shape.threads.max(1));
    hosts.iter().filter(may_run).max_by_key(|host| price(host))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::read_hosts;

    fn reported(documents: &Value) -> String {
        let one = |flavor: &Flavor| {
            let s = &flavor.shape;
            let cards = s.cards.as_ref();
            let cards =
                cards.map(|c| format!(" {}x{}@{} {}", c.count, c.model, c.memory_gb, c.vendor)).unwrap_or_default();
            format!(
                "{} {}/{}/{}{cards}{}",
                flavor.name,
                s.threads,
                s.ram_gib,
                s.root_disk_gb(),
                if flavor.vgpu { " vgpu" } else { "" }
            )
        };
        read_flavors(documents.as_array().unwrap()).iter().map(one).collect::<Vec<_>>().join("\n")
    }

    fn flavor(name: &str, specs: Value) -> Value {
        json!({"id": name, "name": name, "vcpus": 8, "ram": 32768, "disk": 40, "extra_specs": specs})
    }

    #[test]
    fn flavors_are_types_with_the_cards_of_their_specs_and_names() {
        insta::assert_snapshot!(reported(&json!([
            {"id": "3", "name": "m1.medium", "vcpus": 2, "ram": 4096, "disk": 40},
            {"id": "4", "name": "m1.odd", "vcpus": 2, "ram": 4095, "disk": 0},
            flavor("g1.h100.pci.1", json!({"pci_passthrough:alias": "h100:1"})),
            flavor("g1.h100.pci.2", json!({"pci_passthrough:alias": "nvidia-h100-94gb:2"})),
            flavor("g1.h100.vgpu.1g.12gb", json!({"resources:VGPU": "1"})),
            flavor("g1.h100.vgpu.whole", json!({"resources:VGPU": "1"})),
            flavor("gpu.large", json!({"pci_passthrough:alias": "gpu-a100-80gb:4,nic:1"})),
            flavor("g1.rtx-6000", json!({})),
            flavor("g2.t4", json!({"pci_passthrough:alias": "gpu:1"})),
            flavor("g1.mi100", json!({})),
        ])), @r"
        m1.medium 2/4/40
        m1.odd 2/3/0
        g1.h100.pci.1 8/32/40 1xh100@80 nvidia
        g1.h100.pci.2 8/32/40 2xh100@94 nvidia
        g1.h100.vgpu.1g.12gb 8/32/40 1xh100 slice@12 nvidia vgpu
        g1.h100.vgpu.whole 8/32/40 1xh100 slice@0 nvidia vgpu
        gpu.large 8/32/40 4xa100@80 nvidia
        g1.rtx-6000 8/32/40 1xrtx6000@24 nvidia
        g2.t4 8/32/40 1xt4@16 nvidia
        g1.mi100 8/32/40 1xmi100@32 amd
        ");
    }

    #[test]
    fn no_card_is_made_up() {
        let names = [flavor("t4.large", json!({})), flavor("a2.xlarge", json!({})), flavor("gpu.unknown", json!({}))];
        let devices = [
            flavor("net", json!({"pci_passthrough:alias": "nic:2"})),
            flavor("odd", json!({"pci_passthrough:alias": "gpu:1"})),
            flavor("broken", json!({"pci_passthrough:alias": "h100:many", "resources:VGPU": "x"})),
        ];
        let all = read_flavors(&[names, devices].concat());
        assert!(all.len() == 6 && all.iter().all(|flavor| flavor.shape.cards.is_none()), "{all:?}");
    }

    #[test]
    fn flavors_of_hosts_and_reservations_are_no_machines() {
        assert_eq!(
            reported(&json!([
                flavor("baremetal", json!({})),
                flavor("my-node", json!({"resources:CUSTOM_BAREMETAL": "1"})),
                flavor("node", json!({"resources:VCPU": "0"})),
                flavor("reservation:6c1c", json!({})),
                flavor("r", json!({"aggregate_instance_extra_specs:reservation": "6c1c"})),
                {"id": "x", "name": "off", "vcpus": 1, "OS-FLV-DISABLED:disabled": true},
                {"id": "x", "name": "none", "vcpus": 0},
                {"name": "no id", "vcpus": 1}, null, 3,
            ])),
            ""
        );
    }

    #[test]
    fn the_rate_is_that_of_the_dearest_host_it_may_run_on() {
        let hosts = read_hosts(
            &json!([
                {"id": "1", "hypervisor_hostname": "a", "vcpus": 64, "memory_mb": 262_144, "su_factor": "1"},
                {"id": "2", "hypervisor_hostname": "b", "vcpus": 16, "memory_mb": 262_144, "su_factor": "2"},
                {"id": "3", "hypervisor_hostname": "c", "vcpus": 4, "memory_mb": 262_144, "su_factor": "9"},
                {"id": "4", "hypervisor_hostname": "d", "vcpus": 96, "memory_mb": 524_288, "su_factor": "12", "gpu.gpu_model": "H100 94GB"},
            ])
            .to_string(),
        )
        .unwrap();
        let flavors = read_flavors(&[
            flavor("m1.large", json!({})),
            flavor("g1.h100.pci.1", json!({"pci_passthrough:alias": "h100:1"})),
            flavor("g1.a100", json!({})),
        ]);
        let all = variants("kvm", &flavors, &hosts);
        let reported = |variant: &Variant| {
            let threads = variant.vm.as_ref().map_or(0, |vm| vm.host_threads);
            format!("{} {:?} {threads}: {}", variant.node_type, variant.su_milli, variant.cost(10, true).text())
        };
        insta::assert_snapshot!(all.iter().map(reported).collect::<Vec<_>>().join("\n"), @r"
        g1.a100 None 0: at least 10 SU (rate unknown)
        g1.h100.pci.1 Some(12000) 96: 10 SU
        m1.large Some(2000) 16: 10 SU
        ");
    }
}
