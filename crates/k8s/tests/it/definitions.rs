//! The custom resource definitions in `deploy/crds` are those the crate makes. With `UPDATE_CRDS=1` in the environment the
//! test writes them instead.

use std::path::Path;
use std::{env, fs};

use serde_json::Value;

/// Where the definitions are shipped.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");

#[test]
fn shipped_definitions_are_those_of_the_types() {
    for (_, definition) in orlop_k8s::crd::all() {
        let name = definition["metadata"]["name"].as_str().expect("it has a name");
        let file = Path::new(FOLDER).join(format!("{name}.yaml"));
        let text = serde_saphyr::to_string(&definition).expect("it can be written");
        if env::var_os("UPDATE_CRDS").is_some() {
            fs::create_dir_all(FOLDER).expect("the folder can be made");
            fs::write(&file, &text).expect("the file can be written");
        }
        let shipped = fs::read_to_string(&file).expect("the file can be read");
        assert!(shipped == text, "{} is out of date; run this test with UPDATE_CRDS=1", file.display());
        let read: Value = serde_saphyr::from_str(&shipped).expect("it is YAML");
        assert_eq!(read, definition, "what is shipped reads as what was made");
    }
}
