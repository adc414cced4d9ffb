//! Whether a process of this machine was stopped by a signal.

/// Whether a process is there and was stopped, by SIGSTOP or from a terminal; with `start` only the one that started then, in
/// clock ticks from the boot of the machine.
#[must_use]
pub fn is_stopped(pid: i32, start: Option<u64>) -> bool {
    // Where there is no such file, nobody knows.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it is in parentheses and may hold anything.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let mut fields = fields.split_ascii_whitespace();
    let stopped = matches!(fields.next(), Some("T" | "t"));
    stopped && start.is_none_or(|start| fields.nth(18).and_then(|field| field.parse().ok()) == Some(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_is_distinguished_from_one_that_runs_and_one_that_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!is_stopped(pid, None));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGSTOP).unwrap();
        while !is_stopped(pid, None) {
            std::thread::yield_now();
        }
        assert!(!is_stopped(pid, Some(1)), "another process that had its id");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_stopped(pid, None));
    }
}
