//! What the user wants beside the hardware, from flags and settings.

use std::time::Duration;

use orlop_cloud::provision::order::{KeyOrder, Pace, Verify};
use orlop_cloud::provision::prepare::DeploymentOptions;

use super::args::{ApplyArgs, Fallback, VerifyArg};
use super::failure::Failure;
use super::join::FleetJoin;
use super::request::{allowed, lifetime, margin, max_su};
use super::settings::Settings;
use super::values::DurationArg;

/// Seconds of any wait.
const MAX_SECONDS: u64 = 366 * 86_400;

/// What the user wants.
///
/// # Errors
/// A setting is no number, or a duration is nothing that can be held.
pub(super) fn apply_options(
    args: &ApplyArgs,
    settings: &Settings,
    server_name: &str,
    key: KeyOrder,
    fleet_join: &FleetJoin,
) -> Result<DeploymentOptions, Failure> {
    let run = &args.run;
    let network = run.network.clone().or_else(|| settings.get("DEFAULT_NETWORK"));
    let fallback = allowed(&args.hardware, &args.window);
    let has_others = fallback.iter().any(|one| matches!(one, Fallback::Types | Fallback::Vm));
    Ok(DeploymentOptions {
        server_name: server_name.to_owned(),
        lease_name: run.lease_name.clone(),
        key,
        network: network.unwrap_or_else(|| "sharednet1".to_owned()),
        external: (!run.no_floating_ip).then(|| run.external_network.clone()),
        flavor: args.hardware.flavor.clone().unwrap_or_else(|| "baremetal".to_owned()),
        groups: run.security_group.clone(),
        ssh_from: run.allow_ssh_from.clone(),
        max_attempts: if has_others { args.window.max_attempts } else { 1 },
        verify: match run.verify {
            VerifyArg::None => Verify::None,
            VerifyArg::Port => Verify::Port,
            VerifyArg::Login => Verify::Login,
            VerifyArg::Join => Verify::Join,
        },
        pace: pace(args, settings)?,
        keep_on_failure: run.keep_on_failure,
        user_data: fleet_join.own.clone(),
        join: fleet_join.join.clone(),
        max_su: max_su(&args.window, settings)?,
        max_hours: lifetime(&args.window)?,
    })
}

fn seconds(settings: &Settings, name: &str, default: Duration) -> Result<Duration, Failure> {
    match settings.number(name)? {
        Some(0) => Err(Failure::usage(format!("{name} must be at least 1"))),
        Some(seconds) => Ok(Duration::from_secs(seconds.min(MAX_SECONDS))),
        None => Ok(default),
    }
}

fn of(duration: DurationArg) -> Duration {
    Duration::try_from(duration.0).unwrap_or_default()
}

/// How long things may take.
///
/// # Errors
/// A setting is no number.
pub(super) fn pace(args: &ApplyArgs, settings: &Settings) -> Result<Pace, Failure> {
    let capacity = Some(of(args.run.wait_for_capacity)).filter(|wait| !wait.is_zero());
    Ok(Pace { capacity, ..usual_pace(args.run.deadline, settings)? })
}

/// How long things may take, whatever is made.
///
/// # Errors
/// A setting is no number.
pub(super) fn usual_pace(deadline: Option<DurationArg>, settings: &Settings) -> Result<Pace, Failure> {
    let usual = Pace::default();
    let deadline = match deadline {
        Some(deadline) => of(deadline),
        None => seconds(settings, "ORLOP_DEADLINE_S", usual.deadline)?,
    };
    Ok(Pace {
        lease_poll: seconds(settings, "ORLOP_LEASE_POLL_S", usual.lease_poll)?,
        lease_timeout: seconds(settings, "ORLOP_LEASE_TIMEOUT_S", usual.lease_timeout)?,
        server_poll: seconds(settings, "ORLOP_SERVER_POLL_S", usual.server_poll)?,
        server_timeout: seconds(settings, "ORLOP_SERVER_TIMEOUT_S", usual.server_timeout)?,
        deadline,
        capacity: None,
        margin: Duration::try_from(margin(settings)?).unwrap_or_default(),
    })
}
