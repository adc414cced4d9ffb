//! Whether GPUs of NVIDIA are connected by NVLink, as `nvidia-smi topo -m` says it: the driver shows links neither in `/proc`
//! nor in `/sys`, and a product that could have them may stand in a machine that does not.

/// Whether so many GPUs are all there are, and each is connected with each other.
pub(super) fn connects_all(table: &str, count: usize) -> bool {
    let plain = without_styles(table);
    let lines: Vec<Vec<&str>> = plain.lines().map(|line| line.split('\t').map(str::trim).collect()).collect();
    let is_gpu = |cell: &&&str| cell.strip_prefix("GPU").is_some_and(|number| number.parse::<u32>().is_ok());
    let Some(head) = lines.iter().find(|line| line.first() == Some(&"") && line.iter().any(|cell| is_gpu(&cell)))
    else {
        return false;
    };
    let rows: Vec<&Vec<&str>> = lines.iter().filter(|line| line.first().as_ref().is_some_and(is_gpu)).collect();
    let columns: Vec<usize> = (0..head.len()).filter(|at| is_gpu(&&head[*at])).collect();
    let linked = |row: &Vec<&str>, at: usize| {
        let cell = row.get(at).copied().unwrap_or_default();
        let links = cell.strip_prefix("NV").and_then(|links| links.parse::<u32>().ok());
        if row[0] == head[at] { cell == "X" } else { links.is_some_and(|links| links > 0) }
    };
    count > 1
        && (rows.len(), columns.len()) == (count, count)
        && rows.iter().all(|row| columns.iter().all(|at| linked(row, *at)))
}

/// Without what underlines the head on terminals: `ESC [ … m`.
fn without_styles(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cards with four links each way, a network card between them, as a driver of today prints it.
    const TWO: &str = "\t\u{1b}[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV4\tPXB\t0-31\t0\t\tN/A
GPU1\tNV4\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
";

    /// Four cards in two pairs, which reach each other over the host only, as an older driver prints it.
    const PAIRS: &str = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity
GPU0\t X \tNV2\tSYS\tSYS\t0-15
GPU1\tNV2\t X \tSYS\tSYS\t0-15
GPU2\tSYS\tSYS\t X \tNV2\t16-31
GPU3\tSYS\tSYS\tNV2\t X \t16-31
";

    #[test]
    fn nvlink_is_said_of_gpus_that_are_all_connected() {
        assert!(connects_all(TWO, 2));
        let eight: Vec<String> = (0..8).map(|gpu| format!("GPU{gpu}")).collect();
        let row = |gpu: &String| {
            let cells: Vec<&str> = eight.iter().map(|other| if other == gpu { " X " } else { "NV18" }).collect();
            format!("{gpu}\t{}\t0-55\t0\n", cells.join("\t"))
        };
        let table = format!("\t{}\tCPU Affinity\n{}", eight.join("\t"), eight.iter().map(row).collect::<String>());
        assert!(connects_all(&table, 8));
        assert!(!connects_all(&table.replacen("NV18", "NODE", 1), 8), "one pair is not connected");
        assert!(!connects_all(&table.replacen("NV18", "NV0", 1), 8), "links that are down");
    }

    #[test]
    fn what_is_not_said_clearly_is_no_nvlink() {
        assert!(!connects_all(PAIRS, 4), "pairs are not all");
        let cards = TWO.replace("NV4", "PHB");
        let missing = TWO.replace("GPU1\tNV4", "GPU1\t");
        for (table, count) in [(TWO, 3), (TWO, 1), (cards.as_str(), 2), (missing.as_str(), 2), ("", 2), ("", 0)] {
            assert!(!connects_all(table, count), "{count}: {table}");
        }
        let alone = "\tGPU0\tCPU Affinity\nGPU0\t X \t0-15\n";
        assert!(!connects_all(alone, 1), "there is nothing it could be connected with");
        assert!(!connects_all("Failed to initialize NVML: Driver/library version mismatch\n", 2));
        assert!(!connects_all("\u{1b}[", 2) && !connects_all("\tGPU0\tGPU1\nGPU0\nGPU1\tX", 2));
    }
}
