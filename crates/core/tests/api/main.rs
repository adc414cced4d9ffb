//! `scripts/api` names what breaks in the interface of a crate, and nothing else.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests fail by panic")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "starts rustdoc; the crate itself is pure")]

#[path = "../../examples/api/compare.rs"]
mod compare;
#[path = "../../examples/api/signature.rs"]
mod signature;
#[path = "../../examples/api/surface.rs"]
mod surface;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use compare::Difference;
use surface::{Item, Surface};

/// A small crate with one of each kind.
const CRATE: &str = r#"
pub mod error {
    #[derive(Clone, Debug)] pub enum Closed { A, B(u8) }
    #[non_exhaustive] pub enum Open { A { at: u32 } }
}
mod hidden { pub struct Shown(pub u8); impl Shown { pub fn get<T: Clone>(&self, _of: &[T]) -> Result<u8, String> { Ok(self.0) } } }
pub use hidden::Shown;
pub struct Literal { pub a: u8 }
pub struct Built { pub a: u8, b: u8 }
impl Built { pub const fn new() -> Self { Self { a: 0, b: 0 } } pub fn b(&self) -> u8 { self.b } }
pub trait Port { const MOST: u8 = 1; fn ask(&self) -> Option<&dyn Fn(u8) -> u8>; fn tell(&self) {} }
pub fn free<'a>(x: &'a mut [u8]) -> impl Iterator<Item = &'a u8> { x.iter() }
pub mod testing { pub struct Double; }
pub const LIMIT: usize = 3;
"#;

/// The interface of a crate of this text, as rustdoc of the compiler in use writes it.
fn surface(name: &str, text: &str) -> Surface {
    // Tests may run as processes of their own, at the same time.
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("api").join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("lib.rs"), text).unwrap();
    let rustdoc = std::env::var("RUSTDOC").unwrap_or_else(|_| "rustdoc".into());
    let mut command = Command::new(rustdoc);
    command.args([
        "--crate-name",
        "fixture",
        "--edition",
        "2024",
        "-Zunstable-options",
        "--output-format=json",
        "-o",
        ".",
    ]);
    let done = command.arg("lib.rs").current_dir(&folder).env("RUSTC_BOOTSTRAP", "1").output().expect("rustdoc starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json = std::fs::read_to_string(folder.join("fixture.json")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    Surface::of(serde_json::from_str(&json).unwrap()).unwrap()
}

/// What differs after a change of the crate's text.
fn after(name: &str, changes: &[(&str, &str)]) -> Difference {
    let mut text = CRATE.to_owned();
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    static BEFORE: OnceLock<Surface> = OnceLock::new();
    let before = BEFORE.get_or_init(|| surface("before", CRATE));
    compare::compare(&before.items, &surface(name, &text).items)
}

#[test]
fn items_are_listed_by_path_kind_and_signature() {
    let found = surface("listed", CRATE);
    assert_eq!((found.name.as_str(), found.version.as_str()), ("fixture", "0.0.0"));
    let lines = surface::lines(&found.items);
    for line in [
        "fixture::Built | struct |  { .. }",
        "fixture::Built::b | fn | (&Self) -> u8",
        "fixture::Built::new | fn | const () -> Self",
        "fixture::LIMIT | const | usize",
        "fixture::Port | trait",
        "fixture::Port::MOST | const | u8 { .. }",
        "fixture::Port::ask | fn | (&Self) -> Option<&dyn function::Fn(u8) -> u8>",
        "fixture::Port::tell | fn | (&Self) { .. }",
        "fixture::Shown::0 | field | u8",
        "fixture::Shown::get | fn | <T: Clone>(&Self, &[T]) -> Result<u8, String>",
        "fixture::error::Closed | impl | Clone; fmt::Debug",
        "fixture::error::Closed::B | variant | (u8)",
        "fixture::error::Open | enum | #[non_exhaustive]",
        "fixture::error::Open::A | variant | { at: u32 }",
        "fixture::free | fn | <'a>(&'a mut [u8]) -> impl Iterator<Item = &'a u8>",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line} is not in\n{}", lines.join("\n"));
    }
    assert!(!lines.iter().any(|line| line.contains("Double")), "doubles of tests are no interface");
    let read: Result<Vec<_>, _> = lines.iter().map(|line| Item::read(line)).collect();
    assert_eq!(read.unwrap().concat(), found.items.into_iter().collect::<Vec<_>>());
}

#[test]
fn of_a_breaking_and_a_harmless_change_the_breaking_one_is_named() {
    let changes = [
        ("pub fn b(&self) -> u8", "pub fn c(&self) -> u8"),
        ("pub const LIMIT", "pub const MORE: u8 = 1; pub const LIMIT"),
    ];
    let found = after("one", &changes);
    assert_eq!(found, Difference { breaks: vec!["gone: fn fixture::Built::b".into()], added: 2 });
}

#[test]
fn whatever_breaks_is_named_once() {
    for (number, (from, to, named)) in [
        ("pub const LIMIT: usize", "pub const LIMIT: u64", "changed: const fixture::LIMIT\n  was usize\n  is  u64"),
        (
            "B(u8) }",
            "B(u8), C }",
            "added: variant fixture::error::Closed::C: who matches the enum writes out every variant",
        ),
        (
            "Literal { pub a: u8 }",
            "Literal { pub a: u8, pub b: u8 }",
            "added: field fixture::Literal::b: who makes the struct writes out every field",
        ),
        (
            "Literal { pub a: u8 }",
            "Literal { pub a: u8, b: u8 }",
            "changed: struct fixture::Literal\n  was \n  is   { .. }",
        ),
        (
            "fn tell(&self) {}",
            "fn tell(&self) {} fn more(&self);",
            "added: fn fixture::Port::more: who implements the trait lacks it",
        ),
        (
            "fn tell(&self) {}",
            "fn tell(&self);",
            "changed: fn fixture::Port::tell\n  was (&Self) { .. }\n  is  (&Self)",
        ),
        ("#[derive(Clone, Debug)]", "#[derive(Debug)]", "gone: impl Clone of fixture::error::Closed"),
        ("pub use hidden::Shown;", "", "gone: struct fixture::Shown"),
        (
            "Open { A { at: u32 } }",
            "Open { A { at: u64 } }",
            "changed: variant fixture::error::Open::A\n  was { at: u32 }\n  is  { at: u64 }",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let found = after(&format!("breaks-{number}"), &[(from, to)]);
        assert_eq!(found.breaks, [named], "{from} becomes {to}");
    }
}

#[test]
fn a_type_that_no_longer_crosses_threads_is_named() {
    let changes = [
        ("a: u8, b: u8 }", "a: u8, b: u8, c: Option<std::rc::Rc<u8>> }"),
        ("Self { a: 0, b: 0 }", "Self { a: 0, b: 0, c: None }"),
    ];
    let found = after("threads", &changes);
    assert_eq!(
        found.breaks,
        [
            "added: auto !marker::Send of fixture::Built: its values crossed threads or moved freely",
            "added: auto !marker::Sync of fixture::Built: its values crossed threads or moved freely",
        ]
    );
}

#[test]
fn what_breaks_nobody_is_not_named() {
    let changes = [
        ("A { at: u32 } }", "A { at: u32 }, B }"),
        ("Built { pub a: u8, b: u8 }", "Built { pub a: u8, pub b: u8 }"),
        ("fn tell(&self) {}", "fn tell(&self) {} fn more(&self) {}"),
        ("fn ask(&self) -> Option<&dyn Fn(u8) -> u8>;", "fn ask(&self) -> Option<&dyn Fn(u8) -> u8> { None }"),
        ("_of: &[T]", "_other: &[T]"),
        ("pub struct Double;", ""),
        ("mod hidden", "pub mod hidden"),
    ];
    assert_eq!(after("harmless", &changes).breaks, Vec::<String>::new());
}
