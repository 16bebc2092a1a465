//! The reason of a cancel: none, or a text that a node shares with all its descendants.

use alloc::borrow::Cow;
use alloc::sync::Arc;

/// Cloning it copies no text and allocates nothing, so a cancel may hand it down to a million children.
#[derive(Clone, Debug)]
pub(super) enum Reason {
    /// None was given.
    Unsaid,
    /// A text of the program.
    Static(&'static str),
    /// A text made at run time.
    Shared(Arc<str>),
}

impl Reason {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Unsaid => None,
            Self::Static(text) => Some(text),
            Self::Shared(text) => Some(text),
        }
    }
}

impl From<Cow<'static, str>> for Reason {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Static(text),
            Cow::Owned(text) => Self::Shared(text.into()),
        }
    }
}
