//! Sends profiles to a receiver of OpenTelemetry: OTLP over HTTP, to the address that the user named and nowhere else.
//!
//! What for: `fathom export otlp --send`, by hand or as a step of `fathom watch`. What not: the message (`export`), a connection
//! (`http`), trying again: who calls decides by the exit code.
//!
//! Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp

use std::process::ExitCode;
use std::time::Duration;

use ::export::{OtlpAnswer, gzip};

use crate::exit::{CANNOT_MEASURE, DAMAGED, Failure, USAGE};
use crate::http::{Address, Answer, Request, ask};

/// Where receivers take profiles, unless the address has a path.
const PATH: &str = "/v1development/profiles";
/// A receiver that takes longer is taken for dead.
const PATIENCE: Duration = Duration::from_secs(30);
/// Variables with more headers, such as a key: `NAME=VALUE,NAME=VALUE`. Their address is never taken: only the user's word sends.
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];

/// Sends a request; `what` it has. Exit codes: 4, the receiver has no use for it; 2, the address or the key is wrong; 3, the
/// receiver is away or busy.
pub fn send(address: &str, request: &[u8], what: &str) -> Result<ExitCode, Failure> {
    let mut to: Address = address.parse().map_err(Failure::usage)?;
    if to.path == "/" {
        PATH.clone_into(&mut to.path);
    }
    let body = gzip(request);
    let plain = [("Content-Type", "application/x-protobuf"), ("Content-Encoding", "gzip")];
    let agent = format!("fathom/{}", env!("CARGO_PKG_VERSION"));
    let plain = plain.into_iter().chain([("User-Agent", agent.as_str())]);
    let mut headers: Vec<_> =
        plain.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    headers.extend(more_headers(|name| std::env::var(name).ok())?);
    let failed = |code: u8, what: String| {
        Failure::new(code, anyhow::anyhow!("no profile was sent to {address}: {what}"))
    };
    let asked = Request { method: "POST", headers, body: &body, patience: Some(PATIENCE) };
    let Answer { status, body: said } =
        ask(&to, &asked).map_err(|error| failed(CANNOT_MEASURE, error.to_string()))?;
    if (200..300).contains(&status) {
        let OtlpAnswer { rejected, message } = OtlpAnswer::taken(&said);
        if rejected > 0 {
            let error = anyhow::anyhow!("{address} did not take {rejected} of {what}: {message}");
            return Err(Failure::new(DAMAGED, error));
        }
        if !message.is_empty() {
            eprintln!("fathom: {address} says: {message}");
        }
        return super::print(&format!("sent {what} in {} bytes to {address}\n", body.len()));
    }
    let message = OtlpAnswer::refused(&said);
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    let answered = format!("it answered {status}{message}");
    Err(match status {
        400 | 413 | 422 => failed(DAMAGED, answered),
        401 | 403 => failed(USAGE, answered)
            .hint("a key goes into OTEL_EXPORTER_OTLP_HEADERS, as in \"authorization=Bearer KEY\""),
        300..=499 if status != 408 && status != 429 => failed(USAGE, answered).hint(format!(
            "a receiver of OTLP over HTTP takes profiles at {PATH}; name another path in the address"
        )),
        _ => failed(CANNOT_MEASURE, answered),
    })
}

/// Headers from the first variable that is set.
fn more_headers(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, Failure> {
    let set = HEADERS.iter().find_map(|name| Some((name, variable(name)?)));
    let Some((name, text)) = set else { return Ok(Vec::new()) };
    let one = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let name = name.trim();
        let is_plain = !name.is_empty() && name.bytes().all(is_token);
        is_plain.then(|| (name.to_owned(), decoded(value.trim())))
    };
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    // Its text may be secret: it is not repeated.
    let wrong = || Failure::usage(format!("{name} must be NAME=VALUE,NAME=VALUE"));
    pairs.map(|pair| one(pair).ok_or_else(wrong)).collect()
}

/// `%2C` and the like as what they stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let code = more.get(..2).filter(|_| first == b'%');
        let code = code.and_then(|two| std::str::from_utf8(two).ok());
        let code = code.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_from_the_environment() {
        let of = |variables: &[(&str, &str)]| {
            more_headers(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert!(of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://elsewhere")]).unwrap().is_empty());
        let general = (HEADERS[1], "authorization=Bearer%20a%2Cb, x-scope=1");
        let found = of(&[general]).unwrap();
        assert_eq!(found, [pair("authorization", "Bearer a,b"), pair("x-scope", "1")]);
        let found = of(&[general, (HEADERS[0], "key=%zz%")]).unwrap();
        assert_eq!(found, [pair("key", "%zz%")]);
        for wrong in ["secret", "=secret", "a b=secret"] {
            let error = of(&[(HEADERS[1], wrong)]).unwrap_err().says();
            assert!(error.contains(HEADERS[1]) && !error.contains("secret"), "{error}");
        }
    }
}
