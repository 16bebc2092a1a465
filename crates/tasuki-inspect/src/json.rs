//! A writer of JSON: objects, arrays, strings and numbers into one `String`. Enough for this crate, and no dependency.

use std::fmt::{Display, Write as _};

/// JSON that is being written. Commas are put where they belong.
#[derive(Debug, Default)]
pub(crate) struct Json {
    text: String,
    /// The next value or key needs a comma before it.
    comma: bool,
}

impl Json {
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn separate(&mut self) {
        if self.comma {
            self.text.push(',');
        }
        self.comma = false;
    }

    fn nested(&mut self, (open, close): (char, char), write: impl FnOnce(&mut Self)) {
        self.separate();
        self.text.push(open);
        write(self);
        self.text.push(close);
        self.comma = true;
    }

    pub(crate) fn object(&mut self, write: impl FnOnce(&mut Self)) {
        self.nested(('{', '}'), write);
    }

    /// An array with a value for each item, which `write` writes.
    pub(crate) fn array<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.nested(('[', ']'), |json| items.into_iter().for_each(|item| write(json, item)));
    }

    /// The key of the value that is written next.
    pub(crate) fn key(&mut self, key: &str) -> &mut Self {
        self.string(key);
        self.text.push(':');
        self.comma = false;
        self
    }

    pub(crate) fn string(&mut self, value: &str) {
        self.separate();
        self.text.push('"');
        for letter in value.chars() {
            match letter {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                // Control characters; and what ends a line in scripts, or a script in a page.
                '\0'..='\x1f' | '\x7f' | '\u{2028}' | '\u{2029}' | '<' => {
                    let _ = write!(self.text, "\\u{:04x}", letter as u32);
                }
                _ => self.text.push(letter),
            }
        }
        self.text.push('"');
        self.comma = true;
    }

    /// A whole number. Not a fraction: those of Rust can be no numbers of JSON.
    pub(crate) fn number(&mut self, value: impl Into<u128>) {
        self.separate();
        let _ = write!(self.text, "{}", value.into());
        self.comma = true;
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.separate();
        self.text.push_str(if value { "true" } else { "false" });
        self.comma = true;
    }

    /// The text of a value, or `null`.
    pub(crate) fn shown(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.string(&value.to_string()),
            None => {
                self.separate();
                self.text.push_str("null");
                self.comma = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read by another's parser: nesting, commas, and every letter that has to be escaped.
    #[test]
    fn what_is_written_is_read() {
        let hostile: String = (0..0x2100).chain([0x1f600]).filter_map(char::from_u32).collect();
        let mut json = Json::default();
        json.object(|json| {
            json.key("a").array([1_u32, 2, 3], |json, item| json.number(item));
            json.key("b").object(|json| json.key("c").bool(true));
            json.key(&hostile).string(&hostile);
            json.key("d").array(["x", "y"], |json, item| json.object(|json| json.key("e").string(item)));
            json.key("f").array([0_u8; 0], |json, item| json.number(item));
            json.key("g").shown(None::<&str>);
            json.key("h").number(u64::MAX);
        });
        let read: serde_json::Value = serde_json::from_str(&json.into_text()).unwrap();
        assert_eq!(read["a"], serde_json::json!([1, 2, 3]));
        assert_eq!(
            (&read["b"]["c"], &read["g"], &read["f"]),
            (&true.into(), &().into(), &serde_json::json!([]))
        );
        assert_eq!(read[hostile.as_str()], hostile.as_str());
        assert_eq!((&read["d"][1]["e"], &read["h"]), (&"y".into(), &u64::MAX.into()));
    }
}
