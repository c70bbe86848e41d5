//! Traces over OTLP, where this build has them (feature `otel`): a span for each request, one for what the control plane
//! does about it, and one for the program. The only file that knows OpenTelemetry.

/// What the spans of traces are logged as. Nothing else goes there, and they go nowhere else.
pub(crate) const TARGET: &str = "sandboxd::trace";

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// This program was built without them.
    #[error(
        "this build of sandboxd has no traces: it takes the feature `otel`, or no `tracing.otlp_endpoint`"
    )]
    NotBuilt,
    /// What sends them cannot be made.
    #[error("traces cannot be sent: {0}")]
    Exporter(String),
}

pub use built::Traces;

#[cfg(feature = "otel")]
mod built {
    use super::{TARGET, TraceError};
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::Subscriber;
    use tracing_subscriber::Layer;
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::registry::LookupSpan;

    /// Sends spans, many at once and from a thread of its own.
    pub struct Traces(SdkTracerProvider);

    impl Traces {
        /// Sends spans to this address from now on, such as `http://localhost:4318`.
        pub fn start(endpoint: &str) -> Result<Traces, TraceError> {
            // Somebody else may have been first, with the same.
            drop(rustls::crypto::ring::default_provider().install_default());
            let endpoint = endpoint.trim_end_matches('/');
            let endpoint = match endpoint.ends_with("/v1/traces") {
                true => endpoint.to_owned(),
                false => format!("{endpoint}/v1/traces"),
            };
            let exporter = SpanExporter::builder()
                .with_http()
                .with_protocol(Protocol::HttpBinary)
                .with_endpoint(endpoint)
                .build()
                .map_err(|error| TraceError::Exporter(error.to_string()))?;
            let resource = Resource::builder().with_service_name("sandboxd").build();
            let provider = SdkTracerProvider::builder().with_resource(resource);
            Ok(Traces(provider.with_batch_exporter(exporter).build()))
        }

        /// What takes the spans.
        pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
        where
            S: Subscriber + for<'span> LookupSpan<'span>,
        {
            let layer = tracing_opentelemetry::layer().with_tracer(self.0.tracer("sandboxd"));
            // Of this program, not of its source.
            let layer = layer.with_location(false).with_threads(false).with_target(false);
            layer.with_filter(Targets::new().with_target(TARGET, tracing::Level::INFO))
        }

        /// Sends what is left.
        pub fn end(self) {
            if let Err(error) = self.0.shutdown() {
                tracing::warn!(%error, "not all traces were sent");
            }
        }
    }
}

#[cfg(not(feature = "otel"))]
mod built {
    use super::TraceError;
    use tracing::Subscriber;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::Identity;

    /// There are none in this build.
    pub enum Traces {}

    impl Traces {
        /// Says so.
        pub fn start(_: &str) -> Result<Traces, TraceError> {
            Err(TraceError::NotBuilt)
        }

        pub(crate) fn layer<S: Subscriber>(&self) -> impl Layer<S> + use<S> {
            Identity::new()
        }

        /// Nothing is left.
        pub fn end(self) {
            match self {}
        }
    }
}
