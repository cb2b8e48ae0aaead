//! Parsers of flag values: counts, `--max-memory`, `--device`, `--wall-time`.

use std::ops::RangeInclusive;
use std::time::Duration;

use orrery_device::DeviceChoice;
use orrery_model::whole_number;

/// Parses a whole number >= 0, such as `1000000`, `1_000_000`, `1e6` or `1.5e3`.
pub fn parse_count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let is_fraction = || text.parse::<f64>().is_ok_and(|x| x.is_finite() && x.fract() != 0.0);
    let expected = || match is_fraction() {
        true => "is not a whole number, expected one such as 1500, 1_500 or 1.5e3".to_owned(),
        false => "expected a whole number >= 0 such as 1000000, 1_000_000 or 1e6".to_owned(),
    };
    let number = whole_number(text).ok_or_else(expected)?;
    T::try_from(number).map_err(|_| "is too large".to_owned())
}

/// Parses a whole number like [`parse_count`], and refuses numbers outside `range`.
pub fn parse_count_in<T: TryFrom<u64>>(text: &str, range: RangeInclusive<u64>) -> Result<T, String> {
    let number = parse_count::<u64>(text)?;
    let outside = || format!("{number} is not in {}..={}", range.start(), range.end());
    T::try_from(number).ok().filter(|_| range.contains(&number)).ok_or_else(outside)
}

/// Parses a memory size in bytes, such as `500MB`, `2GiB`, `2G` or `1000000`.
///
/// `K`, `M` and `G` without `B` are powers of 1024. Upper and lower case are the same.
pub fn parse_memory_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 13] = [
        ("", 1),
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KIB", 1 << 10),
        ("MIB", 1 << 20),
        ("GIB", 1 << 30),
        ("TIB", 1 << 40),
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
    ];
    let text = text.trim().to_ascii_uppercase();
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..unit_start].trim(), text[unit_start..].trim());
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes as f64);
    let bytes = number.parse::<f64>().ok().zip(unit).map(|(number, unit)| number * unit);
    let bytes = bytes.filter(|bytes| *bytes >= 1.0 && *bytes < 1e19).map(|bytes| bytes as u64);
    bytes.ok_or_else(|| "expected a size such as 500MB or 2GiB".to_owned())
}

/// Parses a device, such as `auto`, `cpu`, `cuda` or `opencl:1`.
pub fn parse_device(text: &str) -> Result<DeviceChoice, String> {
    text.parse().map_err(|_| "expected auto, cpu, cuda, cuda:0, opencl or opencl:0".to_owned())
}

/// Parses a compute capability, such as `9.0`.
pub fn parse_capability(text: &str) -> Result<(u32, u32), String> {
    let is_number = |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let parts = text.split_once('.').filter(|(major, minor)| is_number(major) && is_number(minor));
    let capability = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    capability.ok_or_else(|| "expected a compute capability such as 9.0".to_owned())
}

/// Parses a wall-clock limit above zero, such as `90min`, `2h`, `23:59:00` or `1-12:00:00`.
pub fn parse_wall_time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time > 0 such as 90min, 2h, 23:59:00 or 1-12:00:00".to_owned();
    let time = orrery_engine::wall_time::parse(text).or_else(|| parse_queue_time(text));
    time.filter(|time| !time.is_zero()).ok_or_else(expected)
}

/// Parses a time in the form that batch queues use: `MINUTES:SECONDS`, `HOURS:MINUTES:SECONDS` or
/// `DAYS-HOURS:MINUTES:SECONDS`.
fn parse_queue_time(text: &str) -> Option<Duration> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] if days == "0" => (0, minutes, seconds),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let hours = days.parse::<u64>().ok()?.checked_mul(24)?.checked_add(hours)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    Some(Duration::from_secs(minutes.checked_mul(60)?.checked_add(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_accepted_with_underscores_and_exponents() {
        for (text, number) in [
            ("0", 0),
            ("250000", 250_000),
            ("1_000_000", 1_000_000),
            ("1e6", 1_000_000),
            ("1E6", 1_000_000),
            ("1e+6", 1_000_000),
            ("1.5e3", 1500),
            ("1_0.2_5e2", 1025),
            ("2.0", 2),
            ("100e-2", 1),
            ("0e400", 0),
            ("007", 7),
            ("18446744073709551615", u64::MAX),
            ("1.8446744073709551615e19", u64::MAX),
        ] {
            assert_eq!(parse_count(text), Ok(number), "{text:?}");
        }
    }

    #[test]
    fn text_that_is_not_a_count_is_refused() {
        for text in ["1.5", "15e-1", "1e-3", "0.1"] {
            let expected = "is not a whole number, expected one such as 1500, 1_500 or 1.5e3".to_owned();
            assert_eq!(parse_count::<u64>(text), Err(expected), "{text:?}");
        }
        for text in [
            "",
            " ",
            "many",
            "-1",
            "+1",
            "1e",
            "e6",
            "1_",
            "_1",
            "1__0",
            "1e1_0",
            "1 000",
            "1,000",
            "0x10",
            ".5e1",
            "inf",
            "nan",
            "18446744073709551616",
            "1e20",
            "1e99999999999",
        ] {
            let expected = "expected a whole number >= 0 such as 1000000, 1_000_000 or 1e6".to_owned();
            assert_eq!(parse_count::<u64>(text), Err(expected), "{text:?}");
        }
        assert_eq!(parse_count::<u8>("256"), Err("is too large".to_owned()));
        assert_eq!(parse_count_in("4e3", 1..=4096), Ok(4000_u32));
        assert_eq!(parse_count_in::<u32>("5e3", 1..=4096), Err("5000 is not in 1..=4096".to_owned()));
    }

    #[test]
    fn memory_sizes_are_accepted_with_and_without_units() {
        for (text, bytes) in [
            ("1", 1),
            ("1000000", 1_000_000),
            ("512B", 512),
            ("500MB", 500_000_000),
            ("2GB", 2_000_000_000),
            ("1TB", 1_000_000_000_000),
            ("100KiB", 102_400),
            ("1MiB", 1 << 20),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
            ("2G", 2 << 30),
            ("64k", 64 << 10),
            ("8m", 8 << 20),
            ("2gib", 2 << 30),
            ("1.5 GB", 1_500_000_000),
            (" 2 GiB ", 2 << 30),
        ] {
            assert_eq!(parse_memory_size(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn text_that_is_not_a_memory_size_is_refused() {
        for text in [
            "",
            " ",
            "GB",
            "much",
            "-1GB",
            "0",
            "0.5B",
            "2XB",
            "2GBs",
            "1e9",
            "inf",
            "nan",
            "1,5GB",
            "99999999TB",
        ] {
            let expected = "expected a size such as 500MB or 2GiB".to_owned();
            assert_eq!(parse_memory_size(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn devices_are_accepted_with_and_without_an_index() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda", DeviceChoice::Cuda(None)),
            ("cuda:0", DeviceChoice::Cuda(Some(0))),
            ("cuda:1", DeviceChoice::Cuda(Some(1))),
            ("opencl", DeviceChoice::OpenCl(None)),
            ("opencl:12", DeviceChoice::OpenCl(Some(12))),
        ] {
            assert_eq!(parse_device(text), Ok(choice), "{text:?}");
        }
    }

    #[test]
    fn text_that_is_not_a_device_is_refused() {
        for text in [
            "",
            "gpu",
            "CPU",
            "Cuda",
            "cuda:",
            "cuda:x",
            "cuda:-1",
            "cuda 1",
            "cpu:0",
            "auto:0",
            "cuda,opencl",
        ] {
            let expected = "expected auto, cpu, cuda, cuda:0, opencl or opencl:0".to_owned();
            assert_eq!(parse_device(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn compute_capabilities_have_two_numbers() {
        for (text, capability) in [("9.0", (9, 0)), ("1.3", (1, 3)), ("12.1", (12, 1))] {
            assert_eq!(parse_capability(text), Ok(capability), "{text:?}");
        }
        for text in ["", "9", "90", "sm_90", "9.", ".0", "9.0.1", "-9.0", "9,0", "+9.0", "900.0", " 9.0"] {
            let expected = "expected a compute capability such as 9.0".to_owned();
            assert_eq!(parse_capability(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn wall_times_are_accepted_with_units_and_in_the_form_of_batch_queues() {
        for (text, seconds) in [
            ("90min", 5400),
            ("2h", 7200),
            ("90 s", 90),
            ("1h30m", 5400),
            ("23h50min", 85_800),
            ("2 d", 172_800),
            ("30:00", 1800),
            ("90:30", 5430),
            ("23:59:00", 86_340),
            ("00:00:01", 1),
            ("100:00:00", 360_000),
            ("1-12:00:00", 129_600),
            ("0-00:10:00", 600),
        ] {
            assert_eq!(parse_wall_time(text), Ok(Duration::from_secs(seconds)), "{text:?}");
        }
    }

    #[test]
    fn text_that_is_not_a_wall_time_is_refused() {
        for text in [
            "",
            "soon",
            "90",
            "0 s",
            "00:00:00",
            "0-00:00:00",
            "-5min",
            "5 parsecs",
            "1:2:3:4",
            "12:",
            ":30",
            "1-",
            "1-12",
            "1-12:00",
            "one-12:00:00",
            "1.5:00",
            "99999999999999999999:00",
            "18446744073709551615:00:00",
        ] {
            let expected = "expected a time > 0 such as 90min, 2h, 23:59:00 or 1-12:00:00".to_owned();
            assert_eq!(parse_wall_time(text), Err(expected), "{text:?}");
        }
    }
}
