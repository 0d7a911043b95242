//! The page in real Chromium, as a file and served: `tests/ui/page.mjs` clicks through it. And the server by hand:
//! who does not know the token, or comes by another name, gets nothing.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use facts::{CounterKind, FaultKind, Recording};
use testkit::recording::RecordingBuilder;

use self::support::click_through;

const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>";
const SOURCE: &str = include_str!("hot.c");

/// A program whose main thread and worker are in `hot_loop` for the first half, and whose main thread is in `late_phase`
/// for the second.
fn recording() -> Recording {
    let mut builder = RecordingBuilder::new();
    let program = builder.file("/bin/program");
    let hot = builder.code(program, 0x10, &[("hot_loop", "/src/hot.c", 12)]);
    let main = builder.code(program, 0x20, &[("main", "/src/hot.c", 20)]);
    let late = builder.code(program, 0x30, &[("late_phase", "/src/gone.c", 7)]);
    let hostile = builder.code(program, 0x40, &[(HOSTILE, "/etc/shadow", 1)]);
    let start = builder.code(program, 0x50, &[("start_thread", "", 0)]);
    builder.thread(100, 100, "program", 0.0, 1.0).thread(100, 101, "worker", 0.0, 0.5);
    let in_main = builder.stack(&[hot, main]);
    let in_worker = builder.stack(&[hot, start]);
    builder.samples(100, 100, in_main, 400);
    builder.rewind(0.0);
    builder.samples(100, 101, in_worker, 400);
    let odd = builder.stack(&[hostile, main]);
    builder.samples(100, 100, odd, 100);
    let late = builder.stack(&[late, main]);
    builder.samples(100, 100, late, 500);
    builder.faults((100, 100), in_main, FaultKind::Minor, 30, 1, 0.1);
    builder.counter(CounterKind::TaskClock, 1_400_000_000);
    builder.recording.run.elapsed_ns = 1_000_000_000;
    builder.build()
}

fn sources(path: &str) -> Option<String> {
    match path {
        "/src/hot.c" => Some(SOURCE.to_owned()),
        "/etc/shadow" => Some("root:secret".to_owned()),
        _ => None,
    }
}

#[test]
fn a_file_shows_every_view() {
    let recording = recording();
    let page = web::page(&web::Site::new(&recording, "r000hs", Vec::new(), &sources));
    let file = std::env::temp_dir().join(format!("fathom-page-{}.html", std::process::id()));
    std::fs::write(&file, &page).expect("a writable temporary folder");
    click_through("page.mjs", &format!("file://{}", file.display()), &[]);
    std::fs::remove_file(&file).expect("our own file");
}

#[test]
fn a_server_shows_every_view_to_who_knows_the_token() {
    let recording: &'static Recording = Box::leak(Box::new(recording()));
    let server: &'static web::Server =
        Box::leak(Box::new(web::Server::bind(0).expect("a free port")));
    let address = server.address();
    std::thread::spawn(move || {
        server.serve(&web::Site::new(recording, "r000hs", Vec::new(), &sources));
    });
    let rest = address.strip_prefix("http://").expect("an address");
    let (host, path) = rest.split_once('/').expect("a path");
    let token = path.trim_end_matches('/');
    let ask = |head: String| {
        let mut stream = TcpStream::connect(host).expect("it listens");
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let get = |path: &str, host: &str| ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let good = get(&format!("/{token}/api/summary"), host);
    assert!(good.starts_with("HTTP/1.1 200"), "{good}");
    assert!(
        good.contains("Content-Security-Policy: default-src 'none'; script-src 'sha256-"),
        "{good}"
    );
    for (path, by, status) in [
        ("/".to_owned(), host, "404"),
        (format!("/{}/api/summary", "0".repeat(32)), host, "404"),
        (format!("/{token}/api/summary"), "evil.example:80", "403"),
        (format!("/{token}/api/nonsense"), host, "400"),
        (format!("/{token}/api/hotspots?limit=x"), host, "400"),
        (format!("/{token}/../../etc/passwd"), host, "404"),
        // Named by the result, but no source file: the answer is that there is none.
        (format!("/{token}/api/text?file=%2Fetc%2Fshadow"), host, "200"),
    ] {
        let answer = get(&path, by);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        assert!(!answer.contains("root:"), "{path}: {answer}");
    }
    let posted =
        ask(format!("POST /{token}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"));
    assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
    click_through("page.mjs", &address, &[]);
}

#[test]
fn a_page_is_one_file_without_a_way_out() {
    let recording = recording();
    let site = web::Site::new(&recording, HOSTILE, vec![HOSTILE.to_owned()], &sources);
    let page = web::page(&site);
    // Names stand in it as text of JSON, with every < escaped, or packed; our own script and policy are what is left.
    assert_eq!(page.matches("<script>").count(), 1);
    let of =
        |kind: &str| page.matches(&format!("<script type=\"application/{kind}\" id=\"")).count();
    assert!(of("json") > 10 && of("gzip") > 2);
    assert_eq!(page.matches("<script").count(), 1 + of("json") + of("gzip"));
    assert!(!page.contains("<img"));
    let carried = web::Subject::data(&site, true).documents;
    let secret = carried.iter().any(|(_, answer)| answer.contains("root:secret"));
    assert!(!secret, "a file that is no source is not carried");
    // Long ones are packed, all but the first: the summary is on the screen at once.
    let plain = |(question, answer): &&(String, String)| {
        answer.len() >= 4_000 && page.contains(&format!("json\" id=\"doc {question}\""))
    };
    assert_eq!(
        carried.iter().filter(plain).map(|(question, _)| question.as_str()).collect::<Vec<_>>(),
        ["summary"]
    );
    assert!(page.contains("connect-src 'none'"));
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
}

#[test]
fn a_recording_of_nothing_and_a_damaged_one_have_pages() {
    for recording in [Recording::default(), {
        let mut broken = recording();
        broken.stack_nodes.truncate(1);
        broken.modules.clear();
        broken.run.elapsed_ns = u64::MAX;
        broken
    }] {
        let problems = vec!["stacks.parquet: 12 of 20 rows are lost".to_owned()];
        let page = web::page(&web::Site::new(&recording, "r", problems, &|_| None));
        assert!(page.contains("12 of 20 rows are lost") && page.ends_with("</html>\n"));
        let file = std::env::temp_dir().join(format!("fathom-damaged-{}.html", std::process::id()));
        std::fs::write(&file, &page).expect("a writable temporary folder");
        click_through("damaged.mjs", &format!("file://{}", file.display()), &["stacks.parquet"]);
        std::fs::remove_file(&file).expect("our own file");
    }
}
