//! A browser without a window, driven over its two pipes: a message of JSON each, ended by a zero byte. The descriptors 3 and 4 are opened by a shell, from two named pipes.

use crate::shell::output;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where it is, if it is installed.
pub(super) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

pub(super) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    number: u64,
    session: String,
    complaints: Vec<String>,
}

impl Browser {
    /// With a profile of its own, which is made anew.
    pub(super) fn start(program: &Path, profile: &Path) -> Result<Self, String> {
        let _ = std::fs::remove_dir_all(profile);
        std::fs::create_dir_all(profile).map_err(|why| why.to_string())?;
        let pipes = ["in", "out"].map(|name| profile.join(name));
        output(Command::new("mkfifo").args(&pipes))?;
        let script = "exec \"$0\" \"$@\" 3<\"$PIPE_IN\" 4>\"$PIPE_OUT\"";
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(program).args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.join("data").display())).arg("about:blank");
        command
            .env("PIPE_IN", &pipes[0])
            .env("PIPE_OUT", &pipes[1])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(|why| format!("{}: {why}", program.display()))?;
        // Each open waits for the other side; in the order of the script.
        let to = OpenOptions::new().write(true).open(&pipes[0]).map_err(|why| why.to_string())?;
        let from = File::open(&pipes[1]).map_err(|why| why.to_string())?;
        let mut browser = Self {
            child,
            to,
            from: BufReader::new(from),
            number: 0,
            session: String::new(),
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", r#"{"url":"about:blank"}"#)?;
        let target = text(&target, "targetId").ok_or("a tab has an id")?;
        let attached =
            browser.call("Target.attachToTarget", &format!(r#"{{"targetId":"{target}","flatten":true}}"#))?;
        browser.session = text(&attached, "sessionId").ok_or("a session has an id")?;
        browser.call("Runtime.enable", "{}")?;
        browser.call("Log.enable", "{}")?;
        browser.call("Page.enable", "{}")?;
        Ok(browser)
    }

    /// Calls a method, and gives the text of its answer. What is told meanwhile is dropped, but complaints of the page.
    fn call(&mut self, method: &str, parameters: &str) -> Result<String, String> {
        self.number += 1;
        let number = self.number;
        let session = if self.session.is_empty() {
            String::new()
        } else {
            format!(r#","sessionId":"{}""#, self.session)
        };
        write!(self.to, "{{\"id\":{number},\"method\":\"{method}\",\"params\":{parameters}{session}}}\0")
            .map_err(|why| format!("the browser is gone: {why}"))?;
        loop {
            let mut message = Vec::new();
            let count = self.from.read_until(0, &mut message).map_err(|why| why.to_string())?;
            if count == 0 {
                return Err("the browser is gone".to_owned());
            }
            let message =
                String::from_utf8_lossy(message.strip_suffix(&[0]).unwrap_or(&message)).into_owned();
            if message.starts_with(&format!("{{\"id\":{number},\"error\"")) {
                return Err(format!("{method}: {message}"));
            }
            if message.starts_with(&format!("{{\"id\":{number},")) {
                return Ok(message);
            }
            let is_complaint = message.contains("\"Runtime.exceptionThrown\"")
                || (message.contains("\"Log.entryAdded\"") && message.contains("\"level\":\"error\""));
            if is_complaint {
                self.complaints.push(message);
            }
        }
    }

    pub(super) fn open(&mut self, address: &str) -> Result<(), String> {
        self.call("Page.navigate", &format!(r#"{{"url":"{address}"}}"#)).map(drop)
    }

    /// The value of an expression, as text.
    pub(super) fn evaluate(&mut self, expression: &str) -> Result<String, String> {
        let quoted = format!("String({expression})").replace('\\', "\\\\").replace('"', "\\\"");
        let answer =
            self.call("Runtime.evaluate", &format!(r#"{{"expression":"{quoted}","returnByValue":true}}"#))?;
        // An expression that fails, as before the page is there, has no value.
        Ok(text(&answer, "value").unwrap_or_default())
    }

    /// Another window, light or dark.
    pub(super) fn resize(&mut self, width: u32, height: u32, is_dark: bool) -> Result<(), String> {
        let size = format!(r#"{{"width":{width},"height":{height},"deviceScaleFactor":1,"mobile":false}}"#);
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let media = format!(r#"{{"features":[{{"name":"prefers-color-scheme","value":"{scheme}"}}]}}"#);
        self.call("Emulation.setEmulatedMedia", &media)?;
        // Drawn anew, in the new width.
        self.evaluate("(dispatchEvent(new Event('resize')), 1)").map(drop)
    }

    pub(super) fn picture(&mut self, file: &Path) -> Result<(), String> {
        let answer = self.call("Page.captureScreenshot", r#"{"format":"png"}"#)?;
        let bytes = decoded(&text(&answer, "data").ok_or("a picture has data")?);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(|why| why.to_string())?;
        }
        std::fs::write(file, bytes).map_err(|why| format!("{}: {why}", file.display()))
    }

    /// An error if the page has thrown one, or has asked for what there is not.
    pub(super) fn complaints(&self) -> Result<(), String> {
        match self.complaints.first() {
            None => Ok(()),
            Some(first) => {
                Err(format!("{} errors in the page, the first: {first:.600}", self.complaints.len()))
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first string with this key in a message. Escapes of quotes and backslashes are undone; others are left, for no value that is looked at has them.
fn text(message: &str, key: &str) -> Option<String> {
    let start = message.find(&format!("\"{key}\":\""))? + key.len() + 4;
    let mut value = String::new();
    let mut letters = message[start..].chars();
    loop {
        match letters.next()? {
            '"' => return Some(value),
            '\\' => value.push(letters.next()?),
            letter => value.push(letter),
        }
    }
}

/// From base 64.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes() {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_messages() {
        let message = r#"{"id":3,"result":{"result":{"type":"string","value":"a \"b\" \\"}}}"#;
        assert_eq!(text(message, "value").as_deref(), Some("a \"b\" \\"));
        assert_eq!(text(message, "data"), None);
    }

    #[test]
    fn base_64() {
        assert_eq!(decoded("TWFu"), b"Man");
        assert_eq!(decoded("TWE="), b"Ma");
        assert_eq!(decoded("TQ=="), b"M");
    }
}
