//! What the user says of hardware, window and budget, as the planner takes it.

use std::io::Read as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use orlop_cloud::catalog::{Catalogue, Origin, Overrides, rank::Prefer, read_hosts};
use orlop_cloud::provision::plan::{MachineKind, PlanError, Request};
use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;

use super::args::{ArchArg, Fallback, HardwareArgs, KindArg, PreferArg, ReservationArg, VendorArg, WindowArgs};
use super::failure::Failure;
use super::settings::Settings;
use super::values::DurationArg;

/// Bytes of a catalogue file that are read.
const MAX_CATALOGUE: u64 = 32 << 20;

/// What may be tried when the best is not available.
pub(super) fn allowed(hardware: &HardwareArgs, window: &WindowArgs) -> Vec<Fallback> {
    match &window.fallback {
        Some(named) if named.contains(&Fallback::None) => Vec::new(),
        Some(named) => named.clone(),
        None if hardware.node_type.is_some() => Vec::new(),
        None if hardware.site.len() > 1 => vec![Fallback::Types, Fallback::Sites],
        None => vec![Fallback::Types],
    }
}

/// What the user says of hardware and window.
///
/// # Errors
/// A setting is no number, or flags contradict each other.
pub(super) fn request(
    hardware: &HardwareArgs,
    window: &WindowArgs,
    settings: &Settings,
    mut sites: Vec<String>,
    now: Timestamp,
) -> Result<Request, Failure> {
    let fallback = allowed(hardware, window);
    let others = if fallback.contains(&Fallback::Sites) { Vec::new() } else { sites.split_off(sites.len().min(1)) };
    let reserve = hardware.reservation == ReservationArg::Auto;
    if !reserve && window.max_lifetime.is_some() {
        return Err(PlanError::Unenforceable.into());
    }
    let attempts = if fallback.is_empty() { 1 } else { window.max_attempts as usize };
    Ok(Request {
        sites,
        others,
        overrides: overrides(hardware),
        os: hardware.os.map(|os| os.0),
        image: hardware.image.clone(),
        node_type: hardware.node_type.clone(),
        kind: match hardware.kind {
            KindArg::Baremetal => MachineKind::Baremetal,
            KindArg::Vm => MachineKind::Vm,
            KindArg::Auto => MachineKind::Auto,
        },
        flavor: hardware.flavor.clone(),
        reserve,
        vm_fallback: fallback.contains(&Fallback::Vm),
        hours: window.span.lease_duration,
        max_hours: lifetime(window)?,
        within: window.span.start_within.0,
        margin: margin(settings)?,
        prefer: match hardware.prefer {
            PreferArg::Fit => Prefer::Fit,
            PreferArg::Cost => Prefer::Cost,
            PreferArg::Start => Prefer::Start,
        },
        max_su: max_su(window, settings)?,
        accept_closest: hardware.accept_closest,
        attempts,
        ..Request::new(start(now, window.span.start_delay_minutes))
    })
}

/// The start: after the delay, rounded up to a minute; without a delay this minute.
pub(super) fn start(now: Timestamp, delay_minutes: u32) -> Timestamp {
    let seconds = now.as_second() + i64::from(delay_minutes) * 60;
    let up = i64::from(delay_minutes > 0) * 59;
    Timestamp::from_second((seconds + up).div_euclid(60) * 60).unwrap_or(now)
}

fn overrides(args: &HardwareArgs) -> Overrides {
    Overrides {
        cores: args.cpu,
        ram_gib: args.ram,
        disk_gb: args.disk,
        gpu_count: args.gpu,
        vram_gb: args.vram,
        gpu_vendor: args.gpu_vendor.map(|vendor| match vendor {
            VendorArg::Nvidia => Vendor::Nvidia,
            VendorArg::Amd => Vendor::Amd,
            VendorArg::Intel => Vendor::Intel,
        }),
        no_gpu: args.no_gpu,
        allow_legacy: args.allow_legacy_gpu,
        without: args.without.clone(),
        arch: args.arch.map(|arch| match arch {
            ArchArg::Amd64 => Arch::Amd64,
            ArchArg::Arm64 => Arch::Arm64,
        }),
    }
}

/// The hardware of a site, as a file has it.
///
/// # Errors
/// The file is no list of hosts.
pub(super) fn given(path: &Path, site: &str) -> Result<Catalogue, Failure> {
    let failed = |error: String| Failure::usage(format!("--catalog-file {}: {error}", path.display()));
    let opened = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut text = String::new();
    opened.take(MAX_CATALOGUE).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    let hosts = read_hosts(&text).map_err(|error| failed(error.to_string()))?;
    Ok(Catalogue::of_hosts(Origin::File, site, &hosts))
}

/// `--max-lifetime` in hours.
///
/// # Errors
/// No lease is as short as that.
pub(super) fn lifetime(window: &WindowArgs) -> Result<Option<u32>, Failure> {
    match window.max_lifetime.map(DurationArg::hours) {
        Some(0) => Err(Failure::usage("--max-lifetime must be 1h at least: leases last whole hours")),
        hours => Ok(hours),
    }
}

/// `--idle-stop` in seconds.
///
/// # Errors
/// It is no time at all.
pub(super) fn idle_stop(window: &WindowArgs) -> Result<Option<u64>, Failure> {
    match window.idle_stop.map(|idle| idle.0.as_secs().unsigned_abs()) {
        Some(0) => Err(Failure::usage("--idle-stop must be longer than nothing, such as 30m")),
        seconds => Ok(seconds),
    }
}

/// What is kept free before and after a lease.
///
/// # Errors
/// The setting is no number.
pub(super) fn margin(settings: &Settings) -> Result<SignedDuration, Failure> {
    let margin = settings.number("ORLOP_CLEANING_MARGIN_MIN")?.unwrap_or(5).min(1440);
    Ok(SignedDuration::from_mins(i64::try_from(margin).unwrap_or(5)))
}

/// The budget.
///
/// # Errors
/// The setting is no number.
pub(super) fn max_su(window: &WindowArgs, settings: &Settings) -> Result<Option<u64>, Failure> {
    match window.max_su {
        Some(most) => Ok(Some(most)),
        None => settings.number("ORLOP_MAX_SU"),
    }
}
