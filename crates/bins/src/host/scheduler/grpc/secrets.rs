//! Values of secrets for attempts that are on their way out.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::id::{JobId, TenantName};

use super::super::Handle;
use crate::wire::attempt::{AssignJob, SecretValue};
use crate::wire::frame::ServerFrame;

/// The most bytes of all secrets of an attempt: a frame with one must fit into a message.
const TOGETHER: usize = 1 << 20;
/// How often a value is asked for that cannot be read now, and the time between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Values that were resolved for one frame, or why they were not.
#[derive(Default)]
struct Resolved {
    tenants: BTreeMap<JobId, Result<TenantName, String>>,
    values: BTreeMap<(TenantName, String), Result<Vec<u8>, String>>,
}

/// Fills the values in. Where one is missing its attempt learns why, so that its agent gives it back.
pub(super) async fn fill(handle: &Handle, frame: &mut ServerFrame) {
    let mut resolved = Resolved::default();
    for assign in frame.assign.iter_mut().filter(|assign| !assign.secrets.is_empty()) {
        if let Err(problem) = resolved.attempt(handle, assign).await {
            let attempt = assign.attempt();
            let job = attempt.job;
            tracing::warn!(target: "orlop::scheduler", %job, %attempt, problem, "an attempt has no secrets");
            let reported = |secret: &mut SecretValue| (secret.value, secret.problem) = (Vec::new(), problem.clone());
            assign.secrets.iter_mut().for_each(reported);
        }
    }
}

impl Resolved {
    async fn attempt(&mut self, handle: &Handle, assign: &mut AssignJob) -> Result<(), String> {
        let tenant = self.tenant(handle, assign.attempt().job).await?;
        let mut bytes = 0;
        for secret in &mut assign.secrets {
            secret.value = self.value(handle, &tenant, &secret.name).await?;
            bytes += secret.value.len();
        }
        if bytes > TOGETHER {
            return Err(format!("secret: its secrets have more than {TOGETHER} bytes together"));
        }
        Ok(())
    }

    async fn tenant(&mut self, handle: &Handle, job: JobId) -> Result<TenantName, String> {
        if let Some(known) = self.tenants.get(&job) {
            return known.clone();
        }
        let found = handle.store().job(job).await;
        let tenant = match found {
            Ok(Some(row)) => Ok(row.job.tenant),
            Ok(None) => Err("secret: the job is not known any more".to_owned()),
            Err(error) => Err(passing(&error)),
        };
        self.tenants.insert(job, tenant.clone());
        tenant
    }

    async fn value(&mut self, handle: &Handle, tenant: &TenantName, name: &str) -> Result<Vec<u8>, String> {
        let key = (tenant.clone(), name.to_owned());
        if let Some(known) = self.values.get(&key) {
            return known.clone();
        }
        let value = ask(handle, tenant, name).await;
        self.values.insert(key, value.clone());
        value
    }
}

async fn ask(handle: &Handle, tenant: &TenantName, name: &str) -> Result<Vec<u8>, String> {
    let Some(secrets) = &handle.options().secrets else {
        return Err(
            "secret: this server does not store secrets; configure `secrets.key_file` or `secrets.folder`".to_owned()
        );
    };
    let mut tries = 0;
    loop {
        tries += 1;
        match secrets.store().resolve(tenant, name).await {
            Ok(value) => return Ok(value.expose().to_vec()),
            Err(error) if matches!(error.class, Class::NotFound | Class::Invalid | Class::Denied) => {
                return Err(format!("secret: {}", error.message));
            }
            Err(error) if tries >= TRIES => return Err(passing(&error)),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// What may be better later: the attempt goes back into the queue.
fn passing(error: &Problem) -> String {
    format!("secret_store: {}", error.message)
}
