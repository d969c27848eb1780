//! Standard output: tables for people, JSON for programs.

use crate::failure::{Exit, Failure, Outcome};
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Prints `text` and a line end. A closed pipe (`| head`) is no failure.
pub(crate) fn line(text: impl AsRef<str>) -> Outcome {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", text.as_ref()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Prints `value` as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::new(Exit::Failed, format!("cannot write the report: {e}")))?;
    line(text)
}

/// Prints one of the two forms of a report.
pub(crate) fn report<T: Serialize>(as_json: bool, value: &T, text: impl FnOnce(&T) -> String) -> Outcome {
    if as_json { json(value) } else { line(text(value).trim_end()) }
}

/// Names and values below each other, the values aligned.
pub(crate) fn pairs<V: AsRef<str>>(pairs: &[(&str, V)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    pairs.iter().map(|(name, value)| format!("{name:>width$}: {}\n", value.as_ref())).collect()
}

/// A table without lines: a heading and rows, columns aligned by their longest cell.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([heading[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let show = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = show(&mut heading.iter().copied());
    rows.iter().for_each(|row| text.push_str(&show(&mut row.iter().map(String::as_str))));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let text = table(&["A", "LONG"], &[vec!["xyz".into(), "1".into()], vec!["q".into(), "2".into()]]);
        assert_eq!(text, "A    LONG\nxyz  1\nq    2\n");
        assert_eq!(pairs(&[("a", "1"), ("long", "2")]), "   a: 1\nlong: 2\n");
    }
}
