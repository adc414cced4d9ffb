//! How busy the GPUs of this machine are: `nvidia-smi` tells of NVIDIA's, the kernel of AMD's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use orlop_cloud::runtime::worker::GpuDevice;

use super::tool::ask;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(4);
/// A tool that does not answer is asked again after so long at first, then after twice as long each time: one that hangs in
/// the driver stays until the driver lets it go.
const AGAIN: Duration = Duration::from_secs(30);
/// And after so long at most.
const AGAIN_MAX: Duration = Duration::from_secs(3600);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct GpuUse {
    devices: Vec<GpuDevice>,
    /// When NVIDIA's tool is asked again after it did not answer, and how long that was waited for.
    silent: Option<(Instant, Duration)>,
}

impl GpuUse {
    /// Of whole devices: tools do not tell how busy a slice is.
    pub(super) fn new(mut devices: Vec<GpuDevice>) -> Self {
        devices.retain(|device| !device.is_slice());
        Self { devices, silent: None }
    }

    /// How busy each device is, 0 to 100, in the order in which they were given. Takes seconds where a driver is slow.
    pub(super) fn look(&mut self) -> Vec<f64> {
        let has = |devices: &[GpuDevice], vendor| devices.iter().any(|device| device.vendor == vendor);
        let mut known: BTreeMap<(&str, u32), f64> = BTreeMap::new();
        if has(&self.devices, "nvidia") && self.silent.is_none_or(|(until, _)| until <= Instant::now()) {
            let mut command = Command::new("nvidia-smi");
            command.args(["--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits"]);
            let reported = ask(&mut command, PATIENCE);
            self.silent = match (&reported, self.silent) {
                (Some(_), _) => None,
                (None, before) => {
                    let wait = before.map_or(AGAIN, |(_, wait)| wait.saturating_mul(2).min(AGAIN_MAX));
                    tracing::info!(seconds = wait.as_secs(), "`nvidia-smi` does not answer; it is asked again later");
                    Some((Instant::now() + wait, wait))
                }
            };
            known.extend(
                nvidia(&reported.unwrap_or_default()).into_iter().map(|(index, busy)| (("nvidia", index), busy)),
            );
        }
        if has(&self.devices, "amd") {
            let reported = amd(Path::new("/sys/class/drm"));
            known.extend(reported.into_iter().zip(0..).map(|(busy, index)| (("amd", index), busy)));
        }
        if known.is_empty() {
            return Vec::new();
        }
        let busy = |device: &GpuDevice| known.get(&(device.vendor.as_str(), device.index)).copied().unwrap_or(0.0);
        self.devices.iter().map(busy).collect()
    }
}

/// Lines of a number and a percentage.
fn nvidia(text: &str) -> Vec<(u32, f64)> {
    let line = |line: &str| {
        let (index, busy) = line.split_once(',')?;
        Some((index.trim().parse().ok()?, percent(busy)?))
    };
    text.lines().filter_map(line).collect()
}

/// Of each card that counts it, in the order of their numbers.
fn amd(folder: &Path) -> Vec<f64> {
    let mut cards: Vec<(u32, f64)> = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("card")?.parse().ok());
        let busy = fs::read_to_string(entry.path().join("device/gpu_busy_percent")).ok();
        cards.extend(number.zip(busy.and_then(|busy| percent(&busy))));
    }
    cards.sort_by_key(|(number, _)| *number);
    cards.into_iter().map(|(_, busy)| busy).collect()
}

fn percent(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number| (0.0..=100.0).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tool_of_nvidia_prints_is_read_line_by_line() {
        assert_eq!(nvidia("0, 37\n1, 0\n"), [(0, 37.0), (1, 0.0)]);
        assert_eq!(nvidia("0, [N/A]\n1, 100\nFailed to initialize NVML\n2, 101\n"), [(1, 100.0)]);
    }

    #[test]
    fn cards_of_amd_are_read_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for (card, busy) in [("card10", "3\n"), ("card2", "97\n"), ("card2-DP-1", "1\n"), ("renderD128", "1\n")] {
            let device = dir.path().join(card).join("device");
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("gpu_busy_percent"), busy).unwrap();
        }
        fs::create_dir_all(dir.path().join("card1/device")).unwrap();
        assert_eq!(amd(dir.path()), [97.0, 3.0]);
        assert!(amd(Path::new("/no/such/place")).is_empty());
    }

    #[test]
    fn nothing_is_said_where_nobody_tells() {
        assert!(GpuUse::default().look().is_empty());
        let device = GpuDevice::numbered("acme", 0);
        assert!(GpuUse::new(vec![device]).look().is_empty());
    }
}
