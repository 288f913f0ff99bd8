//! A small web server for those who look after the operator: metrics for Prometheus, probes for the kubelet.
//!
//! It answers GET and HEAD, plain or by TLS. Whoever sends half a request is cut off, and no more are there at once than it can bear:
//! where one too many comes, the oldest goes, so that nobody can keep out the kubelet by staying. What is answered is decided elsewhere.
//!
//! | module | what is in it |
//! |---|---|
//! | [`address`] | where to listen, as Go writes it |
//! | [`tls`] | the certificate, read again when it changes |
//! | [`published`] | the certificate that replicas share and others verify |
//! | [`access`] | who may read metrics: TokenReview and SubjectAccessReview |

pub mod access;
pub mod address;
pub mod published;
pub mod tls;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::BoxFuture;
use http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use tls::HTTP_2;

pub type Answer = Response<Full<Bytes>>;
/// What is asked for, without its body: nobody reads one.
pub type Question = Request<()>;
/// Decides what is answered.
pub type Handler = Arc<dyn Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync>;

/// How long a client may take for a handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Two Prometheus servers and a person need five.
const MOST_CONNECTIONS: usize = 64;
/// Before the next try to take a connection, where the system had no room for one.
const PAUSE: Duration = Duration::from_millis(100);
/// On one connection of HTTP/2.
const MOST_STREAMS: u32 = 8;
const MOST_HEADERS: usize = 32 * 1024;
/// Whoever does not read what he asked for does not keep his place for ever. What is asked for at its end is still answered.
const LONGEST: Duration = Duration::from_secs(300);

/// Answers until the process ends.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, handler: Handler) {
    let mut guests = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let guest = tokio::spawn(welcome(stream, tls.clone(), handler.clone()));
                make_room(&mut guests, MOST_CONNECTIONS);
                guests.push_back(guest.abort_handle());
            }
            Err(error) => {
                tracing::debug!("a connection could not be taken: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Whoever comes anew asks at once; who has been there longest has had time.
fn make_room(guests: &mut VecDeque<AbortHandle>, most: usize) {
    guests.retain(|guest| !guest.is_finished());
    if guests.len() >= most
        && let Some(oldest) = guests.pop_front()
    {
        oldest.abort();
    }
}

async fn welcome(stream: TcpStream, tls: Option<TlsAcceptor>, handler: Handler) {
    let Some(tls) = tls else { return converse(stream, false, handler).await };
    match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
            converse(stream, is_http2, handler).await;
        }
        Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send, is_http2: bool, handler: Handler) {
    let service = service_fn(move |request: Request<Incoming>| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(answer(request.map(|_| ()), handler).await) }
    });
    let stream = TokioIo::new(stream);
    let ended = match is_http2 {
        false => {
            let mut connection = pin!(
                http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .max_header_size(MOST_HEADERS)
                    .serve_connection(stream, service)
            );
            match tokio::time::timeout(LONGEST, connection.as_mut()).await {
                Ok(ended) => Ok(ended),
                Err(_) => {
                    connection.as_mut().graceful_shutdown();
                    tokio::time::timeout(PATIENCE, connection).await
                }
            }
        }
        true => {
            let mut connection = pin!(
                http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .keep_alive_interval(PATIENCE)
                    .max_header_list_size(MOST_HEADERS as u32)
                    .max_concurrent_streams(MOST_STREAMS)
                    .serve_connection(stream, service)
            );
            match tokio::time::timeout(LONGEST, connection.as_mut()).await {
                Ok(ended) => Ok(ended),
                Err(_) => {
                    connection.as_mut().graceful_shutdown();
                    tokio::time::timeout(PATIENCE, connection).await
                }
            }
        }
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a connection broke: {error}"),
        Err(_) => tracing::debug!("a connection took too long"),
    }
}

async fn answer(question: Question, handler: Handler) -> Answer {
    if !matches!(*question.method(), Method::GET | Method::HEAD) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    handler(question).await
}

/// Words for a person.
pub fn text(code: StatusCode, words: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(words.into()));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

/// A large text, plain and packed. Whoever makes one does so where it holds up nobody.
#[derive(Clone)]
pub struct Page {
    plain: Bytes,
    packed: Option<Bytes>,
}

impl Page {
    pub fn new(words: String) -> Self {
        Page { packed: gzip(words.as_bytes()).map(Bytes::from), plain: words.into() }
    }

    /// Packed where the client can read that.
    pub fn answer(self, question: &Question, content_type: &'static str) -> Answer {
        let accepts = question.headers().get(ACCEPT_ENCODING).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let packed = accepts.split(',').any(|it| it.split(';').next().unwrap_or_default().trim() == "gzip");
        let mut answer = match self.packed.filter(|_| packed) {
            Some(bytes) => {
                let mut answer = text(StatusCode::OK, bytes);
                answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                answer
            }
            None => text(StatusCode::OK, self.plain),
        };
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        answer
    }
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).ok()?;
    packer.finish().ok()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn nobody_is_kept_out_by_those_who_stay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler: Handler = Arc::new(|_| async { text(StatusCode::OK, "ok") }.boxed());
        let serving = tokio::spawn(serve(listener, None, handler));
        let mut staying = vec![];
        for _ in 0..2 * MOST_CONNECTIONS {
            staying.push(TcpStream::connect(address).await.unwrap());
        }
        let mut kubelet = TcpStream::connect(address).await.unwrap();
        kubelet.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut said = String::new();
        let read = tokio::time::timeout(Duration::from_secs(1), kubelet.read_to_string(&mut said)).await;
        assert!(read.is_ok() && said.starts_with("HTTP/1.1 200"), "{said}");
        serving.abort();
    }
}
