//! What clients cannot do: read without the token or under a foreign name, send too much, or keep out others.

use crate::client::{ask, get, inspector};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use tasuki_inspect::Inspection;

const TOKEN: &str = "a-token-of-23-letters..";

fn status(page: &Inspection, request: &str) -> String {
    ask(page, request).0.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn only_the_loopback_address_goes_without_a_token() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let address: SocketAddr = address.parse().unwrap();
        assert_eq!(inspector().address(address).start().unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    for token in ["", "short", "spaces are no good in it", "neither-are-letters-like-\u{e9}"] {
        assert_eq!(
            inspector().token(token).start().unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{token:?}"
        );
    }
    let everywhere = inspector().address(([0, 0, 0, 0], 0).into()).token(TOKEN).start().unwrap();
    assert!(
        !format!("{everywhere:?} {:?}", inspector().token(TOKEN)).contains(TOKEN),
        "a token is no text for logs"
    );
}

#[test]
fn a_token_is_asked_for_on_every_path() {
    let page = inspector().token(TOKEN).start().unwrap();
    for path in ["/", "/snapshot.json", "/events", "/dump.txt", "/nowhere"] {
        assert_eq!(status(&page, &format!("GET {path} HTTP/1.1\r\n\r\n")), "401");
        assert_eq!(status(&page, &format!("GET {path}?token={TOKEN}x HTTP/1.1\r\n\r\n")), "401");
        assert_eq!(
            status(&page, &format!("GET {path} HTTP/1.1\r\nAuthorization: Basic {TOKEN}\r\n\r\n")),
            "401"
        );
    }
    assert_eq!(status(&page, &format!("GET /?token={TOKEN} HTTP/1.1\r\nHost: any.example\r\n\r\n")), "200");
    for scheme in ["Bearer", "bearer", "BEARER "] {
        let bearer = format!("GET /snapshot.json HTTP/1.1\r\nAuthorization: {scheme} {TOKEN}\r\n\r\n");
        assert_eq!(status(&page, &bearer), "200", "{scheme}");
    }
}

/// A web site whose name leads to this machine, or that asks by a script, learns nothing.
#[test]
fn foreign_names_are_refused() {
    let page = inspector().start().unwrap();
    for field in [
        "Host: evil.example",
        "Host: localhost.evil.example:80",
        "Host: 192.0.2.1",
        "Host: localhost\r\nOrigin: https://evil.example",
        "Host: localhost\r\nOrigin: null",
    ] {
        assert_eq!(
            status(&page, &format!("GET /snapshot.json HTTP/1.1\r\n{field}\r\n\r\n")),
            "403",
            "{field}"
        );
    }
    for field in [
        "Host: localhost:1",
        "Host: 127.0.0.1",
        "Host: [::1]:80",
        "Host: localhost\r\nOrigin: http://localhost:1",
    ] {
        assert_eq!(
            status(&page, &format!("GET /snapshot.json HTTP/1.1\r\n{field}\r\n\r\n")),
            "200",
            "{field}"
        );
    }
}

/// A request that does not say under which name it asks is refused, unless it has the token.
#[test]
fn a_request_without_a_name_is_refused() {
    let (open, locked) = (inspector().start().unwrap(), inspector().token(TOKEN).start().unwrap());
    for path in ["/", "/snapshot.json", "/events", "/dump.txt"] {
        for version in ["HTTP/1.0", "HTTP/1.1"] {
            assert_eq!(status(&open, &format!("GET {path} {version}\r\n\r\n")), "400", "{path}");
            assert_eq!(
                status(&open, &format!("GET {path} {version}\r\nOrigin: http://localhost\r\n\r\n")),
                "400"
            );
        }
    }
    assert_eq!(status(&locked, &format!("GET /snapshot.json?token={TOKEN} HTTP/1.1\r\n\r\n")), "200");
}

/// A head of 8 KiB is taken, and one of a byte more is refused, in however many parts it comes.
#[test]
fn the_limit_of_a_head_is_exact() {
    let page = inspector().start().unwrap();
    let head = |length: usize| {
        let rest = "GET / HTTP/1.1\r\nHost: localhost\r\nX: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(length - rest))
    };
    for (wanted, length) in [("200", 8_191), ("200", 8_192), ("431", 8_193), ("431", 9_216), ("431", 9_217)] {
        assert_eq!(status(&page, &head(length)), wanted, "{length} bytes");
    }
}

/// A browser says in whose name it asks. Another site gets the page, which says nothing of the program, so that a link works; with a token, too.
#[test]
fn other_sites_are_refused() {
    let (open, locked) = (inspector().start().unwrap(), inspector().token(TOKEN).start().unwrap());
    let ask = |page: &Inspection, path: &str, site: &str| {
        status(
            page,
            &format!(
                "GET {path}?token={TOKEN} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: {site}\r\n\r\n"
            ),
        )
    };
    for page in [&open, &locked] {
        for path in ["/snapshot.json", "/events", "/dump.txt", "/nowhere"] {
            assert_eq!(ask(page, path, "cross-site"), "403", "{path}");
        }
        assert_eq!(ask(page, "/", "cross-site"), "200");
        for site in ["same-origin", "none", "same-site"] {
            assert_eq!(ask(page, "/snapshot.json", site), "200", "{site}");
        }
    }
    let twice = "GET /snapshot.json HTTP/1.1\r\nSec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n\r\n";
    assert_eq!(status(&open, twice), "400");
}

#[test]
fn what_is_malformed_is_refused() {
    let page = inspector().start().unwrap();
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let endless = "y".repeat(50_000);
    let table = [
        ("400", "\r\n\r\n"),
        ("400", "nonsense\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nbroken\r\n\r\n"),
        ("404", "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("405", "POST / HTTP/1.1\r\n\r\n"),
        ("405", "DELETE /snapshot.json HTTP/1.1\r\n\r\n"),
        ("413", "GET / HTTP/1.1\r\nContent-Length: 99\r\n\r\n"),
        ("431", &long),
        ("431", &endless),
        ("505", "GET / HTTP/3.0\r\n\r\n"),
    ];
    for (wanted, request) in table {
        assert_eq!(status(&page, request), wanted, "{request:.60}");
    }
    assert!(get(&page, "/snapshot.json").0.contains("200"), "it goes on");
}

/// A client that does not read, and one that never ends its request, keep out no other.
#[test]
fn slow_clients_keep_out_no_other() {
    let page = inspector().start().unwrap();
    let mut deaf = TcpStream::connect(page.address()).unwrap();
    deaf.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut slow = TcpStream::connect(page.address()).unwrap();
    slow.write_all(b"GET / HT").unwrap();
    for _ in 0..20 {
        assert!(get(&page, "/snapshot.json").0.starts_with("HTTP/1.1 200 "));
    }
    // One letter at a time is a request too.
    for byte in b"TP/1.1\r\nHost: localhost\r\n\r\n" {
        slow.write_all(&[*byte]).unwrap();
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "));
}
