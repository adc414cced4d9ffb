//! Signatures as text: types, generics and bounds of rustdoc's JSON. Names of arguments are left out, since nobody depends on them.
//! Types bear their crate and name: where in its crate a type lies is the path's affair.

use std::collections::BTreeMap;

use serde_json::Value;

/// The crates of the standard library, which move types among themselves.
const STANDARD: [&str; 3] = ["core", "alloc", "std"];

/// A document of rustdoc, and how what it names is called.
pub(crate) struct Names(Value, BTreeMap<String, String>);

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Each after `before`, joined; nothing where there are none.
fn joined(parts: Vec<String>, before: &str, between: &str, after: &str) -> String {
    if parts.is_empty() { String::new() } else { format!("{before}{}{after}", parts.join(between)) }
}

impl Names {
    pub(crate) fn new(document: Value) -> Self {
        let crates = &document["external_crates"];
        let mut called = BTreeMap::new();
        for (id, known) in document["paths"].as_object().into_iter().flatten() {
            let parts: Vec<&str> = list(&known["path"]).map(text).collect();
            let (Some(last), Some(of_crate)) = (parts.last(), parts.first()) else { continue };
            let before = parts.iter().rev().nth(1).filter(|_| parts.len() > 2).copied().unwrap_or_default();
            let foreign = crates[known["crate_id"].to_string()]["name"].as_str();
            let name = match foreign {
                None => (*last).to_owned(),
                // `vec::Vec` is `Vec`, `fmt::Error` stays apart from `error::Error`.
                Some(_) if STANDARD.contains(of_crate) && before.eq_ignore_ascii_case(last) => (*last).to_owned(),
                Some(_) if STANDARD.contains(of_crate) => joined(vec![before.to_owned()], "", "", "::") + last,
                Some(name) => format!("{name}::{last}"),
            };
            called.insert(id.clone(), name);
        }
        Self(document, called)
    }

    pub(crate) fn document(&self) -> &Value {
        &self.0
    }

    /// An item of this crate, or null.
    pub(crate) fn item(&self, id: &Value) -> &Value {
        &self.0["index"][id.to_string()]
    }

    /// A type or trait with its arguments.
    pub(crate) fn path(&self, path: &Value) -> String {
        let name = self.1.get(&path["id"].to_string()).map_or_else(|| text(&path["path"]), String::as_str);
        format!("{name}{}", self.arguments(&path["args"]))
    }

    fn arguments(&self, arguments: &Value) -> String {
        let inside = &arguments["parenthesized"];
        if !inside.is_null() {
            let output = if inside["output"].is_null() {
                String::new()
            } else {
                format!(" -> {}", self.kind_of(&inside["output"]))
            };
            return format!("({}){output}", self.kinds(&inside["inputs"]));
        }
        let inside = &arguments["angle_bracketed"];
        let mut parts: Vec<String> = list(&inside["args"]).map(|argument| self.argument(argument)).collect();
        for constraint in list(&inside["constraints"]) {
            let (name, binding) = (text(&constraint["name"]), &constraint["binding"]);
            let name = format!("{name}{}", self.arguments(&constraint["args"]));
            let equal = &binding["equality"];
            let bound = self.bounds(&binding["constraint"]);
            parts.push(if equal.is_null() {
                format!("{name}{bound}")
            } else {
                format!("{name} = {}", self.argument(equal))
            });
        }
        joined(parts, "<", ", ", ">")
    }

    /// A lifetime, a type or a constant between angle brackets.
    fn argument(&self, argument: &Value) -> String {
        if !argument["lifetime"].is_null() {
            return text(&argument["lifetime"]).to_owned();
        }
        if !argument["type"].is_null() {
            return self.kind_of(&argument["type"]);
        }
        if argument["const"].is_null() { "_".to_owned() } else { text(&argument["const"]["expr"]).to_owned() }
    }

    fn kinds(&self, kinds: &Value) -> String {
        list(kinds).map(|kind| self.kind_of(kind)).collect::<Vec<_>>().join(", ")
    }

    /// A type.
    pub(crate) fn kind_of(&self, kind: &Value) -> String {
        let Some((form, what)) = kind.as_object().and_then(|kind| kind.iter().next()) else { return "_".to_owned() };
        match form.as_str() {
            "resolved_path" => self.path(what),
            "generic" | "primitive" => text(what).to_owned(),
            "tuple" => format!("({})", self.kinds(what)),
            "slice" => format!("[{}]", self.kind_of(what)),
            "array" => format!("[{}; {}]", self.kind_of(&what["type"]), text(&what["len"])),
            "impl_trait" => format!("impl {}", self.bounds(what).trim_start_matches(": ")),
            "borrowed_ref" => {
                let lifetime = what["lifetime"].as_str().map_or_else(String::new, |lifetime| format!("{lifetime} "));
                let mutable = if what["is_mutable"] == true { "mut " } else { "" };
                format!("&{lifetime}{mutable}{}", self.kind_of(&what["type"]))
            }
            "raw_pointer" => {
                let mutable = if what["is_mutable"] == true { "mut" } else { "const" };
                format!("*{mutable} {}", self.kind_of(&what["type"]))
            }
            "dyn_trait" => {
                let mut parts: Vec<String> = list(&what["traits"]).map(|of| self.bound_of(of)).collect();
                parts.extend(what["lifetime"].as_str().map(str::to_owned));
                format!("dyn {}", parts.join(" + "))
            }
            "function_pointer" => format!("fn{}", self.call(&what["sig"])),
            "qualified_path" => {
                let (of, name) = (self.kind_of(&what["self_type"]), text(&what["name"]));
                let in_trait =
                    if what["trait"].is_null() { String::new() } else { format!(" as {}", self.path(&what["trait"])) };
                format!("<{of}{in_trait}>::{name}{}", self.arguments(&what["args"]))
            }
            // A form that is not known is told as it stands.
            _ => kind.to_string(),
        }
    }

    /// Bounds with their colon, or nothing.
    pub(crate) fn bounds(&self, bounds: &Value) -> String {
        joined(list(bounds).map(|bound| self.bound(bound)).collect(), ": ", " + ", "")
    }

    fn bound(&self, bound: &Value) -> String {
        let of = &bound["trait_bound"];
        if !of.is_null() {
            let maybe = if of["modifier"] == "maybe" { "?" } else { "" };
            return format!("{maybe}{}", self.bound_of(of));
        }
        let captured = list(&bound["use"])
            .map(|one| text(one.as_object().and_then(|one| one.values().next()).unwrap_or(one)).to_owned());
        bound["outlives"]
            .as_str()
            .map_or_else(|| format!("use<{}>", captured.collect::<Vec<_>>().join(", ")), str::to_owned)
    }

    fn bound_of(&self, of: &Value) -> String {
        let names = list(&of["generic_params"]).map(|one| text(&one["name"]).to_owned()).collect();
        format!("{}{}", joined(names, "for<", ", ", "> "), self.path(&of["trait"]))
    }

    /// Parameters in angle brackets, and the conditions after `where`.
    pub(crate) fn generics(&self, generics: &Value) -> (String, String) {
        let mut parts = Vec::new();
        for parameter in list(&generics["params"]) {
            let (name, kind) = (text(&parameter["name"]), &parameter["kind"]);
            let default = |of: &Value| if of.is_null() { String::new() } else { format!(" = {}", self.kind_of(of)) };
            if !kind["const"].is_null() {
                parts.push(format!("const {name}: {}", self.kind_of(&kind["const"]["type"])));
            } else if !kind["lifetime"].is_null() {
                let outlives = list(&kind["lifetime"]["outlives"]).map(|one| text(one).to_owned()).collect();
                parts.push(format!("{name}{}", joined(outlives, ": ", " + ", "")));
            } else if kind["type"]["is_synthetic"] != true {
                parts.push(format!(
                    "{name}{}{}",
                    self.bounds(&kind["type"]["bounds"]),
                    default(&kind["type"]["default"])
                ));
            }
        }
        let conditions = list(&generics["where_predicates"]).map(|condition| self.condition(condition)).collect();
        (joined(parts, "<", ", ", ">"), joined(conditions, " where ", ", ", ""))
    }

    fn condition(&self, condition: &Value) -> String {
        let of = &condition["bound_predicate"];
        if !of.is_null() {
            return format!("{}{}", self.kind_of(&of["type"]), self.bounds(&of["bounds"]));
        }
        let of = &condition["lifetime_predicate"];
        let outlives = list(&of["outlives"]).map(|one| text(one).to_owned()).collect::<Vec<_>>().join(" + ");
        format!("{}: {outlives}", text(&of["lifetime"]))
    }

    fn call(&self, signature: &Value) -> String {
        let inputs: Vec<String> = list(&signature["inputs"]).map(|input| self.kind_of(&input[1])).collect();
        let output = &signature["output"];
        let output = if output.is_null() { String::new() } else { format!(" -> {}", self.kind_of(output)) };
        format!("({}){output}", inputs.join(", "))
    }

    /// What a function takes and gives.
    pub(crate) fn function(&self, function: &Value) -> String {
        let header = &function["header"];
        let words = [("is_const", "const "), ("is_async", "async "), ("is_unsafe", "unsafe ")];
        let words: String = words.iter().filter(|(key, _)| header[*key] == true).map(|(_, word)| *word).collect();
        let (generics, bounds) = self.generics(&function["generics"]);
        format!("{words}{generics}{}{bounds}", self.call(&function["sig"]))
    }

    /// The public fields of a struct, with their types.
    pub(crate) fn fields(&self, what: &Value) -> Vec<(String, String)> {
        let kind = &what["kind"];
        let all = list(&kind["plain"]["fields"]).chain(list(&kind["tuple"])).chain(list(&what["fields"]));
        let public = all.filter(|id| !id.is_null()).map(|id| self.item(id));
        public.map(|field| (text(&field["name"]).to_owned(), self.kind_of(&field["inner"]["struct_field"]))).collect()
    }

    /// What a variant holds.
    pub(crate) fn payload(&self, kind: &Value) -> String {
        let field = |id: &Value| self.kind_of(&self.item(id)["inner"]["struct_field"]);
        if let Some(fields) = kind["tuple"].as_array() {
            return format!("({})", fields.iter().map(field).collect::<Vec<_>>().join(", "));
        }
        let named =
            list(&kind["struct"]["fields"]).map(|id| format!("{}: {}", text(&self.item(id)["name"]), field(id)));
        joined(named.collect(), "{ ", ", ", " }")
    }
}
