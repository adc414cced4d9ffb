//! The network service.

use async_trait::async_trait;
use serde_json::json;

use super::pages::{escaped, list, object};
use super::session::Session;
use crate::openstack::classify::{Call, Meaning, Service};
use crate::openstack::port::{Answered, FloatingIp, NetPort, Network, Networking, NewFloatingIp, SecurityGroup};
use crate::openstack::read;
use crate::openstack::wire::{Method, Request};

#[async_trait]
impl Networking for Session {
    async fn networks(&self) -> Answered<Vec<Network>> {
        Ok(list(self, Service::Network, "/networks", "networks").await?.iter().filter_map(read::network).collect())
    }

    async fn ports(&self, device: &str) -> Answered<Vec<NetPort>> {
        let path = format!("/ports?device_id={}", escaped(device));
        let found = list(self, Service::Network, &path, "ports").await?;
        Ok(found.iter().filter_map(read::net_port).filter(|port| port.device == device).collect())
    }

    async fn delete_port(&self, id: &str) -> Answered<()> {
        self.call(Request::delete(Service::Network, format!("/ports/{}", escaped(id)))).await.map(|_| ())
    }

    async fn floating_ip(&self, id: &str) -> Answered<FloatingIp> {
        let document = self.call(Request::get(Service::Network, format!("/floatingips/{}", escaped(id)))).await?;
        object(Service::Network, "GET /floatingips", &document, "floatingip", read::floating_ip, Meaning::Transient)
    }

    async fn floating_ips(&self) -> Answered<Vec<FloatingIp>> {
        let found = list(self, Service::Network, "/floatingips", "floatingips").await?;
        Ok(found.iter().filter_map(read::floating_ip).collect())
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp) -> Answered<FloatingIp> {
        let mut address = json!({"floating_network_id": new.network, "description": new.description});
        if let Some(port) = &new.port {
            address["port_id"] = json!(port);
        }
        let body = json!({"floatingip": address});
        let request = Request::with(Service::Network, Call::Create, Method::Post, "/floatingips", body);
        let document = self.call(request).await?;
        object(Service::Network, "POST /floatingips", &document, "floatingip", read::floating_ip, Meaning::Ambiguous)
    }

    async fn bind_floating_ip(&self, id: &str, port: &str) -> Answered<FloatingIp> {
        let body = json!({"floatingip": {"port_id": port}});
        let path = format!("/floatingips/{}", escaped(id));
        let document = self.call(Request::with(Service::Network, Call::Bind, Method::Put, path, body)).await?;
        object(Service::Network, "PUT /floatingips", &document, "floatingip", read::floating_ip, Meaning::Transient)
    }

    async fn delete_floating_ip(&self, id: &str) -> Answered<()> {
        self.call(Request::delete(Service::Network, format!("/floatingips/{}", escaped(id)))).await.map(|_| ())
    }

    async fn security_groups(&self) -> Answered<Vec<SecurityGroup>> {
        let found = list(self, Service::Network, "/security-groups", "security_groups").await?;
        Ok(found.iter().filter_map(read::security_group).collect())
    }

    async fn create_security_group(&self, name: &str, description: &str) -> Answered<SecurityGroup> {
        let body = json!({"security_group": {"name": name, "description": description}});
        let request = Request::with(Service::Network, Call::Create, Method::Post, "/security-groups", body);
        let document = self.call(request).await?;
        object(
            Service::Network,
            "POST /security-groups",
            &document,
            "security_group",
            read::security_group,
            Meaning::Ambiguous,
        )
    }

    async fn allow_ssh(&self, group: &str, from: &str) -> Answered<()> {
        let rule = json!({
            "security_group_id": group,
            "direction": "ingress",
            "ethertype": if from.contains(':') { "IPv6" } else { "IPv4" },
            "protocol": "tcp",
            "port_range_min": 22,
            "port_range_max": 22,
            "remote_ip_prefix": from,
        });
        let body = json!({"security_group_rule": rule});
        // A rule that already exists is refused, so that asking twice is the same as once.
        let request = Request::with(Service::Network, Call::Change, Method::Post, "/security-group-rules", body);
        match self.call(request).await {
            Err(error) if error.status == Some(409) => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    async fn delete_security_group(&self, id: &str) -> Answered<()> {
        self.call(Request::delete(Service::Network, format!("/security-groups/{}", escaped(id)))).await.map(|_| ())
    }
}
