//! A client of plain sockets.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use tasuki_inspect::{Inspection, Inspector};

/// On any free port.
pub(crate) fn inspector() -> Inspector {
    Inspector::new().address(([127, 0, 0, 1], 0).into())
}

/// Sends this and reads to the end: the head, and the body.
pub(crate) fn ask(page: &Inspection, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(page.address()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

pub(crate) fn get(page: &Inspection, path: &str) -> (String, String) {
    ask(page, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

/// Events, as they come.
pub(crate) fn events(page: &Inspection) -> impl Iterator<Item = Value> + use<> {
    let mut stream = TcpStream::connect(page.address()).unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
}
