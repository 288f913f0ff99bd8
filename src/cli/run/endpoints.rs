//! What the operator answers to others: metrics on one port, probes on another.
//!
//! The ports are taken before any work is done: a port that is in use is a mistake in the arguments, and told as one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::flags;
use crate::controller::Operator;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::scrape;
use crate::telemetry::metrics::text::CONTENT_TYPE;
use crate::telemetry::serve::access::Access;
use crate::telemetry::serve::address::{self, AddressError};
use crate::telemetry::serve::tls::{self, Own, Renewed, TlsError};
use crate::telemetry::serve::{Handler, Page, published, serve, text};
use crate::telemetry::subject::{Subject, Subjects};

#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The ports, and what they are about.
pub struct Endpoints {
    subject: watch::Sender<Subject>,
    /// What is served where nobody gave a certificate.
    certificate: Option<Arc<Own>>,
}

/// Where an address of its own was left empty.
const METRICS: &str = ":8080";

impl Endpoints {
    /// Takes the ports and answers from now on, as far as there is something to say.
    pub async fn open(metrics: &flags::Metrics, health: &flags::Health) -> Result<Self, EndpointError> {
        let (subject, subjects) = watch::channel(Subject::default());
        let mut certificate = None;
        let address = Some(metrics.metrics_bind_address.as_str()).filter(|it| !it.is_empty()).unwrap_or(METRICS);
        if let Some(listener) = address::listen(address, "--metrics-bind-address").await? {
            let secured = match (metrics.metrics_secure, metrics.metrics_cert_path.as_deref()) {
                (false, _) => None,
                (true, Some(dir)) => Some(tls::acceptor(Arc::new(Renewed::read(dir)?), metrics.enable_http2)?),
                (true, None) => {
                    let own = certificate.insert(Arc::new(Own::new()?)).clone();
                    Some(tls::acceptor(own, metrics.enable_http2)?)
                }
            };
            let access = metrics.metrics_require_rbac.then(Access::default);
            start("metrics", listener, secured, metrics_handler(subjects.clone(), access));
        }
        let flag = "--health-probe-bind-address";
        if let Some(listener) = address::listen(&health.health_probe_bind_address, flag).await? {
            let handler = Health::new(subjects, health.liveness_patience).handler();
            start("probes", listener, None, handler);
        }
        Ok(Endpoints { subject, certificate })
    }

    /// From now on they are about an operator that is not connected, with a Lease of this name.
    pub fn disconnected(&self, lease: Option<Arc<str>>) {
        self.subject.send_replace(Subject { operator: None, lease });
    }

    /// From now on they are about this operator, until `stop`.
    pub fn connected(&self, operator: &Operator, stop: &CancellationToken) {
        self.subject.send_modify(|subject| subject.operator = Some(operator.clone()));
        if let (Some(own), Some(namespace)) = (&self.certificate, own_namespace(std::env::var("POD_NAMESPACE").ok())) {
            let sharing = published::share(operator.client.clone(), namespace, own.clone());
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(sharing).await });
        }
    }
}

/// The namespace that the operator runs in. Outside of a cluster there is none, and nothing to share a certificate with.
fn own_namespace(named: Option<String>) -> Option<String> {
    named.filter(|name| !name.trim().is_empty())
}

fn start(what: &str, listener: TcpListener, tls: Option<TlsAcceptor>, handler: Handler) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(address = address.to_string(), secure = tls.is_some(), "serving {what}");
    }
    tokio::spawn(serve(listener, tls, handler));
}

/// For so long a scrape is answered with the last one.
const SHARED: Duration = Duration::from_secs(1);

/// Scrapes, one at a time, and not on the threads that renew the Lease and answer probes.
#[derive(Clone)]
struct Scrapes {
    subjects: Subjects,
    last: Arc<Mutex<Option<(Instant, Page)>>>,
}

impl Scrapes {
    async fn page(&self) -> Option<Page> {
        let mut last = self.last.lock().await;
        if let Some((_, page)) = last.as_ref().filter(|(at, _)| at.elapsed() < SHARED) {
            return Some(page.clone());
        }
        let subject = self.subjects.borrow().clone();
        let page = tokio::task::spawn_blocking(move || Page::new(scrape::scrape(&subject))).await.ok()?;
        *last = Some((Instant::now(), page.clone()));
        Some(page)
    }
}

fn metrics_handler(subjects: Subjects, access: Option<Access>) -> Handler {
    let access = access.map(Arc::new);
    let scrapes = Scrapes { subjects, last: Arc::default() };
    Arc::new(move |question| {
        let (scrapes, access) = (scrapes.clone(), access.clone());
        async move {
            if question.uri().path() != "/metrics" {
                return text(StatusCode::NOT_FOUND, "404 page not found\n");
            }
            let client = scrapes.subjects.borrow().operator.as_ref().map(|operator| operator.client.clone());
            if let Some(access) = &access
                && let Some(refusal) = access.refusal(&question, client).await
            {
                return refusal;
            }
            match scrapes.page().await {
                Some(page) => page.answer(&question, CONTENT_TYPE),
                None => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n"),
            }
        }
        .boxed()
    })
}
