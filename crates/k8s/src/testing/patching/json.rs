//! JSON patch (RFC 6902).

use std::fmt;

use serde_json::Value;

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is no JSON patch.
    Unreadable(String),
    /// It does not fit the object.
    Unprocessable(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unreadable(why) | Self::Unprocessable(why)) = self;
        formatter.write_str(why)
    }
}

type Done<T> = Result<T, Failure>;

/// Applies all operations or none that counts: on failure the target is not to be used.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Done<()> {
    let operations = patch.as_array().ok_or_else(|| {
        Failure::Unreadable(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
                .to_owned(),
        )
    })?;
    for operation in operations {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let op = text("op").ok_or_else(|| Failure::Unreadable("Unexpected kind: unknown".to_owned()))?;
        let path = text("path").ok_or_else(|| Failure::Unprocessable(format!("{op} operation has no path")))?;
        let value = || operation.get("value").cloned().unwrap_or(Value::Null);
        let from = || text("from").ok_or_else(|| Failure::Unprocessable(format!("{op} operation has no from")));
        match op {
            "add" => add(target, path, value())?,
            "remove" => {
                remove(target, path)?;
            }
            "replace" => *find(target, path)? = value(),
            "move" => {
                let value = remove(target, from()?)?;
                add(target, path, value)?;
            }
            "copy" => {
                let value = find(target, from()?)?.clone();
                add(target, path, value)?;
            }
            "test" => test(target, path, &value())?,
            other => return Err(Failure::Unprocessable(format!("Unexpected kind: {other}"))),
        }
    }
    Ok(())
}

fn missing(path: &str) -> Failure {
    Failure::Unprocessable(format!("operation does not apply: doc is missing path: {path}: missing value"))
}

fn find<'a>(target: &'a mut Value, path: &str) -> Done<&'a mut Value> {
    target.pointer_mut(path).ok_or_else(|| missing(path))
}

fn test(target: &Value, path: &str, value: &Value) -> Done<()> {
    let has = target.pointer(path).unwrap_or(&Value::Null);
    let failed = || Failure::Unprocessable(format!("testing value {path} failed: test failed"));
    if has == value { Ok(()) } else { Err(failed()) }
}

fn split(path: &str) -> Done<(&str, String)> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| missing(path))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Done<()> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, last) = split(path)?;
    match find(target, parent)? {
        Value::Object(map) => {
            map.insert(last, value);
        }
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) => {
            let index = last.parse::<usize>().ok().filter(|index| *index <= list.len()).ok_or_else(|| missing(path))?;
            list.insert(index, value);
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Done<Value> {
    let (parent, last) = split(path)?;
    match find(target, parent)? {
        Value::Object(map) => map.remove(&last).ok_or_else(|| missing(path)),
        Value::Array(list) => {
            let index = last.parse::<usize>().ok().filter(|index| *index < list.len()).ok_or_else(|| missing(path))?;
            Ok(list.remove(index))
        }
        _ => Err(missing(path)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_operation_does_what_the_rfc_says() {
        let mut target = json!({"a": {"b": [1, 2]}, "x/y": 1});
        let patch = json!([
            {"op": "test", "path": "/a/b/0", "value": 1},
            {"op": "add", "path": "/a/b/-", "value": 3},
            {"op": "add", "path": "/a/b/0", "value": 0},
            {"op": "remove", "path": "/a/b/1"},
            {"op": "replace", "path": "/x~1y", "value": 2},
            {"op": "copy", "from": "/a/b", "path": "/c"},
            {"op": "move", "from": "/x~1y", "path": "/d"},
        ]);
        apply(&mut target, &patch).expect("the patch fits");
        assert_eq!(target, json!({"a": {"b": [0, 2, 3]}, "c": [0, 2, 3], "d": 2}));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for patch in [
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "remove", "path": "/b"}]),
            json!([{"op": "replace", "path": "/b", "value": 1}]),
            json!([{"op": "add", "path": "/b/c", "value": 1}]),
        ] {
            assert!(matches!(apply(&mut json!({"a": 1}), &patch), Err(Failure::Unprocessable(_))), "{patch}");
        }
        assert!(matches!(apply(&mut json!({}), &json!({})), Err(Failure::Unreadable(_))));
    }
}
