//! Which machines are looked through: hosts, virtual machines, or hosts and then virtual machines.
//! Owns that choice.

use super::{PlanError, PlannedOffering, Request, World, document, narrow, taken};
use crate::catalog::fit::fits;
use crate::catalog::host::{Catalogue, Origin, Variant};
use crate::catalog::needs::Needs;
use crate::catalog::rank::{Offering, Question, Ranking, rank};
use crate::catalog::site::site_named;
use crate::catalog::window::Availability;

/// What kind of machine is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MachineKind {
    /// Whole hosts.
    Baremetal,
    /// Virtual machines.
    Vm,
    /// Virtual machines at sites that have nothing else, hosts everywhere else.
    #[default]
    Auto,
}

/// A part of a catalogue that is looked through.
#[derive(Debug)]
pub(super) struct CatalogueSource {
    pub(super) catalogue: Catalogue,
    /// Whether it only counts where what comes before it does not do.
    pub(super) is_fallback: bool,
}

/// Whether virtual machines are wanted at a site.
pub(super) fn wants_vm(request: &Request, catalogue: &Catalogue, site: &str) -> bool {
    match request.kind {
        MachineKind::Baremetal => false,
        MachineKind::Vm => true,
        MachineKind::Auto => match site_named(site) {
            Some(known) => known.virtual_machines,
            None => catalogue.at(site).next().is_some() && catalogue.at(site).all(|variant| variant.vm.is_some()),
        },
    }
}

/// What is looked through, in this order.
///
/// # Errors
/// A flavor that is not there, or hosts that are to be had without a lease.
pub(super) fn parts(
    request: &Request,
    catalogue: &Catalogue,
    needs: &Needs,
) -> Result<Vec<CatalogueSource>, PlanError> {
    let is_wanted = |variant: &Variant| variant.vm.is_some() == wants_vm(request, catalogue, &variant.site);
    let only = |keep: &dyn Fn(&Variant) -> bool| Catalogue {
        origin: catalogue.origin,
        variants: catalogue.variants.iter().filter(|variant| keep(variant)).cloned().collect(),
    };
    let vm_sites: Vec<&String> = request.sites.iter().filter(|site| wants_vm(request, catalogue, site)).collect();
    if !request.reserve && vm_sites.len() < request.sites.len() {
        return Err(PlanError::Unleased);
    }
    let mut main = only(&is_wanted);
    if !vm_sites.is_empty() {
        if let Some(name) = &request.flavor {
            main.variants
                .retain(|variant| variant.vm.as_ref().is_none_or(|vm| vm.id == *name || variant.node_type == *name));
        }
        if main.at_any(&request.sites).next().is_none() {
            return Err(no_flavor(request, &only(&is_wanted), &vm_sites));
        }
    }
    let mut all = vec![CatalogueSource { catalogue: main, is_fallback: false }];
    if request.vm_fallback {
        // One that fits everything: nothing is relaxed for it.
        let fitting = only(&|variant| variant.vm.is_some() && !is_wanted(variant) && fits(needs, &variant.shape));
        all.push(CatalogueSource { catalogue: fitting, is_fallback: true });
    }
    Ok(all)
}

fn no_flavor(request: &Request, catalogue: &Catalogue, sites: &[&String]) -> PlanError {
    let mut known: Vec<&str> =
        catalogue.at_any(&request.sites).map(|variant| variant.node_type.as_str()).take(40).collect();
    known.dedup();
    let sites: Vec<&str> = sites.iter().map(|site| site.as_str()).collect();
    match &request.flavor {
        Some(name) if !known.is_empty() => PlanError::UnknownType { name: name.clone(), known: known.join(", ") },
        _ => PlanError::NoFlavors { site: sites.join(", ") },
    }
}

impl CatalogueSource {
    /// How many offerings of it are kept, beside those that are: one place is left for a virtual machine that comes last.
    pub(super) fn room(&self, request: &Request, kept: usize) -> usize {
        let attempts = request.attempts.max(1);
        let spare = usize::from(request.vm_fallback && !self.is_fallback && attempts > 1);
        attempts.saturating_sub(kept).saturating_sub(spare)
    }

    /// What it has, ranked; what is taken is left out unless it is waited for.
    ///
    /// # Errors
    /// Nothing in it is of the type that was named, fits, or is free.
    pub(super) fn ranked(
        &self,
        question: &Question<'_>,
        world: &World<'_>,
        request: &Request,
        notes: &mut Vec<String>,
    ) -> Result<Ranking, PlanError> {
        let is_bare = self.catalogue.at_any(&request.sites).next().is_none();
        if is_bare && !self.is_fallback && self.catalogue.origin == Origin::Live {
            return Err(PlanError::NoHosts { site: request.sites.join(", ") });
        }
        let named = if self.is_fallback { self.catalogue.clone() } else { narrow(request, &self.catalogue, notes)? };
        let mut ranking = rank(question, &named, world.allocations)?;
        let is_usable =
            |offering: &Offering| request.waits || !matches!(offering.availability, Availability::Taken { .. });
        if !ranking.offerings.iter().any(is_usable) {
            return Err(taken(&ranking, request));
        }
        ranking.offerings.retain(is_usable);
        notes.extend(ranking.notes.iter().cloned());
        Ok(ranking)
    }
}

/// Whether it is known what machines the sites have: those of Chameleon have one kind each.
fn is_known(sites: &[String]) -> bool {
    sites.iter().all(|site| site_named(site).is_some())
}

/// Where hosts are hidden, that is what keeps them from being had, whatever virtual machines lack.
pub(super) fn hidden(error: PlanError, request: &Request, catalogue: &Catalogue) -> PlanError {
    let wants_machine = request.kind == MachineKind::Vm || request.flavor.is_some() || is_known(&request.sites);
    let is_about_hosts =
        matches!(error, PlanError::Misfit(_) | PlanError::UnknownType { .. } | PlanError::TypeElsewhere { .. });
    if catalogue.origin != Origin::Hidden || wants_machine || !is_about_hosts {
        return error;
    }
    let looked = request.sites.iter().any(|site| wants_vm(request, catalogue, site));
    PlanError::HiddenHosts { site: request.sites.join(", "), looked }
}

/// What people should know of the machines that are offered.
///
/// # Errors
/// A cap on a lease that there is none of.
pub(super) fn warn(
    offerings: &[PlannedOffering],
    origin: Origin,
    request: &Request,
    warnings: &mut Vec<String>,
) -> Result<(), PlanError> {
    if origin == Origin::Hidden && request.kind == MachineKind::Auto && !is_known(&request.sites) {
        warnings.push(format!(
            "the hosts of {} are hidden by the site: only virtual machines were looked through; name hosts with --catalog-file",
            request.sites.join(", ")
        ));
    }
    if origin != Origin::Live && offerings.iter().any(|offering| offering.flavor.is_none()) {
        warnings.push(format!(
            "availability and rates are unknown: the hardware is from the {} table",
            document::origin(origin)
        ));
    }
    if offerings.iter().any(|offering| offering.flavor.as_ref().is_some_and(|flavor| !flavor.reserved)) {
        if request.max_hours.is_some() {
            return Err(PlanError::Unenforceable);
        }
        warnings.push("nothing is reserved: the server is there, and costs, until it is destroyed".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::analyze::{Analysis, FileKind, analyze};
    use crate::catalog::flavor::read_flavors;
    use crate::catalog::image::Image;
    use crate::catalog::needs::Overrides;
    use crate::catalog::{read_allocations, read_hosts};
    use crate::provision::plan::{Plan, plan};
    use crate::repository::{Scan, ScannedFile};

    fn analysis(text: &str) -> Analysis {
        let kind = FileKind::of("requirements.txt").unwrap();
        let file = ScannedFile { path: "requirements.txt".into(), kind, text: text.into() };
        analyze(&Scan { files: vec![file], ..Scan::default() })
    }

    /// A site with two hosts, one with a card, and flavors; `kvm` without hosts to lease.
    fn catalogue() -> Catalogue {
        let host = |id: u32, node_type: &str, model: Option<&str>| json!({"id": id.to_string(), "uid": format!("u{id}"), "node_type": node_type, "vcpus": 48, "memory_mb": 196_608, "local_gb": 240, "su_factor": "2", "gpu.gpu_model": model});
        let hosts = json!([host(1, "compute_x", None), host(2, "gpu_x", Some("H100 80GB"))]).to_string();
        let hosts = read_hosts(&hosts).unwrap();
        let flavor = |name: &str, vcpus: u32, ram: u32, specs: Value| json!({"id": format!("id-{name}"), "name": name, "vcpus": vcpus, "ram": ram, "disk": 80, "extra_specs": specs});
        let flavors = read_flavors(&[
            flavor("m1.small", 1, 2048, json!({})),
            flavor("m1.large", 4, 8192, json!({})),
            flavor("m1.xlarge", 8, 16_384, json!({})),
            flavor("g1.h100", 16, 65_536, json!({"pci_passthrough:alias": "h100:1"})),
            flavor("g1.h100.vgpu.1g.12gb", 4, 32_768, json!({"resources:VGPU": "1"})),
        ]);
        let all = Catalogue::of_hosts(Origin::Live, "here", &hosts).with_flavors("here", &flavors, &hosts);
        let kvm = Catalogue { origin: Origin::Live, variants: Vec::new() }.with_flavors("kvm", &flavors, &hosts);
        Catalogue { origin: Origin::Live, variants: [all.variants, kvm.variants].concat() }
    }

    fn images() -> Vec<Image> {
        let named = |name: &str| Image { id: name.into(), name: name.into(), active: true, ..Image::default() };
        ["CC-Ubuntu22.04", "CC-Ubuntu22.04-CUDA", "CC-Ubuntu22.04-CUDA-VGPU"].map(named).to_vec()
    }

    fn request(site: &str) -> Request {
        Request { sites: vec![site.into()], ..Request::new("2026-01-05T14:02:00Z".parse().unwrap()) }
    }

    fn planned(text: &str, request: &Request) -> Result<Plan, PlanError> {
        let (catalogue, images, free) = (catalogue(), images(), read_allocations("{\"allocations\":[]}").unwrap());
        let world = World { catalogue: &catalogue, allocations: Some(&free), images: Some(&images) };
        plan(&analysis(text), &world, request)
    }

    fn summary(text: &str, request: &Request) -> String {
        let one = |o: &PlannedOffering| {
            let how = o.flavor.as_ref().map_or("host", |flavor| if flavor.reserved { "leased vm" } else { "vm" });
            format!("{how} {} {} {}", o.node_type, o.image.name, o.su_estimate)
        };
        match planned(text, request) {
            Ok(plan) => plan.offerings.iter().map(one).collect::<Vec<_>>().join("\n"),
            Err(error) => format!("exit {}: {error}", error.exit().code()),
        }
    }

    #[test]
    fn auto_takes_machines_only_where_there_is_nothing_else() {
        insta::assert_snapshot!(summary("flask\n", &request("here")), @"host compute_x CC-Ubuntu22.04 48 SU\nhost gpu_x CC-Ubuntu22.04 48 SU");
        insta::assert_snapshot!(summary("flask\n", &request("kvm")), @r"
        leased vm m1.large CC-Ubuntu22.04 4 SU
        leased vm m1.xlarge CC-Ubuntu22.04 8 SU
        leased vm g1.h100.vgpu.1g.12gb CC-Ubuntu22.04 4 SU
        leased vm g1.h100 CC-Ubuntu22.04 16 SU
        ");
        let vm = Request { kind: MachineKind::Vm, attempts: 1, ..request("here") };
        insta::assert_snapshot!(summary("flask\n", &vm), @"leased vm m1.large CC-Ubuntu22.04 4 SU");
        let host = Request { kind: MachineKind::Baremetal, ..request("kvm") };
        insta::assert_snapshot!(summary("flask\n", &host), @"exit 11: nothing can ever fit at kvm: it lists no host that can be reserved; try another --site");
    }

    #[test]
    fn a_flavor_is_named_like_a_type_and_still_has_to_fit() {
        let named = |name: &str| Request { flavor: Some(name.into()), ..request("kvm") };
        insta::assert_snapshot!(summary("flask\n", &named("id-m1.xlarge")), @"leased vm m1.xlarge CC-Ubuntu22.04 8 SU");
        assert!(
            summary("flask\n", &named("m1.small")).starts_with("exit 11"),
            "{}",
            summary("flask\n", &named("m1.small"))
        );
        let unknown = summary("flask\n", &named("m9"));
        assert!(unknown.starts_with("exit 2: node type `m9` is unknown; there are: g1.h100, "), "{unknown}");
        let typed = Request { node_type: Some("m1.xlarge".into()), ..request("kvm") };
        assert_eq!(summary("flask\n", &typed), summary("flask\n", &named("m1.xlarge")));
        let nothing = summary("flask\n", &Request { kind: MachineKind::Vm, ..request("uc") });
        assert!(nothing.starts_with("exit 2: no flavor of virtual machines is known at uc"), "{nothing}");
    }

    #[test]
    fn images_for_slices_are_for_slices_only() {
        let sized = |vram_gb| {
            let overrides = Overrides { vram_gb: Some(vram_gb), ram_gib: Some(16), ..Overrides::default() };
            summary("torch\n", &Request { overrides, ..request("kvm") })
        };
        insta::assert_snapshot!(sized(12), @"leased vm g1.h100.vgpu.1g.12gb CC-Ubuntu22.04-CUDA-VGPU 4 SU\nleased vm g1.h100 CC-Ubuntu22.04-CUDA 16 SU");
        insta::assert_snapshot!(sized(13), @"leased vm g1.h100 CC-Ubuntu22.04-CUDA 16 SU");
    }

    #[test]
    fn a_machine_comes_last_and_only_if_it_has_everything() {
        let back = Request { vm_fallback: true, ..request("here") };
        insta::assert_snapshot!(summary("flask\n", &Request { attempts: 3, ..back.clone() }), @r"
        host compute_x CC-Ubuntu22.04 48 SU
        host gpu_x CC-Ubuntu22.04 48 SU
        leased vm m1.large CC-Ubuntu22.04 4 SU
        ");
        insta::assert_snapshot!(summary("flask\n", &Request { attempts: 2, ..back.clone() }), @"host compute_x CC-Ubuntu22.04 48 SU\nleased vm m1.large CC-Ubuntu22.04 4 SU");
        // Of two cards that are wished for a host has one; a machine has to have both.
        let cards = |gpu_count, vram_gb| {
            let overrides = Overrides { gpu_count: Some(gpu_count), vram_gb: Some(vram_gb), ..Overrides::default() };
            summary("torch\n", &Request { overrides, ..back.clone() })
        };
        insta::assert_snapshot!(cards(1, 80), @"host gpu_x CC-Ubuntu22.04-CUDA 48 SU\nleased vm g1.h100 CC-Ubuntu22.04-CUDA 16 SU");
        assert!(cards(2, 80).starts_with("exit 11"), "{}", cards(2, 80));
        assert!(cards(1, 90).starts_with("exit 11"), "{}", cards(1, 90));
    }

    #[test]
    fn nothing_is_relaxed_for_a_machine_in_the_place_of_a_host() {
        let hosts = json!([{"id": "1", "uid": "u1", "node_type": "compute_x", "vcpus": 48, "memory_mb": 196_608, "local_gb": 240, "su_factor": "2"}]);
        let hosts = read_hosts(&hosts.to_string()).unwrap();
        // As many threads as are needed at least, and fewer than are wished.
        let small = read_flavors(&[
            json!({"id": "s", "name": "m1.medium", "vcpus": 2, "ram": 16_384, "disk": 80, "extra_specs": {}}),
        ]);
        let offered = |hosts: &[crate::catalog::Host]| {
            let catalogue = Catalogue::of_hosts(Origin::Live, "here", hosts).with_flavors("here", &small, hosts);
            let (images, free) = (images(), read_allocations("{\"allocations\":[]}").unwrap());
            let world = World { catalogue: &catalogue, allocations: Some(&free), images: Some(&images) };
            let kind = if hosts.is_empty() { MachineKind::Vm } else { MachineKind::Auto };
            let found =
                plan(&analysis("flask\n"), &world, &Request { kind, vm_fallback: true, ..request("here") }).unwrap();
            found.offerings.iter().map(|one| one.node_type.clone()).collect::<Vec<_>>()
        };
        assert_eq!(offered(&hosts), ["compute_x"]);
        assert_eq!(offered(&[]), ["m1.medium"], "where machines are asked for it would do");
    }

    #[test]
    fn where_no_host_fits_or_is_free_a_machine_takes_its_place_and_says_so() {
        let taken = read_allocations(r#"{"allocations":[{"resource_id":"1","reservations":[{"start_date":"2026-01-05T10:00:00","end_date":"2026-01-07T10:00:00"}]},{"resource_id":"2","reservations":[{"start_date":"2026-01-05T10:00:00","end_date":"2026-01-07T10:00:00"}]}]}"#).unwrap();
        let (catalogue, images) = (catalogue(), images());
        let world = World { catalogue: &catalogue, allocations: Some(&taken), images: Some(&images) };
        let back = Request { vm_fallback: true, ..request("here") };
        let found = plan(&analysis("flask\n"), &world, &back).unwrap();
        assert_eq!(found.best().map(|best| best.node_type.as_str()), Some("m1.large"));
        let note = found.notes.iter().find(|note| note.contains("takes the place of a host"));
        assert!(
            note.is_some_and(|note| note.starts_with("no free compute_x, gpu_x at here until")),
            "{:?}",
            found.notes
        );
        let alone = plan(&analysis("flask\n"), &world, &request("here")).unwrap_err();
        assert_eq!(alone.code(), "no_capacity");
    }

    #[test]
    fn without_reservation_it_says_what_that_means_and_a_cap_is_refused() {
        let free = Request { reserve: false, attempts: 1, ..request("kvm") };
        insta::assert_snapshot!(summary("flask\n", &free), @"vm m1.large CC-Ubuntu22.04 4 SU");
        let warnings = planned("flask\n", &free).unwrap().warnings;
        assert!(warnings.iter().any(|warning| warning.contains("until it is destroyed")), "{warnings:?}");
        let capped = summary("flask\n", &Request { max_hours: Some(200), ..free.clone() });
        assert!(capped.starts_with("exit 2: --max-lifetime cannot be held"), "{capped}");
        let host = summary("flask\n", &Request { sites: vec!["here".into()], ..free });
        assert!(host.starts_with("exit 2: --reservation none is for virtual machines"), "{host}");
    }
}
