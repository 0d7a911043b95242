//! The page about many results: what a dataset says of hosts, programs and functions.
//!
//! What for: `fathom open DATASET`. Answers come from whoever opens the page, who has a query engine. What not: SQL (`dataset`),
//! single results (`content`).

use serde_json::json;

use crate::WebError;
use crate::compact::compact;
use crate::content::{Carried, Subject};

/// Questions of the page: those of `fathom across` with these names.
pub const FLEET: [&str; 3] = ["results", "top-functions", "trend"];

/// Answers a question of [`FLEET`] with a view as JSON, or says why not.
pub type Across<'a> = dyn Fn(&str) -> Result<String, String> + Sync + 'a;

/// A dataset that a page shows.
pub struct Fleet<'a> {
    name: String,
    across: &'a Across<'a>,
}

impl<'a> Fleet<'a> {
    /// `name` is what the user calls the dataset.
    #[must_use]
    pub fn new(name: &str, across: &'a Across<'a>) -> Fleet<'a> {
        Fleet { name: name.to_owned(), across }
    }
}

impl Subject for Fleet<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, question: &str) -> Result<String, WebError> {
        let asked = FLEET.iter().find(|name| **name == question);
        let asked = asked.ok_or_else(|| WebError::Query(question.to_owned()))?;
        (self.across)(asked).map(|answer| compact(&answer)).map_err(WebError::Across)
    }

    fn ahead(&self) -> &'static [&'static str] {
        &FLEET
    }

    fn data(&self, everything: bool) -> Carried {
        let head = json!({
            "mode": if everything { "file" } else { "server" },
            "result": self.name,
            "problems": [],
            "compares": false,
            "scales": false,
            "fleet": true,
        });
        let answer = |question: &&str| {
            let failed = |error: WebError| json!({ "error": error.to_string() }).to_string();
            ((*question).to_owned(), self.answer(question).unwrap_or_else(failed))
        };
        let asked: &[&str] = if everything { &FLEET } else { &[] };
        Carried {
            head: head.to_string(),
            documents: asked.iter().map(answer).collect(),
            engine: false,
        }
    }
}
