//! Glance in memory, in pages of two.

use serde_json::json;

use super::world::World;
use super::{json as answer, route, text};
use crate::openstack::wire::{Method, Request, Response};

pub(super) fn serve(world: &World, request: &Request) -> Response {
    let (method, parts, query) = route(request);
    match (method, parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice()) {
        (Method::Get, ["images"]) => {
            let marker = query.iter().find(|(key, _)| key == "marker").map(|(_, marker)| marker.clone());
            let from = match &marker {
                Some(marker) => {
                    world.images.iter().position(|image| text(image, "id") == *marker).map_or(0, |at| at + 1)
                }
                None => 0,
            };
            let page: Vec<_> = world.images.iter().skip(from).take(2).cloned().collect();
            let mut body = json!({"images": page, "schema": "/v2/schemas/images"});
            if from + 2 < world.images.len()
                && let Some(last) = page.last()
            {
                body["next"] = json!(format!("/v2/images?limit=2&marker={}", text(last, "id")));
            }
            answer(200, &body)
        }
        (Method::Get, ["images", id]) => match world.images.iter().find(|image| text(image, "id") == *id) {
            Some(image) => answer(200, image),
            None => Response {
                status: 404,
                body: "<html><title>404 Not Found</title></html>".into(),
                ..Response::default()
            },
        },
        _ => Response { status: 404, ..Response::default() },
    }
}
