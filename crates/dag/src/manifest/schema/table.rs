//! The field tables. A line without indentation names a type; an indented line is a field of it: name, `!` if it must be
//! there, and its type. `[]T` is a list and `{}T` a mapping of T; `A|B` lists the texts a field may hold; a name ending
//! in `*` stands for all names with that beginning.

use std::sync::LazyLock;

/// Fields of Kubernetes objects; generated, and compared with `k8s-openapi` by a test of `orlop-k8s`.
const KUBERNETES: &str = include_str!("kubernetes.txt");
/// Fields of flows and pipelines; generated, and compared with their types by a test of `orlop-k8s`.
const FLOW: &str = include_str!("flow.txt");

/// What a single value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    String,
    Int32,
    Int64,
    Number,
    Bool,
    Quantity,
    IntOrString,
    Time,
    /// A length of time in Go's syntax, with a unit.
    Duration,
    Any,
    /// One of the texts between `|`.
    Choice(&'static str),
    /// An object; the index of its type.
    Object(usize),
}

/// How values are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outer {
    One,
    List,
    Map,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) outer: Outer,
    pub(crate) base: Base,
}

/// A field of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) kind: Kind,
}

/// A type: its name and fields, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) fields: Vec<Field>,
    pub(crate) required: usize,
}

impl Type {
    /// The field of a name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let exact = self.fields.binary_search_by_key(&name, |field| field.name).ok();
        exact.and_then(|at| self.fields.get(at)).or_else(|| {
            self.fields.iter().find(|field| field.name.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix)))
        })
    }
}

/// All types.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    types: Vec<Type>,
}

impl Table {
    /// The type of an index.
    pub(crate) fn get(&self, index: usize) -> Option<&Type> {
        self.types.get(index)
    }

    /// The index of a type.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.types.binary_search_by_key(&name, |known| known.name).ok()
    }

    /// The name of the type of the objects a field holds.
    #[cfg(test)]
    pub(crate) fn type_name(&self, kind: Kind) -> Option<&'static str> {
        match kind.base {
            Base::Object(index) => self.get(index).map(|known| known.name),
            _ => None,
        }
    }

    fn parse(texts: &[&'static str]) -> Self {
        let mut types: Vec<Type> = Vec::new();
        let mut fields: Vec<Vec<(&'static str, &'static str)>> = Vec::new();
        for line in texts.iter().flat_map(|text| text.lines()) {
            if let Some(field) = line.strip_prefix(' ') {
                if let (Some((name, kind)), Some(own)) = (field.split_once(' '), fields.last_mut()) {
                    own.push((name, kind));
                }
            } else {
                types.push(Type { name: line, fields: Vec::new(), required: 0 });
                fields.push(Vec::new());
            }
        }
        let mut all: Vec<(Type, Vec<(&str, &str)>)> = types.into_iter().zip(fields).collect();
        all.sort_by_key(|(known, _)| known.name);
        let names: Vec<&str> = all.iter().map(|(known, _)| known.name).collect();
        let types = all.into_iter().map(|(mut known, fields)| {
            known.fields = fields.into_iter().map(|(name, word)| field(name, word, &names)).collect();
            known.fields.sort_by_key(|field| field.name);
            known.required = known.fields.iter().filter(|field| field.required).count();
            known
        });
        Self { types: types.collect() }
    }
}

fn field(name: &'static str, word: &'static str, names: &[&str]) -> Field {
    let (outer, word) = match (word.strip_prefix("[]"), word.strip_prefix("{}")) {
        (Some(item), _) => (Outer::List, item),
        (_, Some(value)) => (Outer::Map, value),
        _ => (Outer::One, word),
    };
    let base = match word {
        "string" => Base::String,
        "int32" => Base::Int32,
        "int64" => Base::Int64,
        "number" => Base::Number,
        "bool" => Base::Bool,
        "quantity" => Base::Quantity,
        "intorstring" => Base::IntOrString,
        "time" => Base::Time,
        "duration" => Base::Duration,
        choice if choice.contains('|') => Base::Choice(choice),
        object => names.binary_search(&object).map_or(Base::Any, Base::Object),
    };
    let bare = name.trim_end_matches('!');
    Field { name: bare, required: bare != name, kind: Kind { outer, base } }
}

/// The table of all types this crate knows. It is a constant: parsed once, never changed.
pub(crate) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(&[KUBERNETES, FLOW]));
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_understood() {
        let lines = KUBERNETES.lines().chain(FLOW.lines()).filter(|line| line.starts_with(' '));
        assert_eq!(table().types.iter().map(|known| known.fields.len()).sum::<usize>(), lines.clone().count());
        let any =
            lines.filter(|line| line.trim_end_matches("[]any").ends_with(" any") || line.ends_with("[]any")).count();
        let read = table().types.iter().flat_map(|known| &known.fields).filter(|field| field.kind.base == Base::Any);
        assert_eq!(read.count(), any, "a type name is not in the tables");
        let mut names: Vec<&str> = table().types.iter().map(|known| known.name).collect();
        names.dedup();
        assert_eq!(names.len(), table().types.len(), "two types have one name");
    }

    #[test]
    fn types_do_not_contain_themselves() {
        fn depth(index: usize, seen: &mut Vec<usize>) -> usize {
            assert!(!seen.contains(&index), "{} contains itself", table().get(index).unwrap().name);
            seen.push(index);
            let inner = table().get(index).unwrap().fields.iter().filter_map(|field| match field.kind.base {
                Base::Object(inner) => Some(depth(inner, seen)),
                _ => None,
            });
            let depth = 1 + inner.max().unwrap_or(0);
            seen.pop();
            depth
        }
        let deepest = (0..table().types.len()).map(|index| depth(index, &mut Vec::new())).max();
        assert!(deepest < Some(20), "the walk recurses once a level: {deepest:?}");
    }

    #[test]
    fn fields_are_found_by_name_and_by_prefix() {
        let of = |name: &str| table().get(table().find(name).unwrap()).unwrap();
        let container = of("Container");
        assert_eq!(container.field("command").unwrap().kind, Kind { outer: Outer::List, base: Base::String });
        assert!(container.field("name").unwrap().required);
        assert_eq!(container.field("Command"), None);
        assert_eq!(of("Pipeline").field("x-owner").unwrap().kind.base, Base::Any);
        assert_eq!(of("Pipeline").field("y"), None);
    }
}
