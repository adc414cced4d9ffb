//! Secrets of the server's configuration: which keys hold one, and the configuration without them.

use super::config::Config;

impl Config {
    /// The keys that hold a secret.
    pub(super) fn secret_keys(&self) -> impl Iterator<Item = &'static str> {
        let masked = self.clone().masked();
        let keys = [
            ("secrets.key", self.secrets.key != masked.secrets.key),
            ("store.url", self.store.url != masked.store.url),
            ("bus.url", self.bus.url != masked.bus.url),
            ("bus.token", self.bus.token != masked.bus.token),
        ];
        keys.into_iter().filter_map(|(key, is_secret)| is_secret.then_some(key))
    }

    /// The same as it may be shown: without secrets.
    pub(super) fn masked(mut self) -> Self {
        if !self.store.url.is_empty() {
            self.store.url = masked_url(&self.store.url);
        }
        if !self.secrets.key.is_empty() {
            self.secrets.key = "***".to_owned();
        }
        if !self.bus.url.is_empty() {
            self.bus.url = self.bus.url.split(',').map(masked_url).collect::<Vec<_>>().join(",");
        }
        if !self.bus.token.is_empty() {
            self.bus.token = "***".to_owned();
        }
        self
    }
}

/// Whether a parameter of an address holds a secret.
fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "token", "secret"].iter().any(|part| name.contains(part))
}

/// An address, or words as PostgreSQL takes them, without their password.
fn masked_url(url: &str) -> String {
    const MASK: &str = "***";
    if let Some((scheme, rest)) = url.split_once("://") {
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let shown = match authority.rsplit_once('@') {
            Some((user, host)) => match user.split_once(':') {
                Some((user, _)) => format!("{user}:{MASK}@{host}"),
                None => authority.to_owned(),
            },
            None => authority.to_owned(),
        };
        // A query can hold a password too, under more names than one.
        let pair = |pair: &str| match pair.split_once('=') {
            Some((name, _)) if names_secret(name) => format!("{name}={MASK}"),
            _ => pair.to_owned(),
        };
        let masked = |query: &str| query.split('&').map(pair).collect::<Vec<_>>().join("&");
        let path = path.split_once('?').map_or(path.to_owned(), |(path, query)| format!("{path}?{}", masked(query)));
        return format!("{scheme}://{shown}{path}");
    }
    let word = |word: &str| match word.split_once('=') {
        Some((name, _)) if names_secret(name) => format!("{name}={MASK}"),
        _ => word.to_owned(),
    };
    // A quoted password can hold blanks: of such words nothing is shown.
    if url.contains('\'') { MASK.to_owned() } else { url.split(' ').map(word).collect::<Vec<_>>().join(" ") }
}

#[cfg(test)]
mod tests {
    use super::super::config::StoreConfig;
    use super::*;

    #[test]
    fn passwords_of_addresses_are_masked() {
        for (url, shown) in [
            ("postgres://orlop:hush@db:5432/orlop", "postgres://orlop:***@db:5432/orlop"),
            ("postgres://orlop@db/orlop", "postgres://orlop@db/orlop"),
            ("postgres://a:hu@sh@db", "postgres://a:***@db"),
            ("postgres://db/orlop?sslmode=require&password=hush", "postgres://db/orlop?sslmode=require&password=***"),
            ("postgres://db/orlop?sslpassword=hush&host=/run", "postgres://db/orlop?sslpassword=***&host=/run"),
            ("host=db password=hush user=orlop", "host=db password=*** user=orlop"),
            ("host=db password='hu sh'", "***"),
        ] {
            let store = StoreConfig { url: url.to_owned(), ..StoreConfig::default() };
            assert_eq!(Config { store, ..Config::default() }.masked().store.url, shown);
        }
    }
}
