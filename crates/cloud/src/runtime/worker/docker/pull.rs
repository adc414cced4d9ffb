//! What a pull tells, for the log of the attempt that waits for it. Owns which of it is worth a line, and how often; never
//! pulls.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bollard::models::CreateImageInfo;

/// Between two lines about progress.
const PAUSE: Duration = Duration::from_secs(2);

/// A pull so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Bytes there and bytes in all, by layer.
    layers: BTreeMap<String, (i64, i64)>,
    done: usize,
    said: Option<Instant>,
}

impl Progress {
    /// Takes in progress of the engine; the line to log, if it is worth one.
    pub(super) fn note(&mut self, reported: &CreateImageInfo, at: Instant) -> Option<String> {
        let status = reported.status.as_deref().unwrap_or_default();
        let Some(layer) = &reported.id else {
            return (!status.is_empty()).then(|| status.to_owned());
        };
        match status {
            "Downloading" => {
                let detail = reported.progress_detail.clone().unwrap_or_default();
                let (current, total) = (detail.current.unwrap_or(0), detail.total.unwrap_or(0));
                self.layers.insert(layer.clone(), (current, total));
            }
            "Pull complete" | "Already exists" => {
                let whole = self.layers.entry(layer.clone()).or_default();
                whole.0 = whole.1;
                self.done += 1;
            }
            "Pulling fs layer" | "Waiting" => {
                self.layers.entry(layer.clone()).or_default();
            }
            _ => return None,
        }
        if self.said.is_some_and(|said| at.saturating_duration_since(said) < PAUSE) {
            return None;
        }
        self.said = Some(at);
        let (there, all) = self.layers.values().fold((0, 0), |sum, layer| (sum.0 + layer.0, sum.1 + layer.1));
        let mebi = |bytes: i64| bytes as f64 / f64::from(1 << 20);
        let layers = self.layers.len();
        Some(format!("{:.1} of {:.1} MiB, {} of {layers} layers", mebi(there), mebi(all), self.done))
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    #[test]
    fn a_pull_is_reported_in_a_few_lines() {
        let mut progress = Progress::default();
        let begun = Instant::now();
        let mut reported = |id: &str, status: &str, bytes: Option<(i64, i64)>, at: u64| {
            let detail = bytes.map(|(current, total)| ProgressDetail { current: Some(current), total: Some(total) });
            let info = CreateImageInfo {
                id: (!id.is_empty()).then(|| id.to_owned()),
                status: Some(status.to_owned()),
                progress_detail: detail,
                ..Default::default()
            };
            progress.note(&info, begun + Duration::from_millis(at)).unwrap_or_default()
        };
        assert_eq!(reported("", "Pulling from a/b", None, 0), "Pulling from a/b");
        assert_eq!(reported("l1", "Pulling fs layer", None, 1), "0.0 of 0.0 MiB, 0 of 1 layers");
        assert_eq!(reported("l2", "Already exists", None, 2), "");
        assert_eq!(reported("l1", "Downloading", Some((1 << 20, 4 << 20)), 3), "");
        assert_eq!(reported("l1", "Verifying Checksum", None, 2500), "");
        assert_eq!(reported("l1", "Downloading", Some((3 << 20, 4 << 20)), 2600), "3.0 of 4.0 MiB, 1 of 2 layers");
        assert_eq!(reported("l1", "Pull complete", None, 5000), "4.0 of 4.0 MiB, 2 of 2 layers");
        assert_eq!(reported("", "Status: Downloaded newer image", None, 5001), "Status: Downloaded newer image");
    }
}
