//! Precedence of file, variables and flags, and what is refused.

use clap::{Args as _, Parser};

use super::*;

#[derive(Parser, Debug)]
#[command(name = "demo")]
struct Demo {
    /// Where it is stored
    #[arg(id = "store.url")]
    url: String,
    /// How much
    #[arg(id = "store.size")]
    size: u32,
    /// Who may ask
    #[arg(id = "store.names")]
    names: Vec<String>,
    /// Words
    #[arg(id = "store.labels", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Whether
    #[arg(id = "store.strict")]
    strict: bool,
}

const SCOPE: Scope = Scope { prefix: "ORLOP_", file: "ORLOP_DEMO_CONFIG", others: &[("OTHER_SIZE", "store.size")] };

fn demo() -> Command {
    let defaults = serde_json::json!({"store": {"url": "", "size": 7, "names": ["me"]}});
    command(Demo::augment_args(Command::new("demo")), &SCOPE, &defaults)
}

fn read_with(words: &[&str], variables: &[(&str, &str)]) -> Result<Settings<Demo>, ProgramError> {
    let words = std::iter::once("demo").chain(words.iter().copied()).map(OsString::from).collect();
    let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    read(&demo(), &SCOPE, words, variables)
}

fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, path)
}

#[test]
fn a_flag_comes_before_a_variable_and_a_variable_before_the_file() {
    let (_kept, path) = file("store: {url: of-file, size: 1, names: [a, b], labels: {x: 1, y: 2}, strict: true}\n");
    let variables =
        [("ORLOP_DEMO_CONFIG", path.as_str()), ("ORLOP_STORE_SIZE", "2"), ("ORLOP_STORE_URL", "of-variable")];
    let settings = read_with(&["--store-url=of-flag", "--store-labels", "x=3"], &variables).unwrap();
    let Demo { url, size, names, labels, strict } = &settings.value;
    assert_eq!((url.as_str(), *size, *strict), ("of-flag", 2, true));
    assert_eq!((names.join(","), labels.join(",")), ("a,b".to_owned(), "x=1,y=2,x=3".to_owned()));
    assert_eq!(settings.sources.of("store.url"), &Source::Flag("--store-url".to_owned()));
    assert_eq!(settings.sources.of("store.size"), &Source::Variable("ORLOP_STORE_SIZE".to_owned()));
    assert_eq!(settings.sources.of("store.names"), &Source::File(path));
    let plain = read_with(&[], &[]).unwrap();
    assert_eq!((plain.value.url.as_str(), plain.value.size, plain.value.names.len()), ("", 7, 1));
    assert_eq!((plain.sources.of("store.size"), plain.value.strict), (&Source::Default, false));
}

#[test]
fn switches_and_lists_are_written_as_people_write_them() {
    for words in [&["--store-strict"][..], &["--store-strict=true"], &["--store-strict", "TRUE"]] {
        assert!(read_with(words, &[]).unwrap().value.strict, "{words:?}");
    }
    assert!(!read_with(&["--store-strict=false"], &[("ORLOP_STORE_STRICT", "true")]).unwrap().value.strict);
    let names = |words: &[&str]| read_with(words, &[]).unwrap().value.names;
    assert_eq!(names(&["--store-names=a,b", "--store-names=c"]), ["a", "b", "c"]);
    for (variable, wanted) in [("a, b,", ["a", "b"].as_slice()), ("[\"a\", \"b\"]", &["a", "b"]), ("", &["me"])] {
        assert_eq!(read_with(&[], &[("ORLOP_STORE_NAMES", variable)]).unwrap().value.names, wanted, "{variable}");
    }
    let labels = read_with(&[], &[("ORLOP_STORE_LABELS", "{\"a\": \"b\"}")]).unwrap().value.labels;
    assert_eq!(labels, ["a=b"]);
    assert_eq!(read_with(&["--store-size=1", "--store-size=2"], &[]).unwrap().value.size, 2, "the last one counts");
}

#[test]
fn secrets_come_from_files_that_variables_name() {
    let (_kept, path) = file("hush\n");
    let settings = read_with(&[], &[("ORLOP_STORE_URL_FILE", &path)]).unwrap();
    assert_eq!(settings.value.url, "hush");
    let gone = read_with(&[], &[("ORLOP_STORE_URL_FILE", "/nowhere/url")]).unwrap_err().to_string();
    assert!(gone.starts_with("ORLOP_STORE_URL_FILE: /nowhere/url cannot be read: "), "{gone}");
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    let (_kept, path) = file("store: {size: many}\n");
    let refused = |words: &[&str], variables: &[(&str, &str)]| {
        read_with(words, variables).unwrap_err().to_string().replace(&path, "FILE")
    };
    let config = format!("--config={path}");
    insta::assert_snapshot!(refused(&[&config], &[]), @"FILE: `store.size`: invalid value 'many' for '--store-size <SIZE>': invalid digit found in string");
    insta::assert_snapshot!(refused(&[], &[("ORLOP_STORE_STRICT", "perhaps")]), @"ORLOP_STORE_STRICT: invalid value 'perhaps' for '--store-strict [<BOOL>]': value was not a boolean");
    insta::assert_snapshot!(refused(&[], &[("ORLOP_STORE_COLOUR", "red")]), @"ORLOP_STORE_COLOUR: there is no key `store.colour`; `--print-config` shows all");
    for (text, why) in [
        ("stores: {}", "there is no key `stores`"),
        ("store: {sizes: 1}", "there is no key `store.sizes`"),
        ("store: 7", "`store` must be a map of settings"),
        ("store.size: 1", "there is no key `store.size`"),
        ("store: {labels: {a: 'b,c'}}", "`store.labels` holds a comma"),
        ("store: {names: []}", "`store.names` is empty; leave it out for the default"),
        ("[1]", "must be a map of settings"),
        ("store: {names: [[1]]}", "`store.names` must be a value, a list of values or a map of values"),
        ("a: b: c", ""),
    ] {
        let (_kept, path) = file(text);
        let refused = read_with(&["--config", &path], &[]).unwrap_err();
        assert!(matches!(refused, ProgramError::Problem(_)) && refused.to_string().contains(why), "{refused}");
    }
    assert!(read_with(&[], &[("ORLOP_STORE", "x"), ("ORLOP_OTHER_KEY", "x")]).is_ok(), "they are others' business");
}

#[test]
fn a_variable_of_another_program_counts_where_none_of_this_one_is_set() {
    let size = |variables: &[(&str, &str)]| read_with(&[], variables).unwrap().value.size;
    assert_eq!((size(&[("OTHER_SIZE", " 3 ")]), size(&[("OTHER_SIZE", "")])), (3, 7));
    assert_eq!(size(&[("OTHER_SIZE", "3"), ("ORLOP_STORE_SIZE", "4")]), 4);
    let wrong = read_with(&[], &[("OTHER_SIZE", "-1")]).unwrap_err().to_string();
    assert!(wrong.starts_with("OTHER_SIZE: invalid value '-1'"), "{wrong}");
}

#[test]
fn settings_are_shown_with_their_sources() {
    #[derive(Serialize)]
    struct Section {
        url: &'static str,
        names: [&'static str; 1],
    }
    let settings = read_with(&["--store-names=x"], &[]).unwrap();
    let effective = BTreeMap::from([("store", Section { url: "u", names: ["x"] })]);
    insta::assert_snapshot!(settings.sources.show(&effective).unwrap(), @"
    store:
      url: u  # default
      names:  # --store-names
      - x
    ");
}
