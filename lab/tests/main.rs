//! The tests of the lab that need its programs or the peers' whole crates. `console.rs` needs a feature, and is a program of its own.

mod kit;

mod command {
    mod stuck;
    mod survives;
}
mod consumers {
    mod managed;
    mod pool;
    mod tls;
}
mod guests {
    mod executors;
    mod futurelock;
    mod unordered;
}
mod peers {
    mod comparison;
    mod migrating;
}
