//! The image service.

use async_trait::async_trait;
use serde_json::Value;

use super::pages::{escaped, list};
use super::session::Session;
use crate::openstack::classify::Service;
use crate::openstack::port::{Answered, Images};
use crate::openstack::wire::Request;

#[async_trait]
impl Images for Session {
    async fn images(&self) -> Answered<Vec<Value>> {
        list(self, Service::Image, "/images?status=active&limit=200&sort=created_at:desc", "images").await
    }

    async fn image(&self, id: &str) -> Answered<Value> {
        self.call(Request::get(Service::Image, format!("/images/{}", escaped(id)))).await
    }
}
