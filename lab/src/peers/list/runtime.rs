//! Lists every runtime that is measured.

use super::super::{async_executor, net, tasuki_rt, tokio_rt};
use super::{list, visitor};
use crate::peer::{NetRuntime, TaskRuntime};

visitor! {
    /// Visits every runtime with its own type.
    VisitRuntime: TaskRuntime
}
list! {
    /// Names every runtime the lab knows.
    each_runtime: VisitRuntime;
    tasuki_rt::TasukiTwo,
    tasuki_rt::TasukiOne,
    tokio_rt::TokioTwo,
    tokio_rt::TokioCurrent,
    async_executor::ExecutorTwo,
    async_executor::StaticTwo,
    async_executor::ExecutorOne,
}

visitor! {
    /// Visits every runtime with sockets with its own type.
    VisitNet: NetRuntime
}
list! {
    /// Names every runtime with sockets the lab knows.
    each_net: VisitNet;
    net::TasukiNet,
    net::TasukiLocalNet,
    net::TokioNet,
    net::TokioCurrentNet,
    net::SmolNet,
}
