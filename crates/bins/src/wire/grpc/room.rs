//! Room for connections: so many at once, and the next is taken when one has ended. Owns that bound; bytes pass untouched.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::Connected;

/// A connection that holds its place.
#[derive(Debug)]
pub(super) struct Held<T> {
    inner: T,
    _place: OwnedSemaphorePermit,
}

/// The connections of a socket, at most so many at once.
pub(super) fn bounded<S, T>(incoming: S, most: usize) -> impl Stream<Item = io::Result<Held<T>>>
where
    S: Stream<Item = io::Result<T>> + Unpin,
{
    let room = Arc::new(Semaphore::new(most));
    futures::stream::unfold((incoming, room), |(mut incoming, room)| async move {
        // Never closed while it is here.
        let place = Arc::clone(&room).acquire_owned().await.ok()?;
        let next = futures::StreamExt::next(&mut incoming).await?;
        Some((next.map(|inner| Held { inner, _place: place }), (incoming, room)))
    })
}

impl<T: Connected> Connected for Held<T> {
    type ConnectInfo = T::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.inner.connect_info()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Held<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Held<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
