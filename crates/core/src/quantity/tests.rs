//! Tests of amounts: the canonical texts of Kubernetes, exactness against an oracle in decimal digits, and the laws.
//! Owns no production code.

use proptest::prelude::*;

use super::{Format, Quantity, Step};

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[rustfmt::skip]
fn texts_become_canonical_as_in_kubernetes() {
    let cases = [
        ("0", "0"), ("0n", "0"), ("-0", "0"), ("0Ki", "0"), ("0e5", "0"), ("000", "0"), ("0.0Gi", "0"), ("5n", "5n"),
        ("4u", "4u"), ("3m", "3m"), ("9", "9"), ("8k", "8k"), ("7M", "7M"), ("6G", "6G"), ("5T", "5T"), ("2P", "2P"),
        ("1E", "1E"), ("1Ki", "1Ki"), ("8Ki", "8Ki"), ("7Mi", "7Mi"), ("6Gi", "6Gi"), ("5Ti", "5Ti"), ("4Pi", "4Pi"),
        ("3Ei", "3Ei"), ("50k", "50k"), ("1000", "1k"), ("1500", "1500"), ("1500000", "1500k"), ("0.5", "500m"),
        (".5", "500m"), ("5.", "5"), ("+5", "5"), ("-5", "-5"), ("-1.5Gi", "-1536Mi"), ("0.001", "1m"),
        ("0.0005k", "500m"), ("100.035k", "100035"), ("1.", "1"), ("1.G", "1G"), ("007m", "7m"), ("1000m", "1"),
        ("1500m", "1500m"), ("1000000u", "1"), ("1000k", "1M"), ("1000E", "1000E"), ("100E", "100E"),
        ("2048Ki", "2Mi"), ("1536Ki", "1536Ki"), ("1.5Gi", "1536Mi"), ("0.5Mi", "512Ki"), ("1024Mi", "1Gi"),
        ("0.5Ki", "512"), ("1.1Ki", "1126400m"), ("0.05Gi", "53687091200m"), ("1.0000000001Ki", "1024000000103n"),
        ("0.0001Ki", "102400u"), ("1023.5Ki", "1048064"), ("1e3", "1e3"), ("1E3", "1e3"), ("1e+3", "1e3"),
        ("12e3", "12e3"), ("1e4", "10e3"), ("1.5e4", "15e3"), ("1e-3", "1e-3"), ("1e-4", "100e-6"), ("10e-1", "1"),
        ("1e0", "1"), ("1e28", "10e27"), ("1e-9", "1e-9"), ("0.1n", "1n"), ("-0.1n", "-1n"), ("0.0000000001", "1n"),
        ("1.0000000001", "1000000001n"), ("1e-30", "1e-9"),
    ]; // source: the grammar and the canonical form described for `resource.Quantity`
    for (text, canonical) in cases {
        assert_eq!(quantity(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn amounts_beyond_the_range_are_cut_not_wrapped() {
    for text in ["8Ei", "9Ei", "9223372036854775808Ki", &format!("{}Ki", "9".repeat(5000))] {
        assert_eq!(quantity(text).to_string(), i64::MAX.to_string(), "{text}");
    }
    for text in ["1e30", "1e99999999999999999999999", "1000000000000E", &"9".repeat(5000)] {
        assert_eq!(quantity(text), Quantity::MAX, "{text}");
        assert_eq!(quantity(&format!("-{text}")), Quantity::MIN, "-{text}");
    }
    assert_eq!(quantity(&format!("1{}e-5000", "0".repeat(5000))), quantity("1"));
    assert_eq!(quantity(&format!("0.{}1e5000", "0".repeat(4999))), quantity("1"));
    assert_eq!(quantity("1e-99999999999999999999999").nano(), 1);
    assert_eq!(quantity("0e99999999999999999999999"), Quantity::ZERO);
}

#[test]
#[rustfmt::skip]
fn what_is_outside_the_grammar_is_refused() {
    for text in [
        "", "+", "-", ".", "Ki", "m", "-.", "e3", " 1", "1 ", "1 Gi", "1K", "1ki", "1KI", "1GB", "1e", "1e+", "1E+",
        "1e1.5", "1e3k", "1Ee3", "1.5.5", "1,5", "--1", "+-1", "0x10", "1_000", "١", "∞", "NaN", "1mm", "1Kii",
        "1e3-", "1\n", "1u\0",
    ] {
        assert!(text.parse::<Quantity>().is_err(), "{text:?}");
    }
}

#[test]
fn errors_say_what_where_and_what_is_allowed() {
    let error = |text: &str| text.parse::<Quantity>().unwrap_err();
    insta::assert_snapshot!(error(""), @"quantity is empty; write a number with an optional suffix, for example `500m`, `2`, `1.5Gi`, `1e3`");
    insta::assert_snapshot!(error("Gi"), @"quantity `Gi` has no digits; write a number with an optional suffix, for example `500m` or `1.5Gi`");
    insta::assert_snapshot!(error("4K"), @"quantity `4K` ends in `K`, which is not a valid suffix; allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3 (thousands are `k`, 1024s are `Ki`)");
    insta::assert_snapshot!(error("1 "), @"quantity `1 ` ends in ` `, which is not a valid suffix; allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3 (remove the blanks)");
    insta::assert_snapshot!(error(&format!("1{}", "\n".repeat(100))), @r"quantity `1\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n…` ends in `\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n…`, which is not a valid suffix; allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3 (remove the blanks)");
}

#[test]
fn families_compare_by_worth_not_by_text() {
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert_eq!(quantity("1e3"), quantity("1k"));
    assert!(quantity("1k") < quantity("1Ki"));
    assert!(quantity("1M") < quantity("1Mi"));
    assert!(quantity("-1Gi") < quantity("1n"));
    assert!(quantity("999m") < quantity("1"));
}

#[test]
fn requests_round_up_and_capacities_round_down() {
    assert_eq!(quantity("0.5").millicores(), Some(500));
    assert_eq!(quantity("1u").millicores(), Some(1));
    assert_eq!(quantity("1500u").round_up(Step::Milli), Some(2));
    assert_eq!(quantity("1500u").round_down(Step::Milli), Some(1));
    assert_eq!(quantity("1.5").count(), Some(2));
    assert_eq!(quantity("1.1Ki").bytes(), Some(1127));
    assert_eq!(quantity("250m").round_up(Step::TenThousandth), Some(2500));
    assert_eq!(quantity("-1").bytes(), None);
    assert_eq!(quantity("-1n").round_down(Step::Nano), None);
    assert_eq!(Quantity::ZERO.bytes(), Some(0));
    assert_eq!(Quantity::MAX.bytes(), Some(u64::MAX));
    assert_eq!(quantity("18446744073709551615").count(), Some(u64::MAX));
    assert_eq!(quantity("18446744073709551614.5").count(), Some(u64::MAX));
}

#[test]
fn sums_keep_the_family_of_the_first_amount_that_is_something() {
    assert_eq!(quantity("1Gi").saturating_add(quantity("1k")).format(), Format::BinarySi);
    assert_eq!(Quantity::ZERO.saturating_add(quantity("1Gi")).to_string(), "1Gi");
    assert_eq!(quantity("512Mi").checked_add(quantity("512Mi")).unwrap().to_string(), "1Gi");
    assert_eq!(quantity("1").checked_sub(quantity("1500m")).unwrap().to_string(), "-500m");
    assert_eq!(quantity("500m").checked_mul(4).unwrap().to_string(), "2");
    assert_eq!(Quantity::MAX.checked_add(quantity("1n")), None);
    assert_eq!(Quantity::MIN.checked_sub(quantity("1n")), None);
    assert_eq!(Quantity::MAX.checked_mul(2), None);
    assert_eq!(Quantity::MAX.saturating_mul(2), Quantity::MAX);
    assert_eq!(Quantity::MIN.saturating_sub(Quantity::MAX), Quantity::MIN);
    assert_eq!(-Quantity::MIN, Quantity::MAX);
    assert_eq!(Quantity::from_nano(i128::MIN, Format::DecimalSi), Quantity::MIN);
}

#[test]
fn constructors_write_in_the_usual_family() {
    assert_eq!(Quantity::from_milli(1500).to_string(), "1500m");
    assert_eq!(Quantity::from_count(2000).to_string(), "2k");
    assert_eq!(Quantity::from_bytes(512 << 20).to_string(), "512Mi");
    assert_eq!(Quantity::from_bytes(u64::MAX).bytes(), Some(u64::MAX));
    assert_eq!(Quantity::from_bytes(7 << 60).to_string(), "7Ei");
    // 8Ei would be cut to 8Ei − 1 when it is read again.
    assert_eq!(Quantity::from_bytes(8 << 60).to_string(), "9223372036854775808");
}

#[test]
fn json_is_a_text_and_takes_plain_numbers() {
    let read = |json: &str| serde_json::from_str::<Quantity>(json);
    assert_eq!(serde_json::to_string(&quantity("1.5Gi")).unwrap(), r#""1536Mi""#);
    assert_eq!(read(r#""0.5""#).unwrap().to_string(), "500m");
    assert_eq!(read("2").unwrap(), quantity("2"));
    assert_eq!(read("-2").unwrap(), quantity("-2"));
    assert_eq!(read("0.1").unwrap(), quantity("100m"));
    assert_eq!(read("1e300").unwrap(), Quantity::MAX);
    for json in ["true", "null", "[]", r#""1K""#] {
        assert!(read(json).is_err(), "{json}");
    }
}

/// The oracle: the number's digits times 2^`two` times 10^`ten`, in nano units, rounded up, by pencil and paper.
fn by_hand(whole: &str, part: &str, two: u32, ten: i32) -> String {
    let mut digits: Vec<u32> = (whole.to_owned() + part).bytes().rev().map(|byte| u32::from(byte - b'0')).collect();
    for _ in 0..two {
        let mut carry = 0;
        for digit in &mut digits {
            let double = *digit * 2 + carry;
            *digit = double % 10;
            carry = double / 10;
        }
        digits.push(carry);
    }
    let mut cut = part.len() as i32 - ten - 9;
    while cut < 0 {
        digits.insert(0, 0);
        cut += 1;
    }
    let lost = digits.iter().take(cut as usize).any(|digit| *digit != 0);
    let mut kept: Vec<u32> = digits.into_iter().skip(cut as usize).collect();
    let mut carry = u32::from(lost);
    for digit in &mut kept {
        let sum = *digit + carry;
        *digit = sum % 10;
        carry = sum / 10;
    }
    kept.push(carry);
    let text: String = kept.iter().rev().map(u32::to_string).collect();
    let text = text.trim_start_matches('0');
    if text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

#[rustfmt::skip]
const SUFFIXES: [(&str, u32, i32); 16] = [
    ("n", 0, -9), ("u", 0, -6), ("m", 0, -3), ("", 0, 0), ("k", 0, 3), ("M", 0, 6), ("G", 0, 9), ("T", 0, 12),
    ("P", 0, 15), ("Ki", 10, 0), ("Mi", 20, 0), ("Gi", 30, 0), ("Ti", 40, 0), ("e5", 0, 5), ("e-7", 0, -7),
    ("E+2", 0, 2),
];

fn any_format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::DecimalSi), Just(Format::BinarySi), Just(Format::DecimalExponent)]
}

fn any_quantity() -> impl Strategy<Value = Quantity> {
    let nano = prop_oneof![
        any::<i128>(),
        any::<i64>().prop_map(i128::from),
        any::<i32>().prop_map(|n| i128::from(n) * 1_000_000_000),
        any::<i32>().prop_map(|n| i128::from(n) * 1024 * 1024 * 1_000_000_000),
        any::<i32>().prop_map(|n| i128::from(n) * (1 << 53) * 1_000_000_000),
    ];
    (nano, any_format()).prop_map(|(nano, format)| Quantity::from_nano(nano, format))
}

/// A number, a suffix and the exact worth in units of 10⁻¹², small enough for `i128`.
fn exact() -> impl Strategy<Value = (String, i128)> {
    (-999_999_i128..=999_999, 0_u32..=3, 0..SUFFIXES.len()).prop_map(|(mantissa, places, index)| {
        let (suffix, two, ten) = SUFFIXES[index];
        let sign = if mantissa < 0 { "-" } else { "" };
        let digits = format!("{:04}", mantissa.abs());
        let (whole, part) = digits.split_at(digits.len() - places as usize);
        let power = u32::try_from(12 - places as i32 + ten).unwrap();
        (format!("{sign}{whole}.{part}{suffix}"), mantissa * (1 << two) * 10_i128.pow(power))
    })
}

proptest! {
    #[test]
    fn law_reading_what_was_written_gives_the_same(q in any_quantity()) {
        let text = q.to_string();
        let back: Quantity = text.parse().unwrap();
        prop_assert_eq!(back, q);
        // A binary amount without a factor of 1024 is written bare, as in Kubernetes, and so changes its family.
        if back.format() == q.format() {
            prop_assert_eq!(back.to_string(), text);
        }
        let json = serde_json::to_string(&q).unwrap();
        prop_assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), q);
    }

    #[test]
    fn law_order_agrees_with_exact_rationals((a, exact_a) in exact(), (b, exact_b) in exact()) {
        let (qa, qb) = (quantity(&a), quantity(&b));
        // Rounding to 10⁻⁹ can join neighbours, never swap them.
        if exact_a <= exact_b { prop_assert!(qa <= qb, "{a} {b}"); }
        if exact_a >= exact_b { prop_assert!(qa >= qb, "{a} {b}"); }
        let away = |exact: i128| exact.signum() * (exact.abs() + 999) / 1000;
        prop_assert_eq!((qa.nano(), qb.nano()), (away(exact_a), away(exact_b)));
    }

    #[test]
    fn law_any_number_of_digits_is_read_exactly(
        whole in "[0-9]{0,15}", part in "[0-9]{0,60}", index in 0..SUFFIXES.len(),
    ) {
        prop_assume!(!whole.is_empty() || !part.is_empty());
        let (suffix, two, ten) = SUFFIXES[index];
        let expected = by_hand(&whole, &part, two, ten);
        let nano = quantity(&format!("{whole}.{part}{suffix}")).nano();
        let capped = if two > 0 { super::MAX_BINARY } else { i128::MAX };
        prop_assert_eq!(nano, expected.parse::<i128>().map_or(capped, |exact| exact.min(capped)));
    }

    #[test]
    fn law_no_text_panics(text in "\\PC{0,40}|[+-]?[0-9.]{0,50}[eEinumkKMGTP]{0,3}[+-]?[0-9]{0,25}") {
        if let Ok(q) = text.parse::<Quantity>() {
            prop_assert_eq!(q.to_string().parse::<Quantity>().unwrap(), q);
            let _ = (q.millicores(), q.bytes(), q.round_down(Step::TenThousandth), -q);
        }
    }

    #[test]
    fn law_checked_and_saturating_agree(a in any_quantity(), b in any_quantity(), n: u64) {
        let range = |nano: Option<i128>| nano.filter(|nano| *nano != i128::MIN);
        prop_assert_eq!(a.checked_add(b).map(Quantity::nano), range(a.nano().checked_add(b.nano())));
        prop_assert_eq!(a.checked_sub(b).map(Quantity::nano), range(a.nano().checked_sub(b.nano())));
        if let Some(sum) = a.checked_add(b) {
            prop_assert_eq!(a.saturating_add(b), sum);
            prop_assert_eq!(sum.checked_sub(b), Some(a));
            prop_assert_eq!(b.checked_add(a), Some(sum));
        } else {
            prop_assert!([Quantity::MAX, Quantity::MIN].contains(&a.saturating_add(b)));
        }
        match a.checked_mul(n) {
            Some(product) => prop_assert_eq!(a.saturating_mul(n), product),
            None => prop_assert!([Quantity::MAX, Quantity::MIN].contains(&a.saturating_mul(n))),
        }
        prop_assert_eq!(-(-a), a);
    }

    #[test]
    fn law_rounding_is_the_nearest_step_on_the_safe_side(nano in 0..i128::from(u64::MAX)) {
        let q = Quantity::from_nano(nano, Format::DecimalSi);
        for step in [Step::Nano, Step::TenThousandth, Step::Milli, Step::One] {
            let (up, down) = (i128::from(q.round_up(step).unwrap()), i128::from(q.round_down(step).unwrap()));
            prop_assert!(down * step.nano() <= nano && nano <= up * step.nano());
            prop_assert!(up - down == i128::from(nano % step.nano() != 0));
        }
    }
}
