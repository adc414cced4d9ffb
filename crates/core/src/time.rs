//! Points in time and durations as plain values. Owns their text forms (RFC 3339, Go durations); never reads a clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time: milliseconds since the Unix epoch, UTC.
///
/// Engines take it as an argument and never read a clock. Serialized as an integer of milliseconds; API objects use
/// [`Rfc3339`] to write whole seconds.
///
/// ```
/// use orlop_core::time::Time;
/// let t: Time = "2026-11-21T09:00:00Z".parse().unwrap();
/// assert_eq!(t.plus(std::time::Duration::from_millis(1500)).to_string(), "2026-11-21T09:00:01.500Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The latest time RFC 3339 can write (year 9999), which no sum passes.
    pub const MAX: Self = Self(253_402_207_200_999);

    /// From milliseconds since the Unix epoch, clamped to what RFC 3339 can write.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        if millis > Self::MAX.0 {
            return Self::MAX;
        }
        if millis < -Self::MAX.0 / 8 {
            return Self(-Self::MAX.0 / 8);
        }
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// This time and `duration` later; parts of a millisecond count as a whole one, so a timer never fires early.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis_ceil(duration)))
    }

    /// How long after `earlier` this is; zero when it is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The same time cut to whole seconds, as API objects show it.
    #[must_use]
    pub const fn whole_seconds(self) -> Self {
        Self(self.0 - self.0.rem_euclid(1000))
    }

    fn timestamp(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

/// Milliseconds of a duration, rounded up and saturating.
#[must_use]
pub fn millis_ceil(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

impl fmt::Display for Time {
    /// RFC 3339 in UTC, with milliseconds only when there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = if self.0.rem_euclid(1000) == 0 { Some(0) } else { Some(3) };
        let text = jiff::fmt::temporal::DateTimePrinter::new().precision(precision.map(|p: u8| p));
        f.write_str(&text.timestamp_to_string(&self.timestamp()))
    }
}

/// A text is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a time in RFC 3339 form, such as 2026-11-21T09:00:00Z")]
pub struct ParseTimeError {
    text: String,
}

impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<jiff::Timestamp>() {
            Ok(stamp) => Ok(Self::from_millis(stamp.as_millisecond())),
            Err(_) => Err(ParseTimeError { text: text.chars().take(64).collect() }),
        }
    }
}

/// Serde form of API objects: RFC 3339, UTC, whole seconds.
#[derive(Debug)]
pub enum Rfc3339 {}

impl Rfc3339 {
    /// Writes an optional time as RFC 3339 with whole seconds.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(&time.whole_seconds()),
            None => serializer.serialize_none(),
        }
    }

    /// Reads an optional RFC 3339 time.
    ///
    /// # Errors
    /// When the text is not a time.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(feature = "schema")]
crate::schema::written_out!(Rfc3339, {"type": "string", "format": "date-time"});

/// A duration in Go syntax: `300ms`, `90s`, `1h30m`; units ns, us (µs), ms, s, m, h.
///
/// ```
/// use orlop_core::time::GoDuration;
/// let d: GoDuration = "1h30m".parse().unwrap();
/// assert_eq!(d.get().as_secs(), 5400);
/// assert_eq!(d.to_string(), "1h30m0s");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(Duration);

impl GoDuration {
    /// The longest duration Go can hold: 2⁶³−1 nanoseconds, about 292 years.
    pub const MAX: Self = Self(Duration::from_nanos(i64::MAX as u64));

    /// From a duration, cut to what Go can hold.
    #[must_use]
    pub fn new(duration: Duration) -> Self {
        Self(duration.min(Self::MAX.0))
    }

    /// The duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// A text is not a duration in Go syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration{why}; write a number and a unit ({units}), such as {example}")]
pub struct ParseDurationError {
    text: String,
    why: &'static str,
    units: &'static str,
    example: &'static str,
}

/// A duration as people type it: [`GoDuration`] with days, such as `2d` or `1d12h`.
///
/// ```
/// use orlop_core::time::HumanDuration;
/// let d: HumanDuration = "1d12h".parse().unwrap();
/// assert_eq!(d.get().as_secs(), 36 * 3600);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(GoDuration);

impl HumanDuration {
    /// The duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0.get()
    }
}

impl FromStr for HumanDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        GoDuration::read(text, true).map(Self)
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text, false)
    }
}

impl GoDuration {
    fn read(text: &str, days: bool) -> Result<Self, ParseDurationError> {
        let (units, example) = match days {
            true => ("ns, us, ms, s, m, h, d", "90s, 1h30m or 2d"),
            false => ("ns, us, ms, s, m, h", "300ms, 90s or 1h30m"),
        };
        let fail = |why| ParseDurationError { text: text.chars().take(64).collect(), why, units, example };
        if text.starts_with('-') {
            return Err(fail(" (it is negative)"));
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(fail(" (it is empty)"));
        }
        let mut total: u128 = 0;
        while !rest.is_empty() {
            let (nanos, after) = component(rest, days).ok_or_else(|| fail(""))?;
            total = total.saturating_add(nanos);
            rest = after;
        }
        match u64::try_from(total) {
            Ok(nanos) if nanos <= i64::MAX as u64 => Ok(Self(Duration::from_nanos(nanos))),
            _ => Err(fail(" (it is longer than 292 years)")),
        }
    }
}

/// Reads one `<number><unit>` and returns its nanoseconds, saturating, and what follows.
fn component(text: &str, days: bool) -> Option<(u128, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(number_end);
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, after) = rest.split_at(unit_end);
    let scale: u128 = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" if days => 86_400_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let mut nanos = if whole.is_empty() { 0 } else { digits(whole) }.saturating_mul(scale);
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        nanos = nanos.saturating_add(u128::from(digit - b'0').saturating_mul(place));
    }
    Some((nanos, after))
}

fn digits(text: &str) -> u128 {
    text.bytes().fold(0_u128, |sum, digit| sum.saturating_mul(10).saturating_add(u128::from(digit.wrapping_sub(b'0'))))
}

impl fmt::Display for GoDuration {
    /// The form Go prints: `0s`, `300ms`, `1.5s`, `1h30m0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < 1_000_000_000 {
            let (unit, scale) = match nanos {
                0..1_000 => ("ns", 1),
                1_000..1_000_000 => ("\u{b5}s", 1_000),
                _ => ("ms", 1_000_000),
            };
            return write!(f, "{}{unit}", fraction(nanos, scale));
        }
        let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", fraction(nanos % 60_000_000_000, 1_000_000_000))
    }
}

/// `value / scale` in decimal without trailing zeros.
fn fraction(value: u128, scale: u128) -> String {
    let (whole, mut rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let mut text = format!("{whole}.");
    let mut place = scale;
    while rest > 0 {
        place /= 10;
        text.push(char::from(b'0' + u8::try_from(rest / place).unwrap_or(0)));
        rest %= place;
    }
    text
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn go_durations_read_as_go_reads_them() {
        let nanos = |text: &str| text.parse::<GoDuration>().unwrap().get().as_nanos();
        assert_eq!(nanos("300ms"), 300_000_000);
        assert_eq!(nanos("90s"), 90_000_000_000);
        assert_eq!(nanos("1h30m"), 5_400_000_000_000);
        assert_eq!(nanos("1.5h"), 5_400_000_000_000);
        assert_eq!(nanos(".5s"), 500_000_000);
        assert_eq!(nanos("2us"), 2_000);
        assert_eq!(nanos("2\u{b5}s3ns"), 2_003);
        assert_eq!(nanos("0"), 0);
    }

    #[test]
    fn people_may_write_days_and_manifests_may_not() {
        let seconds = |text: &str| text.parse::<HumanDuration>().unwrap().get().as_secs();
        assert_eq!(
            (seconds("1d"), seconds("1d12h"), seconds("0.5d"), seconds("90m")),
            (86_400, 129_600, 43_200, 5_400)
        );
        assert!("1d".parse::<GoDuration>().is_err());
        let wrong = "5".parse::<HumanDuration>().unwrap_err().to_string();
        insta::assert_snapshot!(wrong, @"`5` is not a duration; write a number and a unit (ns, us, ms, s, m, h, d), such as 90s, 1h30m or 2d");
    }

    #[test]
    fn bad_durations_say_what_to_write() {
        let error = |text: &str| text.parse::<GoDuration>().unwrap_err().to_string();
        insta::assert_snapshot!(error("5"), @"`5` is not a duration; write a number and a unit (ns, us, ms, s, m, h), such as 300ms, 90s or 1h30m");
        insta::assert_snapshot!(error("-1s"), @"`-1s` is not a duration (it is negative); write a number and a unit (ns, us, ms, s, m, h), such as 300ms, 90s or 1h30m");
        insta::assert_snapshot!(error(""), @"`` is not a duration (it is empty); write a number and a unit (ns, us, ms, s, m, h), such as 300ms, 90s or 1h30m");
        for bad in ["1d", "s", ".s", "1..2s", "1 s", "9999999999999h", "1s2"] {
            assert!(bad.parse::<GoDuration>().is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_print_as_go_prints_them() {
        let print = |nanos: u64| GoDuration::new(Duration::from_nanos(nanos)).to_string();
        assert_eq!(print(0), "0s");
        assert_eq!(print(1), "1ns");
        assert_eq!(print(1_100), "1.1\u{b5}s");
        assert_eq!(print(2_200_000), "2.2ms");
        assert_eq!(print(61_000_000_000), "1m1s");
        assert_eq!(print(3_600_000_000_000), "1h0m0s");
    }

    #[test]
    fn times_round_timers_up_and_print_seconds() {
        let t = Time::from_millis(1_000);
        assert_eq!(t.plus(Duration::from_nanos(1)).millis(), 1_001);
        assert_eq!(t.to_string(), "1970-01-01T00:00:01Z");
        assert_eq!(Time::from_millis(1_234).to_string(), "1970-01-01T00:00:01.234Z");
        assert_eq!(Time::from_millis(-1).whole_seconds().millis(), -1_000);
        assert_eq!(t.since(Time::from_millis(2_000)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn durations_survive_print_and_parse(nanos in 0..=i64::MAX as u64) {
            let d = GoDuration::new(Duration::from_nanos(nanos));
            prop_assert_eq!(d.to_string().parse::<GoDuration>().unwrap(), d);
        }

        #[test]
        fn times_survive_print_and_parse(millis in -30_000_000_000_000_i64..Time::MAX.millis()) {
            let t = Time::from_millis(millis);
            prop_assert_eq!(t.to_string().parse::<Time>().unwrap(), t);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<GoDuration>();
            let _ = text.parse::<Time>();
        }

        #[test]
        fn sums_never_overflow(millis: i64, secs: u64) {
            let t = Time::from_millis(millis).plus(Duration::from_secs(secs));
            prop_assert!(t <= Time::MAX);
        }
    }
}
