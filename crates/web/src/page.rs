//! The page as one text.
//!
//! What not: answers to questions (`content`). Order: the page's subject, the summary, our program, then the other
//! documents. So the summary is on the screen while the browser reads the rest, which may be megabytes, and a
//! truncated page shows everything before the cut. The server's page has no summary, which takes seconds for a very
//! large recording; it has what is known without one. Long documents are packed, but for the summary: unpacking takes the
//! browser a turn.

use serde_json::json;

use crate::bundle::{SCRIPT, STYLE, policy};
use crate::content::{Carried, Subject, engine};
use crate::pack::packed;

/// Bytes of a page with the SQL engine, at most: mail takes that, and a browser reads it at once.
const MOST_BYTES: usize = 6_000_000;
/// Bytes of a document from which on packing it is worth a turn of the browser.
const LONG: usize = 4_000;

/// One file with everything in it: no network, no other file. Opens from disk.
#[must_use]
pub fn page(site: &dyn Subject) -> String {
    html(site, &site.data(true), &policy("'none'"))
}

/// The page that a server gives: it says what ran, and asks for all figures.
pub(crate) fn of_server(site: &dyn Subject) -> String {
    html(site, &site.data(false), &policy("'self'"))
}

fn html(site: &dyn Subject, data: &Carried, policy: &str) -> String {
    let title = escaped(site.name());
    let mut documents = data.documents.iter();
    let first = documents.next().map_or_else(String::new, plain_document);
    let rest: String = documents.map(document).collect();
    let head = json_element("fathom-data", &data.head);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title} - Fathom</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <div id=\"app\"><p>Reading the result. If this stays, the page was cut off or scripts are not allowed.</p></div>\n\
         {head}{first}<script>{SCRIPT}</script>\n{rest}"
    );
    if data.engine {
        let engine = engine();
        let answer = if html.len() + engine.len() <= MOST_BYTES { engine } else { no_engine() };
        html.push_str(&plain_document(&("engine".to_owned(), answer)));
    }
    html + &json_element("fathom-end", "{}") + "</body>\n</html>\n"
}

fn no_engine() -> String {
    let most = MOST_BYTES as f64 / 1e6;
    let says = format!(
        "this file has no SQL engine: with it, it would have more than {most} MB. `fathom open` has it"
    );
    json!({ "absent": says }).to_string()
}

fn document(one: &(String, String)) -> String {
    let (question, answer) = one;
    if answer.len() < LONG {
        return plain_document(one);
    }
    let (question, answer) = (escaped(question), packed(answer));
    format!("<script type=\"application/gzip\" id=\"doc {question}\">{answer}</script>\n")
}

fn plain_document((question, answer): &(String, String)) -> String {
    json_element(&format!("doc {}", escaped(question)), answer)
}

/// Text that no browser executes. In JSON a `<` is only in texts, where \u003c means the same.
fn json_element(id: &str, json: &str) -> String {
    let json = json.replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{id}\">{json}</script>\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
