//! Objects in an S3-compatible store.

use super::Objects;
use crate::storage::error::StoreError;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How to reach a bucket.
#[derive(Clone, Default)]
pub struct S3Settings {
    /// `s3://bucket`, or `s3://bucket/prefix`.
    pub url: String,
    /// Where the store is, if it is not Amazon's; `http://` is allowed.
    pub endpoint: Option<String>,
    /// `us-east-1` if there is none.
    pub region: Option<String>,
    /// Without it and the secret, the role of the machine is asked for some.
    pub access_key_id: Option<String>,
    /// The secret.
    pub secret_access_key: Option<String>,
}

impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("S3Settings");
        shown.field("url", &self.url).field("region", &self.region).finish_non_exhaustive()
    }
}

/// How long the store may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// How long what failed is tried again.
const INSIST: Duration = Duration::from_secs(15);

impl Objects {
    /// In a bucket that exists.
    pub fn in_s3(settings: &S3Settings) -> Result<Objects, StoreError> {
        let wrong = |message: &str, hint| StoreError::Settings { message: message.into(), hint };
        let place = settings.url.strip_prefix("s3://").unwrap_or_default();
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() {
            return Err(wrong("the URL of the object store names no bucket", "use `s3://bucket/prefix`"));
        }
        if settings.access_key_id.is_some() != settings.secret_access_key.is_some() {
            return Err(wrong("the object store has half of its credentials", "give both of them or none"));
        }
        // This library leaves the choice to the program, and nobody may have made it; if somebody has, that one stays.
        drop(rustls::crypto::ring::default_provider().install_default());
        let options = ClientOptions::new().with_allow_http(true).with_timeout(SILENCE);
        let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 3, retry_timeout: INSIST };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(settings.region.as_deref().unwrap_or("us-east-1"))
            .with_client_options(options)
            .with_retry(retry);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint).with_virtual_hosted_style_request(false);
        }
        if let (Some(id), Some(secret)) = (&settings.access_key_id, &settings.secret_access_key) {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        let store =
            builder.build().map_err(|_| wrong("the object store cannot be set up", "check its endpoint"))?;
        let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|_| {
            wrong("the prefix of the object store has empty or relative parts", "use `s3://bucket/a/b`")
        })?;
        Ok(Objects { store: Arc::new(PrefixStore::new(store, prefix)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_refused_and_secrets_not_shown() {
        let half = S3Settings {
            url: "s3://b".into(),
            secret_access_key: Some("hunter2".into()),
            ..S3Settings::default()
        };
        assert!(!format!("{half:?}").contains("hunter2"));
        for settings in [half, S3Settings { url: "s3://".into(), ..S3Settings::default() }] {
            let error = Objects::in_s3(&settings).unwrap_err();
            assert!(matches!(error, StoreError::Settings { .. }), "{error}");
        }
    }
}
