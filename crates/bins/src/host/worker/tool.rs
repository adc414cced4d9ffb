//! What tools of this machine print.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Bytes of an answer at most.
const MOST: u64 = 1 << 20;

/// What a program prints, if it ends well in time.
pub(super) fn ask(command: &mut Command, patience: Duration) -> Option<String> {
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let out = child.stdout.take()?;
    let (tell, reported) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = out.take(MOST).read_to_string(&mut text).ok().map(|_| text);
        // Who does not wait any more misses it.
        drop(tell.send(read));
    });
    let Ok(text) = reported.recv_timeout(patience) else {
        // One that hangs in the driver ends when the driver lets it: it is not waited for.
        drop(child.kill());
        return None;
    };
    text.filter(|_| child.wait().is_ok_and(|status| status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_counts_when_it_ends_well_in_time() {
        let long = Duration::from_secs(10);
        let shell = |script: &str, patience| ask(Command::new("sh").args(["-c", script]), patience);
        assert_eq!(shell("printf 'a\\tb'", long).as_deref(), Some("a\tb"));
        assert_eq!(shell("echo a; exit 9", long), None);
        assert_eq!(shell("echo a; exec sleep 60", Duration::from_millis(50)), None);
        assert_eq!(ask(&mut Command::new("/nothing/like/this"), long), None);
    }
}
