//! The committed build of the page is of the committed sources. Without Node: `ui/dist/sources.txt` has a hash of them.
//! With Node and the packages of `ui`, it is built anew and compared byte by byte.

use std::path::{Path, PathBuf};
use std::process::Command;

fn ui() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui")).to_owned()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// FNV-1a, 64 bits (draft-eastlake-fnv), over names and contents, as `ui/vite.config.js` computes it.
fn hash_of_sources() -> String {
    let mut found = Vec::new();
    files(&ui().join("src"), &mut found);
    found.extend(
        ["package-lock.json", "vite.config.js", "tsconfig.json"].map(|name| ui().join(name)),
    );
    let name = |path: &PathBuf| {
        path.strip_prefix(ui()).expect("a file of ui").to_string_lossy().into_owned()
    };
    let mut found: Vec<(String, PathBuf)> =
        found.into_iter().map(|path| (name(&path), path)).collect();
    found.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for (name, path) in found {
        add(name.as_bytes());
        add(b"\0");
        add(&std::fs::read(path).expect("a readable file"));
    }
    format!("{hash:016x}")
}

#[test]
fn the_build_is_of_these_sources() {
    let built =
        std::fs::read_to_string(ui().join("dist/sources.txt")).expect("ui/dist is committed");
    assert_eq!(
        built.trim(),
        hash_of_sources(),
        "ui/src changed: cd ui && npm ci && npm run build, and commit ui/dist"
    );
}

#[test]
fn the_script_can_stand_inside_of_a_page() {
    let script = std::fs::read_to_string(ui().join("dist/app.js")).expect("ui/dist is committed");
    let style = std::fs::read_to_string(ui().join("dist/app.css")).expect("ui/dist is committed");
    for text in ["</script", "<!--", "https://"] {
        assert!(!script.contains(text), "{text} in app.js");
        assert!(!style.contains(text), "{text} in app.css");
    }
    assert!(script.contains("fathom-data"));
    assert!(!style.contains("</style") && !style.contains("@import"));
}

/// What vite runs on (its `engines` in ui/package-lock.json); Debian 12 has Node 18, which suffices for the page's other tests.
const LEAST_NODE: u32 = 20;

fn major_version_of_node() -> Option<u32> {
    let said = Command::new("node").arg("--version").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    said.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[test]
fn a_rebuild_gives_the_same_bytes() {
    if !ui().join("node_modules/.bin/vite").exists() {
        println!("skipped: the packages of ui are not installed: cd ui && npm ci");
        return;
    }
    let node = major_version_of_node().expect("who installed the packages has Node");
    if node < LEAST_NODE {
        println!("skipped: vite needs Node {LEAST_NODE} or newer, this is {node}");
        return;
    }
    let out = std::env::temp_dir().join(format!("fathom-ui-{}", std::process::id()));
    let built = Command::new("node_modules/.bin/vite")
        .args(["build", "--logLevel", "error"])
        .env("FATHOM_UI_OUT", &out)
        .current_dir(ui())
        .status()
        .expect("vite starts");
    assert!(built.success());
    for name in ["app.js", "app.css", "hashes.txt", "engine.txt", "sources.txt"] {
        let read = |folder: &Path| std::fs::read(folder.join(name)).expect("a built file");
        assert!(
            read(&out) == read(&ui().join("dist")),
            "{name} differs: npm run build, and commit ui/dist"
        );
    }
    std::fs::remove_dir_all(&out).expect("our own folder");
}
