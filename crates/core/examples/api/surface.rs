//! The public items of a crate, each as one line: its path, what it is, its signature. Reads the JSON of rustdoc; what cannot be
//! reached from outside is left out, and so is everything in modules of test doubles, which may change in any release.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::signature::Names;

/// Modules that the feature `testing` adds.
const FOR_TESTS: [&str; 2] = ["testing", "conformance"];
/// Traits of the compiler that say whether a type crosses threads and moves; others of this kind are not looked at. A type has them
/// unless it is said: the kind [`AUTO_KIND`] names those it lacks, or has under conditions.
const AUTO: [&str; 3] = ["Send", "Sync", "Unpin"];
pub(crate) const AUTO_KIND: &str = "auto";
/// What stands between the implementations of one type, which share a line.
const BETWEEN: &str = "; ";
/// What the compiler adds to a derived `PartialEq`.
const SILENT: &str = "StructuralPartialEq";
/// How `non_exhaustive` is written in a signature.
pub(crate) const OPEN: &str = "#[non_exhaustive]";
/// How the signature of a struct ends that has private fields, and of an item of a trait that has a default.
pub(crate) const MORE: &str = " { .. }";

/// One public item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) path: String,
    pub(crate) kind: String,
    pub(crate) signature: String,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.signature.is_empty() { "" } else { " | " };
        write!(f, "{} | {}{between}{}", self.path, self.kind, self.signature)
    }
}

impl Item {
    /// Reads a line of a list, else gives it back.
    pub(crate) fn read(line: &str) -> Result<Vec<Self>, String> {
        let mut parts = line.splitn(3, " | ");
        let (Some(path), Some(kind)) = (parts.next(), parts.next()) else { return Err(line.to_owned()) };
        let signature = parts.next().unwrap_or_default();
        let signatures = if kind == "impl" { signature.split(BETWEEN).collect() } else { vec![signature] };
        let item =
            |signature: &str| Self { path: path.to_owned(), kind: kind.to_owned(), signature: signature.to_owned() };
        Ok(signatures.into_iter().map(item).collect())
    }
}

/// A line for each item; the traits of a type share one.
pub(crate) fn lines(items: &BTreeSet<Item>) -> Vec<String> {
    let mut lines: Vec<(&Item, String)> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some((last, line)) if item.kind == "impl" && (&last.path, &last.kind) == (&item.path, &item.kind) => {
                line.push_str(BETWEEN);
                line.push_str(&item.signature);
            }
            _ => lines.push((item, item.to_string())),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The public interface of a crate.
pub(crate) struct Surface {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) items: BTreeSet<Item>,
}

impl Surface {
    /// What a document of rustdoc holds.
    pub(crate) fn of(document: Value) -> Result<Self, String> {
        let root = document["root"].clone();
        let names = Names::new(document);
        let name = names.item(&root)["name"].as_str().ok_or("no document of rustdoc")?.to_owned();
        let version = names.document()["crate_version"].as_str().unwrap_or("0.0.0").to_owned();
        let mut walk = Walk { names: &names, items: BTreeSet::new(), inside: Vec::new() };
        walk.children(&root, &name);
        if walk.items.is_empty() {
            let format = &names.document()["format_version"];
            return Err(format!(
                "nothing public is found; does rustdoc write another form ({format}) than this reads (57)?"
            ));
        }
        let items = walk.items;
        Ok(Self { name: name.replace('_', "-"), version, items })
    }
}

struct Walk<'a> {
    names: &'a Names,
    items: BTreeSet<Item>,
    /// The modules that the walk is in: one that exports what is around it would have no end.
    inside: Vec<Value>,
}

impl Walk<'_> {
    fn add(&mut self, path: &str, kind: &str, signature: impl Into<String>) {
        self.items.insert(Item { path: path.to_owned(), kind: kind.to_owned(), signature: signature.into() });
    }

    /// The items of a module or an enum that lie at `path`.
    fn children(&mut self, id: &Value, path: &str) {
        if self.inside.contains(id) {
            return;
        }
        self.inside.push(id.clone());
        let inner = &self.names.item(id)["inner"];
        let list = if inner["enum"].is_null() { &inner["module"]["items"] } else { &inner["enum"]["variants"] };
        for child in list.as_array().into_iter().flatten() {
            let name = self.names.item(child)["name"].as_str().unwrap_or_default().to_owned();
            self.item(child, path, &name);
        }
        self.inside.pop();
    }

    /// One item of a module at `parent`, under a name that may not be its own.
    fn item(&mut self, id: &Value, parent: &str, name: &str) {
        let item = self.names.item(id);
        let inner = &item["inner"];
        let path = format!("{parent}::{name}");
        let Some((kind, what)) = inner.as_object().and_then(|inner| inner.iter().next()) else { return };
        let open = if attribute(item, "non_exhaustive") { OPEN } else { "" };
        match kind.as_str() {
            "use" => self.reexport(what, parent),
            "module" if FOR_TESTS.contains(&name) => {}
            "module" => {
                self.add(&path, "mod", "");
                self.children(id, &path);
            }
            "struct" | "union" => {
                let (generics, bounds) = self.names.generics(&what["generics"]);
                let more = if hides_fields(what) { MORE } else { "" };
                self.add(&path, kind, format!("{open}{generics}{bounds}{more}"));
                for (name, field) in self.names.fields(what) {
                    self.add(&format!("{path}::{name}"), "field", field);
                }
                self.implementations(what, &path);
            }
            "enum" => {
                let (generics, bounds) = self.names.generics(&what["generics"]);
                self.add(&path, kind, format!("{open}{generics}{bounds}"));
                self.children(id, &path);
                self.implementations(what, &path);
            }
            "variant" => self.add(&path, kind, format!("{open}{}", self.names.payload(&what["kind"]))),
            "trait" => self.of_trait(what, &path),
            "function" => self.add(&path, "fn", self.names.function(what)),
            "constant" => self.add(&path, "const", self.names.kind_of(&what["type"])),
            "static" => self.add(&path, kind, self.names.kind_of(&what["type"])),
            "type_alias" => {
                let (generics, bounds) = self.names.generics(&what["generics"]);
                self.add(&path, "type", format!("{generics}{bounds} = {}", self.names.kind_of(&what["type"])));
            }
            // Its rules are read by a person.
            _ => self.add(&path, kind, ""),
        }
    }

    fn reexport(&mut self, what: &Value, parent: &str) {
        let here = !self.names.item(&what["id"]).is_null();
        let name = what["name"].as_str().unwrap_or_default();
        match (here, what["is_glob"] == true) {
            (true, true) => self.children(&what["id"], parent),
            (true, false) => self.item(&what["id"], parent, name),
            (false, _) => self.add(&format!("{parent}::{name}"), "use", what["source"].as_str().unwrap_or_default()),
        }
    }

    fn of_trait(&mut self, what: &Value, path: &str) {
        let (generics, bounds) = self.names.generics(&what["generics"]);
        let above = self.names.bounds(&what["bounds"]);
        self.add(path, "trait", format!("{generics}{above}{bounds}"));
        for id in what["items"].as_array().into_iter().flatten() {
            self.associated(id, path, "");
        }
    }

    /// An item of a trait or of an implementation.
    fn associated(&mut self, id: &Value, path: &str, before: &str) {
        let item = self.names.item(id);
        let inner = &item["inner"];
        let path = format!("{path}::{}", item["name"].as_str().unwrap_or_default());
        let of_trait = item["visibility"] == "default";
        let more = |given: bool| if of_trait && given { MORE } else { "" };
        if !inner["function"].is_null() {
            let given = more(inner["function"]["has_body"] == true);
            self.add(&path, "fn", format!("{before}{}{given}", self.names.function(&inner["function"])));
        } else if !inner["assoc_const"].is_null() {
            let kind = self.names.kind_of(&inner["assoc_const"]["type"]);
            self.add(&path, "const", format!("{before}{kind}{}", more(!inner["assoc_const"]["value"].is_null())));
        } else if !inner["assoc_type"].is_null() {
            self.add(&path, "type", self.names.bounds(&inner["assoc_type"]["bounds"]));
        }
    }

    fn implementations(&mut self, what: &Value, path: &str) {
        for id in what["impls"].as_array().into_iter().flatten() {
            let block = &self.names.item(id)["inner"]["impl"];
            let (generics, bounds) = self.names.generics(&block["generics"]);
            if block["trait"].is_null() {
                let before = format!("{generics}{bounds}");
                let before = if before.is_empty() { before } else { format!("impl{before} ") };
                for item in block["items"].as_array().into_iter().flatten() {
                    self.associated(item, path, &before);
                }
                continue;
            }
            let name = self.names.path(&block["trait"]);
            let last = name.rsplit("::").next().unwrap_or_default();
            if !block["blanket_impl"].is_null() || last == SILENT {
                continue;
            }
            let not = if block["is_negative"] == true { "!" } else { "" };
            let plain = generics.is_empty() && bounds.is_empty();
            let of = if plain { String::new() } else { format!(" for {}", self.names.kind_of(&block["for"])) };
            let signature = format!("{generics}{not}{name}{of}{bounds}");
            match block["is_synthetic"] == true {
                false => self.add(path, "impl", signature),
                true if AUTO.contains(&last) && !(plain && not.is_empty()) => self.add(path, AUTO_KIND, signature),
                true => {}
            }
        }
    }
}

/// Whether nobody outside can write it as a literal, for it has fields that are not public.
fn hides_fields(what: &Value) -> bool {
    let kind = &what["kind"];
    let tuple = kind["tuple"].as_array().is_some_and(|fields| fields.iter().any(Value::is_null));
    tuple || kind["plain"]["has_stripped_fields"] == true || what["has_stripped_fields"] == true
}

fn attribute(item: &Value, name: &str) -> bool {
    item["attrs"].as_array().into_iter().flatten().any(|attribute| attribute == name)
}
