//! The tests of the runtime: one program, one kit. What needs a process for itself is in `process/`; a random load on everything is
//! in `soak/`.

mod kit;

mod blocking {
    mod api;
}
mod channel {
    mod api;
}
mod local {
    mod api;
}
mod loop_mutex {
    mod api;
    mod elsewhere;
}
#[cfg(feature = "net")]
mod net {
    #[cfg(unix)]
    mod batches;
    mod datagrams;
    mod faults;
    #[cfg(unix)]
    mod hostile;
    #[cfg(unix)]
    mod not_running;
    mod tcp;
    mod tcp_options;
    mod traits;
    #[cfg(target_os = "linux")]
    mod tries;
}
mod pinned {
    mod api;
}
mod programs {
    mod examples;
    mod http;
    mod panic_abort;
}
mod scheduler {
    mod budget;
    mod budget_channels;
    #[cfg(feature = "net")]
    mod budget_polls;
    mod budget_primitives;
    #[cfg(feature = "net")]
    mod budget_sockets;
    mod budget_table;
    #[cfg(all(feature = "net", unix))]
    mod dropped_waits;
    mod idle_machine;
    mod idle_states;
    mod load;
    mod metrics;
    mod outside;
    mod small;
    mod starvation;
    mod stealing;
}
mod shutdown {
    mod abrupt;
    mod deadlines;
    mod drain;
    mod long_polls;
}
mod surface {
    #[cfg(feature = "macros")]
    mod attributes;
    mod auto_traits;
    mod generic;
    mod macros_of_futures;
    mod promises;
}
mod tasks {
    mod api;
    mod guards;
    // Tasks are listed where they are noted.
    #[cfg(debug_assertions)]
    mod deadlocks;
    #[cfg(debug_assertions)]
    mod dump;
    mod handle;
    mod hostile;
    mod locals;
    mod names;
    mod set;
    mod unclaimed;
}
mod testing {
    mod api;
    mod clock;
    mod deadlocks;
    mod explore;
    mod failures;
    mod order_model;
    mod orders;
    mod planted;
    mod replays;
    mod searches;
    mod self_wakes;
}
mod time {
    mod api;
    mod crowd;
    mod foreign;
}
