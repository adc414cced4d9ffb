//! The log of the program.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Mutex, PoisonError};

use orlop_cloud::scrub::scrubbed;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::args::OutputArgs;
use super::failure::Failure;

/// Starts the log: to a file if one is named, else to standard error.
///
/// # Errors
/// The file cannot be written.
pub(super) fn start(output: &OutputArgs) -> Result<(), Failure> {
    let level = match output {
        _ if output.verbose || output.log_file.is_some() => "warn,orlop=debug,orlop_cloud=debug",
        _ if output.quiet => "error",
        _ => "warn",
    };
    let filter = EnvFilter::try_from_env("ORLOP_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let to: Box<dyn Write + Send> = match &output.log_file {
        None => Box::new(io::stderr()),
        Some(path) => {
            let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            let failed = |error| Failure::usage(format!("--log-file {}: {error}", path.display()));
            Box::new(opened.map_err(failed)?)
        }
    };
    let lines =
        crate::telemetry::lines().with_env_filter(filter).with_ansi(false).with_writer(Redactor(Mutex::new(to)));
    // A program that embeds this may have its own log already.
    drop(lines.try_init());
    Ok(())
}

/// Where lines go, without secrets.
struct Redactor(Mutex<Box<dyn Write + Send>>);

/// A line on its way.
struct Line<'a>(&'a Redactor);

impl<'a> MakeWriter<'a> for Redactor {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Line(self)
    }
}

impl Write for Line<'_> {
    /// Each line comes whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let clean = scrubbed(&String::from_utf8_lossy(bytes));
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(clean.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_line_of_the_log_holds_a_secret() {
        let kept = Kept::default();
        let writer = Redactor(Mutex::new(Box::new(kept.clone())));
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let key = format!("ghp_{}", "Q7wE9rT2yU5iO8pA1sD4fG6hJ3kL0zXc");
        tracing::subscriber::with_default(lines, || {
            tracing::warn!(password = "hunter2hunter2", url = %format!("https://u:{key}@h/x"), "token={key} seen");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("seen") && text.contains("[scrubbed:"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("Q7wE"), "{text}");
    }
}
