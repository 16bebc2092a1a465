//! The loom models of the scheduler's own parts. Empty unless built with `--cfg loom`.
