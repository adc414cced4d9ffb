//! Reading a YAML file of hardware tables, which replaces or extends the built-in ones, with the line of each error. What it may contain is
//! decided in `orlop_core::hardware::table`.

use orlop_core::hardware::{Tables, TablesFile};

/// The built-in tables with those of a YAML file laid over them.
///
/// # Errors
/// What is wrong, and in which line: no YAML, an unknown key, an illegal name.
pub fn overlaid(text: &str) -> Result<Tables, String> {
    let file: TablesFile = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    Ok(Tables::default().overlaid(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_in_a_file_is_said_with_its_line() {
        for (text, line, what) in [
            ("gpu:\n  migStrategy: mixed\n  colours: {}\n", 3, "colours"),
            ("# ours\ntee:\n  kinds:\n    tdx: {runtimeClass: Kata_TDX}\n", 4, "Kata_TDX"),
            ("gpu:\n  vendors:\n    nvidia:\n      present: a/b/c\n", 4, "a/b/c"),
            ("defaults:\n  vendor: nobody\n", 2, "nobody"),
            ("gpu:\n  models: [\n", 2, "expected mapping"),
            (
                "gpu:\n  models:\n    x1:\n      vendor: amd\n      products:\n      - {name: X (1), memoryGib: 8}\n",
                6,
                "X-(1)",
            ),
            (
                "gpu:\n  models:\n    x1:\n      vendor: amd\n      products:\n      - name: X1\n        memoryGib: 0\n",
                7,
                "0 GiB",
            ),
            ("gpu:\n  models:\n    x1:\n      vendor: amd\n      karpenter: a b\n      products: []\n", 5, "a b"),
            ("gpu:\n  vendors:\n    Amd:\n      productAttribute: a-b\n", 4, "a-b"),
            ("gpu:\n  vendors:\n    amd:\n      wholeType: ''\n", 4, "empty"),
            ("openstack:\n  nodeTypes:\n    gpu a: {nvlink: true}\n", 3, "gpu a"),
            ("tee:\n  kinds:\n    tdx:\n      narrowedTo: sgx\n", 3, "narrowedTo"),
            ("tee:\n  kinds:\n    sev:\n      labels: {nfd: [a]}\n", 3, "runtimeClass"),
        ] {
            let error = overlaid(text).unwrap_err();
            assert!(error.contains(&format!("line {line}")) && error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn the_tables_that_the_chart_gives_as_an_example_are_read() {
        for text in ["{defaults: {vendor: amd}}", "{defaults: {vendor: Amd}}", "defaults:\n  defaultVendor: Amd\n"] {
            assert_eq!(overlaid(text).map(|tables| tables.default_vendor.to_string()), Ok("amd".to_owned()), "{text}");
        }
    }

    #[test]
    fn a_file_is_laid_over_the_built_in_tables() {
        let tables = overlaid("gpu:\n  migStrategy: single\n").unwrap();
        assert_ne!(tables, Tables::default());
        assert_eq!(tables.catalogue, Tables::default().catalogue);
        assert_eq!(overlaid("{}"), Ok(Tables::default()));
    }
}
