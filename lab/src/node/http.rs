//! Requests, each on a connection of its own as strangers make them, and a steady load of them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two requests of a load: enough requests to hit a gap of some tens of milliseconds, and little work.
const PAUSE: Duration = Duration::from_millis(20);

/// The body of the answer.
///
/// # Errors
/// There is no connection, the answer is cut off, or it is not 200.
pub fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).context("no connection")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // In version 1.0 no answer comes in chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer).context("cut off")?;
    body(&String::from_utf8_lossy(&answer))
}

fn body(answer: &str) -> Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer: {answer:?}"))?;
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        bail!("{status}: {}", body.trim());
    }
    let headers = lines.filter_map(|line| line.split_once(": "));
    let length = headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, length)| length.parse().ok());
    ensure!(length.is_none_or(|length: usize| length == body.len()), "the answer is cut off");
    Ok(body.to_owned())
}

/// Requests, one after the other, until it is ended.
pub struct Load {
    ended: Arc<AtomicBool>,
    worker: JoinHandle<Tally>,
}

#[derive(Default)]
pub struct Tally {
    pub requests: usize,
    pub failures: Vec<String>,
}

impl Load {
    pub fn on(address: SocketAddr) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        let worker = std::thread::spawn(move || {
            let (mut tally, begun) = (Tally::default(), Instant::now());
            while !seen.load(Ordering::Relaxed) {
                tally.requests += 1;
                if let Err(error) = get(address, "/") {
                    tally.failures.push(format!("after {:.1} s: {error:#}", begun.elapsed().as_secs_f64()));
                }
                std::thread::sleep(PAUSE);
            }
            tally
        });
        Load { ended, worker }
    }

    pub fn end(self) -> Result<Tally> {
        self.ended.store(true, Ordering::Relaxed);
        self.worker.join().ok().context("the load ended by itself")
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} requests failed", self.failures.len(), self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn only_a_whole_answer_is_one() {
        assert_eq!(body("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap(), "hi");
        assert_eq!(body("HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\nhi").unwrap(), "hi");
        let wrong = ["", "HTTP/1.1 502 Bad Gateway\r\n\r\nno", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"];
        let wrong = wrong.map(|answer| body(answer).unwrap_err().to_string());
        assert_eq!(wrong, ["no answer: \"\"", "HTTP/1.1 502 Bad Gateway: no", "the answer is cut off"]);
    }
}
