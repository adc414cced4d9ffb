//! When a host is free. Owns the overlap rule and the first free start; never
//! reads a clock.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A host that is taken, from when to when; without dates nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The host's id, as text.
    pub host: String,
    /// Start and end.
    pub window: Option<(Timestamp, Timestamp)>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRequest {
    /// The earliest start.
    pub start: Timestamp,
    /// How long, in hours.
    pub hours: u32,
    /// How much later it may start.
    pub within: SignedDuration,
    /// What is kept free before and after, for cleaning.
    pub margin: SignedDuration,
}

/// Whether hosts are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    /// One is free from this start on.
    Free {
        /// The start.
        start: Timestamp,
    },
    /// Unknown.
    Unknown,
    /// None is free within the allowed start.
    Taken {
        /// The first start at which one will be, if any is seen.
        first: Option<Timestamp>,
    },
}

/// The time of a text such as `2026-01-05T14:02:00.000000` or `2026-01-05 14:02`; without a zone it is UTC.
#[must_use]
pub fn read_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    text.parse::<Timestamp>().ok().or_else(|| {
        let plain: DateTime = text.replacen(' ', "T", 1).parse().ok()?;
        plain.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })
}

/// When the first of some hosts is free; without allocations nobody knows.
#[must_use]
pub fn availability(hosts: &[String], allocations: Option<&[Allocation]>, asked: &WindowRequest) -> Availability {
    let Some(allocations) = allocations.filter(|_| !hosts.is_empty()) else { return Availability::Unknown };
    let latest = asked.start.checked_add(asked.within).unwrap_or(asked.start);
    let mut first: Option<Timestamp> = None;
    let mut unknown = false;
    for host in hosts {
        let of_host: Vec<&Allocation> = allocations.iter().filter(|allocation| allocation.host == *host).collect();
        if of_host.iter().any(|allocation| allocation.window.is_none()) {
            unknown = true;
            continue;
        }
        let mut taken: Vec<(Timestamp, Timestamp)> =
            of_host.iter().filter_map(|allocation| allocation.window).collect();
        taken.sort_unstable();
        first = [first, first_start(&taken, asked)].into_iter().flatten().min();
    }
    match first {
        Some(start) if start <= latest => Availability::Free { start },
        _ if unknown => Availability::Unknown,
        first => Availability::Taken { first },
    }
}

/// The first start from the asked one on at which nothing overlaps: the asked one, or the end of something taken and the
/// margin, rounded up to a minute. `taken` is sorted by start.
fn first_start(taken: &[(Timestamp, Timestamp)], asked: &WindowRequest) -> Option<Timestamp> {
    let length = SignedDuration::from_hours(i64::from(asked.hours));
    let mut start = asked.start;
    for (from, to) in taken {
        let end = start.checked_add(length).ok()?.checked_add(asked.margin).ok()?;
        let begin = start.checked_sub(asked.margin).ok()?;
        if *from < end && *to > begin {
            start = round_up(to.checked_add(asked.margin).ok()?)?.max(start);
        }
    }
    Some(start)
}

/// The next full minute.
#[must_use]
pub fn round_up(time: Timestamp) -> Option<Timestamp> {
    let seconds = time.as_second();
    let whole = seconds.rem_euclid(60) == 0 && time.subsec_nanosecond() == 0;
    if whole {
        Some(time)
    } else {
        Timestamp::from_second(seconds.div_euclid(60).checked_add(1)?.checked_mul(60)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        read_time(&format!("2026-01-05 {text}")).unwrap()
    }

    fn asked(start: &str, within_minutes: i64) -> WindowRequest {
        WindowRequest {
            start: at(start),
            hours: 2,
            within: SignedDuration::from_mins(within_minutes),
            margin: SignedDuration::from_mins(5),
        }
    }

    fn taken(host: &str, from: &str, to: &str) -> Allocation {
        Allocation { host: host.to_owned(), window: Some((at(from), at(to))) }
    }

    fn when(allocations: &[Allocation], asked: &WindowRequest) -> Availability {
        availability(&["1".to_owned(), "2".to_owned()], Some(allocations), asked)
    }

    #[test]
    fn a_host_is_free_when_nothing_overlaps_with_its_margin() {
        let both = |from: &str, to: &str| [taken("1", from, to), taken("2", from, to)];
        let free = |start: &str| Availability::Free { start: at(start) };
        assert_eq!(when(&[], &asked("12:00", 0)), free("12:00"));
        assert_eq!(when(&[taken("1", "11:00", "13:00")], &asked("12:00", 0)), free("12:00"), "the other one");
        assert_eq!(when(&both("10:00", "11:55"), &asked("12:00", 0)), free("12:00"), "just past");
        assert_eq!(when(&both("10:00", "11:56"), &asked("12:00", 0)), Availability::Taken { first: Some(at("12:01")) });
        assert_eq!(when(&both("14:05", "18:00"), &asked("12:00", 0)), free("12:00"), "just before");
        assert_eq!(when(&both("14:04", "18:00"), &asked("12:00", 0)), Availability::Taken { first: Some(at("18:05")) });
    }

    #[test]
    fn the_first_free_start_within_the_allowed_one_is_offered() {
        let all = [taken("1", "11:00", "13:00"), taken("1", "13:30", "15:00"), taken("2", "11:00", "20:00")];
        assert_eq!(when(&all, &asked("12:00", 240)), Availability::Free { start: at("15:05") });
        assert_eq!(when(&all, &asked("12:00", 184)), Availability::Taken { first: Some(at("15:05")) });
    }

    #[test]
    fn allocations_without_dates_make_it_unknown() {
        let blind = |host: &str| Allocation { host: host.to_owned(), window: None };
        assert_eq!(when(&[blind("1"), blind("2")], &asked("12:00", 0)), Availability::Unknown);
        assert_eq!(when(&[blind("1")], &asked("12:00", 0)), Availability::Free { start: at("12:00") });
        assert_eq!(availability(&["1".to_owned()], None, &asked("12:00", 0)), Availability::Unknown);
        assert_eq!(availability(&[], Some(&[]), &asked("12:00", 0)), Availability::Unknown);
    }

    #[test]
    fn times_of_the_service_are_utc_without_a_zone() {
        let wanted = "2026-01-05T14:02:00Z".parse().unwrap();
        for text in ["2026-01-05T14:02:00.000000", "2026-01-05 14:02", "2026-01-05 14:02:00", "2026-01-05T14:02:00Z"] {
            assert_eq!(read_time(text), Some(wanted), "{text}");
        }
        assert!(read_time("now").is_none() && read_time("").is_none() && read_time("2026-13-01 00:00").is_none());
    }

    #[test]
    fn starts_are_rounded_up_to_a_minute() {
        assert_eq!(round_up(at("12:00:00")), Some(at("12:00")));
        assert_eq!(round_up(at("12:00:01")), Some(at("12:01")));
        assert_eq!(round_up(at("12:00:00.000001")), Some(at("12:01")));
    }
}
