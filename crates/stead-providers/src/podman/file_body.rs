//! A file as the body of a request, read on a blocking thread.

use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

const PIECE: usize = 256 << 10;

pub(super) struct FileBody {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl FileBody {
    pub(super) fn of(mut file: File) -> Self {
        let (sender, pieces) = mpsc::channel(4);
        tokio::task::spawn_blocking(move || {
            loop {
                let mut piece = vec![0; PIECE];
                let read = file.read(&mut piece).map(|count| {
                    piece.truncate(count);
                    Bytes::from(piece)
                });
                let last = !matches!(&read, Ok(piece) if !piece.is_empty());
                let ended = matches!(&read, Ok(piece) if piece.is_empty());
                // A send fails if the request was cancelled.
                if ended || sender.blocking_send(read).is_err() || last {
                    return;
                }
            }
        });
        Self { pieces }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
