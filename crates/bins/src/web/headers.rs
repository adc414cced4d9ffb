//! What every answer of the page says to the browser: nothing but its own files, in no frame, with nothing allowed.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

const ALL: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "accelerometer=(), autoplay=(), bluetooth=(), camera=(), clipboard-read=(), clipboard-write=(self), \
         display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), \
         magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), publickey-credentials-get=(), \
         screen-wake-lock=(), serial=(), usb=(), web-share=(), xr-spatial-tracking=()",
    ),
];

/// Adds them.
pub(crate) fn secure(headers: &mut HeaderMap) {
    for (name, value) in ALL {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}
