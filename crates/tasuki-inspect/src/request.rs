//! The head of a request: read with limits of bytes and of time, and refused if it is not what a browser or a command line would send.
//!
//! Only the head is read. A request with a body is refused, for nothing here takes one; the connection ends after every answer, so nothing can hide behind the head.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Instant;

/// So long a head may be, in bytes, with the empty line that ends it.
pub(crate) const HEAD_BYTES: usize = 8 * 1024;
/// So many fields it may have.
const FIELDS: usize = 64;

/// Why a request is refused: the status, and words for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) u16, pub(crate) &'static str);

const MALFORMED: Refusal = Refusal(400, "malformed request");

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    /// `HEAD` instead of `GET`.
    pub(crate) is_head: bool,
    pub(crate) path: String,
    /// The value of `token` in the query.
    pub(crate) token: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) authorization: Option<String>,
    /// From which page a script asks.
    pub(crate) origin: Option<String>,
    /// From where a browser says that the request comes: the field Sec-Fetch-Site.
    pub(crate) site: Option<String>,
}

/// Reads from a stream that may block until a time.
fn read_until(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    stream.read(buffer)
}

/// Reads a head. `Ok(Err(..))` is refused; `Err` is a client that is gone, or too slow.
pub(crate) fn read(stream: &mut TcpStream, deadline: Instant) -> io::Result<Result<HttpRequest, Refusal>> {
    let mut head = Vec::with_capacity(1024);
    let mut part = [0; 1024];
    loop {
        let count = match read_until(stream, &mut part, deadline) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(why) => return Err(why),
        };
        // The end may be cut: three bytes of it may be of the part before.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(&part[..count]);
        let end = head[from..].windows(4).position(|four| four == b"\r\n\r\n").map(|end| from + end);
        // Also if its end is in the part that made it too long.
        if end.map_or(head.len(), |end| end + 4) > HEAD_BYTES {
            return Ok(Err(Refusal(431, "the head of the request is too long")));
        }
        if let Some(end) = end {
            head.truncate(end);
            return Ok(parse(&head));
        }
    }
}

/// A head without its last empty line.
pub(crate) fn parse(head: &[u8]) -> Result<HttpRequest, Refusal> {
    let head = std::str::from_utf8(head).ok().filter(|head| is_text(head)).ok_or(MALFORMED)?;
    let mut lines = head.split("\r\n");
    let mut request = parse_line(lines.next().unwrap_or_default())?;
    let mut count = 0;
    for line in lines {
        count += 1;
        if count > FIELDS {
            return Err(Refusal(431, "too many fields in the head of the request"));
        }
        let (name, value) = line.split_once(':').ok_or(MALFORMED)?;
        let is_name = |letter: u8| letter.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&letter);
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(MALFORMED);
        }
        let value = value.trim_matches([' ', '\t']);
        let field = match name.to_ascii_lowercase().as_str() {
            "host" => &mut request.host,
            "authorization" => &mut request.authorization,
            "origin" => &mut request.origin,
            "sec-fetch-site" => &mut request.site,
            "transfer-encoding" => return Err(Refusal(413, "a request has no body here")),
            "content-length" if value != "0" => return Err(Refusal(413, "a request has no body here")),
            _ => continue,
        };
        // A second one may be for another reader than the first.
        if field.replace(value.to_owned()).is_some() {
            return Err(MALFORMED);
        }
    }
    Ok(request)
}

/// No control characters but the ends of lines, and tabs.
fn is_text(head: &str) -> bool {
    let ends = head.matches("\r\n").count();
    let controls = head.bytes().filter(|byte| byte.is_ascii_control() && *byte != b'\t').count();
    controls == 2 * ends
}

fn parse_line(line: &str) -> Result<HttpRequest, Refusal> {
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(MALFORMED);
    };
    if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(MALFORMED);
    }
    match version {
        "HTTP/1.0" | "HTTP/1.1" => {}
        _ if version.starts_with("HTTP/") => return Err(Refusal(505, "HTTP/1.1 is spoken here")),
        _ => return Err(MALFORMED),
    }
    if !matches!(method, "GET" | "HEAD") {
        return Err(Refusal(405, "only GET and HEAD: nothing can be changed here"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let token = query.split('&').find_map(|pair| pair.strip_prefix("token=")).map(str::to_owned);
    let path = path.to_owned();
    let is_head = method == "HEAD";
    Ok(HttpRequest { is_head, path, token, host: None, authorization: None, origin: None, site: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> u16 {
        parse(head.as_bytes()).map_or_else(|refusal| refusal.0, |_| 200)
    }

    #[test]
    fn heads_that_are_taken() {
        let head = "GET /events?x=1&token=s3cret HTTP/1.1\r\nHost: localhost:80\r\nAUTHORIZATION:\tBearer  x \r\nX: ";
        let request = parse(head.as_bytes()).unwrap();
        assert_eq!((request.path.as_str(), request.token.as_deref()), ("/events", Some("s3cret")));
        assert_eq!(request.host.as_deref(), Some("localhost:80"));
        assert_eq!(request.authorization.as_deref(), Some("Bearer  x"));
        assert!(parse(b"HEAD / HTTP/1.0").unwrap().is_head);
        assert_eq!(status("GET / HTTP/1.1\r\nContent-Length: 0"), 200);
    }

    #[test]
    fn heads_that_are_refused() {
        let table = [
            (400, ""),
            (400, "GET"),
            (400, "GET /"),
            (400, "GET  / HTTP/1.1"),
            (400, "GET / HTTP/1.1 x"),
            (400, "GET http://other/ HTTP/1.1"),
            (400, "GET * HTTP/1.1"),
            (400, "GET /\u{e9} HTTP/1.1"),
            (400, "GET / HTP/1.1"),
            (400, "GET /\nx HTTP/1.1"),
            (400, "GET / HTTP/1.1\nHost: a"),
            (400, "GET / HTTP/1.1\r\nno colon"),
            (400, "GET / HTTP/1.1\r\n: nameless"),
            (400, "GET / HTTP/1.1\r\nna me: x"),
            (400, "GET / HTTP/1.1\r\n folded: x"),
            (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b"),
            (400, "GET / HTTP/1.1\r\nHost: \0"),
            (405, "POST / HTTP/1.1"),
            (405, "get / HTTP/1.1"),
            (413, "GET / HTTP/1.1\r\nContent-Length: 5"),
            (413, "GET / HTTP/1.1\r\nContent-Length: 0x0"),
            (413, "GET / HTTP/1.1\r\nTransfer-Encoding: chunked"),
            (505, "GET / HTTP/2.0"),
        ];
        for (wanted, head) in table {
            assert_eq!(status(head), wanted, "{head:?}");
        }
        assert!(parse(b"GET / HTTP/1.1\r\nX: \xff").is_err());
        let many = format!("GET / HTTP/1.1{}", "\r\nX: 1".repeat(FIELDS + 1));
        assert_eq!(status(&many), 431);
    }

    /// Whatever comes is answered or refused, never a panic: every prefix of a head, and every byte of it changed.
    #[test]
    fn no_head_panics() {
        let head = b"GET /snapshot.json?token=abc HTTP/1.1\r\nHost: [::1]:6680\r\nAccept: */*";
        for at in 0..head.len() {
            let _ = parse(&head[..at]);
            for byte in 0..=255 {
                let mut changed = head.to_vec();
                changed[at] = byte;
                let _ = parse(&changed);
            }
        }
    }
}
