//! The way of spans to a collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Where an endpoint may be named.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const SERVICE: &str = "chartwright";
/// How long one request may take, unless the environment says it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end may wait for what was not sent yet.
const LAST_MOMENT: Duration = Duration::from_secs(2);

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();
static PROBLEM: OnceLock<String> = OnceLock::new();

/// Why nothing is sent, although it was asked for.
pub fn problem() -> Option<&'static str> {
    PROBLEM.get().map(String::as_str)
}

/// Sends spans where the environment says. None where it says nothing, or nothing that could be used, which is told.
pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> Option<impl Layer<S>> {
    let is_set = |name: &&'static str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !ENDPOINTS.iter().any(is_set) {
        return None;
    }
    let provider = match provider() {
        Ok(provider) => provider,
        // Logs have not begun.
        Err(error) => {
            let _ = PROBLEM.set(format!("no traces are sent: {error}"));
            return None;
        }
    };
    let tracer = PROVIDER.get_or_init(|| provider).tracer(SERVICE);
    // Sentences are for the log.
    let is_our_span = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("chartwright"));
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    Some(layer.with_location(false).with_threads(false).with_target(false).with_filter(is_our_span))
}

/// Sends what is left.
pub async fn flush() {
    let Some(provider) = PROVIDER.get() else { return };
    // It waits on a thread of its own for answers that come in the runtime.
    let shutdown = tokio::task::spawn_blocking(|| provider.shutdown_with_timeout(LAST_MOMENT));
    match shutdown.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("the last traces could not be sent: {error}"),
        Err(error) => tracing::warn!("the last traces could not be sent: {error}"),
    }
}

fn provider() -> Result<SdkTracerProvider, Box<dyn std::error::Error>> {
    let connector = match HttpsConnectorBuilder::new().with_native_roots() {
        Ok(connector) => connector,
        // There may be none in an image, and a collector in the cluster needs none. Who uses one by TLS is told of its certificate.
        Err(_) => HttpsConnectorBuilder::new().with_tls_config(without_roots()?),
    };
    let connector = connector.https_or_http().enable_http1().build();
    let inner = HyperClient::new(connector, PATIENCE, None);
    let client = Client { inner, runtime: Handle::try_current()?, collector: Arc::default() };
    let exporter = SpanExporter::builder().with_http().with_http_client(client).build()?;
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let resource = if named { Resource::builder() } else { Resource::builder().with_service_name(SERVICE) };
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build())
}

fn without_roots() -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// Batches are sent from a thread outside of the runtime, which the connection needs.
#[derive(Debug)]
struct Client {
    inner: HyperClient<HttpsConnector<HttpConnector>>,
    runtime: Handle,
    collector: Arc<Collector>,
}

/// OpenTelemetry's own complaints are not shown, and it would tell of every batch.
#[derive(Debug, Default)]
struct Collector {
    is_away: AtomicBool,
}

impl Collector {
    /// Tells only of what is new.
    fn note(&self, sent: &Result<Response<Bytes>, HttpError>) {
        let trouble = match sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers {}", response.status())),
            Err(error) => Some(with_causes(error.as_ref())),
        };
        let was_away = self.is_away.swap(trouble.is_some(), Ordering::Relaxed);
        match (trouble, was_away) {
            (Some(trouble), false) => tracing::warn!("the collector takes no traces, and they are lost: {trouble}"),
            (None, true) => tracing::info!("the collector takes traces again"),
            _ => {}
        }
    }
}

/// The outermost says only that a request failed.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let (client, collector) = (self.inner.clone(), self.collector.clone());
        let sent = self.runtime.spawn(async move {
            let sent = client.send_bytes(request).await;
            collector.note(&sent);
            sent
        });
        Box::pin(async move { sent.await? })
    }
}
