//! Secrets sealed in the fleet's store (port [`SecretStore`]). Owns sealing and opening of its documents; the commit of a
//! sealed document is the server's.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{Documents as _, EntryFilter, FleetReads, Page, Secret};
use orlop_core::ports::secret::{MAX_SECRET, SecretStore, SecretValue, check_secret_name};
use orlop_core::time::Time;

use super::SealingKey;
use super::unknown;

/// Versions read at once.
const PAGE: u32 = 1_000;

/// Secrets sealed in the fleet's store.
pub struct SealedSecrets {
    store: Arc<dyn FleetReads>,
    keys: Vec<SealingKey>,
}

impl fmt::Debug for SealedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSecrets").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// What a sealed value opens for: one version of one secret of one tenant.
fn purpose(tenant: &TenantName, name: &str, version: u32) -> String {
    format!("{tenant}/{name}/{version}")
}

impl SealedSecrets {
    /// The secrets in a store. New ones are encrypted with `key`; those encrypted with one of the `older` keys can still be read.
    #[must_use]
    pub fn new(store: Arc<dyn FleetReads>, key: SealingKey, older: Vec<SealingKey>) -> Self {
        let keys = std::iter::once(key).chain(older).collect();
        Self { store, keys }
    }

    /// Seals a value as the version after `newest`, which [`SealedSecrets::newest`] reads. The document is stored by the
    /// server's next commit.
    ///
    /// # Errors
    /// Invalid when the name is none or the value is too long.
    pub fn seal(
        &self,
        tenant: &TenantName,
        name: &str,
        newest: Option<u32>,
        value: &SecretValue,
        now: Time,
    ) -> Result<Secret, Problem> {
        check_secret_name(name)?;
        if value.expose().len() > MAX_SECRET {
            let message = format!("secret `{name}` has more than {MAX_SECRET} bytes; use an artifact instead");
            return Err(Problem::new(Class::Invalid, message));
        }
        let Some(key) = self.keys.first() else {
            return Err(Problem::new(Class::Denied, "no key to seal secrets with is configured"));
        };
        let version = newest.unwrap_or(0).saturating_add(1);
        let (nonce, ciphertext) = key.seal(&purpose(tenant, name, version), value)?;
        let (tenant, name, key_id) = (tenant.clone(), name.to_owned(), key.id().to_owned());
        Ok(Secret { tenant, name, version, key_id, nonce, ciphertext, created_at: now })
    }

    /// The newest version of a secret, still sealed.
    ///
    /// # Errors
    /// Transient when it cannot be read now; Fatal when it is damaged.
    pub async fn newest(&self, tenant: &TenantName, name: &str) -> Result<Option<Secret>, Problem> {
        let filter = EntryFilter { prefix: Secret::prefix(tenant, name), ..EntryFilter::default() };
        let mut page = Page::first(PAGE);
        loop {
            let mut found = self.store.list::<Secret>(&filter, &page).await?;
            match found.next {
                Some(next) => page = Page::after(next, PAGE),
                None => return Ok(found.items.pop()),
            }
        }
    }
}

#[async_trait]
impl SecretStore for SealedSecrets {
    async fn resolve(&self, tenant: &TenantName, name: &str) -> Result<SecretValue, Problem> {
        check_secret_name(name)?;
        let sealed = self.newest(tenant, name).await?.ok_or_else(|| unknown(tenant, name))?;
        let Some(key) = self.keys.iter().find(|key| key.id() == sealed.key_id) else {
            let message = format!(
                "secret `{name}` of tenant `{tenant}` is sealed with key {}, which is not configured; add it, or store the \
                 secret again",
                sealed.key_id
            );
            return Err(Problem::new(Class::Denied, message));
        };
        key.open(&purpose(tenant, name, sealed.version), &sealed.nonce, &sealed.ciphertext).ok_or_else(|| {
            let message =
                format!("secret `{name}` of tenant `{tenant}` cannot be unsealed: it was changed; store it again");
            Problem::new(Class::Denied, message)
        })
    }

    async fn names(&self, tenant: &TenantName) -> Result<Vec<String>, Problem> {
        let filter = EntryFilter { prefix: format!("{tenant}/"), ..EntryFilter::default() };
        let mut page = Page::first(PAGE);
        let mut names = Vec::new();
        loop {
            let found = self.store.list::<Secret>(&filter, &page).await?;
            names.extend(found.items.into_iter().map(|secret| secret.name));
            match found.next {
                Some(next) => page = Page::after(next, PAGE),
                None => break,
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::ports::fleet_store::{FleetStore as _, Holder, Record, WriteBatch};
    use orlop_core::testing::MemoryFleet;

    use super::*;

    #[tokio::test]
    async fn the_newest_version_is_resolved_and_keys_can_be_changed() {
        let store = MemoryFleet::new();
        let epoch = store.acquire(&Holder { name: "a".to_owned(), url: String::new() }).await.unwrap();
        let key = |byte| SealingKey::new(&[byte; 32]).unwrap();
        let (t, u): (TenantName, TenantName) = ("t".parse().unwrap(), "u".parse().unwrap());
        let secrets = SealedSecrets::new(Arc::new(store.clone()), key(1), Vec::new());
        assert_eq!(secrets.resolve(&t, "db").await.unwrap_err().class, Class::NotFound);
        let put = async |secrets: &SealedSecrets, tenant: &TenantName, name: &str, text: &str| {
            let newest = secrets.newest(tenant, name).await.unwrap().map(|secret| secret.version);
            let value = SecretValue::new(text.as_bytes());
            let sealed = secrets.seal(tenant, name, newest, &value, Time::EPOCH).unwrap();
            store.commit(epoch, vec![WriteBatch::new(vec![Record::put(&sealed).unwrap()])]).await.unwrap();
        };
        put(&secrets, &t, "db", "one").await;
        put(&secrets, &u, "db", "other").await;
        put(&secrets, &t, "db", "two").await;
        put(&secrets, &t, "api", "three").await;
        assert_eq!(secrets.resolve(&t, "db").await.unwrap().expose(), b"two");
        assert_eq!(secrets.resolve(&u, "db").await.unwrap().expose(), b"other");
        assert_eq!(secrets.names(&t).await.unwrap(), ["api", "db"]);
        assert_eq!(secrets.resolve(&t, "../u/db").await.unwrap_err().class, Class::Invalid);
        let renewed = SealedSecrets::new(Arc::new(store.clone()), key(2), vec![key(1)]);
        assert_eq!(renewed.resolve(&t, "db").await.unwrap().expose(), b"two");
        put(&renewed, &t, "db", "four").await;
        assert_eq!(renewed.resolve(&t, "db").await.unwrap().expose(), b"four");
        let error = secrets.resolve(&t, "db").await.unwrap_err();
        assert_eq!(error.class, Class::Denied);
        assert!(error.message.contains("which is not configured"), "{error}");
    }

    #[test]
    fn a_value_that_is_too_long_is_refused() {
        let secrets = SealedSecrets::new(Arc::new(MemoryFleet::new()), SealingKey::new(&[1; 32]).unwrap(), Vec::new());
        let long = SecretValue::new(vec![0; MAX_SECRET + 1]);
        let error = secrets.seal(&"t".parse().unwrap(), "db", None, &long, Time::EPOCH).unwrap_err();
        assert_eq!(error.class, Class::Invalid);
    }
}
