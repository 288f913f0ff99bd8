//! Connections that fall silent with the Lease. They know nothing of what they carry.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::Service;

use super::Guard;

/// Makes connections that ask the guard before they send anything.
#[derive(Clone, Debug)]
pub struct GuardedConnector<C> {
    connector: C,
    guard: Guard,
}

impl<C> GuardedConnector<C> {
    pub fn new(connector: C, guard: Guard) -> Self {
        GuardedConnector { connector, guard }
    }
}

impl<C> Service<Uri> for GuardedConnector<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Error: 'static,
{
    type Response = Wire<C::Response>;
    type Error = C::Error;
    type Future = BoxFuture<'static, Result<Self::Response, C::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let guard = self.guard.clone();
        self.connector.call(server).map_ok(|wire| Wire { wire, guard }).boxed()
    }
}

/// A connection, below its encryption.
#[derive(Debug)]
pub struct Wire<W> {
    wire: W,
    guard: Guard,
}

impl<W: Connection> Connection for Wire<W> {
    fn connected(&self) -> Connected {
        self.wire.connected()
    }
}

impl<W: Read + Unpin> Read for Wire<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_read(context, buffer)
    }
}

impl<W: Write + Unpin> Write for Wire<W> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.guard.check_wire()?;
        Pin::new(&mut self.wire).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.guard.check_wire()?;
        Pin::new(&mut self.wire).poll_write_vectored(context, buffers)
    }
}
