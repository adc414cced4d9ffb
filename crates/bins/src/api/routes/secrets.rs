//! Secrets of tenants: named, stored, deleted. A value comes in only, and never out.

use std::sync::Arc;

use orlop_cloud::secret::SealedSecrets;
use orlop_core::error::{Class, Code, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{Document as _, Kind, Record, Secret};
use orlop_core::ports::secret::SecretValue;

use super::super::call::{Call, not_found};
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::view::secret::{NewSecret, SecretList, SecretName};
use crate::host::scheduler::Secrets;

/// Whose secrets a request is about.
fn owner(api: &Api, call: &Call) -> Result<TenantName, Problem> {
    call.owner(call.one("tenant")?, &api.options.default_tenant)
}

/// The secrets of this server.
fn kept(api: &Api) -> Result<&Secrets, Problem> {
    let none = "this server does not store secrets; configure `secrets.key_file` or `secrets.folder`";
    api.handle.options().secrets.as_ref().ok_or_else(|| Problem::coded(Code::Conflict, none))
}

fn sealed(api: &Api) -> Result<&SealedSecrets, Problem> {
    match kept(api)? {
        Secrets::Sealed(sealed) => Ok(sealed),
        Secrets::Folder(_) => {
            let text = "the secrets of this server are read from a folder; change them there";
            Err(Problem::coded(Code::Conflict, text))
        }
    }
}

/// GET /secrets
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let tenant = owner(&api, &call)?;
    let names = kept(&api)?.store().names(&tenant).await.map_err(|error| store(&error))?;
    let items = names.into_iter().map(|name| SecretName { tenant: tenant.to_string(), name }).collect();
    Reply::json(200, &SecretList { items })
}

/// PUT /secrets/{name}
pub(in super::super) async fn put(api: Arc<Api>, call: Call) -> Answer {
    let (tenant, name) = (owner(&api, &call)?, call.part("name").to_owned());
    api.handle.require_tenant(&tenant, "", |name| call.sees(name)).await?;
    let new: NewSecret = call.json().map_err(|_| Problem::field("", "use {\"value\": TEXT} and nothing else"))?;
    let value = SecretValue::new(new.value.into_bytes());
    let sealed = sealed(&api)?;
    let _alone = api.secrets.lock().await;
    let old = sealed.newest(&tenant, &name).await.map_err(|error| store(&error))?;
    let version = old.as_ref().map(|old| old.version);
    call.check_revision(version.unwrap_or(0).into())?;
    let now = api.handle.clock().wall();
    let secret = sealed.seal(&tenant, &name, version, &value, now).map_err(|error| match error.class {
        Class::Invalid => Problem::field("name", error.message),
        _ => store(&error),
    })?;
    let mut records = vec![Record::put(&secret).map_err(|error| store(&error))?];
    // Only the newest is ever asked for: what it replaces is no secret that should be kept.
    records.extend(old.as_ref().map(|old| Record::Delete(Kind::Secret, old.key())));
    api.write(records).await?;
    let status = if version.is_none() { 201 } else { 204 };
    Ok(Reply::empty(status).revision(secret.version.into()))
}

/// DELETE /secrets/{name}
pub(in super::super) async fn delete(api: Arc<Api>, call: Call) -> Answer {
    let (tenant, name) = (owner(&api, &call)?, call.part("name").to_owned());
    let sealed = sealed(&api)?;
    let _alone = api.secrets.lock().await;
    let old: Option<Secret> = sealed.newest(&tenant, &name).await.map_err(|error| store(&error))?;
    let shown: String = name.chars().take(64).collect();
    let old = old.ok_or_else(|| not_found(format_args!("secret `{shown}`")))?;
    call.check_revision(old.version.into())?;
    api.write(vec![Record::Delete(Kind::Secret, old.key())]).await?;
    Ok(Reply::empty(204))
}
