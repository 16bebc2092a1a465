//! Channels: alone, between two tasks, many to one, many to many; oneshots.

use super::minimal;
use super::now;
use super::start_gate::{Budget, StartGate};
use super::two_thread_runtime::TwoThreadRuntime;
use crate::exec::yield_now;
use crate::measure::{Bench, Contender, Group, Meter, Sample, fairness};
use crate::peer::{AsyncChannel, Oneshot, Received as _, Sent as _};
use crate::peers::{VisitChannel, VisitOneshot, each_channel, each_oneshot, each_unbounded};
use std::cell::Cell;
use std::hint::black_box;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

/// Messages that the streaming channels have room for.
const ROOM: usize = 64;

/// Measures every channel.
pub(crate) fn run(bench: &mut Bench) {
    for (workload, scene) in [("channel/try", Scene::Try), ("channel/ready", Scene::Ready)] {
        alone(bench, workload, scene);
    }
    for (workload, scene) in [("channel/ping-pong", Scene::PingPong), ("channel/hand-off", Scene::HandOff)] {
        let mut build = Build { scene, contenders: Vec::new() };
        each_channel(&mut build);
        bench.group(Group::on_one_thread(workload, 2, minimal::NAME, 1_000, build.contenders));
    }
    let mut build = Build { scene: Scene::PingPongOnTokio, contenders: Vec::new() };
    each_channel(&mut build);
    bench.group(Group::on_two_threads(
        "channel/ping-pong",
        2,
        TwoThreadRuntime::Tokio.name(),
        build.contenders,
    ));
    let shapes = [
        ("channel/hand-off", Shape::new(1, 1, 0).with_room(1)),
        ("channel/stream", Shape::new(1, 1, 0)),
        ("channel/many-to-one", Shape::new(8, 1, 0)),
        ("channel/many-to-one-yielding", Shape::new(8, 1, 8)),
        ("channel/many-to-many", Shape::new(4, 4, 0)),
        ("channel/many-to-many-yielding", Shape::new(4, 4, 8)),
    ];
    for (workload, shape) in shapes {
        let mut build = Build { scene: Scene::Tokio(shape), contenders: Vec::new() };
        each_channel(&mut build);
        bench.group(Group::on_two_threads(
            workload,
            shape.tasks(),
            TwoThreadRuntime::Tokio.name(),
            build.contenders,
        ));
    }
    let shape = Shape::new(8, 1, 0);
    let mut build = Build { scene: Scene::Tokio(shape), contenders: Vec::new() };
    each_unbounded(&mut build);
    bench.group(Group::on_two_threads(
        "channel/unbounded",
        shape.tasks(),
        TwoThreadRuntime::Tokio.name(),
        build.contenders,
    ));
    for (workload, waits) in [("channel/oneshot", false), ("channel/oneshot-waiting", true)] {
        let mut build = BuildOneshot { waits, contenders: Vec::new() };
        each_oneshot(&mut build);
        bench.group(Group::on_one_thread(workload, 1, "none", 1_000, build.contenders));
    }
}

fn alone(bench: &mut Bench, workload: &str, scene: Scene) {
    let mut build = Build { scene, contenders: Vec::new() };
    each_channel(&mut build);
    bench.group(Group::on_one_thread(workload, 1, "none", 1_000, build.contenders));
}

/// How many tasks send and receive, after how many messages each sender yields (0: never), and for how many messages there is room.
#[derive(Clone, Copy)]
struct Shape {
    room: usize,
    senders: usize,
    receivers: usize,
    yields: u64,
}

impl Shape {
    const fn new(senders: usize, receivers: usize, yields: u64) -> Self {
        Self { room: ROOM, senders, receivers, yields }
    }

    const fn with_room(self, room: usize) -> Self {
        Self { room, ..self }
    }

    fn tasks(self) -> usize {
        self.senders + self.receivers
    }
}

#[derive(Clone, Copy)]
enum Scene {
    Try,
    Ready,
    PingPong,
    HandOff,
    PingPongOnTokio,
    Tokio(Shape),
}

struct Build {
    scene: Scene,
    contenders: Vec<Contender>,
}

impl VisitChannel for Build {
    fn visit<C: AsyncChannel>(&mut self) {
        let scene = self.scene;
        let many_receivers = matches!(scene, Scene::Tokio(shape) if shape.receivers > 1);
        if many_receivers && C::second(&C::new(1).1).is_none() {
            return;
        }
        let run = Box::new(move |ops| match scene {
            Scene::Try => tries::<C>(ops),
            Scene::Ready => ready::<C>(ops),
            Scene::PingPong => ping_pong::<C>(ops),
            Scene::HandOff => hand_off::<C>(ops),
            Scene::PingPongOnTokio => ping_pong_on_tokio::<C>(ops),
            Scene::Tokio(shape) => on_tokio::<C>(shape, ops),
        });
        self.contenders.push(Contender { subject: C::NAME, kind: C::KIND, run });
    }
}

/// try_send and try_recv, by turns.
fn tries<C: AsyncChannel>(ops: u64) -> Sample {
    let (mut sender, mut receiver) = C::new(ROOM);
    let meter = Meter::start();
    for n in 0..ops {
        assert!(C::try_send(black_box(&mut sender), n), "{}: there is room", C::NAME);
        assert_eq!(C::try_recv(black_box(&mut receiver)), Some(n), "{}", C::NAME);
    }
    Sample::alone(ops, meter.read())
}

/// send and recv, by turns, none of which waits.
fn ready<C: AsyncChannel>(ops: u64) -> Sample {
    let (mut sender, mut receiver) = C::new(ROOM);
    let meter = Meter::start();
    for n in 0..ops {
        assert!(now!(C::send(black_box(&mut sender), n)).is_sent(), "{}: there is room", C::NAME);
        assert_eq!(now!(C::recv(black_box(&mut receiver))).message(), Some(n), "{}", C::NAME);
    }
    Sample::alone(ops, meter.read())
}

/// Two tasks and two channels: each message is answered.
fn ping_pong<C: AsyncChannel>(ops: u64) -> Sample {
    let ((mut ping, mut pinged), (mut pong, mut ponged)) = (C::new(1), C::new(1));
    let rounds = ops.div_ceil(2);
    let first = async move {
        for n in 0..rounds {
            assert!(C::send(&mut ping, n).await.is_sent());
            assert_eq!(C::recv(&mut ponged).await.message(), Some(n), "{}", C::NAME);
        }
    };
    let second = async move {
        for _ in 0..rounds {
            let n = C::recv(&mut pinged).await.message().expect("it is open");
            assert!(C::send(&mut pong, n).await.is_sent());
        }
    };
    let tasks: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(first), Box::pin(second)];
    Sample::alone(2 * rounds, minimal::run(tasks.into_iter()))
}

/// The same on two threads.
fn ping_pong_on_tokio<C: AsyncChannel>(ops: u64) -> Sample {
    let ((mut ping, mut pinged), (mut pong, mut ponged)) = (C::new(1), C::new(1));
    let arena =
        Arc::new(Arena { budget: Budget::new(ops), gate: StartGate::new(2), shape: Shape::new(1, 1, 0) });
    let asked = arena.clone();
    TwoThreadRuntime::Tokio.spawn(async move {
        asked.gate.enter().await;
        let mut rounds = 0;
        while asked.budget.take() {
            for _ in 0..Budget::CHUNK / 2 {
                assert!(C::send(&mut ping, rounds).await.is_sent());
                assert_eq!(C::recv(&mut ponged).await.message(), Some(rounds), "{}", C::NAME);
                rounds += 1;
            }
        }
        drop(ping);
        asked.gate.leave(0, rounds);
    });
    let answers = arena.clone();
    TwoThreadRuntime::Tokio.spawn(async move {
        answers.gate.enter().await;
        let mut rounds = 0;
        while let Some(n) = C::recv(&mut pinged).await.message() {
            assert!(C::send(&mut pong, n).await.is_sent());
            rounds += 1;
        }
        answers.gate.leave(1, rounds);
    });
    let (reading, served) = arena.gate.run(|| arena.budget.cut());
    assert_eq!(served[0], served[1], "{}: a message was lost", C::NAME);
    Sample::alone(2 * served[0], reading)
}

/// One task sends, one receives, room for one: both wait all the time.
fn hand_off<C: AsyncChannel>(ops: u64) -> Sample {
    let (mut sender, mut receiver) = C::new(1);
    let sum = Rc::new(Cell::new(0));
    let total = sum.clone();
    let sends = async move {
        for _ in 0..ops {
            assert!(C::send(&mut sender, 1).await.is_sent());
        }
    };
    let receives = async move {
        while let Some(n) = C::recv(&mut receiver).await.message() {
            total.set(total.get() + n);
        }
    };
    let tasks: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(sends), Box::pin(receives)];
    let reading = minimal::run(tasks.into_iter());
    assert_eq!(sum.get(), ops, "{}: a message was lost", C::NAME);
    Sample::alone(ops, reading)
}

/// What the tasks of two threads share.
struct Arena {
    budget: Budget,
    gate: StartGate,
    shape: Shape,
}

/// One sample on two threads.
fn on_tokio<C: AsyncChannel>(shape: Shape, ops: u64) -> Sample {
    let (sender, receiver) = C::new(shape.room);
    let arena = Arc::new(Arena { budget: Budget::new(ops), gate: StartGate::new(shape.tasks()), shape });
    let others = (1..shape.receivers).map(|_| C::second(&receiver).expect("it has many receivers"));
    let receivers: Vec<_> = others.collect::<Vec<_>>().into_iter().chain([receiver]).collect();
    for task in 0..shape.senders {
        TwoThreadRuntime::Tokio.spawn(sends::<C>(arena.clone(), task, sender.clone()));
    }
    for (number, receiver) in receivers.into_iter().enumerate() {
        TwoThreadRuntime::Tokio.spawn(receives::<C>(arena.clone(), shape.senders + number, receiver));
    }
    drop(sender);
    let (reading, served) = arena.gate.run(|| arena.budget.cut());
    let (sent, received) = served.split_at(shape.senders);
    let ops = sent.iter().sum::<u64>();
    assert_eq!(received.iter().sum::<u64>(), ops, "{}: a message was lost", C::NAME);
    Sample::shared(ops, reading, fairness(sent).min(fairness(received)))
}

async fn sends<C: AsyncChannel>(arena: Arc<Arena>, me: usize, mut sender: C::Sender) {
    arena.gate.enter().await;
    let mut sent = 0;
    while arena.budget.take() {
        for _ in 0..Budget::CHUNK {
            assert!(C::send(&mut sender, 1).await.is_sent());
            sent += 1;
            if arena.shape.yields > 0 && sent % arena.shape.yields == 0 {
                yield_now().await;
            }
        }
    }
    drop(sender);
    arena.gate.leave(me, sent);
}

async fn receives<C: AsyncChannel>(arena: Arc<Arena>, me: usize, mut receiver: C::Receiver) {
    arena.gate.enter().await;
    let mut received = 0;
    while let Some(n) = C::recv(&mut receiver).await.message() {
        received += n;
    }
    arena.gate.leave(me, received);
}

struct BuildOneshot {
    waits: bool,
    contenders: Vec<Contender>,
}

impl VisitOneshot for BuildOneshot {
    fn visit<S: Oneshot>(&mut self) {
        let waits = self.waits;
        let run = Box::new(move |ops| oneshots::<S>(waits, ops));
        self.contenders.push(Contender { subject: S::NAME, kind: S::KIND, run });
    }
}

/// A channel is made, sent to and received from; with or without a wait.
fn oneshots<S: Oneshot>(waits: bool, ops: u64) -> Sample {
    let mut cx = Context::from_waker(Waker::noop());
    let meter = Meter::start();
    for n in 0..ops {
        let (sender, receiver) = S::new();
        let mut receiver = pin!(receiver);
        if waits {
            assert!(receiver.as_mut().poll(&mut cx).is_pending());
        }
        S::send(black_box(sender), n);
        match receiver.poll(&mut cx) {
            std::task::Poll::Ready(output) => assert_eq!(S::message(output), n, "{}", S::NAME),
            std::task::Poll::Pending => panic!("{}: it was sent", S::NAME),
        }
    }
    Sample::alone(ops, meter.read())
}
