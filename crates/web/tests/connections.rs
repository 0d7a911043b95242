//! Connections that send nothing, or a byte now and then, do not keep a browser from its answer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use facts::Recording;

/// A server of an empty recording: its socket, and the path of an answer behind the secret.
fn server() -> (String, String) {
    let recording: &'static Recording = Box::leak(Box::default());
    let server: &'static web::Server =
        Box::leak(Box::new(web::Server::bind(0).expect("a free port")));
    let address = server.address();
    std::thread::spawn(|| server.serve(&web::Site::new(recording, "r", Vec::new(), &|_| None)));
    let rest = address.strip_prefix("http://").expect("an address");
    let (host, path) = rest.split_once('/').expect("a path");
    (host.to_owned(), format!("/{path}api/summary"))
}

fn connected(host: &str, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(host).expect("it listens")).collect()
}

fn answers(host: &str, path: &str) {
    let mut stream = TcpStream::connect(host).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Whether the server has not closed this connection, which sent no request.
fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("our socket");
    matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Connections without a whole request: whoever had first to give them up would have closed them before it answered.
fn answers_at_once_despite_idle_ones(host: &str, path: &str) {
    let mut idle = connected(host, 12);
    // Half of them send the beginning of a request.
    for stream in &mut idle[6..] {
        stream.write_all(b"G").expect("it reads");
    }
    answers(host, path);
    for stream in &mut idle[6..] {
        stream.write_all(b"E").expect("it reads");
    }
    answers(host, path);
    assert!(idle.iter().all(is_open));
}

#[test]
fn idle_and_dripping_connections_do_not_delay_an_answer() {
    let (host, path) = server();
    answers_at_once_despite_idle_ones(&host, &path);
}

#[test]
fn they_do_not_delay_a_text_either() {
    let port = web::serve_text(0, "/metrics", || "a 1\n".to_owned()).expect("a free port");
    answers_at_once_despite_idle_ones(&format!("127.0.0.1:{port}"), "/metrics");
}

#[test]
fn of_too_many_idle_connections_the_oldest_are_closed() {
    let (host, path) = server();
    let idle = connected(&host, 300);
    answers(&host, &path);
    assert!(!is_open(&idle[0]));
    assert!(is_open(&idle[299]));
}
