//! Objects of an S3 store: read, written, removed, listed; each request signed.
//!
//! What for: datasets at `s3://BUCKET/PREFIX`. Where the store is and who asks is in the variables that all programs of S3 read:
//! `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` (stores of others than Amazon), `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
//! `AWS_SESSION_TOKEN`. What not: keys in files or from a machine's role (`aws configure export-credentials --format env` prints
//! them), large objects: the files of a dataset are small.
//!
//! Assumption: a store shows an object at once and whole, as S3 does since 2020.

mod sign;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use self::sign::Key;
use self::sign::{Signed, encoded, headers};
use crate::http::{Address, Answer, Request, ask};

/// A store that takes longer for an object is taken for dead.
const PATIENCE: Duration = Duration::from_secs(60);
/// Waits before a busy store is asked again, seconds.
const AGAIN: [u64; 3] = [1, 3, 9];

/// What can go wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The name or a variable is wrong, or the key does not suffice.
    Refused(String),
    /// The store is away, busy or full.
    Away(String),
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreError::Refused(what) | StoreError::Away(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {}

/// The objects of a bucket whose names begin alike.
#[derive(Clone, PartialEq, Eq)]
pub struct Bucket {
    /// `s3://BUCKET/PREFIX`, as typed.
    pub name: String,
    pub bucket: String,
    /// Without slashes at its ends; may be empty.
    pub prefix: String,
    pub region: String,
    pub key: Key,
    /// A store of somebody else than Amazon.
    pub endpoint: Option<Address>,
}

impl Bucket {
    /// Whether a text is the name of objects in a store.
    pub fn is_named(text: &str) -> bool {
        text.starts_with("s3://")
    }

    /// By its name, and what `variable` says.
    pub fn new(
        name: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Bucket, StoreError> {
        let refused = |what: String| Err(StoreError::Refused(what));
        let set = |names: &[&str]| {
            names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))
        };
        let place = name.strip_prefix("s3://").unwrap_or_default().trim_end_matches('/');
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_plain) {
            return refused(format!("'{name}' names no bucket: s3://BUCKET/PREFIX"));
        }
        if prefix.split('/').any(|part| part.is_empty() && !prefix.is_empty())
            || prefix.contains(char::is_control)
        {
            return refused(format!("'{name}': a prefix has no empty part"));
        }
        let id = set(&["AWS_ACCESS_KEY_ID"]);
        let Some((id, secret)) = id.zip(set(&["AWS_SECRET_ACCESS_KEY"])) else {
            return refused(format!(
                "no key for {name}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; from a profile or a role of AWS:  eval \"$(aws \
                 configure export-credentials --format env)\""
            ));
        };
        let endpoint = match set(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]) {
            None => None,
            Some(text) => match text.parse::<Address>() {
                Ok(address) => Some(address),
                Err(why) => return refused(format!("AWS_ENDPOINT_URL_S3: {why}")),
            },
        };
        Ok(Bucket {
            name: format!("s3://{place}"),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            region: set(&["AWS_REGION", "AWS_DEFAULT_REGION"]).unwrap_or("us-east-1".to_owned()),
            key: Key { id, secret, token: set(&["AWS_SESSION_TOKEN"]) },
            endpoint,
        })
    }

    /// The host to ask, and the path of the bucket there.
    fn address(&self) -> Address {
        match &self.endpoint {
            Some(endpoint) => {
                let path = format!("{}/{}", endpoint.path.trim_end_matches('/'), self.bucket);
                Address { path, ..endpoint.clone() }
            }
            None => Address {
                is_secure: true,
                host: format!("{}.s3.{}.amazonaws.com", self.bucket, self.region),
                port: 443,
                path: String::new(),
            },
        }
    }

    /// The bucket with the prefix, as an address of the web: engines take that.
    pub fn url(&self) -> String {
        let Address { is_secure, path, .. } = self.address();
        let scheme = if is_secure { "https" } else { "http" };
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("{scheme}://{}{path}{slash}{}", self.address().authority(), self.prefix)
    }

    /// An object below the prefix; `None` where there is none.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Answer { status, body } = self.ask("GET", &self.key_of(name), "", &[])?;
        match status {
            200 => Ok(Some(body)),
            404 if !is_code(&body, "NoSuchBucket") => Ok(None),
            _ => Err(self.failed("read", name, status, &body)),
        }
    }

    /// Writes an object, whole or not at all.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let Answer { status, body } = self.ask("PUT", &self.key_of(name), "", bytes)?;
        if status == 200 { Ok(()) } else { Err(self.failed("write", name, status, &body)) }
    }

    /// Removes an object, if it is there.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let Answer { status, body } = self.ask("DELETE", &self.key_of(name), "", &[])?;
        match status {
            200 | 204 | 404 => Ok(()),
            _ => Err(self.failed("remove", name, status, &body)),
        }
    }

    /// Names of the first objects below the prefix, as the store sorts them; at most so many.
    pub fn first_names(&self, most: u32) -> Result<Vec<String>, StoreError> {
        let prefix = self.key_of("");
        let query = format!("list-type=2&max-keys={most}&prefix={}", encoded(&prefix, false));
        let Answer { status, body } = self.ask("GET", "", &query, &[])?;
        if status != 200 {
            return Err(self.failed("list", "", status, &body));
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        let found = elements(&text, "Key").into_iter();
        Ok(found.map(|key| key.strip_prefix(&prefix).unwrap_or(&key).to_owned()).collect())
    }

    fn key_of(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }

    /// Asks until the store is not busy. `key`: of an object; empty for the bucket.
    fn ask(&self, method: &str, key: &str, query: &str, body: &[u8]) -> Result<Answer, StoreError> {
        let mut waits = AGAIN.iter();
        loop {
            let answer = self.ask_once(method, key, query, body)?;
            match waits.next().filter(|_| [500, 502, 503, 504].contains(&answer.status)) {
                Some(seconds) => std::thread::sleep(Duration::from_secs(*seconds)),
                None => return Ok(answer),
            }
        }
    }

    fn ask_once(
        &self,
        method: &str,
        key: &str,
        query: &str,
        body: &[u8],
    ) -> Result<Answer, StoreError> {
        let mut address = self.address();
        let path = format!("{}/{}", address.path, encoded(key, true));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let authority = address.authority();
        let signed = Signed {
            method,
            authority: &authority,
            path: &path,
            query,
            body,
            region: &self.region,
            time: &time(since),
        };
        let headers = headers(&self.key, &signed);
        address.path = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let request = Request { method, headers, body, patience: Some(PATIENCE) };
        ask(&address, &request)
            .map_err(|error| StoreError::Away(format!("{} at {authority}: {error}", self.name)))
    }

    fn failed(&self, what: &str, name: &str, status: u16, body: &[u8]) -> StoreError {
        let text = String::from_utf8_lossy(body).into_owned();
        let said = elements(&text, "Message").into_iter().next().unwrap_or_default();
        let said: String = said.chars().filter(|letter| !letter.is_control()).take(300).collect();
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        let text = format!("cannot {what} {}{name}: the store answered {status}{said}", self.name);
        match status {
            408 | 429 | 500.. => StoreError::Away(text),
            _ => StoreError::Refused(text),
        }
    }
}

/// `20261126T180000Z`.
fn time(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let day = ::dataset::date(seconds).replace('-', "");
    format!("{day}T{hour:02}{minute:02}{second:02}Z")
}

/// Whether an error of a store is this one.
fn is_code(body: &[u8], code: &str) -> bool {
    elements(&String::from_utf8_lossy(body), "Code").iter().any(|found| found == code)
}

/// The contents of all elements of this name in XML, as far as a store writes it.
fn elements(text: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts = text.split(&open).skip(1).filter_map(|part| Some(part.split_once(&close)?.0));
    let plain = |part: &str| {
        let quotes = part.replace("&quot;", "\"").replace("&apos;", "'");
        quotes.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    };
    parts.map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, variables: &[(&str, &str)]) -> Result<Bucket, StoreError> {
        let keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let all: Vec<_> = variables.iter().chain(&keys).collect();
        Bucket::new(name, |name| {
            let found = all.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn stores_are_found_by_the_usual_variables() {
        let url = |name: &str, variables: &[(&str, &str)]| of(name, variables).map(|it| it.url());
        let amazon = "https://b.s3.eu-west-1.amazonaws.com/a/c".to_owned();
        assert_eq!(url("s3://b/a/c/", &[("AWS_REGION", "eu-west-1")]), Ok(amazon));
        let own = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")];
        assert_eq!(url("s3://b", &own), Ok("http://127.0.0.1:9000/b".to_owned()));
        let refused = |name: &str, variables: &[(&str, &str)]| match of(name, variables) {
            Err(StoreError::Refused(what)) => what,
            _ => panic!("{name} was taken"),
        };
        assert!(refused("s3://", &[]).contains("names no bucket"));
        assert!(refused("s3://a b/c", &[]).contains("names no bucket"));
        assert!(refused("s3://a//c", &[]).contains("empty part"));
        assert!(refused("s3://a", &[("AWS_ACCESS_KEY_ID", "")]).contains("no key for s3://a"));
        assert!(refused("s3://a", &[("AWS_ENDPOINT_URL", "x")]).contains("no address"));
    }

    #[test]
    fn what_stores_write_is_read() {
        let text = "<?xml?><L><Contents><Key>a/&lt;&amp;</Key></Contents><Contents><Key>b</Key></Contents><Key>";
        assert_eq!(elements(text, "Key"), ["a/<&", "b"]);
        assert!(is_code(b"<Error><Code>NoSuchBucket</Code></Error>", "NoSuchBucket"));
        assert_eq!(time(1_795_651_199), "20261125T235959Z");
    }
}
