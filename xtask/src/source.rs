//! Rust source as text with its comments and literals told apart: enough of a lexer for `tidy`, `surface` and `mutants`.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// One file. All views have the length and the line breaks of the original, so positions agree.
pub(crate) struct Source {
    pub(crate) text: String,
    /// Comments and the insides of literals blanked.
    pub(crate) bare: String,
    /// Only the comments blanked.
    pub(crate) code: String,
    /// Everything but the comments blanked.
    pub(crate) comments: String,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let kinds = classify(text.as_bytes());
        let view = |keep: &[Kind]| -> String {
            let bytes = text.bytes().zip(&kinds);
            let kept =
                bytes.map(|(byte, kind)| if byte == b'\n' || keep.contains(kind) { byte } else { b' ' });
            String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
        };
        Self {
            bare: view(&[Kind::Code]),
            code: view(&[Kind::Code, Kind::Literal]),
            comments: view(&[Kind::Comment]),
            text: text.to_owned(),
        }
    }

    /// The line (from 0) of a position.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
    }

    /// Lines with code on them, tests left out.
    pub(crate) fn code_lines(&self) -> usize {
        let tests = self.test_lines();
        self.bare.lines().enumerate().filter(|(at, line)| !tests[*at] && !line.trim().is_empty()).count()
    }

    /// For each line: is it part of an item under `#[cfg(test)]`?
    pub(crate) fn test_lines(&self) -> Vec<bool> {
        let mut lines = vec![false; self.text.lines().count() + 1];
        for (at, _) in self.bare.match_indices("#[cfg(") {
            let Some(attribute) = balanced(&self.bare, at + 1) else { continue };
            let condition = &self.bare[attribute.clone()];
            if condition.contains("not(test") || !words(condition).any(|(_, word)| word == "test") {
                continue;
            }
            let end = item_end(&self.bare, attribute.end);
            lines[self.line_of(at)..=self.line_of(end)].fill(true);
        }
        lines
    }

    /// The spans of `use` declarations.
    pub(crate) fn uses(&self) -> Vec<Range<usize>> {
        let declaration = |(at, word): (usize, &str)| {
            let end = self.bare[at..].find(';')?;
            // `use<'a>` in a bound is no declaration.
            let follows = self.bare[at + word.len()..].trim_start().starts_with('<');
            (word == "use" && !follows).then_some(at..at + end)
        };
        words(&self.bare).filter_map(declaration).collect()
    }

    /// The comment that speaks of a line: on the line itself, or directly above the statement it belongs to.
    pub(crate) fn comment_on(&self, line: usize) -> (usize, String) {
        let bare: Vec<&str> = self.bare.lines().collect();
        let comments: Vec<&str> = self.comments.lines().collect();
        let mut first = line;
        while first > 0 && self.goes_on(&bare, first) {
            first -= 1;
        }
        let mut text = comments[first..=line].join(" ");
        let is_comment = |at: usize| bare[at].trim().is_empty() && !comments[at].trim().is_empty();
        while first > 0 && (is_comment(first - 1) || bare[first - 1].trim().starts_with("#[")) {
            first -= 1;
            text = format!("{} {text}", comments[first]);
        }
        (first, text)
    }

    /// True if a line continues the statement of the line above it.
    fn goes_on(&self, bare: &[&str], line: usize) -> bool {
        let start: usize = self.text.split_inclusive('\n').take(line).map(str::len).sum();
        let mut open = Vec::new();
        for byte in self.bare[..start].bytes() {
            match byte {
                b'(' | b'[' | b'{' => open.push(byte),
                b')' | b']' | b'}' => drop(open.pop()),
                _ => {}
            }
        }
        let above = bare[line - 1].trim_end();
        match open.last() {
            Some(b'(' | b'[') => true,
            _ => !above.trim().is_empty() && !above.ends_with([';', '{', '}', ',', ']']),
        }
    }

    /// Functions with a body: name, line, lines of code.
    pub(crate) fn functions(&self) -> Vec<(String, usize, usize)> {
        let mut found = Vec::new();
        let mut named = words(&self.bare).peekable();
        while let Some((at, word)) = named.next() {
            let Some((name_at, name)) = named.peek().copied() else { break };
            if word != "fn" || !self.bare[at + 2..name_at].trim().is_empty() {
                continue;
            }
            let rest = &self.bare[name_at..];
            let Some(open) = rest.find(['{', ';']).filter(|open| rest.as_bytes()[*open] == b'{') else {
                continue;
            };
            let Some(body) = balanced(&self.bare, name_at + open) else { continue };
            let count = self.code[at..body.end].lines().filter(|line| !line.trim().is_empty()).count();
            found.push((name.to_owned(), self.line_of(at), count));
        }
        found
    }
}

/// The words of a text: identifiers and keywords, with their positions.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        let end = text[start..].find(|c| !is_word(c)).map_or(text.len(), |length| start + length);
        at = end;
        Some((start, &text[start..end]))
    })
}

/// The span from the first bracket at or after `from` to its partner, brackets included.
pub(crate) fn balanced(bare: &str, from: usize) -> Option<Range<usize>> {
    let start = from + bare[from..].find(['(', '[', '{'])?;
    let mut depth = 0;
    for (at, byte) in bare[start..].bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(start..start + at + 1);
        }
    }
    None
}

/// Where the item after an attribute ends: its closing brace, or its semicolon.
fn item_end(bare: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(next) = bare[at..].find(['{', ';', '(', '[']) {
        let here = at + next;
        match bare.as_bytes()[here] {
            b';' => return here,
            b'{' => return balanced(bare, here).map_or(bare.len() - 1, |body| body.end - 1),
            _ => at = balanced(bare, here).map_or(bare.len() - 1, |list| list.end),
        }
    }
    bare.len() - 1
}

/// Tells code, comments and literals apart, byte by byte. The quotes of a literal count as code.
fn classify(bytes: &[u8]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (kind, span) = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => (Kind::Comment, at..line_comment(bytes, at)),
            b'/' if bytes[at..].starts_with(b"/*") => (Kind::Comment, at..block_comment(bytes, at)),
            b'"' => (Kind::Literal, at + 1..string(bytes, at)),
            b'r' if !follows_word(bytes, at) && raw_string(bytes, at).is_some() => {
                (Kind::Literal, at + 1..raw_string(bytes, at).unwrap_or(at))
            }
            b'\'' => (Kind::Literal, at + 1..character(bytes, at)),
            _ => (Kind::Code, at..at),
        };
        kinds[span.clone()].fill(kind);
        at = span.end.max(at + 1);
        if kind == Kind::Literal && at < bytes.len() && matches!(bytes[at], b'"' | b'\'') {
            at += 1;
        }
    }
    kinds
}

/// True if a word goes on at `at`; `br"` and `cr"` are no such words.
fn follows_word(bytes: &[u8], at: usize) -> bool {
    let is_word = |at: usize| bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_';
    match at {
        0 => false,
        _ if matches!(bytes[at - 1], b'b' | b'c') => at > 1 && is_word(at - 2),
        _ => is_word(at - 1),
    }
}

fn line_comment(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn block_comment(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut here) = (0, at);
    while here < bytes.len() {
        if bytes[here..].starts_with(b"/*") {
            (depth, here) = (depth + 1, here + 2);
        } else if bytes[here..].starts_with(b"*/") {
            (depth, here) = (depth - 1, here + 2);
            if depth == 0 {
                return here;
            }
        } else {
            here += 1;
        }
    }
    bytes.len()
}

/// The position of the closing quote.
fn string(bytes: &[u8], at: usize) -> usize {
    let mut here = at + 1;
    while here < bytes.len() && bytes[here] != b'"' {
        here += if bytes[here] == b'\\' { 2 } else { 1 };
    }
    here.min(bytes.len())
}

/// The position of the closing quote of `r"…"`, `r#"…"#`, if that is what starts here.
fn raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let length = bytes[open + 1..].windows(close.len()).position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| open + 1 + length))
}

/// The position of the closing quote of a character, or the next position for a lifetime.
fn character(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        let close = bytes.iter().skip(at + 3).position(|byte| *byte == b'\'');
        return close.map_or(bytes.len(), |length| at + 3 + length);
    }
    // One character of up to four bytes, then the quote; else it is a lifetime.
    let length = match bytes.get(at + 1) {
        Some(0xF0..) => 4,
        Some(0xE0..) => 3,
        Some(0xC0..) => 2,
        _ => 1,
    };
    if bytes.get(at + 1 + length) == Some(&b'\'') { at + 1 + length } else { at + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r###"
use core::sync::atomic::Ordering::{Acquire, Relaxed}; // imports
/* outer /* inner */ Acquire */
fn short<'a>(x: &'a str) -> char { let c = '"'; let d = '\''; x; '/' }
fn long() {
    let s = "// not a comment \" Acquire";
    let r = r#"/* nor " this"#;
    // SAFETY: the comment.
    let value = word.compare_exchange(
        1, // one
        2,
        Acquire,
        Relaxed,
    );
}
#[cfg(test)]
mod tests {
    fn hidden() {}
}
"###;

    #[test]
    fn views_agree_in_length_and_tell_kinds_apart() {
        let source = Source::new(SAMPLE);
        for view in [&source.bare, &source.code, &source.comments] {
            assert_eq!(view.len(), SAMPLE.len());
            assert_eq!(view.lines().count(), SAMPLE.lines().count());
        }
        assert_eq!(words(&source.bare).filter(|(_, word)| *word == "Acquire").count(), 2);
        assert!(source.comments.contains("inner") && source.comments.contains("SAFETY"));
        assert!(!source.comments.contains("not a comment") && !source.comments.contains("nor"));
        assert!(source.code.contains("// not a comment"));
    }

    #[test]
    fn a_comment_speaks_of_its_whole_statement() {
        let source = Source::new(SAMPLE);
        let line = SAMPLE.lines().position(|line| line.trim() == "Acquire,").unwrap();
        assert!(source.comment_on(line).1.contains("SAFETY: the comment."));
        let other = SAMPLE.lines().position(|line| line.contains("let r")).unwrap();
        assert!(!source.comment_on(other).1.contains("SAFETY"));
    }

    #[test]
    fn functions_and_tests_are_found() {
        let source = Source::new(SAMPLE);
        let names: Vec<(String, usize)> =
            source.functions().into_iter().map(|(name, _, lines)| (name, lines)).collect();
        let wanted = [("short", 1), ("long", 10), ("hidden", 1)];
        assert_eq!(names, wanted.map(|(name, lines)| (name.to_owned(), lines)));
        let hidden = SAMPLE.lines().position(|line| line.contains("hidden")).unwrap();
        assert!(source.test_lines()[hidden] && !source.test_lines()[hidden - 3]);
        assert_eq!(source.uses().len(), 1);
    }
}
