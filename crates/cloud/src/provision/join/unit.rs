//! The unit that keeps a worker running on a machine that joined.

use std::collections::BTreeMap;

use super::Address;

/// Where the program is.
pub(super) const PROGRAM: &str = "/usr/local/bin/orlop-worker";
/// Where the token is until the worker has used it.
pub(super) const TOKEN: &str = "/run/orlop/join-token";
/// The name of the unit.
#[cfg(feature = "openstack")]
pub(super) const NAME: &str = "orlop-worker.service";

/// The unit. What is drained stays away: only a worker that failed is started again.
const UNIT: &str = "[Unit]
Description=Orlop worker agent
After=network-online.target docker.service
Wants=network-online.target

[Service]
ExecStart=COMMAND
Restart=on-failure
RestartSec=1
# SIGTERM drains: jobs get this long to end, then are cancelled.
TimeoutStopSec=660
KillMode=process
Delegate=cpu memory pids
TasksMax=infinity
StateDirectory=orlop-worker
StateDirectoryMode=0700
LimitNOFILE=65536
LimitCORE=0
PrivateTmp=no
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
";

/// A word of a command as systemd takes it: nothing in it is a quote, a variable, a specifier or the end of a line.
fn word(text: &str) -> String {
    let mut quoted = String::from("\"");
    for ch in text.chars() {
        match ch {
            '"' | '\\' => quoted.extend(['\\', ch]),
            '%' | '$' => quoted.extend([ch, ch]),
            ch if ch.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(ch))),
            ch => quoted.push(ch),
        }
    }
    quoted.push('"');
    quoted
}

/// The unit that runs a worker of a server, with labels.
#[must_use]
pub fn unit(server: &Address, labels: &BTreeMap<String, String>) -> String {
    let mut words = [PROGRAM, "--server", server.as_str(), "--join-token-file", TOKEN, "--delete-join-token"]
        .map(str::to_owned)
        .to_vec();
    words.extend(["--state", "/var/lib/orlop-worker"].map(str::to_owned));
    for (key, value) in labels {
        words.extend(["--label".to_owned(), format!("{key}={value}")]);
    }
    let command: Vec<String> =
        words.iter().enumerate().map(|(at, text)| if at == 0 { text.clone() } else { word(text) }).collect();
    UNIT.replace("COMMAND", &command.join(" "))
}
