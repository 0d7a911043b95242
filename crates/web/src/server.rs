//! The local server.
//!
//! Who may ask: whoever knows the token in the address, which other users of this machine do not. The Host header must
//! name this socket, so that a foreign page cannot reach it through a name that it resolves to 127.0.0.1 (DNS
//! rebinding). Only GET; nothing can be changed.

use std::collections::HashMap;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use crate::bundle::policy;
use crate::content::Site;
use crate::http::{Answer, Request, read, write};
use crate::{WebError, page};

/// A browser opens up to six connections to one server.
const THREADS: usize = 6;
/// Answers kept for the next time: bytes of all together.
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
    ///
    /// # Errors
    /// When the socket cannot be shared by threads.
    pub fn serve(&self, site: &Site<'_>) -> Result<(), WebError> {
        let kept = Mutex::new(Kept::default());
        let listeners: Vec<TcpListener> = (0..THREADS)
            .map(|_| self.listener.try_clone().map_err(WebError::Listen))
            .collect::<Result<_, _>>()?;
        std::thread::scope(|scope| {
            for listener in &listeners {
                let kept = &kept;
                scope.spawn(move || {
                    // Connections that break off before they are accepted are their own matter.
                    for mut stream in listener.incoming().filter_map(Result::ok) {
                        self.talk(&mut stream, site, kept);
                    }
                });
            }
        });
        Ok(())
    }

    fn talk(&self, stream: &mut TcpStream, site: &Site<'_>, kept: &Mutex<Kept>) {
        if let Some(request) = read(stream) {
            let answer = self.answer(&request, site, kept);
            write(stream, &answer, &policy("'self'"));
        }
    }

    fn answer(&self, request: &Request, site: &Site<'_>, kept: &Mutex<Kept>) -> Answer {
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
            let body = kept_or(kept, "", || page::served(site));
            return Answer { status: "200 OK", kind: "text/html", body: body.to_string() };
        }
        let Some(question) = path.strip_prefix("api/") else {
            return plain("404 Not Found", "There is nothing of this name.\n");
        };
        let mut status = "200 OK";
        let body = kept_or(kept, question, || {
            site.answer(question)
                .unwrap_or_else(|error| json!({ "error": error.to_string() }).to_string())
        });
        if body.starts_with("{\"error\":") {
            status = "400 Bad Request";
        }
        Answer { status, kind: "application/json", body: body.to_string() }
    }

    fn is_us(&self, host: Option<&str>) -> bool {
        ["127.0.0.1", "localhost"].iter().any(|name| host == Some(&format!("{name}:{}", self.port)))
    }
}

/// 128 random bits as text.
fn token() -> Result<String, WebError> {
    let mut bytes = [0u8; 16];
    let random = std::fs::File::open("/dev/urandom");
    random.and_then(|mut random| random.read_exact(&mut bytes)).map_err(WebError::NoToken)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not tell how much was right.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |other, (a, b)| other | (a ^ b)) == 0
}

/// Answers by question.
#[derive(Default)]
struct Kept {
    answers: HashMap<String, Arc<str>>,
    bytes: usize,
}

fn kept_or(kept: &Mutex<Kept>, question: &str, make: impl FnOnce() -> String) -> Arc<str> {
    let lock = || kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().answers.get(question) {
        return Arc::clone(known);
    }
    let answer: Arc<str> = make().into();
    let mut kept = lock();
    if kept.bytes + answer.len() > KEPT {
        *kept = Kept::default();
    }
    kept.bytes += answer.len();
    kept.answers.insert(question.to_owned(), Arc::clone(&answer));
    answer
}
