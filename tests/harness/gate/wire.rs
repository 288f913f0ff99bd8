//! As much of HTTP/1.1 as the operator's client speaks: requests whose length is told, one after the other.
//!
//! A server of a library would do it too, but it would make every dependency of the operator compile twice: with its server
//! for the tests, and without.

use http::{HeaderName, Request, response};
use kube::client::Body;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One connection of the operator. None everywhere means that it has ended.
pub struct Connection(BufReader<TcpStream>);

/// What concerns one connection only.
const OF_THE_CONNECTION: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];

impl Connection {
    pub fn new(stream: TcpStream) -> Self {
        Connection(BufReader::new(stream))
    }

    pub async fn request(&mut self) -> Option<Request<Body>> {
        let first = self.line().await?;
        let mut words = first.split(' ');
        let mut request = Request::builder().method(words.next()?).uri(words.next()?);
        let mut length = 0;
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().expect("a length");
            }
            assert!(!name.eq_ignore_ascii_case("transfer-encoding"), "a request without a length: {first}");
            if !is_of_the_connection(&name.parse().expect("a header")) {
                request = request.header(name, value);
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.ok()?;
        Some(request.body(Body::from(body)).expect("a request"))
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Without a length the body comes in chunks.
    pub async fn head(&mut self, head: &response::Parts, length: Option<usize>) -> Option<()> {
        let mut text = format!("HTTP/1.1 {}\r\n", head.status);
        for (name, value) in head.headers.iter().filter(|(name, _)| !is_of_the_connection(name)) {
            text += &format!("{name}: {}\r\n", value.to_str().unwrap_or_default());
        }
        text += &match length {
            Some(length) => format!("content-length: {length}\r\n\r\n"),
            None => "transfer-encoding: chunked\r\n\r\n".to_owned(),
        };
        self.body(text.as_bytes()).await
    }

    pub async fn chunk(&mut self, data: &[u8]) -> Option<()> {
        // An empty one would be the last.
        if data.is_empty() {
            return Some(());
        }
        let framed = [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
        self.body(&framed).await
    }

    pub async fn last_chunk(&mut self) -> Option<()> {
        self.body(b"0\r\n\r\n").await
    }

    pub async fn body(&mut self, bytes: &[u8]) -> Option<()> {
        self.0.write_all(bytes).await.ok()?;
        self.0.flush().await.ok()
    }
}

fn is_of_the_connection(name: &HeaderName) -> bool {
    OF_THE_CONNECTION.contains(&name.as_str())
}
