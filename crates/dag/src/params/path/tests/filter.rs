//! The grammar of filters of RFC 9535, rule by rule: what it takes, what it refuses, and what refusals and bounds say.

use serde_json::json;

use super::super::*;
use super::{refusal, refused, select, taken};

#[test]
fn numbers_in_comparisons_are_those_of_json_and_minus_zero() {
    let value = json!([0, 1, 10, 0.5, -1.5e3, 9_007_199_254_740_993_u64, 18_446_744_073_709_551_615_u64]);
    for (number, want) in [
        ("-0", json!([0])),
        ("-0.0", json!([0])),
        ("0e5", json!([0])),
        ("1.0", json!([1])),
        ("1E1", json!([10])),
        ("1e+1", json!([10])),
        ("100e-1", json!([10])),
        ("5e-01", json!([0.5])),
        ("0.50", json!([0.5])),
        ("-1500", json!([-1500.0])),
        ("9007199254740993", json!([9_007_199_254_740_993_u64])),
        ("18446744073709551615", json!([18_446_744_073_709_551_615_u64])),
        ("123456789012345678901234567890", json!([])),
        ("1e-999", json!([0])),
    ] {
        assert_eq!(select(&format!("$[?@=={number}]"), &value), want, "{number}");
        assert_eq!(select(&format!("$[?{number} == @]"), &value), want, "{number}");
    }
    for number in [
        "01", "-01", "00", "+1", ".5", "-.5", "1.", "1.e1", "1e", "1e+", "1e1.0", "1e 1", "1 .5", "- 1", "--1", "-",
        "0x1", "1_0", "Infinity", "NaN", "1f",
    ] {
        refused(&[&format!("$[?@ == {number}]"), &format!("$[?{number} == @]")]);
    }
    refused(&["$[?@ == 1e400]", "$[?length(-1e999) == 1]"]);
}

#[test]
fn literals_stand_only_in_comparisons_and_in_lower_case() {
    taken(&["$[?@==null]", "$[?true==false]", "$[?'a'=='a']", "$[?null != @.a]", "$[?@ == \"\"]"]);
    refused(&[
        "$[?true]",
        "$[?null]",
        "$[?1]",
        "$[?'a']",
        "$[?!true]",
        "$[?(1)]",
        "$[?@ && true]",
        "$[?@ == True]",
        "$[?@ == NULL]",
        "$[?@ == nil]",
        "$[?@ == truex]",
        "$[?@ == true1]",
        "$[?@ == tru e]",
        "$[?@ == a]",
        "$[?@ == [1]]",
        "$[?@ == {}]",
    ]);
}

#[test]
fn comparisons_have_two_sides_of_at_most_one_value() {
    taken(&[
        "$[?@==$]",
        "$[?@.a!=@['b']]",
        "$[?@[0]<=$.a[-1]]",
        "$[?@ .a [0] >= 1]",
        "$[?1<2]",
        "$[?@\n>\n1]",
        "$[?length(@)==count(@.*)]",
        "$[?$['a'] ['b']<1]",
    ]);
    refused(&[
        "$[?@.a=1]",
        "$[?@.a===1]",
        "$[?@.a<>1]",
        "$[?@.a=<1]",
        "$[?@.a=>1]",
        "$[?@.a= =1]",
        "$[?@.a~=1]",
        "$[?@.a in 1]",
        "$[?@.a==]",
        "$[?==1]",
        "$[?@.a==1==1]",
        "$[?@.a<1<2]",
        "$[?@.*==1]",
        "$[?1==@..a]",
        "$[?@[0,1]==1]",
        "$[?@[:]==1]",
        "$[?@[?@.a]==1]",
        "$[?@['a','b']==@.c]",
        "$[?(@.a)==1]",
        "$[?@.a==(1)]",
        "$[?@.a==!@.b]",
        "$[?!@.a==1]",
        "$[?@.a==1+1]",
    ]);
}

#[test]
fn paths_that_are_compared_have_no_blanks_inside_their_brackets() {
    taken(&[
        "$[?@[ 'a' ]]",
        "$[?length(@[ 'a' ]) == 1]",
        "$[ ?@['a'] == 1 ]",
        "$[?value($[ 0 ]) == @[0] ]",
        "$[?@[?@[ 0 ]] && @[0]==1]",
    ]);
    refused(&["$[?@[ 'a']==1]", "$[?@['a' ]==1]", "$[?1==@[ 0 ]]", "$[?@.a[0\t].b<1]"]);
}

#[test]
fn and_binds_more_tightly_than_or_and_not_more_than_both() {
    let value = json!([{"a": 1}, {"b": 1}, {"c": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}]);
    for (filter, want) in [
        ("@.a || @.b && @.c", json!([{"a": 1}, {"a": 1, "b": 1}, {"b": 1, "c": 1}])),
        ("(@.a || @.b) && @.c", json!([{"b": 1, "c": 1}])),
        ("@.b&&@.c||@.a&&@.b", json!([{"a": 1, "b": 1}, {"b": 1, "c": 1}])),
        ("!@.a && @.b", json!([{"b": 1}, {"b": 1, "c": 1}])),
        ("!(@.a && @.b) && @.b", json!([{"b": 1}, {"b": 1, "c": 1}])),
        ("! @.a&&! ( @.b )", json!([{"c": 1}])),
        ("!(!@.c)", json!([{"c": 1}, {"b": 1, "c": 1}])),
        ("((@.a)) && ((@.b))", json!([{"a": 1, "b": 1}])),
    ] {
        assert_eq!(select(&format!("$[?{filter}]"), &value), want, "{filter}");
    }
    refused(&[
        "$[?]",
        "$[? ]",
        "$[?()]",
        "$[?(@.a]",
        "$[?@.a)]",
        "$[?!!@.a]",
        "$[?!]",
        "$[?@.a &&]",
        "$[?&& @.a]",
        "$[?@.a & @.b]",
        "$[?@.a | @.b]",
        "$[?@.a & & @.b]",
        "$[?@.a and @.b]",
        "$[?not @.a]",
        "$[?@.a @.b]",
        "$[?@.a, ]",
        "$?@.a",
        "$.?@.a",
        "$(?@.a)",
    ]);
}

#[test]
fn functions_take_what_their_types_allow() {
    taken(&[
        "$[?length('a')==1]",
        "$[?length( @.a )==1]",
        "$[?length(@)==length($)]",
        "$[?length(value(@..a))>count(@[?@.b])]",
        "$[?match(@.a,'b')]",
        "$[?!search( @.a , $.b )]",
        "$[?match('a', value(@.b))]",
        "$[?search(1, null)]",
        "$[?count(@)==1]",
        "$[?value(@.a[*])==null]",
        "$[?(match(@.a, 'b'))]",
    ]);
    refused(&[
        "$[?length(@)]",
        "$[?!count(@.*)]",
        "$[?value(@.a)]",
        "$[?value(@.a) && @.b]",
        "$[?length()==1]",
        "$[?length(@.a,@.b)==1]",
        "$[?length(@.*)==1]",
        "$[?length(@..a)==1]",
        "$[?length(@.a==1)==1]",
        "$[?length((@.a))==1]",
        "$[?length(!@.a)==1]",
        "$[?length(match(@.a,'b'))==1]",
        "$[?length(true())==1]",
        "$[?count()==1]",
        "$[?count(1)==1]",
        "$[?count('a')==1]",
        "$[?count(true)==1]",
        "$[?count(@.a,@.b)==1]",
        "$[?count(value(@.a))==1]",
        "$[?value(1)==1]",
        "$[?value(length(@))==1]",
        "$[?match(@.a)]",
        "$[?match(@.a,)]",
        "$[?match(@.a,'b','c')]",
        "$[?match(@.a 'b')]",
        "$[?match(@.*,'b')]",
        "$[?match(@.a,@..b)]",
        "$[?match(@.a,'b')==true]",
        "$[?true!=search(@.a,'b')]",
    ]);
}

#[test]
fn names_of_functions_are_exact_and_touch_their_parenthesis() {
    refused(&[
        "$[?Length(@)==1]",
        "$[?LENGTH(@)==1]",
        "$[?length (@)==1]",
        "$[?len(@)==1]",
        "$[?length_(@)==1]",
        "$[?in(@.a,$.b)]",
        "$[?_a(@)]",
        "$[?1a(@)]",
        "$[?length==1]",
        "$[?length(@==1]",
        "$.length()",
        "$[length(@)]",
        "$[?(length)(@)==1]",
    ]);
}

#[test]
fn refusals_say_where_what_was_expected() {
    let all: Vec<String> = [
        "$.1",
        "$..",
        "$x",
        "$['a",
        "$['\\x']",
        "$['\\u00']",
        "$['\\ud800']",
        "$['\u{1}']",
        "$[0 1]",
        "$[?@.ü b]",
        "$[?@.a = 1]",
        "$[?1]",
        "$[?!@.a == 1]",
        "$[?@.* == 1]",
        "$[?@[ 0] == 1]",
        "$[?(@.a]",
        "$[?@.a == ]",
        "$[?nul]",
        "$[?@ == 01]",
        "$[?@ == 1.]",
        "$[?match(@.a)]",
        "$[?length(@.a @.b) > 1]",
        "$[?count('a') > 1]",
        "$[?match(@.a, 'b') == true]",
        "$[?!length(@.a)]",
        "$[?len(@) > 1]",
    ]
    .iter()
    .map(|path| refusal(path).replace(" is not a JSONPath of RFC 9535", ""))
    .collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    `$.1`: at column 3, found `1`, expected a name or `*` right behind `.`
    `$..`: at column 4, found the end, expected a name, `*` or `[` right behind `..`
    `$x`: at column 2, found `x`, expected `.`, `..`, `[` or the end of the path
    `$['a`: at column 5, found the end, expected `'` at the end of the string
    `$['\x']`: at column 5, found `x`, expected `b`, `f`, `n`, `r`, `t`, `u`, `/`, `\` or the quote of the string behind `\`
    `$['\u00']`: at column 8, found `'`, expected a hexadecimal digit, four behind `\u`
    `$['\ud800']`: at column 5, found `u`, expected both halves of a surrogate pair, as in `\ud83d\ude00`
    `$['\u{1}']`: at column 4, found `\u{1}`, expected an escape such as `\n` in place of a control character
    `$[0 1]`: at column 5, found `1`, expected `,` or `]`
    `$[?@.ü b]`: at column 8, found `b`, expected `&&`, `||`, `,` or `]`
    `$[?@.a = 1]`: at column 8, found `=`, expected `==`, `!=`, `<`, `<=`, `>` or `>=`
    `$[?1]`: at column 5, found `]`, expected `==`, `!=`, `<`, `<=`, `>` or `>=`
    `$[?!@.a == 1]`: at column 5, found `@`, expected parentheses around the comparison behind `!`
    `$[?@.* == 1]`: at column 4, found `@`, expected a path to one value, such as `@.name` or `@[0]`, as a side of a comparison
    `$[?@[ 0] == 1]`: at column 6, found ` `, expected no blank inside the brackets of a path that is compared
    `$[?(@.a]`: at column 8, found `]`, expected `&&`, `||` or `)`
    `$[?@.a == ]`: at column 11, found `]`, expected `@`, `$`, a literal or a function to compare with
    `$[?nul]`: at column 4, found `n`, expected `@`, `$`, a literal, a function, `!` or `(`
    `$[?@ == 01]`: at column 9, found `0`, expected a number without leading zeros
    `$[?@ == 1.]`: at column 11, found `]`, expected a digit
    `$[?match(@.a)]`: at column 13, found `)`, expected `,` and a pattern
    `$[?length(@.a @.b) > 1]`: at column 15, found `@`, expected `)`
    `$[?count('a') > 1]`: the argument of `count` must be a path such as `@.items[*]`
    `$[?match(@.a, 'b') == true]`: `match` gives no value; use it as a test by itself
    `$[?!length(@.a)]`: the result of `length` must be compared, as in `length(…) > 0`
    `$[?len(@) > 1]`: there is no function `len`; use length, count, value, match or search
    "#);
}

#[test]
fn nesting_is_bounded_by_brackets_and_calls() {
    let brackets = |levels: usize| format!("${}{}", "[?@".repeat(levels), "]".repeat(levels));
    assert!(Path::parse(&brackets(NESTING_MAX)).is_ok());
    assert_eq!(Path::parse(&brackets(NESTING_MAX + 1)), Err(PathError::TooDeep));
    let parentheses = |levels: usize| format!("$[?{}@{}]", "!(".repeat(levels), ")".repeat(levels));
    assert!(Path::parse(&parentheses(NESTING_MAX - 1)).is_ok());
    assert_eq!(Path::parse(&parentheses(NESTING_MAX)), Err(PathError::TooDeep));
    let calls = |levels: usize| format!("$[?{}@{} == 1]", "length(".repeat(levels), ")".repeat(levels));
    assert!(Path::parse(&calls(FUNCTIONS_MAX)).is_ok());
    assert_eq!(Path::parse(&calls(FUNCTIONS_MAX + 1)), Err(PathError::TooDeep));
    // One behind the other is not nested.
    let row = vec!["length(@[0]) == 1"; 150].join("&&");
    assert!(Path::parse(&format!("$[?{row}]")).is_ok());
    assert!(Path::parse(&format!("$.{}", "a".repeat(PATH_MAX - 2))).is_ok());
    assert_eq!(Path::parse(&format!("$.{}", "a".repeat(PATH_MAX - 1))), Err(PathError::TooLong { len: PATH_MAX + 1 }));
}
