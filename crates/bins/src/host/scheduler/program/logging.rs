//! The log of the program: JSON lines, or text on a terminal, with a filter that can be changed while it runs.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Args)]
pub(super) struct LogConfig {
    /// Filter by target and level, such as `info,orlop=debug`.
    #[arg(id = "log.level")]
    pub(super) level: String,
    /// JSON lines, text, or text on a terminal only.
    #[arg(id = "log.format", value_enum, ignore_case = true)]
    pub(super) format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::default() }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogFormat {
    /// Text on a terminal, else JSON.
    #[default]
    Auto,
    /// JSON lines.
    Json,
    /// Text.
    Text,
}

/// Changes the filter of the log.
pub(super) struct Log(Box<dyn Fn(EnvFilter) -> Result<(), String> + Send>);

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

fn filter(config: &LogConfig) -> Result<EnvFilter, String> {
    EnvFilter::try_new(&config.level).map_err(|error| format!("log.level: {error}"))
}

/// Refuses what can be no filter of a log. A single word is a level; as the name of a part it would silence all others.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(config: &LogConfig) -> Result<(), String> {
    let mut parts = config.level.split(',').map(str::trim);
    let is_word = |part: &&str| !part.contains([':', '=', '[']);
    if let Some(word) = parts.find(|part| is_word(part) && part.parse::<LevelFilter>().is_err() && *part != "orlop") {
        return Err(format!(
            "log.level: `{word}` is not a log level; use off, error, warn, info, debug, trace, or PART=LEVEL"
        ));
    }
    filter(config).map(drop)
}

impl Log {
    /// Starts the log of this process.
    ///
    /// # Errors
    /// The filter cannot be read, or there is a log already.
    pub(super) fn start(config: &LogConfig) -> Result<Self, String> {
        let lines = crate::telemetry::lines().with_env_filter(filter(config)?).with_writer(std::io::stderr);
        let json = match config.format {
            LogFormat::Auto => !std::io::stderr().is_terminal(),
            LogFormat::Json => true,
            LogFormat::Text => false,
        };
        if json {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            lines.try_init().map_err(|error| error.to_string())?;
            return Ok(Self(Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))));
        }
        let lines = lines.with_filter_reloading();
        let handle = lines.reload_handle();
        lines.try_init().map_err(|error| error.to_string())?;
        Ok(Self(Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))))
    }

    /// Goes on with another filter.
    ///
    /// # Errors
    /// The filter cannot be read; the one before stays.
    pub(super) fn change(&self, config: &LogConfig) -> Result<(), String> {
        (self.0)(filter(config)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_silences_nothing() {
        let level = |text: &str| check(&LogConfig { level: text.to_owned(), ..LogConfig::default() });
        for good in ["info", "DEBUG", "off", "info,orlop=debug", "orlop::jobs=trace,warn"] {
            assert_eq!(level(good), Ok(()), "{good}");
        }
        insta::assert_snapshot!(level("LOUD").unwrap_err(), @"log.level: `LOUD` is not a log level; use off, error, warn, info, debug, trace, or PART=LEVEL");
    }
}
