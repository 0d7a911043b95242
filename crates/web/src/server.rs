//! The local server.
//!
//! What not: the answers (`content`). Access requires the token in the address, which other users of this machine do
//! not know. The Host header must name this socket, so that a foreign page cannot reach the server through a name
//! that resolves to 127.0.0.1 (DNS rebinding). GET only; no request changes anything.

use std::collections::HashMap;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::json;

use crate::bundle::policy;
use crate::connections::Idle;
use crate::content::Subject;
use crate::http::{Answer, Request, read, write};
use crate::{WebError, page};

/// How long to wait when this process has no descriptor or no thread for a connection: until others have ended.
const NO_ROOM: Duration = Duration::from_millis(20);
/// Total bytes of the answers that are kept.
const KEPT: usize = 64 << 20;

/// A bound socket.
pub struct Server {
    listener: TcpListener,
    port: u16,
    token: String,
}

impl Server {
    /// Binds 127.0.0.1; port 0 is any that is free.
    ///
    /// # Errors
    /// When the port is taken, or there is no randomness.
    pub fn bind(port: u16) -> Result<Server, WebError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(WebError::Listen)?;
        let port = listener.local_addr().map_err(WebError::Listen)?.port();
        Ok(Server { listener, port, token: token()? })
    }

    /// What to type into a browser.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Answers until the process ends.
    pub fn serve(&self, site: &dyn Subject) {
        let desk = &Desk::default();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // One at a time, and only while nobody waits: what the user asks for comes first.
                for question in site.ahead() {
                    desk.wait_until_idle();
                    desk.answer(question, || answered(site, question));
                }
            });
            let answer = |request: &Request| self.answer(request, site, desk);
            answer_each(&self.listener, &policy("'self'"), &answer);
        });
    }

    fn answer(&self, request: &Request, site: &dyn Subject, desk: &Desk) -> Answer {
        let plain =
            |status, body: &str| Answer { status, kind: "text/plain", body: body.to_owned() };
        if !self.is_us(request.host.as_deref()) {
            return plain("403 Forbidden", "Open the address that fathom printed.\n");
        }
        let path = request.path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some((_, path)) = path.filter(|(token, _)| same(token, &self.token)) else {
            return plain("404 Not Found", "Open the address that fathom printed.\n");
        };
        if request.method != "GET" {
            return plain("405 Method Not Allowed", "Only GET.\n");
        }
        if path.is_empty() {
            let body = desk.answer("", || page::of_server(site));
            return Answer { status: "200 OK", kind: "text/html", body: body.to_string() };
        }
        let Some(question) = path.strip_prefix("api/") else {
            return plain("404 Not Found", "There is nothing of this name.\n");
        };
        let mut status = "200 OK";
        let body = desk.asked(question, || answered(site, question));
        // Errors are kept like answers, as text. That nothing is known is an answer: of a status of 400 the browser's
        // console would tell.
        if body.starts_with("{\"error\":") {
            status = "400 Bad Request";
        }
        Answer { status, kind: "application/json", body: body.to_string() }
    }

    fn is_us(&self, host: Option<&str>) -> bool {
        names_us(host, self.port)
    }
}

/// Answers `GET PATH` on 127.0.0.1 with a text, until the process ends; port 0 is any that is free. Returns the port.
///
/// # Errors
/// When the port is taken, or there is no thread.
pub fn serve_text(
    port: u16,
    path: &'static str,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<u16, WebError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(WebError::Listen)?;
    let port = listener.local_addr().map_err(WebError::Listen)?.port();
    let answer = move |request: &Request| {
        let known = request.method == "GET" && request.path == path;
        let (status, body) = match known && names_us(request.host.as_deref(), port) {
            true => ("200 OK", text()),
            false => ("404 Not Found", format!("There is only {path}.\n")),
        };
        Answer { status, kind: "text/plain; version=0.0.4", body }
    };
    let serve = move || answer_each(&listener, "default-src 'none'", &answer);
    std::thread::Builder::new().spawn(serve).map_err(WebError::Listen)?;
    Ok(port)
}

/// Answers the request of each connection in a thread of its own, until the process ends.
fn answer_each(listener: &TcpListener, policy: &str, answer: &(dyn Fn(&Request) -> Answer + Sync)) {
    let idle = &Idle::default();
    std::thread::scope(|scope| {
        for (number, stream) in (0..).zip(listener.incoming()) {
            // A connection that broke before it was accepted is none.
            let begun = stream.and_then(|mut stream| {
                idle.add(number, &stream)?;
                let talk = move || {
                    let request = read(&mut stream);
                    idle.remove(number);
                    if let Some(request) = request {
                        write(&mut stream, &answer(&request), policy);
                    }
                };
                std::thread::Builder::new().spawn_scoped(scope, talk)
            });
            if begun.is_err() {
                idle.remove(number);
                std::thread::sleep(NO_ROOM);
            }
        }
    });
}

fn names_us(host: Option<&str>, port: u16) -> bool {
    ["127.0.0.1", "localhost"].iter().any(|name| host == Some(&format!("{name}:{port}")))
}

/// 128 random bits as text.
fn token() -> Result<String, WebError> {
    let mut bytes = [0u8; 16];
    let random = std::fs::File::open("/dev/urandom");
    random.and_then(|mut random| random.read_exact(&mut bytes)).map_err(WebError::NoToken)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not depend on how many bytes match.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |other, (a, b)| other | (a ^ b)) == 0
}

fn answered(site: &dyn Subject, question: &str) -> String {
    let refused = |error: WebError| {
        let says = error.to_string();
        if error.is_no_mistake() { json!({ "absent": says }) } else { json!({ "error": says }) }
    };
    site.answer(question).unwrap_or_else(|error| refused(error).to_string())
}

/// Answers each question once, however many threads ask at a time.
#[derive(Default)]
struct Desk {
    kept: Mutex<KeptAnswers>,
    /// Nobody waits for an answer.
    idle: Condvar,
}

/// Answers by question; one that is being made is not there yet.
#[derive(Default)]
struct KeptAnswers {
    answers: HashMap<String, Arc<OnceLock<Arc<str>>>>,
    bytes: usize,
    /// Number of threads that wait for an answer.
    waiting: usize,
}

impl Desk {
    fn kept(&self) -> MutexGuard<'_, KeptAnswers> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer; the caller waits for it.
    fn asked(&self, question: &str, make: impl FnOnce() -> String) -> Arc<str> {
        self.kept().waiting += 1;
        let answer = self.answer(question, make);
        let mut kept = self.kept();
        kept.waiting -= 1;
        if kept.waiting == 0 {
            self.idle.notify_all();
        }
        answer
    }

    fn answer(&self, question: &str, make: impl FnOnce() -> String) -> Arc<str> {
        // The lock is free again while the answer is made. Who asks the same meanwhile waits in `get_or_init`, the
        // others do not.
        let answer = Arc::clone(self.kept().answers.entry(question.to_owned()).or_default());
        let made = answer.get_or_init(|| {
            let made: Arc<str> = make().into();
            self.kept().add(question, &answer, made.len());
            made
        });
        Arc::clone(made)
    }

    fn wait_until_idle(&self) {
        let waits = self.idle.wait_while(self.kept(), |kept| kept.waiting > 0);
        drop(waits.unwrap_or_else(PoisonError::into_inner));
    }
}

impl KeptAnswers {
    /// One more answer was made. All others are forgotten where they would be too many.
    fn add(&mut self, question: &str, answer: &Arc<OnceLock<Arc<str>>>, bytes: usize) {
        if self.bytes + bytes > KEPT {
            self.answers.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        // Again: another answer may have cleared the table while this one was made.
        self.answers.insert(question.to_owned(), Arc::clone(answer));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_several_ask_at_a_time_is_made_once() {
        let (desk, made) = (Desk::default(), AtomicUsize::new(0));
        let make = || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            format!("answer {}", made.fetch_add(1, Ordering::Relaxed))
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(&*desk.asked("summary", make), "answer 0"));
            }
            desk.wait_until_idle();
        });
        assert_eq!(&*desk.answer("summary", make), "answer 0");
        assert_eq!(&*desk.answer("another", make), "answer 1");
    }

    #[test]
    fn answers_that_are_too_many_are_forgotten() {
        let desk = Desk::default();
        desk.answer("a", || "a".repeat(KEPT / 2));
        desk.answer("b", || "b".repeat(KEPT / 2 + 1));
        assert_eq!(desk.answer("b", || "new".into()).len(), KEPT / 2 + 1);
        assert_eq!(&*desk.answer("a", || "new".into()), "new");
    }
}
