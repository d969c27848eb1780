//! Amounts of bytes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes. Read from `10GiB`, `10G`, `512 MiB`, `4096`: every unit is a power of 1024, as JuiceFS and most
/// file system tools have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no size: write for example 512MiB, 10G or 4096");
        let text_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(text_end);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let unit = unit.trim().to_ascii_uppercase();
        let unit = unit.strip_suffix('B').unwrap_or(&unit);
        let unit = unit.strip_suffix('I').unwrap_or(unit);
        let power = UNITS.iter().position(|u| *u == unit).ok_or_else(bad)?;
        let bytes = number * 1024f64.powi(power as i32);
        if !(0.0..=(1u64 << 62) as f64).contains(&bytes) {
            return Err(format!("{text:?} is more than any file system holds"));
        }
        Ok(Size(bytes as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        match unit {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{value:.1} {}iB", UNITS[unit]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("10GiB", 10 << 30),
            ("10G", 10 << 30),
            ("10gb", 10 << 30),
            ("1.5M", 3 << 19),
            ("512 MiB", 512 << 20),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in ["", "GiB", "10X", "-1", "1..2", "99999999E"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_short() {
        assert_eq!(Size(17).to_string(), "17 B");
        assert_eq!(Size(3 << 19).to_string(), "1.5 MiB");
    }
}
