//! The page with all views: as one self-contained file ([`page`]), or served on 127.0.0.1 ([`Server`]).
//!
//! What for: everything that a browser is given. The page's program is `ui/dist`, built from `ui/src` and embedded here,
//! so that a user needs no Node. What not: no figure is computed here (`report` does), nothing is printed, no browser is
//! started, no recording is opened.
//!
//! Names from programs are hostile text: they travel as JSON in an element that no browser executes, with every `<`
//! escaped, and a Content Security Policy lets only our own two texts, known by their hashes, run.

#![forbid(unsafe_code)]

mod bundle;
mod compact;
mod content;
mod error;
mod glance;
mod http;
mod layout;
mod page;
mod query;
mod server;
mod texts;
mod window;

pub use content::{CodeOf, EMBEDDED, Site};
pub use error::WebError;
pub use page::page;
pub use server::Server;
