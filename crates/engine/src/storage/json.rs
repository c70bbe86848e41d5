//! JSON that the database keeps and never looks into.

use super::bounds::{self, MAX_SPEC};
use super::error::StoreError;
use super::statement::Value;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// JSON as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(String);

impl Json {
    /// Of a value. Fails only for what JSON has no words for, such as keys of maps that are no text.
    pub fn of(value: &impl Serialize) -> Result<Json, StoreError> {
        serde_json::to_string(value).map(Json).map_err(|e| StoreError::Broken(e.to_string()))
    }

    /// As a value again.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        serde_json::from_str(&self.0).map_err(|e| StoreError::Broken(format!("stored JSON is damaged: {e}")))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What was stored is taken as it is.
    pub(crate) fn stored(text: String) -> Json {
        Json(text)
    }

    pub(crate) fn check(&self, field: &'static str) -> Result<(), StoreError> {
        self.check_within(field, MAX_SPEC)
    }

    pub(crate) fn check_within(&self, field: &'static str, limit: usize) -> Result<(), StoreError> {
        bounds::text(field, &self.0, limit)
    }
}

impl From<&Json> for Value {
    fn from(json: &Json) -> Value {
        json.0.as_str().into()
    }
}
