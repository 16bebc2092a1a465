//! Parses JSON: results that the lab wrote before.

use super::{Failure, Outcome, Record};
use crate::machine::Machine;
use crate::peer::Kind;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `null`, `true` or `false`.
    Word(&'static str),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Value>),
    /// An object, in its order.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// The member of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The string it is.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// The number it is; `null` is what an infinity was written as.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Word("null") => Some(f64::INFINITY),
            _ => None,
        }
    }

    /// The members of an array; none if it is something else.
    pub(crate) fn list(&self) -> &[Value] {
        if let Value::List(values) = self { values } else { &[] }
    }

    /// Whether it is `true`.
    pub(crate) fn is_true(&self) -> bool {
        *self == Value::Word("true")
    }
}

/// A measured number as the lab wrote it.
pub(crate) fn record(value: &Value) -> Option<Record> {
    let text = |name| Some(value.get(name)?.text()?.to_owned());
    let number = |name| value.get(name)?.number();
    Some(Record {
        workload: text("workload")?,
        n: number("n")? as u64,
        runtime: text("runtime")?,
        subject: text("subject")?,
        kind: kind(&text("kind")?)?,
        p10: number("p10")?,
        median: number("median")?,
        p90: number("p90")?,
        max: number("max")?,
        unit: text("unit")?,
        fairness: number("fairness")?,
        samples: number("samples")? as usize,
        placement: text("placement")?,
        allocs_per_op: number("allocs_per_op")?,
        capped: value.get("capped")?.is_true(),
    })
}

/// A machine as the lab wrote it.
pub(crate) fn machine(value: &Value) -> Option<Machine> {
    let text = |name| Some(value.get(name)?.text()?.to_owned());
    let number = |name| value.get(name)?.number();
    Some(Machine {
        processor: text("processor")?,
        processors: number("processors")? as u64,
        locked_pair_ns: number("locked_pair_ns")?,
        bounce_ns: number("bounce_ns")?,
        kernel: text("kernel")?,
        compiler: text("compiler")?,
        commit: text("commit")?,
        date: text("date")?,
        note: text("note")?,
    })
}

/// A missing number as the lab wrote it.
pub(crate) fn failure(value: &Value) -> Option<Failure> {
    let text = |name| Some(value.get(name)?.text()?.to_owned());
    let outcome = text("outcome")?;
    Some(Failure {
        workload: text("workload")?,
        n: value.get("n")?.number()? as u64,
        runtime: text("runtime")?,
        subject: text("subject")?,
        kind: kind(&text("kind")?)?,
        outcome: Outcome::ALL.into_iter().find(|known| known.name() == outcome)?,
        why: text("why")?,
    })
}

fn kind(name: &str) -> Option<Kind> {
    [Kind::Ours, Kind::Peer, Kind::Floor].into_iter().find(|kind| kind.name() == name)
}

/// Reads one value that is all of the text.
pub(crate) fn value(text: &str) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value()?;
    reader.blank();
    if reader.at < text.len() { Err(reader.wrong("nothing more")) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, wanted: &str) -> String {
        format!("{wanted} expected at byte {}", self.at)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn blank(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Takes this text if it comes next.
    fn take(&mut self, text: &str) -> bool {
        self.blank();
        let taken = self.rest().starts_with(text);
        self.at += if taken { text.len() } else { 0 };
        taken
    }

    fn value(&mut self) -> Result<Value, String> {
        for word in ["null", "true", "false"] {
            if self.take(word) {
                return Ok(Value::Word(word));
            }
        }
        if self.take("[") {
            return self.list("]", Self::value).map(Value::List);
        }
        if self.take("{") {
            return self.list("}", Self::member).map(Value::Object);
        }
        if self.rest().starts_with('"') {
            return self.string().map(Value::Text);
        }
        let part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest().find(|c| !part(c)).unwrap_or(self.rest().len());
        let number = self.rest()[..end].parse().map_err(|_| self.wrong("a value"))?;
        self.at += end;
        Ok(Value::Number(number))
    }

    fn list<T>(&mut self, close: &str, item: fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.take(close) {
                return Ok(items);
            }
            if !self.take(",") {
                return Err(self.wrong("a comma"));
            }
        }
    }

    fn member(&mut self) -> Result<(String, Value), String> {
        self.blank();
        let name = self.string()?;
        if !self.take(":") {
            return Err(self.wrong("a colon"));
        }
        Ok((name, self.value()?))
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.take("\"") {
            return Err(self.wrong("a string"));
        }
        let mut out = String::new();
        loop {
            let c = self.char()?;
            match c {
                '"' => return Ok(out),
                '\\' => out.push(self.escape()?),
                c => out.push(c),
            }
        }
    }

    fn char(&mut self) -> Result<char, String> {
        let c = self.rest().chars().next().ok_or_else(|| self.wrong("the end of a string"))?;
        self.at += c.len_utf8();
        Ok(c)
    }

    fn escape(&mut self) -> Result<char, String> {
        Ok(match self.char()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let digits = self.rest().get(..4).ok_or_else(|| self.wrong("four digits"))?;
                let code = u32::from_str_radix(digits, 16).map_err(|_| self.wrong("four digits"))?;
                self.at += 4;
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            c => c,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        let read =
            value(" {\"a\": [1, -2.5e1, null], \"b\": {\"c\": \"x\\n\\u0041\\\"\"}, \"d\": true} ").unwrap();
        assert_eq!(read.get("a").unwrap().list()[1], Value::Number(-25.0));
        assert_eq!(read.get("b").unwrap().get("c").unwrap().text(), Some("x\nA\""));
        assert!(read.get("d").unwrap().is_true() && read.get("e").is_none());
    }

    #[test]
    fn what_was_cut_short_is_refused() {
        for text in ["", "{", "{\"a\"", "{\"a\": 1", "[1,", "\"a", "[1 2]", "{} {}", "{\"a\": \"\\u00\"}"] {
            assert!(value(text).is_err(), "{text}");
        }
    }
}
