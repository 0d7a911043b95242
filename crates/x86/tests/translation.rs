//! Translated blocks as text: `tests/cases/translate.txt` against `tests/golden/translate-*.txt`.
//!
//! A case is a title behind `=` (with `@FLAVOUR`s), and lines `hex  # assembler` of code at 0x1000; its copy lies at
//! 0x100000. The listing is yaxpeax's, so that no byte of ours is read back by the encoder that wrote it.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use base::RemoteAddr;
use common::Case;
use common::translated::{self, site};
use x86::translate::{Flavour, Translation, common_code, translate};
use x86::{CodeBytes, Gpr, Limits, Reader, read_block};

const START: RemoteAddr = RemoteAddr(0x1000);

fn show(title: &str, translation: &Translation) -> String {
    let mut text = String::new();
    for exit in &translation.exits {
        let link = if exit.linkable { format!("link {:#x}", exit.link) } else { "no link".into() };
        writeln!(text, "exit {} to {}: {link}, stub {:#x}", exit.number, exit.target, exit.stub)
            .unwrap();
    }
    let Translation { entry, table, chain, parts, record, .. } = translation;
    let (table, cold) = (table.start, parts.split);
    writeln!(text, "entry {entry:#x}, cold {cold:#x}, table {table:#x}, chain {chain:#x}").unwrap();
    writeln!(text, "record {record}").unwrap();
    // The way from the table is the same in all cases: shown in the first two.
    let hidden = if title.contains("flags") { 0..0 } else { translation.table.clone() };
    text + &translated::listing(translation, &hidden)
}

fn run(name: &str, flavour: Flavour) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text = std::fs::read_to_string(folder.join("cases/translate.txt")).unwrap();
    let mut out = String::new();
    for Case { title, assembler, bytes } in common::cases(&text) {
        writeln!(out, "= {title}").unwrap();
        for line in assembler {
            writeln!(out, "  {line}").unwrap();
        }
        let code = CodeBytes { start: START, bytes: &bytes };
        let block = read_block(&mut Reader::new(), &code, START, &Limits::SUPER);
        match translate(&block, &code, &site(flavour)) {
            Ok(translation) => out += &show(&title, &translation),
            Err(why) => writeln!(out, "refused: {why:?}").unwrap(),
        }
        out.push('\n');
    }
    testkit::golden::check(folder.join(format!("golden/translate-{name}.txt")), &out);
}

#[test]
fn trace() {
    run("trace", Flavour::Trace);
}

#[test]
fn count() {
    run("count", Flavour::Count);
}

#[test]
fn timed() {
    run("timed", Flavour::Timed { pick: 0 });
}

#[test]
fn shared_code() {
    let mut out = String::new();
    for reserved in [Some(Gpr::R15), None] {
        let common = common_code(translated::COMMON, reserved);
        writeln!(out, "= reserved {reserved:?}\nexit {:#x}, miss {:#x}", common.exit, common.miss)
            .unwrap();
        let lines = translated::decode(&common.bytes).unwrap();
        out += &translated::list(&lines, &common.states);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    testkit::golden::check(folder.join("golden/translate-common.txt"), &out);
}
