//! Moments for people: `2026-01-31T23:59:59Z`.

use carafe_types::Timestamp;

/// UTC, to the second.
pub(crate) fn utc(t: Timestamp) -> String {
    let secs = t.parts().0;
    let (year, month, day) = date(secs.div_euclid(86_400));
    let of_day = secs.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// The date of a day counted from 1970-01-01. Years begin in March here, so that the leap day is the last of a year
/// and all months before it have fixed lengths: 153 days in each five.
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_400_YEARS: i64 = 146_097;
    let day = days + 719_468; // from 0000-03-01
    let era = day.div_euclid(DAYS_400_YEARS);
    let of_era = day.rem_euclid(DAYS_400_YEARS);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, of_year - (153 * march_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_shown_right() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_764_500_000, "2025-11-30T10:53:20Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(utc(Timestamp::from_parts(secs, 0)), text);
        }
    }
}
