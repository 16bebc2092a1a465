//! Every number, for programs.

use super::Record;
use std::fmt::Write;

/// The records as one JSON document.
pub(crate) fn document(records: &[Record]) -> String {
    let mut out = String::from("{\"results\": [");
    for (index, record) in records.iter().enumerate() {
        out.push_str(if index == 0 { "\n  " } else { ",\n  " });
        push(&mut out, record);
    }
    out.push_str("\n]}\n");
    out
}

fn push(out: &mut String, record: &Record) {
    let text = [
        ("workload", record.workload.as_str()),
        ("runtime", record.runtime),
        ("subject", record.subject),
        ("kind", record.kind.name()),
        ("unit", record.unit),
        ("placement", record.placement),
    ];
    let numbers = [
        ("median", record.median),
        ("p10", record.p10),
        ("p90", record.p90),
        ("max", record.max),
        ("fairness", record.fairness),
        ("allocs_per_op", record.allocs_per_op),
    ];
    out.push('{');
    for (name, value) in text {
        out.push_str(&format!("\"{name}\": {}, ", quoted(value)));
    }
    for (name, value) in numbers {
        out.push_str(&format!("\"{name}\": {}, ", number(value)));
    }
    let Record { n, samples, capped, .. } = record;
    out.push_str(&format!("\"n\": {n}, \"samples\": {samples}, \"capped\": {capped}}}"));
}

/// A number as JSON has it: never an infinity, four decimals at most.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".into();
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// A string as JSON has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes everything");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Kind;
    use crate::report::tests::record;

    /// Reads one JSON value and returns the rest; panics where it is not one.
    fn skip(text: &str) -> &str {
        let text = text.trim_start();
        match text.as_bytes()[0] {
            b'{' => skip_list(&text[1..], '}', true),
            b'[' => skip_list(&text[1..], ']', false),
            b'"' => skip_string(text),
            _ => {
                let end = text.find([',', '}', ']']).expect("a value ends");
                let word = text[..end].trim();
                assert!(word.parse::<f64>().is_ok() || ["null", "true", "false"].contains(&word), "{word}");
                &text[end..]
            }
        }
    }

    fn skip_string(text: &str) -> &str {
        let mut escaped = false;
        for (at, c) in text.char_indices().skip(1) {
            match c {
                '"' if !escaped => return &text[at + 1..],
                '\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
        panic!("a string ends");
    }

    fn skip_list(mut text: &str, close: char, named: bool) -> &str {
        loop {
            text = text.trim_start();
            if let Some(rest) = text.strip_prefix(close) {
                return rest;
            }
            if named {
                text = skip_string(text).trim_start().strip_prefix(':').expect("a name has a value");
            }
            text = skip(text).trim_start();
            text = text.strip_prefix(',').unwrap_or(text);
        }
    }

    #[test]
    fn the_document_is_json_of_the_agreed_form() {
        let mut odd = record("mutex/\"odd\"\n", 1, "x", Kind::Peer, f64::INFINITY);
        odd.capped = true;
        let text = document(&[record("mutex/uncontended", 1, "tasuki-fifo", Kind::Ours, 4.6), odd]);
        assert_eq!(skip(&text).trim(), "");
        for part in [
            "{\"results\": [",
            "\"workload\": \"mutex/uncontended\"",
            "\"kind\": \"ours\"",
            "\"median\": 4.6,",
            "\"n\": 1",
            "\"unit\": \"ns/op\"",
            "\"fairness\": 1,",
            "\"median\": null",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn no_records_are_still_a_document() {
        assert_eq!(skip(&document(&[])).trim(), "");
    }
}
