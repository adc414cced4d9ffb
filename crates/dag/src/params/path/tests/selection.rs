//! What paths select, case by case, and the text of it.

use serde_json::json;

use super::super::*;
use super::select;

#[test]
fn selectors() {
    let value = json!({"o": {"j j": {"k.k": 3}, "'": 1, "ü": 2, "☺": 4, "": 5}, "a": [0, 1, 2, 3, 4, 5, 6], "n": null});
    for (path, want) in [
        ("$.o['j j']['k.k']", json!([3])),
        ("$.o[\"j j\"]", json!([{"k.k": 3}])),
        ("$.o['\\'']", json!([1])),
        ("$.o.ü", json!([2])),
        ("$.o['\\u00fc']", json!([2])),
        ("$.o['\\u263A']", json!([4])),
        ("$.o['']", json!([5])),
        ("$.n", json!([null])),
        ("$.n.a", json!([])),
        ("$.a[1]", json!([1])),
        ("$.a[-1]", json!([6])),
        ("$.a[-7]", json!([0])),
        ("$.a[-8]", json!([])),
        ("$.a[7]", json!([])),
        ("$.a['1']", json!([])),
        ("$.o[0]", json!([])),
        ("$.a[1,1,-1]", json!([1, 1, 6])),
        ("$.a[0,'x',5:]", json!([0, 5, 6])),
        ("$.a [ 1 , 2 ]", json!([1, 2])),
        ("$\n.a\t[ ? @ > 5 ]", json!([6])),
        ("$.o[ 'j j' ]\r\n.absent", json!([])),
        ("$.absent", json!([])),
    ] {
        assert_eq!(select(path, &value), want, "{path}");
    }
}

#[test]
fn slices() {
    let value = json!([0, 1, 2, 3, 4, 5, 6]);
    for (slice, want) in [
        ("1:3", json!([1, 2])),
        ("5:", json!([5, 6])),
        (":2", json!([0, 1])),
        (":", json!([0, 1, 2, 3, 4, 5, 6])),
        ("1:5:2", json!([1, 3])),
        ("5:1:-2", json!([5, 3])),
        ("::-1", json!([6, 5, 4, 3, 2, 1, 0])),
        ("-2:", json!([5, 6])),
        (":-5", json!([0, 1])),
        ("-100:100", json!([0, 1, 2, 3, 4, 5, 6])),
        ("100:-100:-3", json!([6, 3, 0])),
        ("-1:-4:-1", json!([6, 5, 4])),
        ("3:1", json!([])),
        ("1:3:-1", json!([])),
        ("::0", json!([])),
        ("::9007199254740991", json!([0])),
        ("-9007199254740991:9007199254740991:-9007199254740991", json!([])),
        ("9007199254740991:-9007199254740991:-9007199254740991", json!([6])),
    ] {
        assert_eq!(select(&format!("$[{slice}]"), &value), want, "{slice}");
    }
    for slice in [":", "::-1", "0:1", "-1::-1"] {
        assert_eq!(select(&format!("$[{slice}]"), &json!([])), json!([]), "{slice}");
        assert_eq!(select(&format!("$[{slice}]"), &json!({"a": 1})), json!([]), "{slice}");
    }
}

#[test]
fn descendants_and_lists_of_selectors_keep_rfc_order() {
    let value = json!({"o": {"j": 1, "k": 2}, "a": [5, 3, [{"j": 4}, {"k": 6}]]});
    for (path, want) in [
        ("$..j", json!([4, 1])),
        ("$..[0]", json!([5, {"j": 4}])),
        (
            "$..*",
            json!([[5, 3, [{"j": 4}, {"k": 6}]], {"j": 1, "k": 2}, 5, 3, [{"j": 4}, {"k": 6}], {"j": 4}, {"k": 6}, 4, 6, 1, 2]),
        ),
        ("$..o", json!([{"j": 1, "k": 2}])),
        ("$.o..[*, *]", json!([1, 2, 1, 2])),
        ("$.a..[0, 1]", json!([5, 3, {"j": 4}, {"k": 6}])),
        ("$[*]['k','j']", json!([2, 1])),
        ("$..['k','j']", json!([4, 6, 2, 1])),
    ] {
        assert_eq!(select(path, &value), want, "{path}");
    }
    let rows = json!([{"a": 1, "b": 2}, {"a": 3, "b": 4}]);
    assert_eq!(select("$[*]['a','b']", &rows), json!([1, 2, 3, 4]));
}

#[test]
fn filters() {
    let value = json!([
        {"n": 1, "t": "x", "l": [1, [2]], "on": true},
        {"n": 2.5, "t": "y", "l": [1.0, [2.0]], "on": false},
        {"n": "2", "t": "äx", "l": [], "on": null},
        {"t": ""},
    ]);
    let at = |filter: &str| {
        let kept = select(&format!("$[?{filter}].t"), &value);
        serde_json::from_value::<Vec<String>>(kept).unwrap()
    };
    for (filter, want) in [
        ("@.n", vec!["x", "y", "äx"]),
        ("!@.n", vec![""]),
        ("@.on", vec!["x", "y", "äx"]),
        ("@.on == null", vec!["äx"]),
        ("@.on == false", vec!["y"]),
        ("@.n == 1.0", vec!["x"]),
        ("@.n > 1", vec!["y"]),
        ("@.n >= 1 && @.n <= 2.5", vec!["x", "y"]),
        ("@.n < '3'", vec!["äx"]),
        ("@.n != 1", vec!["y", "äx", ""]),
        ("@.absent == @.other", vec!["x", "y", "äx", ""]),
        ("@.absent <= @.other", vec!["x", "y", "äx", ""]),
        ("@.absent < @.other", vec![]),
        ("@.on <= true", vec!["x"]),
        ("@.l == $[0].l", vec!["x", "y"]),
        ("@.l[1][0] == 2", vec!["x", "y"]),
        ("@.l[?@ == 1]", vec!["x", "y"]),
        ("@.l[?@[?@ > 1]]", vec!["x", "y"]),
        ("@[?@ == 'x']", vec!["x"]),
        ("(@.t == 'x' || @.t == 'y') && !(@.n == 1)", vec!["y"]),
        ("@.t == 'x' || @.t == 'y' && @.n == 1", vec!["x"]),
        ("length(@.t) == 2", vec!["äx"]),
        ("length(@.l) == 0", vec!["äx"]),
        ("length(@) == 1", vec![""]),
        ("length(@.on) == length(@.n)", vec!["x", "y", ""]),
        ("count(@.l[*]) == 2", vec!["x", "y"]),
        ("value(@..l[0]) == 1", vec!["x", "y"]),
        ("match(@.t, '.x?')", vec!["x", "y", "äx"]),
        ("match(@.t, 'x|y')", vec!["x", "y"]),
        ("search(@.t, '[x]')", vec!["x", "äx"]),
        ("search(@.t, '(')", vec![]),
        ("match(@.t, 'x)|(?:y')", vec![]),
        ("match(@.n, '1')", vec![]),
        ("match(@.t, $[0].t)", vec!["x"]),
        ("length(value(@.l)) == 2", vec!["x", "y"]),
    ] {
        assert_eq!(at(filter), want, "{filter}");
    }
    assert_eq!(select("$[?@ > 1]", &json!({"a": 1, "b": 2, "c": 3})), json!([2, 3]));
    assert_eq!(select("$[?@]", &json!("text")), json!([]));
    assert_eq!(select("$[?@ == 'a\\u0000']", &json!(["a\u{0}", "a"])), json!(["a\u{0}"]));
    assert_eq!(select("$[?search(@, 'a.b')]", &json!(["a\rb", "a\nb", "a\u{2028}b"])), json!(["a\u{2028}b"]));
}

#[test]
fn numbers_in_filters_are_exact() {
    let value = json!([9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64, 1e-17, 2e-17]);
    assert_eq!(select("$[?@ == 9.007199254740992e15]", &value), json!([9_007_199_254_740_992_u64]));
    assert_eq!(select("$[?@ == $[1]]", &value), json!([9_007_199_254_740_993_u64]));
    assert_eq!(select("$[?@ == 1e-17]", &value), json!([1e-17]));
}

#[test]
fn results_become_one_text() {
    let value = json!({"a": {"x": 0.7, "y": null, "s": "q\"", "l": [1, 2.0]}, "b": {"x": true}});
    for (path, want) in [
        ("$.a.x", Ok("0.7")),
        ("$.a.y", Ok("")),
        ("$.a.s", Ok("q\"")),
        ("$.a.l", Ok("[1,2]")),
        ("$.a.l[*]", Ok("[1,2]")),
        ("$.a.l[1:]", Ok("2")),
        ("$.*.x", Ok("[0.7,true]")),
        ("$.a['s','y']", Ok("[\"q\\\"\",null]")),
        ("$.b", Ok("{\"x\":true}")),
        ("$.c", Err(QueryError::Missing)),
        ("$.a.l[9]", Err(QueryError::Missing)),
    ] {
        assert_eq!(Path::parse(path).unwrap().query(&value), want.map(str::to_owned), "{path}");
    }
    insta::assert_snapshot!(QueryError::Missing, @"the path selects nothing");
}
