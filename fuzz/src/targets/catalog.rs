//! What sites answer: lists of hosts, allocations, images. Whatever they hold, a plan keeps the needs.

use orlop_cloud::analyze::{FileKind, analyze};
use orlop_cloud::catalog::image::{Image, Name};
use orlop_cloud::catalog::{Catalogue, Origin, read_allocations, read_hosts};
use orlop_cloud::provision::plan::{Request, World, plan};
use orlop_cloud::repository::{Scan, ScannedFile};

use super::text;

/// Hosts, allocations and images as JSON, separated by lines of `---`.
pub fn site_answers(bytes: &[u8]) {
    let Some(all) = text(bytes) else { return };
    let mut parts = all.split("\n---\n");
    let mut next = || parts.next().unwrap_or_default();
    let Ok(hosts) = read_hosts(next()) else { return };
    let catalogue = Catalogue::of_hosts(Origin::Live, "here", &hosts);
    assert_eq!(catalogue.variants.iter().map(|variant| variant.count).sum::<usize>(), hosts.len());
    for variant in &catalogue.variants {
        let (hypervisor, resource) = variant.filters();
        let filter = if hypervisor.is_empty() { resource } else { hypervisor };
        let words: Vec<String> = serde_json::from_str(&filter).unwrap_or_default();
        let keys = ["$node_type", "$uid", "$hypervisor_hostname"];
        assert!(
            words.len() == 3
                && words.first().is_some_and(|word| word == "=")
                && words.get(1).is_some_and(|key| keys.contains(&key.as_str()))
        );
    }
    let allocations = read_allocations(next()).ok();
    let list: serde_json::Value = serde_json::from_str(next()).unwrap_or_default();
    let images: Vec<Image> =
        list.get("images").and_then(|images| images.as_array()).into_iter().flatten().filter_map(Image::read).collect();
    images.iter().for_each(|image| drop(Name::read(&image.name)));
    let Ok(start) = "2026-01-05T14:02:00Z".parse() else { return };
    let request = Request { sites: vec!["here".to_owned()], ..Request::new(start) };
    let world = World { catalogue: &catalogue, allocations: allocations.as_deref(), images: Some(&images) };
    for (path, text) in [("requirements.txt", "vllm\n"), ("requirements.txt", "flask\n")] {
        let Some(kind) = FileKind::of(path) else { return };
        let file = ScannedFile { path: path.to_owned(), kind, text: text.to_owned() };
        let analysis = analyze(&Scan { files: vec![file], ..Scan::default() });
        let Ok(found) = plan(&analysis, &world, &request) else { continue };
        assert_eq!(Ok(&found), plan(&analysis, &world, &request).as_ref(), "a plan is the same every time");
        for offering in &found.offerings {
            let cards = offering.hardware.cards.as_ref();
            let fits = !analysis.requirements.wants_gpu()
                || cards.is_some_and(|cards| Some(cards.memory_gb) >= analysis.requirements.gpu_memory_gb.target);
            assert!(fits, "no relaxing takes the card away");
        }
    }
}
