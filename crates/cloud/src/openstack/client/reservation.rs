//! The reservation service.

use async_trait::async_trait;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::pages::{escaped, list, object};
use super::session::Session;
use crate::catalog::read_allocations;
use crate::catalog::window::Allocation;
use crate::openstack::classify::{Call, Meaning, Service};
use crate::openstack::port::{Answered, CloudError, Lease, NewLease, Reservations, Reserve};
use crate::openstack::read;
use crate::openstack::wire::{Method, Request};

fn reservation(reserve: &Reserve) -> Value {
    match reserve {
        // Both properties are always sent, also when they are empty.
        Reserve::Host { hypervisor_properties, resource_properties } => json!({
            "resource_type": "physical:host",
            "min": 1,
            "max": 1,
            "hypervisor_properties": hypervisor_properties,
            "resource_properties": resource_properties,
            "before_end": "default",
        }),
        Reserve::Flavor { flavor_id } => {
            json!({"resource_type": "flavor:instance", "flavor_id": flavor_id, "amount": 1, "affinity": null})
        }
    }
}

#[async_trait]
impl Reservations for Session {
    async fn hosts(&self) -> Answered<Value> {
        self.call(Request::get(Service::Reservation, "/os-hosts")).await
    }

    async fn allocations(&self) -> Answered<Vec<Allocation>> {
        let document = self.call(Request::get(Service::Reservation, "/os-hosts/allocations")).await?;
        read_allocations(&document.to_string()).map_err(|error| {
            let name = "GET /os-hosts/allocations";
            CloudError::own(Service::Reservation, name, Meaning::Transient, error.to_string())
        })
    }

    async fn leases(&self) -> Answered<Vec<Lease>> {
        Ok(list(self, Service::Reservation, "/leases", "leases").await?.iter().filter_map(read::lease).collect())
    }

    async fn lease(&self, id: &str) -> Answered<Lease> {
        let document = self.call(Request::get(Service::Reservation, format!("/leases/{}", escaped(id)))).await?;
        object(Service::Reservation, "GET /leases", &document, "lease", read::lease, Meaning::Transient)
    }

    async fn create_lease(&self, new: &NewLease) -> Answered<Lease> {
        let body = json!({
            "name": new.name,
            "start_date": new.start.map_or_else(|| "now".to_owned(), read::minutes),
            "end_date": read::minutes(new.end),
            "events": [],
            "reservations": [reservation(&new.reserve)],
        });
        let request = Request::with(Service::Reservation, Call::Create, Method::Post, "/leases", body);
        let document = self.call(request).await?;
        object(Service::Reservation, "POST /leases", &document, "lease", read::lease, Meaning::Ambiguous)
    }

    async fn extend_lease(&self, id: &str, end: Time) -> Answered<Lease> {
        let body = json!({"end_date": read::minutes(end)});
        let path = format!("/leases/{}", escaped(id));
        let document = self.call(Request::with(Service::Reservation, Call::Change, Method::Put, path, body)).await?;
        object(Service::Reservation, "PUT /leases", &document, "lease", read::lease, Meaning::Transient)
    }

    async fn delete_lease(&self, id: &str) -> Answered<()> {
        self.call(Request::delete(Service::Reservation, format!("/leases/{}", escaped(id)))).await.map(|_| ())
    }
}
