//! Signatures of requests to an S3 store: AWS Signature Version 4.
//!
//! What not: sending (`s3`). Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub id: String,
    /// What only its owner knows.
    pub secret: String,
    /// Of a key for a while.
    pub token: Option<String>,
}

/// What is signed.
pub struct Signed<'a> {
    pub method: &'a str,
    /// As in a `Host` header.
    pub authority: &'a str,
    /// Encoded, without the query.
    pub path: &'a str,
    /// Encoded names and values in the order of their names.
    pub query: &'a str,
    pub body: &'a [u8],
    /// Where the store is, such as `eu-west-1`.
    pub region: &'a str,
    /// `20261126T180000Z`.
    pub time: &'a str,
}

/// In hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The keyed hash of a text.
fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

/// The headers that prove who asks.
pub fn headers(key: &Key, request: &Signed<'_>) -> Vec<(String, String)> {
    let hash = hex(&Sha256::digest(request.body));
    let mut signed = vec![
        ("host", request.authority.to_owned()),
        ("x-amz-content-sha256", hash.clone()),
        ("x-amz-date", request.time.to_owned()),
    ];
    signed.extend(key.token.clone().map(|token| ("x-amz-security-token", token)));
    let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let Signed { method, path, query, region, time, .. } = request;
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{hash}");
    let day = time.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(&canonical)));
    let first = format!("AWS4{}", key.secret).into_bytes();
    let parts = [day, region, "s3", "aws4_request", &text];
    let signature = parts.iter().fold(first, |key, part| keyed(&key, part));
    let proof = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={}",
        key.id,
        hex(&signature)
    );
    let sent = signed.into_iter().filter(|(name, _)| *name != "host");
    let sent = sent.map(|(name, value)| (name.to_owned(), value));
    sent.chain([("Authorization".to_owned(), proof)]).collect()
}

/// A part of a path or a query, as all sides write it before they sign it.
pub fn encoded(text: &str, keeps_slashes: bool) -> String {
    let one = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        b'/' if keeps_slashes => "/".to_owned(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the source.
    #[test]
    fn the_examples_of_the_documentation() {
        let key = Key {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let signature = |query: &str| {
            let request = Signed {
                method: "GET",
                authority: "examplebucket.s3.amazonaws.com",
                path: "/",
                query,
                body: b"",
                region: "us-east-1",
                time: "20130524T000000Z",
            };
            let headers = headers(&key, &request);
            let (_, proof) = headers.last().expect("a signature");
            proof.rsplit_once("Signature=").expect("it").1.to_owned()
        };
        assert_eq!(
            signature("lifecycle="),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("max-keys=2&prefix=J"),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
        assert_eq!(encoded("a/date=2026/ü~", true), "a/date%3D2026/%C3%BC~");
        assert_eq!(encoded("a/b", false), "a%2Fb");
    }
}
