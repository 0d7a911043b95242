//! `fathom html` on real results: the recipes R1, R2 and R4 at sizes that take seconds, clicked through in Chromium by
//! `tests/ui/recipe.mjs`, and a result that was cut off.
//!
//! What not: figures of a machine that measured itself; the pages say that these are not known.

#[path = "../../web/tests/support/mod.rs"]
mod support;

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use testkit::programs::{Fathom, NO_CALIBRATION, perf_events_work, recipe};

use self::support::click_through;

/// Records a recipe; `None` when it cannot be built here.
fn recorded(fathom: &Fathom, result: &str, name: &str, arguments: &[&str]) -> Option<()> {
    let program = recipe(name)?;
    let program = program.to_str().expect("a path of ours");
    let fixed = ["collect", "memory-access", "-q", "-k", NO_CALIBRATION, "-r", result, "--"];
    let words: Vec<&str> =
        fixed.iter().copied().chain([program]).chain(arguments.to_vec()).collect();
    let output = fathom.output(&words);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// Makes the page of a result and returns its address.
fn page(fathom: &Fathom, result: &str, options: &[&str]) -> String {
    let file = format!("{result}.html");
    let output = fathom.output([&["html", result, "-o", &file], options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = fathom.scratch.join(&file);
    // What the page of an ordinary program may have (docs/decisions/0012-sql-in-the-page.md).
    let bytes = std::fs::metadata(&file).expect("the page").len();
    assert!(bytes < 1_500_000, "{bytes} bytes");
    format!("file://{}", file.display())
}

#[test]
fn the_page_of_recipe_1_is_clicked_through() {
    if !perf_events_work() {
        return;
    }
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "page-r1");
    let size = ["--elements", "2000000", "--repeat", "60"];
    if recorded(&fathom, "before", "pmdk_triad_before", &size).is_none() {
        return;
    }
    recorded(&fathom, "after", "pmdk_triad_after", &size).expect("its twin was built");
    let address = page(&fathom, "before", &["--with", "after"]);
    click_through(
        "recipe.mjs",
        &address,
        &["pmdk_triad_before", "pmemobj_direct_inline", "compare"],
    );
}

#[test]
fn the_page_of_recipe_2_is_clicked_through() {
    if !perf_events_work() {
        return;
    }
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "page-r2");
    if recorded(&fathom, "r", "multiply1", &["--size", "500", "--threads", "2"]).is_none() {
        return;
    }
    let address = page(&fathom, "r", &[]);
    click_through("recipe.mjs", &address, &["multiply1", "multiply"]);
}

#[test]
fn the_page_of_recipe_4_is_clicked_through() {
    if !perf_events_work() {
        return;
    }
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "page-r4");
    for step in ["multiply1", "multiply2"] {
        let size = if step == "multiply1" { "500" } else { "900" };
        if recorded(&fathom, step, step, &["--size", size, "--threads", "2"]).is_none() {
            return;
        }
    }
    let address = page(&fathom, "multiply2", &["--with", "multiply1"]);
    click_through("recipe.mjs", &address, &["multiply2", "multiply", "compare"]);

    // Of a result that was cut off no page is made, and the file is named.
    let table = fathom.scratch.join("multiply2/samples.parquet");
    let bytes = std::fs::read(&table).expect("a table");
    std::fs::write(&table, &bytes[..bytes.len() / 2]).expect("our own file");
    let output = fathom.output(["html", "multiply2", "-o", "cut.html"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(4) && said.contains("samples.parquet"), "{said}");
    assert!(!fathom.scratch.join("cut.html").exists());
}

/// What the server at this address answers to a GET.
fn answer(address: &str, path: &str) -> String {
    let rest = address.strip_prefix("http://").expect("an address");
    let (host, token) = rest.split_once('/').expect("a token");
    let mut stream = TcpStream::connect(host).expect("it listens");
    write!(stream, "GET /{token}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it reads");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it answers");
    said
}

/// A server of the result `r` that has said its address.
fn serving(fathom: &Fathom) -> (Child, String) {
    let mut server =
        fathom.command(["open", "--no-browser", "r"]).spawn().expect("it can be started");
    let mut address = String::new();
    let out = server.stdout.take().expect("it is captured");
    BufReader::new(out).read_line(&mut address).expect("the address");
    (server, address.trim().to_owned())
}

/// The answers of one server are those of the next, which takes them from the result; what was changed is made again.
#[test]
fn answers_of_the_page_are_kept_with_the_result() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "page-kept");
    let output = fathom.collect("r", &[], Path::new("/bin/true"), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept = || {
        let files = std::fs::read_dir(fathom.scratch.join("r")).expect("the result");
        let names = files.map(|file| file.expect("a file").file_name());
        names.filter(|name| name.to_string_lossy().starts_with("answer-")).count()
    };
    let ask = || {
        let (mut server, address) = serving(&fathom);
        let answers = ["api/summary", "api/stacks", "api/objects?count=100&from=0"];
        let answers = answers.map(|path| answer(&address, path));
        server.kill().expect("our child");
        server.wait().expect("our child");
        answers
    };
    let before = kept();
    let first = ask();
    assert!(kept() >= before + 3);
    assert!(first[0].contains("\"elapsed\""), "{}", first[0]);
    assert_eq!(ask(), first);
}

/// All users of a machine can read the arguments of a program, so they never hold the secret of the page's address.
#[test]
fn the_browser_is_started_without_the_secret_among_its_arguments() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "page-browser");
    let output = fathom.collect("r", &[], Path::new("/bin/true"), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // In the place of a browser: notes its arguments, and what the file of that name leads to.
    let browser = fathom.scratch.join("xdg-open");
    let script = "#!/bin/sh\n{ printf '%s\\n' \"$*\"; stat -c %a \"$1\"; cat \"$1\"; } > noted.part\nmv noted.part noted\n";
    std::fs::write(&browser, script).expect("our own folder");
    std::fs::set_permissions(&browser, Permissions::from_mode(0o755)).expect("our own file");
    let path = std::env::var("PATH").expect("a PATH");
    let mut open = fathom.command(["open", "r"]);
    open.env("PATH", format!("{}:{path}", fathom.scratch.path().display()))
        .env("DISPLAY", ":0")
        .env("XDG_RUNTIME_DIR", fathom.scratch.path());
    let mut server = open.spawn().expect("fathom can be started");
    let mut address = String::new();
    let out = server.stdout.take().expect("it is captured");
    BufReader::new(out).read_line(&mut address).expect("the address");
    let address = address.trim();
    let noted = fathom.scratch.join("noted");
    while !noted.exists() && server.try_wait().expect("our child").is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Stored facts are there, too, to be asked in SQL.
    let modules = answer(address, "api/facts?table=modules");
    server.kill().expect("our child");
    server.wait().expect("our child");
    let noted = std::fs::read_to_string(noted).expect("the browser was started");
    let [arguments, mode, file] = noted.splitn(3, '\n').collect::<Vec<_>>()[..] else {
        panic!("{noted}");
    };
    let token = address.trim_end_matches('/').rsplit('/').next().expect("a token");
    assert!(token.len() == 32 && !arguments.contains(token), "{arguments}");
    assert!(arguments.ends_with(".html") && mode == "600", "{noted}");
    assert!(file.contains(&format!("url={address}\"")), "{file}");
    assert!(modules.contains(r#""columns":["id","kind","pid","path","build_id"]"#), "{modules}");
    assert!(modules.contains("/bin/true"), "{modules}");
}
