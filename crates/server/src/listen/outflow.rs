//! The body of an answer on its way out: counted, and known to be on its way until the last of it is gone.

use super::watch::Answering;
use crate::State;
use crate::panics::guarded;
use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

pub(super) struct Outflow {
    pub(super) body: Body,
    pub(super) state: State,
    pub(super) _answering: Answering,
}

impl HttpBody for Outflow {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // What comes while it comes is still a part of the answer.
        let Ok(frame) = guarded(|| Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(Some(Err(axum::Error::new("something of ours broke"))));
        };
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.state.metrics().sent(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
