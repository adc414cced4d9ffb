//! The state file of a deployment, and the last words of a program. Owns the fields; it is
//! written anew at every change, so that it tells the truth of one that is half built.

use orlop_core::machine::saga::SagaState;
use orlop_core::time::Time;
use serde::Serialize;
use serde_json::Value;

use super::journal::Kind;
use super::notes::Notes;
use super::saga::Saga;

/// The version of this form.
pub const SCHEMA: &str = "orlop.provisioner.info/1";

/// Where the journal is, and how far it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalPlace {
    /// Its path.
    pub path: String,
    /// Its last line.
    pub last_seq: u64,
}

/// The state file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Info {
    /// The version of this form.
    pub schema: &'static str,
    /// The deployment.
    pub deployment_id: String,
    /// Its state.
    pub status: SagaState,
    /// Whether it has no address from outside.
    pub degraded: bool,
    /// The server's name.
    pub server_name: String,
    /// The server, once it is known.
    pub server_id: Option<String>,
    /// The lease's name.
    pub lease_name: Option<String>,
    /// The lease, once it is known.
    pub lease_id: Option<String>,
    /// Its reservation.
    pub reservation_id: Option<String>,
    /// Its start, if it was planned.
    pub lease_start: Option<String>,
    /// Its end.
    pub lease_end: Option<String>,
    /// The address from outside.
    pub floating_ip: Option<String>,
    /// Its id.
    pub floating_ip_id: Option<String>,
    /// The address inside.
    pub fixed_ip: Option<String>,
    /// The image.
    pub image_name: Option<String>,
    /// Its id.
    pub image_id: Option<String>,
    /// The type of host.
    pub node_type: Option<String>,
    /// The host, if only one would do.
    pub host_uid: Option<String>,
    /// The flavor.
    pub flavor_id: Option<String>,
    /// The key.
    pub key_name: String,
    /// Whether it was made for this deployment.
    pub key_created: bool,
    /// Its private half.
    pub key_file: Option<String>,
    /// The network.
    pub network_id: String,
    /// The site.
    pub site: Option<String>,
    /// The region.
    pub region: String,
    /// The project.
    pub project_id: String,
    /// Who signs in.
    pub ssh_user: Option<String>,
    /// How.
    pub ssh_command: Option<String>,
    /// What the machine must have.
    pub requirements: Value,
    /// What it costs, extensions included.
    pub su_estimate: Option<String>,
    /// The cap of the lease with all extensions, in hours.
    pub max_lifetime_h: Option<u32>,
    /// After how long without work it is to be destroyed, in seconds.
    pub idle_stop_s: Option<u64>,
    /// The fleet that it joins.
    pub join: Option<String>,
    /// The attempt.
    pub attempt: u32,
    /// What people should know.
    pub warnings: Vec<String>,
    /// What could not be removed.
    pub leftovers: Vec<String>,
    /// The digest of the plan.
    pub plan_digest: String,
    /// Where the journal is.
    pub journal: JournalPlace,
    /// When the deployment began.
    pub created_at: Option<String>,
    /// When this was written.
    pub updated_at: String,
}

/// A word of a command as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |ch: char| ch.is_ascii_alphanumeric() || "@%+=:,./-_".contains(ch);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The whole command that opens the machine; nothing before it has an address. Without a known user it holds a hint.
#[must_use]
pub fn ssh_command(saga: &Saga, key_file: Option<&str>) -> Option<String> {
    let address = saga.detail_of(Kind::Address).or(saga.fixed_address())?;
    let user = saga.image().and_then(|image| image.user.as_deref()).unwrap_or("<user>");
    let key = key_file.map(|file| format!("-i {} ", quoted(file))).unwrap_or_default();
    Some(format!("ssh {key}{user}@{address}"))
}

impl Info {
    /// What there is to tell of a deployment.
    #[must_use]
    pub fn of(saga: &Saga, notes: &Notes, journal: JournalPlace, now: Time) -> Self {
        let order = saga.order();
        let (choice, image) = (saga.choice(), saga.image());
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let uid = |choice: &super::order::Choice| match choice.hosts.as_slice() {
            [one] => Some(one.clone()),
            _ => None,
        };
        let key_file = owned(order.key.made_file.as_deref()).or_else(|| notes.key_file.clone());
        Self {
            schema: SCHEMA,
            deployment_id: order.id.to_string(),
            status: saga.state(),
            degraded: saga.state() == SagaState::Degraded,
            server_name: order.server_name.clone(),
            server_id: owned(saga.id_of(Kind::Server)),
            lease_name: saga.id_of(Kind::Lease).map(|_| order.lease_name(saga.lease_mark())),
            lease_id: owned(saga.id_of(Kind::Lease)),
            reservation_id: owned(saga.detail_of(Kind::Lease)),
            lease_start: choice.and_then(|choice| choice.start).map(|start| start.to_string()),
            lease_end: saga.lease_end().map(|end| end.to_string()),
            floating_ip: owned(saga.detail_of(Kind::Address)),
            floating_ip_id: owned(saga.id_of(Kind::Address)),
            fixed_ip: owned(saga.fixed_address()),
            image_name: image.map(|image| image.name.clone()),
            image_id: image.map(|image| image.id.clone()),
            node_type: choice.map(|choice| choice.node_type.clone()),
            host_uid: choice.and_then(uid),
            flavor_id: choice.map(|choice| choice.flavor.clone()),
            key_name: order.key.name.clone(),
            key_created: saga.id_of(Kind::Key).is_some(),
            ssh_command: ssh_command(saga, key_file.as_deref()),
            key_file,
            network_id: order.network.0.clone(),
            site: choice.map(|choice| choice.site.clone()),
            region: notes.region.clone(),
            project_id: order.project_id.clone(),
            ssh_user: image.and_then(|image| image.user.clone()),
            requirements: notes.requirements.clone(),
            su_estimate: saga.cost().map(|cost| cost.text()),
            max_lifetime_h: order.max_hours,
            idle_stop_s: notes.idle_stop_s,
            join: order.join.as_ref().map(|join| join.join.server.to_string()),
            attempt: saga.attempt(),
            warnings: saga.warnings().to_vec(),
            leftovers: saga.leftovers().to_vec(),
            plan_digest: notes.plan_digest.clone(),
            journal,
            created_at: notes.created_at.map(|at| at.to_string()),
            updated_at: now.to_string(),
        }
    }
}
