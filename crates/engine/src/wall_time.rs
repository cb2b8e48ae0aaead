//! Wall-clock times as users write them: `"10 min"`, `"2h"`, `"1 h 30 min"`.
//!
//! A text has one or more parts, each a number and a unit, from the largest unit to the smallest.
//! All arithmetic is in whole nanoseconds, so that [`to_text`] and [`parse`] are exact inverses.

use std::time::Duration;

/// Names of the units and their seconds, largest unit first.
const UNITS: [(&[&str], u64); 4] = [
    (&["d", "day", "days"], 86_400),
    (&["h", "hr", "hrs", "hour", "hours"], 3600),
    (&["m", "min", "mins", "minute", "minutes"], 60),
    (&["s", "sec", "secs", "second", "seconds"], 1),
];

/// Parses a wall-clock time. Returns `None` if `text` is not one or if it is too large for a
/// [`Duration`].
///
/// ```
/// use orrery_engine::wall_time::parse;
/// use std::time::Duration;
/// assert_eq!(parse("1h30m"), Some(Duration::from_secs(5400)));
/// assert_eq!(parse("0.5 h"), Some(Duration::from_secs(1800)));
/// assert_eq!(parse("90"), None);
/// ```
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = None;
    let mut larger = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, after) = split_where(after.trim_start(), |c| !c.is_alphabetic());
        let seconds = seconds_in(unit).filter(|&seconds| seconds < larger)?;
        total = Some(total.unwrap_or(Duration::ZERO).checked_add(scaled_duration(number, seconds)?)?);
        (rest, larger) = (after.trim_start(), seconds);
    }
    total
}

/// Formats a duration for [`parse`], for example `"10 min"`, `"1 h 30 min"` or `"0.5 s"`. The hour
/// is the largest unit, because a case reads "day" as a simulated time.
pub fn to_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let below = format!("{}.{:09}", seconds % 60, duration.subsec_nanos());
    let below = below.trim_end_matches('0').trim_end_matches('.');
    let parts = [(hours.to_string(), "h"), (minutes.to_string(), "min"), (below.to_owned(), "s")];
    let parts = parts.into_iter().filter(|(number, _)| number != "0");
    let text = parts.map(|(number, unit)| format!("{number} {unit}")).collect::<Vec<_>>().join(" ");
    if text.is_empty() { "0 s".to_owned() } else { text }
}

/// Returns the names of all units.
pub fn unit_names() -> impl Iterator<Item = &'static str> {
    UNITS.iter().flat_map(|&(names, _)| names.iter().copied())
}

/// Returns true if `word` is a unit that [`parse`] accepts.
pub fn is_unit(word: &str) -> bool {
    seconds_in(word).is_some()
}

fn seconds_in(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(names, _)| names.contains(&unit)).map(|&(_, seconds)| seconds)
}

/// Returns `number` times `seconds`. `number` consists of digits and points. Fractions of a
/// nanosecond are dropped.
fn scaled_duration(number: &str, seconds: u64) -> Option<Duration> {
    /// More digits of a day are far below a nanosecond.
    const DIGITS: usize = 18;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = &fraction[..fraction.len().min(DIGITS)];
    let nanoseconds = 1_000_000_000 * u128::from(seconds) * parse_digits::<u128>(digits)?;
    let nanoseconds = nanoseconds / 10u128.pow(digits.len() as u32);
    let whole = Duration::from_secs(parse_digits::<u64>(whole)?.checked_mul(seconds)?);
    whole.checked_add(Duration::from_nanos(nanoseconds.try_into().ok()?))
}

fn parse_digits<T: std::str::FromStr + Default>(digits: &str) -> Option<T> {
    if digits.is_empty() { Some(T::default()) } else { digits.parse().ok() }
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_device::testing::random_bits;

    #[test]
    fn accepted_forms() {
        for (text, seconds) in [
            ("10 min", 600.0),
            ("10min", 600.0),
            ("10 m", 600.0),
            ("90min", 5400.0),
            ("90 min", 5400.0),
            ("2h", 7200.0),
            ("2 h", 7200.0),
            ("1.5h", 5400.0),
            ("1d12h", 129_600.0),
            ("1 hr 1 min 1 sec", 3661.0),
            ("0.5 days", 43_200.0),
            ("90 s", 90.0),
            ("90 sec", 90.0),
            ("1h30m", 5400.0),
            ("1h 30min", 5400.0),
            ("  1 h\t30 min  ", 5400.0),
            ("1.5 h", 5400.0),
            (".5 h", 1800.0),
            ("2. h", 7200.0),
            ("2 d", 172_800.0),
            ("1 day 1 hour 1 minute 1 second", 90_061.0),
            ("2 days 2 hours 2 minutes 2 seconds", 180_122.0),
            ("3 hrs 4 mins 5 secs", 11_045.0),
            ("0 s", 0.0),
            ("0.1 s", 0.1),
            ("0.000000001 s", 1e-9),
            ("0.1000000000000000000000000000000000000001 s", 0.1),
            ("584942417355 h", 584_942_417_355.0 * 3600.0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn rejected_forms() {
        for text in [
            "",
            " ",
            "10",
            "min",
            "ten min",
            "10 parsecs",
            "10 Min",
            "10 MIN",
            "-5 min",
            "+5 min",
            "--5 min",
            "nan s",
            "NaN h",
            "inf s",
            "1e3 s",
            "1,5 h",
            "1.2.3 s",
            ". s",
            "1 h 30",
            "1 h, 30 min",
            "1 h and 30 min",
            "30 min 1 h",
            "5 min 5 min",
            "1:30",
            "23:59:00",
            "1-12:00:00",
            "1 week",
            "1 ms",
            "2 hh",
            "h 2",
            "2 H",
            "1/2 h",
            "1_000 s",
            "2h-30m",
            "10 minute s",
            "٣ min",
            "10 мин",
            "99999999999999999999 s",
            "18446744073709551615 min",
            "18446744073709551615 s 1",
            "1 d 18446744073709551615 s",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn text_uses_hours_minutes_and_seconds() {
        for (milliseconds, text) in [
            (0, "0 s"),
            (500, "0.5 s"),
            (1000, "1 s"),
            (90_000, "1 min 30 s"),
            (600_000, "10 min"),
            (5_400_000, "1 h 30 min"),
            (7_200_000, "2 h"),
            (3_600_001, "1 h 0.001 s"),
            (172_800_000, "48 h"),
        ] {
            assert_eq!(to_text(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn text_parses_back_to_the_same_duration() {
        let mut durations =
            vec![Duration::ZERO, Duration::MAX, Duration::from_nanos(1), Duration::from_secs(u64::MAX)];
        for index in 0..2000 {
            let bits = random_bits(index);
            // The shift covers all orders of magnitude.
            let seconds = bits >> (index % 64);
            let nanoseconds = if index % 3 == 0 { 0 } else { (bits >> 32) as u32 % 1_000_000_000 };
            durations.push(Duration::new(seconds, nanoseconds));
        }
        for duration in durations {
            assert_eq!(parse(&to_text(duration)), Some(duration), "{duration:?}");
        }
    }
}
