//! One event on its way to a webhook: an HTTP request with a signature, of whose answer only the status counts.

use super::address::{self, Lookup};
use crate::Options;
use crate::clock::now_ms;
use crate::events::Told;
use crate::outgoing::{self, words};
use engine::storage::{Event, Webhook};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{Client, header};
use sha2::Sha256;

/// The header with the signature.
pub(crate) const SIGNATURE: &str = "x-sandboxd-signature";
/// How much of an answer is read, so that its connection can be used again.
const MOST_READ: usize = 64 * 1024;

/// What sends events.
pub(super) struct Sender {
    client: Client,
    allow_private: bool,
}

impl Sender {
    pub(super) fn new(options: &Options) -> Result<Sender, String> {
        let allow_private = options.webhooks_allow_private;
        let client = outgoing::client()
            .dns_resolver(Lookup { allow_private })
            .timeout(options.webhook_timeout)
            .build();
        Ok(Sender { client: client.map_err(|error| words(&error))?, allow_private })
    }

    /// Sends an event. Anything but a status of 2xx in time is a failure, with what it was.
    pub(super) async fn send(&self, hook: &Webhook, event: &Event) -> Result<(), String> {
        if let Some(fault) = address::fault(&hook.url, self.allow_private) {
            return Err(fault.into());
        }
        let body = serde_json::to_string(&Told::of(event)).map_err(|error| error.to_string())?;
        let sent = self
            .client
            .post(&hook.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(SIGNATURE, signature(&hook.secret, now_ms() / 1000, &body))
            .header("x-sandboxd-event", &event.event.kind)
            .header("x-sandboxd-delivery", event.sequence)
            .body(body)
            .send()
            .await;
        let mut answer = sent.map_err(|error| words(&error))?;
        let status = answer.status();
        let mut left = MOST_READ;
        while let Ok(Some(chunk)) = answer.chunk().await
            && chunk.len() <= left
        {
            left -= chunk.len();
        }
        match status.is_success() {
            true => Ok(()),
            false => Err(format!("the answer was {}", status.as_u16())),
        }
    }
}

/// `t=<seconds>,v1=<HMAC-SHA256 of "<seconds>.<body>">`: nobody else can have written it, nor can it be sent again
/// later.
pub(crate) fn signature(secret: &str, at: i64, body: &str) -> String {
    // Any length of key will do for HMAC.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{at}.{body}").as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={at},v1={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By another implementation: `printf '1700000000.{"id":1}' | openssl dgst -sha256 -hmac whsec_test`.
    #[test]
    fn a_signature_is_what_others_compute() {
        let expected = "t=1700000000,v1=2f441ba4b3b2d50d28a9ab9d9fd8880376ecd1eb5d0435401553f5d8d0a5dcf8";
        assert_eq!(signature("whsec_test", 1_700_000_000, r#"{"id":1}"#), expected);
        assert_ne!(signature("whsec_tesT", 1_700_000_000, r#"{"id":1}"#), expected);
    }
}
