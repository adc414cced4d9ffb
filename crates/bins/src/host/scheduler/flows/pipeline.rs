//! Pipelines: definitions of flows that are kept, by version.

use orlop_core::error::{Code, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{Documents as _, EntryFilter, MAX_PAGE, Page, Paged, Pipeline, Record, part};
use orlop_core::spec::job::StepBackend;
use serde_json::{Value, json};

use super::Flows;
use super::submit::unavailable;
use crate::host::flow::Definition;
use crate::host::scheduler::error::not_found;
use orlop_core::ports::bus::EventBody;

/// Annotation with the name that a pipeline was given.
const ORIGINAL: &str = "workflow.kube-zen.io/original-name";

/// The text of a definition: itself where it is a text, else as JSON.
#[must_use]
pub fn definition_text(definition: &Value) -> String {
    match definition {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The name of a definition as it was written.
fn name_of(definition: &Definition) -> String {
    let metadata = &definition.manifest.flow.metadata;
    let written = metadata.annotations.get(ORIGINAL).cloned();
    let generated = metadata.generate_name.as_deref().map(|prefix| prefix.trim_end_matches('-').to_owned());
    let named = Some(metadata.name.clone()).filter(|name| !name.is_empty());
    written.or(named).or(generated).unwrap_or_default()
}

impl Flows {
    /// Keeps a definition that was found good.
    ///
    /// # Errors
    /// InvalidSpec with everything that is wrong, and nothing is kept; NotLeader and StoreUnavailable when nothing can be
    /// written here.
    pub async fn create_pipeline(&self, tenant: TenantName, definition: Value) -> Result<Pipeline, Problem> {
        self.inner.may_act().await?;
        let read = self.definition(&definition, StepBackend::default(), None).await?;
        let pipeline = Pipeline {
            id: uuid::Uuid::new_v4().to_string(),
            tenant,
            name: name_of(&read),
            version: 1,
            definition,
            created_at: self.inner.handle.clock().wall(),
            deleted_at: None,
        };
        self.keep_pipelines(std::slice::from_ref(&pipeline)).await?;
        self.tell_pipeline("pipeline.created", &pipeline);
        Ok(pipeline)
    }

    /// Keeps a new version of a pipeline. `known`: the version the caller knows, if it must be that.
    ///
    /// # Errors
    /// NotFound; Precondition when it has changed; and as of [`Flows::create_pipeline`].
    pub async fn update_pipeline(
        &self,
        id: &str,
        tenants: Option<&[TenantName]>,
        known: Option<u64>,
        definition: Value,
    ) -> Result<Pipeline, Problem> {
        self.inner.may_act().await?;
        let read = self.definition(&definition, StepBackend::default(), None).await?;
        let _one = self.inner.pipelines.lock().await;
        let before = self.pipeline(id, tenants).await?;
        check(&before, known)?;
        let created_at = self.inner.handle.clock().wall();
        let version = before.version.saturating_add(1);
        let pipeline = Pipeline { name: name_of(&read), version, definition, created_at, ..before };
        self.keep_pipelines(std::slice::from_ref(&pipeline)).await?;
        self.tell_pipeline("pipeline.updated", &pipeline);
        Ok(pipeline)
    }

    /// Deletes a pipeline; its flows keep running.
    ///
    /// # Errors
    /// As of [`Flows::update_pipeline`].
    pub async fn delete_pipeline(
        &self,
        id: &str,
        tenants: Option<&[TenantName]>,
        known: Option<u64>,
    ) -> Result<(), Problem> {
        self.inner.may_act().await?;
        let _one = self.inner.pipelines.lock().await;
        let newest = self.pipeline(id, tenants).await?;
        check(&newest, known)?;
        let now = self.inner.handle.clock().wall();
        let versions = self.versions(&format!("{}/", part(id)), None).await?;
        let gone: Vec<Pipeline> =
            versions.into_iter().map(|version| Pipeline { deleted_at: Some(now), ..version }).collect();
        self.keep_pipelines(&gone).await?;
        self.tell_pipeline("pipeline.deleted", &newest);
        Ok(())
    }

    /// The newest version of a pipeline. `tenants`: whose; none = all.
    ///
    /// # Errors
    /// NotFound; StoreUnavailable when it cannot be read now.
    pub async fn pipeline(&self, id: &str, tenants: Option<&[TenantName]>) -> Result<Pipeline, Problem> {
        let newest = self.versions(&format!("{}/", part(id)), None).await?.pop();
        let seen = |known: &Pipeline| {
            known.deleted_at.is_none() && tenants.is_none_or(|tenants| tenants.contains(&known.tenant))
        };
        let shown: String = id.chars().take(64).collect();
        newest.filter(seen).ok_or_else(|| not_found(format_args!("pipeline `{shown}`")))
    }

    /// The newest versions of pipelines, a page of at most `limit` in order of their ids; `after` is an id.
    ///
    /// # Errors
    /// StoreUnavailable when they cannot be read now.
    pub async fn pipelines(
        &self,
        tenants: Option<Vec<TenantName>>,
        after: Option<String>,
        limit: u32,
    ) -> Result<Paged<Pipeline, String>, Problem> {
        let mut newest: Vec<Pipeline> = Vec::new();
        for version in self.versions("", tenants).await? {
            match newest.last_mut() {
                Some(last) if last.id == version.id => *last = version,
                _ => newest.push(version),
            }
        }
        newest.retain(|known| known.deleted_at.is_none() && after.as_ref().is_none_or(|after| known.id > *after));
        let more = newest.len() > limit as usize;
        newest.truncate(limit as usize);
        let next = newest.last().filter(|_| more).map(|known| known.id.clone());
        Ok(Paged { items: newest, next })
    }

    async fn versions(&self, prefix: &str, tenants: Option<Vec<TenantName>>) -> Result<Vec<Pipeline>, Problem> {
        let filter = EntryFilter { prefix: prefix.to_owned(), tenants, live: true };
        let (mut found, mut page) = (Vec::new(), Page::first(MAX_PAGE));
        loop {
            let store = self.inner.handle.store();
            let part = store.list::<Pipeline>(&filter, &page).await.map_err(unavailable)?;
            found.extend(part.items);
            match part.next {
                Some(next) => page = Page::after(next, MAX_PAGE),
                None => return Ok(found),
            }
        }
    }

    async fn keep_pipelines(&self, pipelines: &[Pipeline]) -> Result<(), Problem> {
        let records: Result<Vec<Record>, _> = pipelines.iter().map(Record::put).collect();
        let records = records.map_err(unavailable)?;
        self.inner.journal.commit(records).await.map_err(unavailable)
    }

    fn tell_pipeline(&self, verb: &str, pipeline: &Pipeline) {
        self.inner.handle.publish(EventBody {
            kind: verb.to_owned(),
            time: self.inner.handle.clock().wall().to_string(),
            tenant: Some(pipeline.tenant.to_string()),
            data: json!({ "pipeline": pipeline.id, "name": pipeline.name, "version": pipeline.version }),
            ..EventBody::default()
        });
    }
}

fn check(pipeline: &Pipeline, known: Option<u64>) -> Result<(), Problem> {
    match known {
        Some(known) if known != u64::from(pipeline.version) => {
            let text = format!("it has changed: its version is {}, not {known}; read it again", pipeline.version);
            Err(Problem::coded(Code::Precondition, text))
        }
        _ => Ok(()),
    }
}
