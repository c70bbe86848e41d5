//! What programs wrote, exactly, as a server keeps it.

use super::client::Client;
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Method, Response};
use serde_json::Value;

/// A stream of an execution, on its way.
pub(super) async fn open(client: &Client, execution: &str, stream: &str) -> Result<Response> {
    let path = ["api", "v1", "executions", execution, "output", stream];
    client.send(client.request(Method::GET, &path, &[])?).await
}

/// Puts output into a record that was too long to be kept in it, in the words of the record.
pub(super) async fn complete(client: &Client, execution: &str, record: &mut Value) -> Result<()> {
    for stream in ["stdout", "stderr"] {
        let wrote_nothing = record["metrics"][format!("{stream}_bytes")] == 0;
        if wrote_nothing || record[stream] != "" {
            continue;
        }
        let response = open(client, execution, stream).await?;
        let bytes = response.bytes().await.map_err(|error| client.failed(error))?;
        let Some(record) = record.as_object_mut() else { return Ok(()) };
        if std::str::from_utf8(&bytes).is_err() {
            record.insert(format!("{stream}_base64"), STANDARD.encode(&bytes).into());
        }
        record.insert(stream.into(), String::from_utf8_lossy(&bytes).into());
    }
    Ok(())
}
