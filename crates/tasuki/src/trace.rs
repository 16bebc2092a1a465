//! Integration with `tracing`: deadlocks as events (feature `tracing`), locks and waits as spans that tokio-console understands (feature `console`). Empty without these features. The only
//! file that names the crate.
//!
//! A console knows a *resource*, something that can be waited for, and an *async operation*, one wait for it. A lock is a resource from its first wait until it is dropped. What is no lock has no
//! place for a span: there each wait is a resource of its own, with the name of its future. Names and fields are those of tokio, which the console reads without
//! `tokio_unstable`; one callsite for all primitives.
//!
//! | span or event | when |
//! |---|---|
//! | `runtime.resource` | the first wait for a lock, each wait for a signal |
//! | `runtime.resource.async_op`, in the resource's | a wait begins; closed with its future, or when that is ready |
//! | `runtime.resource.async_op.poll`, in the operation's | entered at each poll of a wait that goes on |
//! | an event whose target ends in `poll_op` | the end of each of these polls, and of the one that began the wait: was it ready? |
//!
//! A subscriber is foreign code. It is called with no queue locked, and its panics end here (`caught`; the panic hook has reported them): a wait goes on as if
//! the subscriber had returned. Two reasons: a panic after a poll that was ready would drop the output of that poll, a guard or a message, and spans are also left and closed while a thread unwinds, where a second panic ends the process. A span whose
//! subscriber panicked when it was made is missing.

#[cfg(all(feature = "tracing", any(debug_assertions, feature = "inspect")))]
pub(crate) fn deadlock(deadlock: &crate::inspect::Deadlock) {
    use crate::inspect::Certainty;
    let (tasks, certainty) = (deadlock.hops.len(), std::format!("{:?}", deadlock.certainty));
    crate::catch_panic::caught(|| {
        if deadlock.certainty == Certainty::Suspected {
            tracing::warn!(target: "tasuki::inspect", certainty, tasks, "{deadlock}");
        } else {
            tracing::error!(target: "tasuki::inspect", certainty, tasks, "{deadlock}");
        }
    });
}

#[cfg(all(not(feature = "tracing"), feature = "std", any(debug_assertions, feature = "inspect")))]
#[inline(always)]
pub(crate) fn deadlock(_deadlock: &crate::inspect::Deadlock) {}

#[cfg(not(feature = "console"))]
mod without {
    use crate::probe::{Site, Target};
    use core::task::Poll;

    /// The spans of a wait.
    #[derive(Debug)]
    pub(crate) struct WaitSpans;

    impl WaitSpans {
        pub(crate) const NONE: Self = Self;

        #[inline(always)]
        pub(crate) fn begin(&mut self, _target: Target<'_>, _name: &'static str, _site: Site) {}

        #[inline(always)]
        pub(crate) fn poll<R>(&self, poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
            poll()
        }

        #[inline(always)]
        pub(crate) fn end(&mut self) {}
    }
}

#[cfg(feature = "console")]
mod with {
    use crate::catch_panic::caught;
    use crate::inspect::LockLabel;
    use crate::probe::{Site, Target};
    use core::panic::{Location, RefUnwindSafe, UnwindSafe};
    use core::task::Poll;
    use std::boxed::Box;
    use std::format;
    use std::sync::OnceLock;
    use tracing::level_filters::LevelFilter;
    use tracing::span::Entered;
    use tracing::{Level, Span};

    /// A span none of whose calls to its subscriber panics: not when it is made, entered, left, cloned or closed. `None`: no subscriber wants it, or the one that does panicked.
    #[derive(Debug)]
    pub(crate) struct ContainedSpan(Option<Span>);

    impl ContainedSpan {
        fn new(make: impl FnOnce() -> Span) -> Self {
            let span = Self(caught(make));
            if span.0.as_ref().is_some_and(Span::is_disabled) { Self(None) } else { span }
        }

        fn enter(&self) -> ContainedEntry<'_> {
            ContainedEntry(self.0.as_ref().and_then(|span| caught(|| span.enter())))
        }
    }

    impl Clone for ContainedSpan {
        fn clone(&self) -> Self {
            Self(self.0.as_ref().and_then(|span| caught(|| span.clone())))
        }
    }

    impl Drop for ContainedSpan {
        fn drop(&mut self) {
            if let Some(span) = self.0.take() {
                caught(|| drop(span));
            }
        }
    }

    /// A span that is entered until this is dropped, also by a panic of what runs inside of it.
    struct ContainedEntry<'s>(Option<Entered<'s>>);

    impl Drop for ContainedEntry<'_> {
        fn drop(&mut self) {
            if let Some(entered) = self.0.take() {
                caught(|| drop(entered));
            }
        }
    }

    fn resource(concrete_type: &str, kind: &str, at: &Location<'_>) -> ContainedSpan {
        ContainedSpan::new(|| {
            tracing::span!(
                target: "tasuki",
                parent: None,
                Level::TRACE,
                "runtime.resource",
                concrete_type,
                kind,
                loc.file = at.file(),
                loc.line = at.line(),
                loc.col = at.column(),
                is_internal = false,
                inherits_child_attrs = false,
            )
        })
    }

    /// The span of a lock, from its first wait on.
    #[derive(Debug)]
    pub(crate) struct ResourceSpan(OnceLock<ContainedSpan>);

    impl ResourceSpan {
        pub(crate) const fn new() -> Self {
            Self(OnceLock::new())
        }

        pub(crate) fn of(&self, label: &LockLabel, made_at: &Location<'_>) -> ContainedSpan {
            // No subscriber wants it, or none is there: its name would be allocated in vain.
            if LevelFilter::current() < Level::TRACE {
                return ContainedSpan(None);
            }
            if let Some(span) = self.0.get() {
                return span.clone();
            }
            let name = label.name.map(|name| format!(" `{name}`")).unwrap_or_default();
            let span = resource(&format!("{:?}{name}", label.kind), "Sync", made_at);
            // Not in the `OnceLock`: the subscriber may wait for this lock, or for a thread that does. Of two that are made at the same time one is closed again.
            let _ = self.0.set(span);
            match self.0.get() {
                Some(span) => span.clone(),
                None => ContainedSpan(None),
            }
        }
    }

    // A span is a handle to a subscriber: what a panic leaves broken is in there, not here.
    impl UnwindSafe for ResourceSpan {}
    impl RefUnwindSafe for ResourceSpan {}
    impl UnwindSafe for WaitSpans {}
    impl RefUnwindSafe for WaitSpans {}

    /// The spans of a wait that goes on.
    #[derive(Debug)]
    struct Operation {
        resource: ContainedSpan,
        operation: ContainedSpan,
        poll: ContainedSpan,
    }

    impl Operation {
        /// Runs a poll in the spans, and says whether it was ready.
        fn poll<R>(&self, poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
            let _entered = (self.resource.enter(), self.operation.enter(), self.poll.enter());
            let poll = poll();
            caught(|| {
                tracing::event!(
                    target: "runtime::resource::poll_op",
                    Level::TRACE,
                    op_name = "poll",
                    is_ready = poll.is_ready(),
                );
            });
            poll
        }
    }

    /// The spans of a wait; none before it begins, and where no subscriber wants them.
    #[derive(Debug)]
    pub(crate) struct WaitSpans(Option<Box<Operation>>);

    impl WaitSpans {
        pub(crate) const NONE: Self = Self(None);

        /// The wait has begun, by a poll that was not ready.
        pub(crate) fn begin(&mut self, target: Target<'_>, name: &'static str, site: Site) {
            let resource = target.resource().unwrap_or_else(|| {
                resource(name, if target.is_time() { "timer" } else { "Sync" }, site.location())
            });
            if resource.0.is_none() {
                return;
            }
            let operation = {
                let _entered = resource.enter();
                ContainedSpan::new(|| {
                    tracing::span!(
                        target: "tasuki",
                        Level::TRACE,
                        "runtime.resource.async_op",
                        source = name,
                        inherits_child_attrs = false,
                    )
                })
            };
            let poll = {
                let _entered = operation.enter();
                ContainedSpan::new(
                    || tracing::span!(target: "tasuki", Level::TRACE, "runtime.resource.async_op.poll"),
                )
            };
            let spans = Box::new(Operation { resource, operation, poll });
            let _: Poll<()> = spans.poll(|| Poll::Pending);
            self.0 = Some(spans);
        }

        /// What `poll` gives must be on record before it returns: the subscriber is called after that.
        pub(crate) fn poll<R>(&self, poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
            match &self.0 {
                Some(spans) => spans.poll(poll),
                None => poll(),
            }
        }

        pub(crate) fn end(&mut self) {
            self.0 = None;
        }
    }
}

#[cfg(feature = "console")]
pub(crate) use with::{ContainedSpan, ResourceSpan, WaitSpans};
#[cfg(not(feature = "console"))]
pub(crate) use without::WaitSpans;

#[cfg(all(test, feature = "tracing", any(debug_assertions, feature = "inspect")))]
mod tests {
    use crate::inspect::{Certainty, Deadlock};
    use std::format;
    use std::string::String;
    use std::sync::{Arc, Mutex};
    use std::vec::Vec;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    /// The fields of an event, in their order.
    #[derive(Default)]
    struct Fields(Vec<(&'static str, String)>);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn core::fmt::Debug) {
            self.0.push((field.name(), format!("{value:?}")));
        }
    }

    /// Keeps the events of deadlocks.
    #[derive(Clone, Default)]
    struct Events(Arc<Mutex<Vec<(Level, Fields)>>>);

    impl Subscriber for Events {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "tasuki::inspect"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            self.0.lock().unwrap().push((*event.metadata().level(), fields));
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// A deadlock is an error with its whole text, a suspected one a warning.
    #[test]
    #[cfg_attr(miri, ignore = "as all of `inspect`")]
    fn deadlocks_are_events() {
        let events = Events::default();
        let mut found = Deadlock { certainty: Certainty::Deadlock, hops: Vec::new(), tasks: Vec::new() };
        tracing::subscriber::with_default(events.clone(), || {
            super::deadlock(&found);
            found.certainty = Certainty::Suspected;
            super::deadlock(&found);
        });
        let events = core::mem::take(&mut *events.0.lock().unwrap());
        assert_eq!(events.iter().map(|event| event.0).collect::<Vec<_>>(), [Level::ERROR, Level::WARN]);
        for ((_, fields), certainty) in events.iter().zip(["Deadlock", "Suspected"]) {
            let of = |name| fields.0.iter().find(|field| field.0 == name).map(|field| field.1.as_str());
            assert_eq!(of("tasks"), Some("0"));
            assert!(of("certainty").is_some_and(|text| text.contains(certainty)));
            assert!(of("message").is_some_and(|text| !text.is_empty()));
        }
    }
}
