//! Makes a `tracing` span for each task (feature `tracing`; without it the future is spawned as it is). No other file uses `tracing`.
//!
//! A span is made by the spawn, entered at each poll and at the drop of the future, and closed with the future. Its name and its fields are those by which consoles of
//! tasks know spans of tasks.

#[cfg(not(feature = "tracing"))]
mod without {
    use crate::context::SpawnSite;
    use tasuki::task::TaskId;

    /// The future as it is.
    #[inline(always)]
    pub(crate) fn traced<F>(future: F, _: TaskId, _: &'static str, _: SpawnSite<'_>) -> F {
        future
    }
}

#[cfg(feature = "tracing")]
mod with {
    use crate::context::SpawnSite;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tasuki::task::TaskId;
    use tracing::{Level, Span};

    /// A future with the span of its task.
    pub(crate) struct Traced<F> {
        /// `None` when it is dropped.
        future: Option<F>,
        span: Span,
    }

    /// The future with a span; `kind` says what kind of task it is.
    pub(crate) fn traced<F>(future: F, id: TaskId, kind: &'static str, site: SpawnSite<'_>) -> Traced<F> {
        let (name, at) = (site.name.map(|name| &**name), site.at);
        let span = tracing::span!(
            target: "tasuki_rt::task",
            Level::TRACE,
            "runtime.spawn",
            kind,
            task.name = name,
            task.id = id.get(),
            loc.file = at.file(),
            loc.line = at.line(),
            loc.col = at.column(),
        );
        Traced { future: Some(future), span }
    }

    impl<F: Future> Future for Traced<F> {
        type Output = F::Output;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
            // SAFETY: a projection: the future is never moved out of the pinned whole, only dropped in place.
            let this = unsafe { self.get_unchecked_mut() };
            let _entered = this.span.enter();
            let future = this.future.as_mut().expect("there until the drop");
            // SAFETY: as above.
            unsafe { Pin::new_unchecked(future) }.poll(cx)
        }
    }

    impl<F> Drop for Traced<F> {
        fn drop(&mut self) {
            let _entered = self.span.enter();
            self.future = None;
        }
    }
}

#[cfg(feature = "tracing")]
pub(crate) use with::traced;
#[cfg(not(feature = "tracing"))]
pub(crate) use without::traced;
