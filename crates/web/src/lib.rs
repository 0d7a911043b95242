//! The page with all views: as one self-contained file ([`page`]), or from a local server ([`Server`]).
//!
//! What for: everything that a browser receives. The page's program is `ui/dist`, built from `ui/src` and embedded here, so that
//! a user needs no Node. What not: computing figures (`report`), printing, starting a browser, opening a recording.
//!
//! Names from programs are hostile text. They travel as JSON in an element that no browser executes, with every `<` escaped. A
//! Content Security Policy runs only our own script and style, known by their hashes.

#![forbid(unsafe_code)]

mod bundle;
mod compact;
mod connections;
mod content;
mod error;
mod fleet;
mod glance;
mod http;
mod layout;
mod pack;
mod page;
mod query;
mod server;
mod texts;
mod window;

pub use content::{Carried, ComparedResult, EMBEDDED, FactsOf, KeptOrMade, Made, Site, Subject};
pub use error::WebError;
pub use fleet::{Across, FLEET, Fleet};
pub use page::page;
pub use server::{Server, serve_text};
