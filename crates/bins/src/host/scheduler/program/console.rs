//! The section `console` of the configuration: where the web page is found, and how long its sessions live.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::engine::milliseconds;
use crate::web::{Lives, Place};

/// The web page of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Args)]
pub(super) struct ConsoleConfig {
    /// Whether the server has the page, below /ui/ of its REST interface.
    #[arg(id = "console.enabled")]
    pub(super) enabled: bool,
    /// Where browsers find it behind a reverse proxy, such as `https://orlop.example.org/ui/`; empty = at `server.url`.
    #[arg(id = "console.public_url")]
    pub(super) public_url: String,
    /// How long changes are gathered before they are sent to pages, 50 to 1000.
    #[arg(id = "console.tick", value_parser = milliseconds::<u64>)]
    pub(super) tick: u64,
    /// How long a browser is signed in, one hour to seven days.
    #[arg(id = "console.session", value_parser = milliseconds::<u64>)]
    pub(super) session: u64,
    /// How long one is that asks for nothing, five minutes to a day.
    #[arg(id = "console.idle", value_parser = milliseconds::<u64>)]
    pub(super) idle: u64,
    /// How long a link that signs in can be used, 10 s to 10 min.
    #[arg(id = "console.link", value_parser = milliseconds::<u64>)]
    pub(super) link: u64,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        let lives = Lives::default();
        Self {
            enabled: true,
            public_url: String::new(),
            tick: 100,
            session: millis(lives.session),
            idle: millis(lives.idle),
            link: millis(lives.link),
        }
    }
}

/// The console of a server: how it behaves, and where it is found if that was said.
#[derive(Clone, Debug)]
pub(crate) struct ConsolePlan {
    /// Where browsers find it; none = at the address of the REST interface.
    pub(crate) place: Option<Place>,
    /// How long sessions and links live.
    pub(crate) lives: Lives,
    /// How long changes are gathered.
    pub(crate) tick: Duration,
}

impl Default for ConsolePlan {
    fn default() -> Self {
        Self { place: None, lives: Lives::default(), tick: Duration::from_millis(100) }
    }
}

impl ConsoleConfig {
    /// What it says; none where there is no page.
    ///
    /// # Errors
    /// A value is out of its range, or the address is none.
    pub(super) fn plan(&self) -> Result<Option<ConsolePlan>, String> {
        const SECOND: u64 = 1000;
        const MINUTE: u64 = 60 * SECOND;
        const HOUR: u64 = 60 * MINUTE;
        let ranges = [
            ("tick", self.tick, 50, SECOND),
            ("session", self.session, HOUR, 7 * 24 * HOUR),
            ("idle", self.idle, 5 * MINUTE, 24 * HOUR),
            ("link", self.link, 10 * SECOND, 10 * MINUTE),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("console.{key} is {value} ms; use {least} to {most} ms"));
            }
        }
        let given = (!self.public_url.is_empty()).then(|| Place::public(&self.public_url)).transpose();
        let place = given.map_err(|error| format!("console.public_url: {}", error.message))?;
        let [session, idle, link] = [self.session, self.idle, self.link].map(Duration::from_millis);
        let (lives, tick) = (Lives { session, idle, link }, Duration::from_millis(self.tick));
        Ok(self.enabled.then_some(ConsolePlan { place, lives, tick }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_of_sessions_and_the_address_of_the_page_are_checked() {
        assert!(ConsoleConfig::default().plan().unwrap().is_some());
        assert!(ConsoleConfig { enabled: false, ..ConsoleConfig::default() }.plan().unwrap().is_none());
        let said = [
            ConsoleConfig { tick: 10, ..ConsoleConfig::default() },
            ConsoleConfig { idle: 1, ..ConsoleConfig::default() },
            ConsoleConfig { link: 601_000, ..ConsoleConfig::default() },
            ConsoleConfig { public_url: "http://a.example/ui/".to_owned(), ..ConsoleConfig::default() },
        ]
        .map(|config| config.plan().unwrap_err());
        insta::assert_snapshot!(said.join("\n"), @"
        console.tick is 10 ms; use 50 to 1000 ms
        console.idle is 1 ms; use 300000 to 86400000 ms
        console.link is 601000 ms; use 10000 to 600000 ms
        console.public_url: `http://a.example/ui/` is not the address of the page: use https, or http on loopback; such as https://orlop.example.org/ui/
        ");
    }
}
