//! One request and one answer of HTTP/1.1 (RFC 9112), then the connection closes.
//!
//! What not: bodies of requests, kept connections, compression. Clients are not trusted: heads are bounded in size and
//! time.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A head that is longer is no browser's.
const LONGEST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// The most that a head may take, from its first byte to its last. A browser on this machine sends one in milliseconds.
const TIME_OF_HEAD: Duration = Duration::from_secs(10);
/// The most that a browser may take to receive an answer: tens of megabytes, into a page that is computing meanwhile.
const TIME_OF_ANSWER: Duration = Duration::from_secs(120);

/// What matters of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// As sent, with the query.
    pub(crate) path: String,
    pub(crate) host: Option<String>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

/// Reads a head; `None` when it is none, too long or too late.
pub(crate) fn read(stream: &mut TcpStream) -> Option<Request> {
    let until = Instant::now() + TIME_OF_HEAD;
    let mut head = Vec::new();
    let mut part = [0u8; 2048];
    while head.len() < LONGEST_HEAD {
        // For the whole head and not for each part: who sends a byte a second would keep us for hours.
        stream.set_read_timeout(Some(left(until)?)).ok()?;
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&part[..read]);
        // An empty line ends the head (RFC 9112, 2.1). A GET has no body.
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return parse(&head);
        }
    }
    None
}

fn parse(head: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if !request.parse(head).ok()?.is_complete() {
        return None;
    }
    let mut hosts =
        request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().and_then(|header| std::str::from_utf8(header.value).ok());
    Some(Request {
        method: request.method?.to_owned(),
        path: request.path?.to_owned(),
        host: host.map(str::to_owned),
    })
}

/// Writes an answer. A browser that went away is no error.
pub(crate) fn write(stream: &mut TcpStream, answer: &Answer, policy: &str) {
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nContent-Security-Policy: {policy}; frame-ancestors 'none'\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    );
    let until = Instant::now() + TIME_OF_ANSWER;
    let _ = send(stream, head.as_bytes(), until)
        .and_then(|()| send(stream, answer.body.as_bytes(), until));
}

/// `None` when the time is over: a timeout of 0 would be none at all.
fn left(until: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

fn send(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let left = left(until).ok_or(ErrorKind::TimedOut)?;
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            sent => bytes = &bytes[sent..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_nonsense_is_not() {
        let head = b"GET /t/api/summary?x=1 HTTP/1.1\r\nhOST: 127.0.0.1:80\r\nA: b\r\n\r\n";
        let request = parse(head).expect("a request");
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/t/api/summary?x=1"));
        assert_eq!(request.host.as_deref(), Some("127.0.0.1:80"));
        for broken in [&b"GET / HTTP/1.1\r\n"[..], b"\0\0\r\n\r\n", b"GET\r\n\r\n"] {
            assert_eq!(parse(broken), None);
        }
    }
}
