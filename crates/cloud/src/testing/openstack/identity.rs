//! Keystone in memory.

use orlop_core::time::Time;
use serde_json::{Value, json};

use super::world::{PROJECT, World};
use super::{json as answer, text};
use crate::openstack::classify::Service;
use crate::openstack::wire::{Request, Response, Token};

/// What is accepted as password and secret.
pub(super) const PASSWORD: &str = "secret-of-the-double";

pub(super) fn is_good(world: &World, now: Time, token: &str) -> bool {
    world.tokens.get(token).is_some_and(|end| *end > now)
}

/// The answer to a token that is not good; the image service answers in HTML.
pub(super) fn unauthorized(service: Service) -> Response {
    if service == Service::Image {
        let body = "<html><head><title>401 Unauthorized</title></head></html>".to_owned();
        return Response { status: 401, body, ..Response::default() };
    }
    refused(401, "Unauthorized", "The request you have made requires authentication.")
}

fn refused(code: u16, title: &str, message: &str) -> Response {
    answer(code, &json!({"error": {"code": code, "title": title, "message": message}}))
}

/// The identity provider that is known here, and what it knows.
const PROVIDER: &str = "/OS-FEDERATION/identity_providers/campus/protocols/openid/auth";
const CLIENT: &str = "client-of-the-double";
const ACCESS: &str = "access-token-of-the-double";

/// The answer of the identity provider, and of the service to whom the provider speaks for.
fn federated(world: &mut World, now: Time, request: &Request, proof: &str) -> Option<Response> {
    let form = |key: &str| request.body.as_ref().map(|body| text(body, key)).unwrap_or_default();
    if request.path.ends_with("/oidc/.well-known/openid-configuration") {
        let endpoint = format!("{}/identity/v3/oidc/token", world.address);
        return Some(answer(200, &json!({"token_endpoint": endpoint})));
    }
    if request.path.ends_with("/oidc/token") {
        let by_password = form("grant_type") == "password" && form("scope").contains("openid");
        let good = by_password && form("client_id") == CLIENT && form("password") == PASSWORD;
        return Some(if good {
            answer(200, &json!({"access_token": ACCESS, "token_type": "Bearer"}))
        } else {
            answer(400, &json!({"error": "invalid_grant", "error_description": "Invalid user credentials"}))
        });
    }
    if request.path != PROVIDER {
        return None;
    }
    if proof != format!("Bearer {ACCESS}") {
        return Some(unauthorized(Service::Identity));
    }
    let id = world.id("unscoped");
    world.tokens.insert(id.clone(), now.plus(world.token_lasts));
    let token = json!({"token": {"methods": ["mapped"], "user": {"id": "user"}}});
    Some(Response { subject_token: Some(Token(id)), ..answer(201, &token) })
}

/// The answer to a request and what it proved itself by.
pub(super) fn serve(world: &mut World, now: Time, request: &Request, proof: &str) -> Response {
    if let Some(response) = federated(world, now, request, proof) {
        return response;
    }
    let body = request.body.as_ref().unwrap_or(&Value::Null);
    let Some(identity) = body.get("auth").and_then(|auth| auth.get("identity")) else {
        return refused(400, "Bad Request", "Expecting to find auth in request body.");
    };
    let mut token =
        json!({"project": {"id": PROJECT}, "user": {"id": "user"}, "roles": [{"name": "member"}, {"name": "reader"}]});
    match identity.get("methods").and_then(|methods| methods.get(0)).and_then(Value::as_str) {
        Some("password") => {
            let password = identity.pointer("/password/user/password").and_then(Value::as_str);
            if password != Some(PASSWORD) {
                return unauthorized(Service::Identity);
            }
        }
        Some("application_credential") => {
            let credential = identity.get("application_credential").unwrap_or(&Value::Null);
            if text(credential, "id") != "credential" {
                let words = format!("Could not find Application Credential: {}.", text(credential, "id"));
                return refused(404, "Not Found", &words);
            }
            if text(credential, "secret") != PASSWORD {
                return unauthorized(Service::Identity);
            }
            token["application_credential"] = json!({"id": "credential", "restricted": world.restricted});
        }
        Some("token")
            if identity.pointer("/token/id").and_then(Value::as_str).is_some_and(|id| is_good(world, now, id)) => {}
        _ => return unauthorized(Service::Identity),
    }
    let end = now.plus(world.token_lasts);
    token["expires_at"] = json!(end.to_string());
    let address = world.address.clone();
    let endpoint = |kind: &str| {
        json!({"type": kind, "endpoints": [
            {"interface": "admin", "region": "test", "region_id": "test", "url": "https://admin.invalid"},
            {"interface": "public", "region": "test", "region_id": "test", "url": format!("{address}/{kind}/")},
        ]})
    };
    let kinds = ["identity", "image", "compute", "network", "reservation"];
    let is_there = |kind: &&&str| world.reserves || **kind != "reservation";
    token["catalog"] = kinds.iter().filter(is_there).map(|kind| endpoint(kind)).collect();
    let id = world.id("token");
    world.tokens.insert(id.clone(), end);
    Response { subject_token: Some(Token(id)), ..answer(201, &json!({"token": token})) }
}
