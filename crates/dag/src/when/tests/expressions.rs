//! Items 1, 2 and 4: constants, operators, precedence, error hiding.

use super::{assert_decides, decided, run_error};

#[test]
fn constants_are_exact_and_blanks_around_them_free() {
    assert_decides(&[
        ("", true),
        ("  \n\t", true),
        ("always", true),
        ("true", true),
        (" always\n", true),
        ("never", false),
        ("false", false),
        ("\tfalse ", false),
    ]);
}

#[test]
fn boolean_operators_bind_as_in_cel() {
    assert_decides(&[
        ("true || false && false", true),
        ("(true || false) && false", false),
        ("!false && false", false),
        ("!(true && false)", true),
        ("!!true", true),
        ("true == false || true", true),
        ("1 + 2 == 3 && 2 * 3 > 5", true),
    ]);
}

#[test]
fn arithmetic_goes_from_left_to_right() {
    assert_decides(&[
        ("10 - 3 - 2 == 5", true),
        ("2 + 3 * 4 == 14", true),
        ("100 / 10 / 5 * 3 == 6", true),
        ("-7 / 2 == -3", true),
        ("-7 % 3 == -1", true),
        ("1.5 + 0.25 == 1.75", true),
        ("3.0 / 2.0 == 1.5", true),
        ("--3 == 3 && -(-3) == 3", true),
        ("-9223372036854775808 < 0", true),
        ("0x10 == 16 && 1e3 == 1000.0 && .5 == 0.5", true),
        ("'a' + \"b\" + 'c' == 'abc'", true),
        ("[1] + [2, 3] == [1, 2, 3]", true),
    ]);
}

#[test]
fn comparisons_order_numbers_strings_and_bools() {
    assert_decides(&[
        ("1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3", true),
        ("1 == 1.0 && 1 < 1.5 && 2.5 > 2", true),
        ("9007199254740993 > 9007199254740992.0", true),
        ("9223372036854775807 < 9223372036854775808.0", true),
        ("'a' < 'b' && 'B' < 'a'", true),
        ("false < true", true),
        ("1.0 / 0.0 > 9223372036854775807", true),
        ("0.0 / 0.0 == 0.0 / 0.0", false),
        ("0.0 / 0.0 != 0.0 / 0.0", true),
        ("0.0 / 0.0 < 1", false),
        ("[1, 2] == [1, 2] && [1] != [2]", true),
        ("[] == [1]", false),
    ]);
}

#[test]
fn in_looks_into_lists() {
    assert_decides(&[
        ("steps.build.phase in ['Succeeded', 'Skipped']", true),
        ("'x' in []", false),
        ("2 in [1, 2, 3] && !(4 in [1, 2, 3])", true),
        ("2.0 in [1, 2]", true),
        ("[1] in [[1], [2]]", true),
    ]);
}

#[test]
fn alternatives_and_indices() {
    assert_decides(&[
        ("true ? false : true", false),
        ("false ? false : false ? false : true", true),
        ("(1 > 2 ? 'a' : 'b') == 'b'", true),
        ("[10, 20][1] == 20", true),
        ("[[1], [2, 3]][1][0] == 2", true),
        ("size(true ? [] : [1]) == 0", true),
    ]);
}

#[test]
fn a_deciding_operand_hides_an_error_on_either_side() {
    let error = "int('x') == 1";
    for (source, expected) in [
        (format!("{error} || true"), true),
        (format!("true || {error}"), true),
        (format!("{error} && false"), false),
        (format!("false && {error}"), false),
        (format!("{error} || false || true"), true),
        (format!("true && {error} && false"), false),
        (format!("({error} && false) || ({error} || true)"), true),
        (format!("false ? {error} : true"), true),
    ] {
        assert_eq!(decided(&source), Ok(expected), "{source}");
    }
}

#[test]
fn other_errors_stand_with_their_place() {
    insta::assert_snapshot!(run_error("int('x') == 1 || false"), @r#""x" is not an int at byte 0 of the condition"#);
    insta::assert_snapshot!(run_error("false || int('x') == 1"), @r#""x" is not an int at byte 9 of the condition"#);
    insta::assert_snapshot!(run_error("true && 1 / 0 == 1"), @"division by zero at byte 8 of the condition");
    insta::assert_snapshot!(run_error("5 % (1 - 1) == 1"), @"division by zero at byte 0 of the condition");
    insta::assert_snapshot!(
        run_error("9223372036854775807 + 1 > 0"),
        @"9223372036854775807 + 1 is outside the range of an int at byte 0 of the condition"
    );
    insta::assert_snapshot!(
        run_error("-9223372036854775808 / -1 > 0"),
        @"-9223372036854775808 / -1 is outside the range of an int at byte 0 of the condition"
    );
    insta::assert_snapshot!(
        run_error("-int('-9223372036854775808') > 0"),
        @"-9223372036854775808 is outside the range of an int at byte 0 of the condition"
    );
    insta::assert_snapshot!(run_error("[1, 2][2] == 1"), @"index 2 is outside a list of 2 at byte 0 of the condition");
    insta::assert_snapshot!(run_error("[1][-1] == 1"), @"index -1 is outside a list of 1 at byte 0 of the condition");
    insta::assert_snapshot!(run_error("1 / 0 == 1 ? true : false"), @"division by zero at byte 0 of the condition");
    insta::assert_snapshot!(run_error("!(1 / 0 == 1)"), @"division by zero at byte 2 of the condition");
}

#[test]
fn the_first_of_several_errors_stands() {
    insta::assert_snapshot!(
        run_error("int('first') == 1 || int('second') == 1"),
        @r#""first" is not an int at byte 0 of the condition"#
    );
}
