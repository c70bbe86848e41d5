//! How long and how slow a body may be. It is counted as it comes, whatever its length was said to be.

use crate::{Problem, State};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Why a body was not taken to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is longer than allowed")]
    TooLarge,
    #[error("the body came too slowly")]
    TooSlow,
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Problem {
        match error {
            BodyError::TooLarge => {
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", error.to_string())
            }
            BodyError::TooSlow => {
                Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", error.to_string())
            }
        }
    }
}

/// The request with a body that is watched.
pub(super) fn watch(state: &State, request: Request) -> Result<Request, Problem> {
    let options = state.options();
    let said =
        request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if said.is_some_and(|said: u64| said > options.max_body) {
        return Err(BodyError::TooLarge.into());
    }
    Ok(request.map(|body| {
        if body.is_end_stream() {
            return body;
        }
        Body::new(Inflow {
            body,
            left: options.max_body,
            patience: options.body_timeout,
            rate: options.min_body_rate.max(1),
            waiting: None,
        })
    }))
}

/// A body that is watched.
struct Inflow {
    body: Body,
    /// Bytes that may still come.
    left: u64,
    /// Time that may still pass. Bytes that come are worth some.
    patience: Duration,
    rate: u64,
    /// Since when we wait, and when patience ends. Time in which nobody wants the body does not count.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl HttpBody for Inflow {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            let patience = this.patience;
            let (_, sleep) = this.waiting.get_or_insert_with(|| {
                let now = Instant::now();
                (now, Box::pin(tokio::time::sleep_until(now + patience)))
            });
            ready!(sleep.as_mut().poll(context));
            return Poll::Ready(Some(Err(BodyError::TooSlow.into())));
        };
        if let Some((since, _)) = this.waiting.take() {
            this.patience = this.patience.saturating_sub(since.elapsed());
        }
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame.map(|f| f.map_err(Into::into))) };
        let size = frame.data_ref().map_or(0, |data| data.len() as u64);
        let Some(left) = this.left.checked_sub(size) else {
            return Poll::Ready(Some(Err(BodyError::TooLarge.into())));
        };
        this.left = left;
        this.patience += Duration::from_secs_f64(size as f64 / this.rate as f64);
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

use std::future::Future;
