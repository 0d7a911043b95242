//! A client of HTTP: one request, one answer.
//!
//! What for: a ClickHouse server, a receiver of OTLP, an S3 store. An address beginning with `http:` is asked from here; one
//! beginning with `https:` by the program curl, which has TLS and the machine's certificates. What not: redirections, which might
//! lead elsewhere than the user said; cookies, proxies (curl takes those of the environment).
//!
//! HTTP/1.0: the answer comes in one piece, and its end is that of the connection.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longest wait for a connection; the answer may take longer.
const CONNECT: Duration = Duration::from_secs(10);
/// Larger answers are cut off: an error of the reader then.
const LARGEST: u64 = 1 << 30;

/// `http://HOST[:PORT][/PATH]`, or with `https`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Whether it is `https`.
    pub is_secure: bool,
    /// Its host; of IPv6 without the brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// From the first slash on, at least `/`; it may have a query.
    pub path: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || format!("'{text}' is no address: http://HOST:PORT or https://HOST");
        // It becomes a line of the request, and of curl's configuration.
        let (scheme, rest) = text
            .split_once("://")
            .filter(|_| {
                text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
            })
            .ok_or_else(wrong)?;
        let is_secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(wrong()),
        };
        let (place, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        if place.contains('@') {
            return Err(
                "an address has no password in it: all users of the machine can read it".to_owned()
            );
        }
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let usual = if is_secure { 443 } else { 80 };
        let port = port.map_or(Some(usual), |port| port.parse().ok());
        let port = port.filter(|_| !host.is_empty()).ok_or_else(wrong)?;
        Ok(Address { is_secure, host: host.to_owned(), port, path: path.to_owned() })
    }
}

impl Address {
    /// The host with its port, as a header names it: without the port that is usual.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let usual = if self.is_secure { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

/// A request.
pub struct Request<'a> {
    /// `GET`, `PUT`, `POST` or `DELETE`.
    pub method: &'a str,
    /// Headers besides the host and the length.
    pub headers: Vec<(String, String)>,
    /// Its content.
    pub body: &'a [u8],
    /// How long the answer may take; `None`: as long as it wants.
    pub patience: Option<Duration>,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// 200 and the like.
    pub status: u16,
    /// Its content.
    pub body: Vec<u8>,
}

/// Asks, and waits for the answer.
pub fn ask(address: &Address, request: &Request<'_>) -> io::Result<Answer> {
    let is_plain = |text: &str| text.bytes().all(|byte| byte >= b' ' && byte != 0x7f);
    if !request.headers.iter().all(|(name, value)| is_plain(name) && is_plain(value)) {
        return Err(io::Error::other("a header has a control character"));
    }
    let bytes =
        if address.is_secure { by_curl(address, request) } else { plainly(address, request) }?;
    parse(&bytes).ok_or_else(|| io::Error::other("it did not answer in HTTP"))
}

fn plainly(address: &Address, request: &Request<'_>) -> io::Result<Vec<u8>> {
    let mut places = (address.host.as_str(), address.port).to_socket_addrs()?;
    let place = places.next().ok_or(io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&place, CONNECT)?;
    stream.set_read_timeout(request.patience)?;
    stream.set_write_timeout(request.patience)?;
    let mut head = format!(
        "{} {} HTTP/1.0\r\nHost: {}\r\nContent-Length: {}\r\n",
        request.method,
        address.path,
        address.authority(),
        request.body.len()
    );
    for (name, value) in &request.headers {
        // Writing to a string cannot fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head += "\r\n";
    // One that refuses a large request may answer before it has read all: its answer says why.
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(request.body));
    let mut answer = Vec::new();
    let read = stream.take(LARGEST).read_to_end(&mut answer);
    if answer.is_empty() {
        sent?;
        read.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::other("it did not answer in time"),
            _ => error,
        })?;
        return Err(io::Error::other("it closed the connection before it answered"));
    }
    Ok(answer)
}

/// The status line, headers, and the content.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let status = head.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: bytes[end + 4..].to_vec() })
}

/// A file of ours that goes when it is dropped.
struct Body(PathBuf);

impl Body {
    fn new(bytes: &[u8]) -> io::Result<Body> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fathom-request-{}-{number}", std::process::id());
        let body = Body(std::env::temp_dir().join(name));
        let mut options = OpenOptions::new();
        let mut file: File = options.write(true).create_new(true).mode(0o600).open(&body.0)?;
        file.write_all(bytes)?;
        Ok(body)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// curl takes headers, which may be secret, from its standard input: arguments can be read by all users.
fn by_curl(address: &Address, request: &Request<'_>) -> io::Result<Vec<u8>> {
    let body = Body::new(request.body)?;
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut settings = format!(
        "url = \"https://{}{}\"\nrequest = \"{}\"\nhttp1.1\ninclude\nsilent\nshow-error\nsuppress-connect-headers\n\
         connect-timeout = {}\nheader = \"Expect:\"\n",
        address.authority(),
        address.path,
        request.method,
        CONNECT.as_secs()
    );
    if let Some(patience) = request.patience {
        let _ = writeln!(settings, "max-time = {}", (CONNECT + patience).as_secs());
    }
    if !request.body.is_empty() {
        let _ = writeln!(settings, "data-binary = \"@{}\"", quoted(&body.0.to_string_lossy()));
    }
    for (name, value) in &request.headers {
        let _ = writeln!(settings, "header = \"{}\"", quoted(&format!("{name}: {value}")));
    }
    // -q: no settings of the user's, which might send it elsewhere.
    let mut command = Command::new("curl");
    command.args(["-q", "--config", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::other("https needs the program curl, which is not installed")
        }
        _ => error,
    })?;
    // One that ended before it read says why on stderr.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(settings.as_bytes()));
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("curl failed");
    Err(io::Error::other(said.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_a_port_and_a_path() {
        let of = |text: &str| {
            text.parse::<Address>().map(|found| {
                (
                    found.is_secure,
                    found.host.clone(),
                    found.port,
                    found.path.clone(),
                    found.authority(),
                )
            })
        };
        let is = |secure, host: &str, port, path: &str, authority: &str| {
            Ok((secure, host.to_owned(), port, path.to_owned(), authority.to_owned()))
        };
        assert_eq!(
            of("http://localhost:4318"),
            is(false, "localhost", 4318, "/", "localhost:4318")
        );
        assert_eq!(
            of("https://a.example/v1/x?y=1"),
            is(true, "a.example", 443, "/v1/x?y=1", "a.example")
        );
        assert_eq!(of("http://[::1]:80/a"), is(false, "::1", 80, "/a", "[::1]"));
        for wrong in [
            "",
            "localhost:4318",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a:x",
            "http://a b",
            "http://a/\n",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(of("http://user:secret@a").unwrap_err().contains("password"));
    }

    #[test]
    fn an_answer_is_a_status_and_a_content() {
        let answer =
            parse(b"HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\nlater\r\n\r\n").unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (503, &b"later\r\n\r\n"[..]));
        for wrong in [&b""[..], b"HTTP/1.0 200 OK\r\n", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 x\r\n\r\n"] {
            assert_eq!(parse(wrong), None);
        }
    }
}
