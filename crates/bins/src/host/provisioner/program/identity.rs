//! Which deployment a command is about: the name of its server, and its id, which a plan may have fixed before.

use jiff::Timestamp;
use orlop_cloud::exit::Exit;
use orlop_cloud::provision::deployments::DeploymentStore;
use orlop_cloud::provision::join::{Join, token_command};
use orlop_cloud::provision::journal::JournalError;
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::name::{Named, check_server_name, counted, server_name};
use orlop_cloud::provision::order::Pace;
use orlop_cloud::provision::plan::{PlannedDeployment, SavedPlan};
use orlop_cloud::repository::Source;
use orlop_core::error::Class;
use serde_json::{Value, json};

use super::failure::Failure;

/// How long a token is good after the last server may have been made.
const TOKEN_AFTER: u64 = 3600;

/// The name of a server: as given, else as it follows from what is asked for.
///
/// # Errors
/// What was given is no name.
pub(super) fn name(
    given: Option<&str>,
    source: &Source,
    reference: &str,
    subdir: &str,
    project: &str,
    sites: &[String],
) -> Result<String, Failure> {
    let named =
        Named { short: &source.short_name(), repository: &source.normalised(), reference, subdir, project, sites };
    let name = given.map_or_else(|| server_name(&named), str::to_owned);
    good_name(&name)?;
    Ok(name)
}

/// Whether a server may have a name.
///
/// # Errors
/// It may not.
pub(super) fn good_name(name: &str) -> Result<(), Failure> {
    check_server_name(name).map_err(|error| Failure::usage(format!("--server-name: {error}")))
}

/// The name with the first counter that no deployment has.
///
/// # Errors
/// There are too many, or the folder cannot be read.
pub(super) fn free_name(deployments: &DeploymentStore, name: String) -> Result<String, Failure> {
    let is_free = |name: &str| match deployments.find(name) {
        Ok(known) => Ok(known.is_none()),
        // Somebody's, whatever became of that.
        Err(JournalError::Unreadable { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    if is_free(&name)? {
        return Ok(name);
    }
    for number in 2..10_000 {
        let other = counted(&name, number);
        if is_free(&other)? {
            return Ok(other);
        }
    }
    Err(Failure::usage(format!("there are too many deployments {name}: give --server-name")))
}

/// The id of a deployment that is to begin, and what makes it random: that of the saved plan while it was not used.
///
/// # Errors
/// The plan's id does not hold, and a token was made for it; or the system has no randomness.
pub(super) fn identity(
    name: &str,
    project: &str,
    saved: Option<&SavedPlan>,
    deployments: &DeploymentStore,
    joins: bool,
) -> Result<(DeploymentId, String), Failure> {
    let planned = saved.and_then(|saved| saved.deployment.as_ref());
    if let Some(planned) = planned {
        if planned.is_of(name, project) && !deployments.place(&planned.id).exists() {
            return Ok((planned.id.clone(), planned.nonce.clone()));
        }
        if joins {
            let why = if planned.is_of(name, project) {
                format!("deployment {} was made already", planned.id)
            } else {
                format!("it is for server {} in project {}", planned.server_name, planned.project_id)
            };
            let message = format!("the plan cannot be used to join a fleet: {why}, and its token is for nothing else");
            let hint = "make another plan and another token";
            return Err(Failure::new(Exit::Conflict, Class::Conflict, "stale_plan", message).hint(hint));
        }
    }
    let nonce = orlop_cloud::llm::marker()?;
    Ok((DeploymentId::new(name, project, &nonce), nonce))
}

/// How many minutes a token has to be good: until the last server may have been made, and an hour.
fn token_minutes(start: Option<Timestamp>, now: Timestamp, pace: &Pace) -> u64 {
    let until = start.map_or(0, |start| u64::try_from(start.as_second() - now.as_second()).unwrap_or(0));
    let server = until + pace.lease_timeout.as_secs() + pace.server_timeout.as_secs();
    (server.max(pace.deadline.as_secs()) + TOKEN_AFTER).div_ceil(60)
}

/// What a plan says of the deployment that it is for: for programs and for people.
pub(super) fn describe(
    planned: &PlannedDeployment,
    join: Option<&Join>,
    start: Option<Timestamp>,
    now: Timestamp,
    pace: &Pace,
) -> (Value, String) {
    let mut value = json!(planned);
    let mut text = format!("\ndeployment {} of server {}\n", planned.id, planned.server_name);
    if let Some(join) = join {
        let command = token_command(&planned.id, token_minutes(start, now, pace));
        text.push_str(&format!("\nfor the token with which it joins {}, once, now:\n  {command}\n", join.server));
        value["join_command"] = command.into();
    }
    (value, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_an_hour_after_the_last_server() {
        let now: Timestamp = "2026-01-05T14:00:00Z".parse().unwrap();
        let start = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let minutes = |start, pace: &Pace| token_minutes(start, now, pace);
        assert_eq!(minutes(None, &Pace::default()), 75 + 60, "the deadline of everything");
        assert_eq!(minutes(start("2026-01-05T14:02:00Z"), &Pace::default()), 75 + 60);
        assert_eq!(minutes(start("2026-01-05T16:00:00Z"), &Pace::default()), 120 + 5 + 30 + 60);
        let short = Pace { deadline: std::time::Duration::from_secs(61), ..Pace::default() };
        assert_eq!(minutes(start("2026-01-01T00:00:00Z"), &short), 5 + 30 + 60, "a start that has passed is now");
    }

    #[test]
    fn the_id_of_a_plan_is_used_once_and_for_its_own_server() {
        let folder = tempfile::tempdir().unwrap();
        let deployments = DeploymentStore::new(folder.path());
        let planned = PlannedDeployment::new("demo", "p", "nonce".into());
        let text = json!({
            "schema": "orlop.plan/1", "requirements": {}, "hours": 1, "deployment": planned,
            "offerings": [{
                "site": "s", "node_type": "t", "hypervisor_properties": "", "resource_properties": "", "tier": 1,
                "hardware": orlop_cloud::catalog::embedded().variants.first().unwrap().shape,
                "availability": "free", "start": "", "end": "", "su_milli": 1, "su_estimate": "",
                "image": {"name": "i", "id": null, "user": null},
            }],
        });
        let saved = SavedPlan::read(&text.to_string()).unwrap();
        let of = |name: &str, joins| identity(name, "p", Some(&saved), &deployments, joins);
        assert_eq!(of("demo", true).unwrap(), (planned.id.clone(), "nonce".to_owned()));
        assert_ne!(of("other", false).unwrap().0, planned.id);
        assert_eq!(of("other", true).unwrap_err().exit, Exit::Conflict);
        std::fs::create_dir(deployments.place(&planned.id)).unwrap();
        assert_ne!(of("demo", false).unwrap().0, planned.id, "another deployment of the same plan");
        assert!(of("demo", true).unwrap_err().message.contains("was made already"));
        assert_ne!(identity("demo", "p", None, &deployments, true).unwrap().0, planned.id);
    }
}
