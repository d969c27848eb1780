//! Quantities as Kubernetes writes them: `1024`, `10Gi`, `500M`.

/// The number that a quantity means; whole ones only.
pub(crate) fn quantity(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "k" => 1000,
        "M" => 1000_u64.pow(2),
        "G" => 1000_u64.pow(3),
        "T" => 1000_u64.pow(4),
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        "Ti" | "TiB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A quantity above 0.
pub(crate) fn positive(text: &str) -> Option<u64> {
    quantity(text).filter(|number| *number > 0)
}

/// `true` or `false`.
pub(crate) fn truth(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units_and_everything_else_is_refused() {
        let good = [
            ("0", 0),
            ("1024", 1024),
            ("10Gi", 10 << 30),
            ("3GiB", 3 << 30),
            ("5M", 5_000_000),
            ("2k", 2000),
        ];
        for (text, number) in good {
            assert_eq!(quantity(text), Some(number), "{text}");
        }
        for bad in ["", "Gi", "-1", "+1", "1.5Gi", "1 Gi", "1gi", "99999999999999999999", "99999999Ti", "1é"]
        {
            assert_eq!(quantity(bad), None, "{bad}");
        }
        assert_eq!((positive("0"), truth("yes"), truth("true")), (None, None, Some(true)));
    }
}
