//! The loom models. Empty unless built with `--cfg loom`.
