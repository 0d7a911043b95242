//! The page as one text.

use crate::bundle::{SCRIPT, STYLE, policy};
use crate::content::Site;

/// One file with everything in it: no network, no other file. Opens from disk.
#[must_use]
pub fn page(site: &Site<'_>) -> String {
    html(site.name(), &site.data(true), &policy("'none'"))
}

/// The page that a server gives: it carries the summary and asks for the rest.
pub(crate) fn served(site: &Site<'_>) -> String {
    html(site.name(), &site.data(false), &policy("'self'"))
}

fn html(title: &str, data: &str, policy: &str) -> String {
    let title = escaped(title);
    // In JSON a `<` only stands in texts, where \u003c is the same.
    let data = data.replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title} - Fathom</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <div id=\"app\"><p>Reading the result. If this stays, the page was cut off or scripts are not allowed.</p></div>\n\
         <script type=\"application/json\" id=\"fathom-data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
