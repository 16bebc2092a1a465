//! A worker thread: it picks a task or a closure, runs it, and sleeps when there is none anywhere.
//!
//! [`Local`] is what only this thread touches; what other threads see of it is a [`Remote`](super::Remote). The order of picks is in
//! docs/scheduler.md; the files beside this one have its parts: `queue_turns.rs`, `steal.rs`, `balance.rs`, `deadlines.rs`, `sockets.rs`.

use super::chain::Chain;
use super::idle::{IdleWorker, SleepPlace, SleepPlan, SleepRequest};
use super::queue_turns::QueueTurn;
use super::shutdown::{self, abandoned_wheel::AbandonedWheel};
use super::sockets::{AskedForSockets, Delivery};
use super::steal::Observation;
use super::{Item, Job, LOCAL_CAPACITY, Shared, UnstartedWorker};
use crate::builder::Resume;
use crate::context::{Context, ThreadRole};
use crate::task::{Runnable, contain_panic};
use st3::fifo::Worker as Queue;
use std::cell::{Cell, RefCell};
use std::hint;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tasuki::Parker;
use tasuki::runtime::{Timers, uncharged, wake_deferred};

/// How often in a row, and how long, the *next* slots go first.
const STREAK: u32 = 32;
const STREAK_TIME: Duration = Duration::from_micros(200);
/// One pick in this many begins with a look outside: at the queue of another worker, at the sockets, and at the global queue. So does the first pick after `deadlines::OUTSIDE_EVERY`.
pub(super) const GLOBAL_EVERY: u32 = 64;
/// A poll that has used its budget counts as this many picks more: its task has done as much as many others do in one poll.
const LONG_POLL_PICKS: u32 = 8;
/// How many looks a search has, and the pause between them.
pub(super) const LOOKS: u32 = 4;
const PAUSE_SPINS: u32 = 32;
/// How many tasks are taken from the global queue at once.
const GLOBAL_BATCH: usize = 128;
/// A worker that has few tasks takes one from the global queue for this many picks; one whose local queue is half full, one for twice as many. If it took one for each, a crowd from outside would fill its local queue, and
/// what its own tasks spawn and wake would overflow, to the end of the global queue, behind all of the crowd. A share that did not fall as the queue fills would fill it too, more slowly: tasks of the crowd that run several times stay in it.
const PICKS_PER_TAKEN: u32 = 2;
/// How long a watcher sleeps.
const WATCH: Duration = Duration::from_millis(1);

/// What only the worker's own thread touches.
pub(crate) struct Local {
    pub(crate) index: usize,
    /// `work` returns after each step: the thread is that of a `LocalRuntime`, which does something else in between.
    pub(crate) one_step: bool,
    pub(crate) timers: Arc<Timers>,
    pub(super) queue: Queue<Runnable>,
    /// Tasks pinned here, and posted closures.
    pub(super) home: RefCell<Chain<Item>>,
    /// A pinned task that was given a baton.
    home_next: Cell<Option<Runnable>>,
    /// Of the two *next* slots the pinned one goes first.
    home_goes_first: Cell<bool>,
    pub(super) parker: Parker,
    /// Counts its picks.
    pub(super) tick: Cell<u32>,
    /// The pick at which it looks outside next.
    outside_at: Cell<u32>,
    /// The pick and the time of the last look outside, or of the end of a sleep after it.
    pub(super) last_look: Cell<(u32, Instant)>,
    /// The last pick at which it looked into the global queue.
    took_global: Cell<u32>,
    /// The last pick that came from outside before what is its own.
    picked_outside: Cell<u32>,
    pub(super) turn: Cell<QueueTurn>,
    streak: Cell<u32>,
    /// When a streak is over; known after its first poll.
    streak_ends: Cell<Option<Instant>>,
    searching: Cell<bool>,
    /// What the last looks at the others showed.
    pub(super) observations: RefCell<Box<[Observation]>>,
    /// The last search saw tasks that their workers will run soon, or should.
    pub(super) saw_held: Cell<bool>,
    /// Has watched since it last had something to do.
    pub(super) has_watched: Cell<bool>,
    pub(super) rng: Cell<u64>,
    /// What the clock said last.
    pub(super) now: Cell<Instant>,
    /// How many polls come before the next look at the clock.
    pub(super) skip: Cell<u32>,
    /// At how many polls it reads the clock, although they are short, because one was long.
    pub(super) wary: Cell<u32>,
    /// Has slept since it last read the clock.
    pub(super) has_slept: Cell<bool>,
    /// When to look at the wheels again.
    pub(super) look_at: Cell<Instant>,
    /// When it looked at what comes from outside because that was late.
    pub(super) looked_outside: Cell<Instant>,
    /// How many looks at the clock come before the next step of a wheel.
    pub(super) pause: Cell<u32>,
    /// Was the timekeeper, and has not asked for cover for all since.
    pub(super) kept_time: Cell<bool>,
    /// Has left the poll slot, and another worker is to be awake before this one runs anything.
    pub(super) owes_poll_slot: Cell<bool>,
    /// The last time that it asked for sockets.
    pub(super) asked_for_sockets: Cell<AskedForSockets>,
    /// Tasks whose sockets are ready, to be woken when the poll slot has been left.
    pub(super) deliveries: RefCell<Vec<Delivery>>,
}

impl Local {
    pub(crate) fn new(shared: &Shared, unstarted: UnstartedWorker) -> Self {
        let UnstartedWorker { index, queue, parker } = unstarted;
        Self {
            index,
            one_step: false,
            timers: shared.remotes[index].timers.clone(),
            queue,
            home: RefCell::default(),
            home_next: Cell::new(None),
            home_goes_first: Cell::new(false),
            parker,
            tick: Cell::new(0),
            outside_at: Cell::new(GLOBAL_EVERY),
            last_look: Cell::new((0, shared.epoch)),
            took_global: Cell::new(0),
            picked_outside: Cell::new(u32::MAX),
            turn: Cell::default(),
            streak: Cell::new(0),
            streak_ends: Cell::new(None),
            searching: Cell::new(false),
            observations: RefCell::new(vec![Observation::default(); shared.workers()].into()),
            saw_held: Cell::new(false),
            has_watched: Cell::new(false),
            rng: Cell::new(index as u64 + 1),
            now: Cell::new(shared.epoch),
            skip: Cell::new(0),
            wary: Cell::new(0),
            has_slept: Cell::new(true),
            look_at: Cell::new(shared.epoch),
            looked_outside: Cell::new(shared.epoch),
            pause: Cell::new(0),
            kept_time: Cell::new(false),
            owes_poll_slot: Cell::new(false),
            asked_for_sockets: Cell::default(),
            deliveries: RefCell::default(),
        }
    }

    /// A task was woken on this thread.
    #[inline]
    pub(crate) fn put(&self, shared: &Shared, runnable: Runnable, baton: bool) {
        let next = baton && shared.resume == Resume::Next;
        match runnable.metadata().home() {
            Some(home) if home == self.index => self.put_home(runnable, next),
            Some(home) => shared.send_task(home, runnable),
            None if next => self.put_next(shared, runnable),
            None if shared.resume == Resume::Global => shared.push_global(runnable),
            None => self.put_local(shared, runnable),
        }
    }

    fn put_home(&self, runnable: Runnable, next: bool) {
        let back = if next { self.home_next.replace(Some(runnable)) } else { Some(runnable) };
        if let Some(back) = back {
            self.post(Item::Task(back));
        }
    }

    /// To the end of the home queue.
    pub(crate) fn post(&self, item: Item) {
        self.home.borrow_mut().push(item);
    }

    fn put_next(&self, shared: &Shared, runnable: Runnable) {
        let displaced = shared.remotes[self.index].next.put(runnable.into_raw());
        match displaced {
            // SAFETY: the slot holds raw runnables only.
            Some(raw) => self.put_local(shared, unsafe { Runnable::from_raw(raw) }),
            None => self.want_watcher(shared),
        }
    }

    fn put_local(&self, shared: &Shared, runnable: Runnable) {
        let alone = self.queue.is_empty();
        if let Err(runnable) = self.queue.push(runnable) {
            return self.overflow(shared, runnable);
        }
        if alone { self.want_watcher(shared) } else { shared.notify() }
    }

    /// The queue is full: half of it goes to the global one, and so does the task.
    #[cold]
    fn overflow(&self, shared: &Shared, runnable: Runnable) {
        // No drain when a thief is at it: then there will be room.
        let half = self.queue.drain(|len| len / 2).into_iter().flatten();
        shared.global.append(half.chain([runnable]).collect());
        shared.notify();
    }

    /// A task was pushed that is alone: this worker will run it soon. If its present poll is long, a watcher takes the task.
    fn want_watcher(&self, shared: &Shared) {
        if let Some(worker) = shared.idle.want_watcher() {
            shared.remotes[worker].unparker.unpark();
        }
    }

    /// Runs until shutdown; or, on a thread that does something else too, once.
    pub(crate) fn work(&self, context: &Context) {
        let shared = &*context.shared;
        while !shared.is_closing() {
            if let Some(item) = self.pick(shared).or_else(|| self.idle(shared)) {
                // Wherever it was found: pushes must not rely on a searcher that has begun to work.
                self.found(shared);
                self.cover_deadlines(shared);
                self.hand_over_poll_slot(shared);
                self.run(context, item);
            }
            // Here and not in a loop of its own: one copy of this function is inlined into one.
            if self.one_step {
                return;
            }
        }
        self.found(shared);
    }

    fn run(&self, context: &Context, item: Item) {
        self.has_watched.set(false);
        context.shared.remotes[self.index].counters.polls.count();
        match item {
            Item::Task(runnable) => run_task(context, runnable),
            Item::Job(job) => run_job(job),
        }
    }

    /// What to do next, by the order of docs/scheduler.md.
    #[inline]
    pub(super) fn pick(&self, shared: &Shared) -> Option<Item> {
        let late = self.check_clock(shared);
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        // All wrap. Not twice in a row: after a long poll it would be time again, each time.
        let is_time = tick.wrapping_sub(self.outside_at.get()) < u32::MAX / 2 || late;
        if is_time && tick.wrapping_sub(self.picked_outside.get()) != 1 {
            self.outside_at.set(tick.wrapping_add(self.picks_before_look(shared)));
            if let Some(item) = self.pick_first_from_outside(shared) {
                self.picked_outside.set(tick);
                return Some(item);
            }
        }
        let streak = self.streak.get();
        if streak < STREAK {
            if let Some(item) = self.pick_next(shared) {
                self.streak.set(streak + 1);
                if streak == 0 {
                    self.streak_ends.set(None);
                }
                return Some(item);
            }
        }
        self.streak.set(0);
        let own = self.pick_by_turns(shared);
        own.or_else(|| self.pick_next(shared)).or_else(|| self.pick_global(shared))
    }

    /// The current poll has used its budget: the next look outside comes sooner.
    pub(crate) fn used_budget(&self) {
        self.outside_at.set(self.outside_at.get().wrapping_sub(LONG_POLL_PICKS));
    }

    #[inline]
    pub(super) fn has_streak(&self) -> bool {
        self.streak.get() > 0
    }

    /// A streak that has lasted so long is over.
    pub(super) fn limit_streak(&self, now: Instant) {
        if self.has_streak() {
            let ends = self.streak_ends.get().unwrap_or(now + STREAK_TIME);
            self.streak_ends.set(Some(ends));
            if now >= ends {
                self.streak.set(STREAK);
            }
        }
    }

    fn pick_next(&self, shared: &Shared) -> Option<Item> {
        let home = || self.home_next.take().map(|task| (Item::Task(task), false));
        let slot = || shared.remotes[self.index].next.take().map(|raw| (from_slot(raw), true));
        // By turns: two pinned tasks that hand a lock to and fro fill theirs with every poll. Not by the number of the pick: these places may be asked at every other pick only.
        let picked = if self.home_goes_first.get() { home().or_else(slot) } else { slot().or_else(home) };
        picked.map(|(item, home_goes_first)| {
            self.home_goes_first.set(home_goes_first);
            item
        })
    }

    /// Before its own tasks: a share of what another worker has, what sockets have woken, and the global queue.
    #[cold]
    fn pick_first_from_outside(&self, shared: &Shared) -> Option<Item> {
        let balanced = self.balance(shared);
        self.poll_sockets(shared);
        match (self.pick_global(shared), balanced) {
            (Some(item), Some(runnable)) => {
                self.put_local(shared, runnable);
                Some(item)
            }
            (item, balanced) => item.or(balanced.map(Item::Task)),
        }
    }

    fn pick_inbox(&self, shared: &Shared) -> Option<Item> {
        self.take_inbox(shared);
        self.home.borrow_mut().pop()
    }

    fn pick_from_outside(&self, shared: &Shared) -> Option<Item> {
        self.pick_inbox(shared).or_else(|| self.pick_global(shared))
    }

    /// One task from the global queue, and our share of the rest into the local one.
    #[cold]
    fn pick_global(&self, shared: &Shared) -> Option<Item> {
        let picks = self.tick.get().wrapping_sub(self.took_global.replace(self.tick.get()));
        let room = self.queue.spare_capacity();
        let share = if self.queue.is_empty() {
            GLOBAL_BATCH
        } else {
            (picks / PICKS_PER_TAKEN) as usize * room / LOCAL_CAPACITY
        };
        // One more is taken than is kept.
        let most = GLOBAL_BATCH.min(share.saturating_sub(1)).min(room);
        let mut more = false;
        let first = shared.global.take(shared.workers(), most, |tasks| {
            self.queue.extend(tasks);
            more = true;
        })?;
        if more {
            shared.notify();
        }
        Some(Item::Task(first))
    }

    /// Nothing to do here: searches, and sleeps if there is nothing anywhere.
    #[cold]
    fn idle(&self, shared: &Shared) -> Option<Item> {
        if !self.searching.get() {
            self.searching.set(shared.idle.try_search());
        }
        self.saw_held.set(false);
        if self.searching.get() {
            if let Some(item) = self.search(shared) {
                return Some(item);
            }
        }
        // Foreign code, which its parker would call for it: while it still counts as awake, and has no poll slot.
        contain_panic(wake_deferred);
        if !self.advance_idle(shared) && !self.has_work(shared) && !self.announce_sleep(shared) {
            self.sleep(shared);
        }
        None
    }

    fn search(&self, shared: &Shared) -> Option<Item> {
        self.look_anew();
        for look in 0..LOOKS {
            if look > 0 {
                (0..PAUSE_SPINS).for_each(|_| hint::spin_loop());
            }
            let item = self.pick_from_outside(shared).or_else(|| self.steal(shared).map(Item::Task));
            if item.is_some() || shared.is_closing() {
                return item;
            }
            // Sockets may be ready, and a search does not ask the system: the sleep that follows does.
            if shared.sockets.are_used() && !self.saw_held.get() {
                break;
            }
        }
        None
    }

    /// searching => awake; the last searcher sees to it that another searches, if there may be something to find.
    #[inline]
    pub(crate) fn found(&self, shared: &Shared) {
        if self.searching.get() {
            self.searching.set(false);
            // With sockets another worker must be awake, too, to take the poll slot if this one has left it.
            let sees_more =
                || shared.sockets.are_used() || self.has_work(shared) || !shared.global.is_empty();
            if shared.idle.found(sees_more) {
                shared.notify();
            }
        }
    }

    /// awake | searching => asleep => awake | searching.
    fn sleep(&self, shared: &Shared) {
        // Once also when nothing was held: a push that counted on our search may have come after our last look.
        let watch = self.saw_held.get() || !self.has_watched.get();
        self.has_watched.set(!self.saw_held.get());
        let request = SleepRequest { worker: self.index, searching: self.searching.take(), watch };
        self.falls_asleep(shared);
        let risen = shared.idle.sleep_until_woken(request, &FallingAsleep { local: self, shared });
        self.rises(shared, risen.kept_time);
        self.owes_poll_slot.set(risen.owes_poll_slot);
        self.wake_delivered();
        if risen.chosen {
            self.searching.set(true);
            // From now on pushes rely on this search.
            self.has_watched.set(false);
        }
    }

    /// Is there something that only this worker, or it first, would run?
    pub(super) fn has_work(&self, shared: &Shared) -> bool {
        let next = self.home_next.take();
        let home = next.is_some() || !self.home.borrow().is_empty();
        self.home_next.set(next);
        home || !self.queue.is_empty() || !shared.remotes[self.index].next.is_empty()
    }

    /// Everything that is this worker's own, for shutdown.
    pub(super) fn take_own(&self, shared: &Shared) -> Option<Item> {
        let home = self.home.borrow_mut().pop();
        home.or_else(|| self.pick_next(shared))
            .or_else(|| self.queue.pop().map(Item::Task))
            .or_else(|| self.pick_inbox(shared))
    }
}

/// A worker on its way to sleep.
struct FallingAsleep<'a> {
    local: &'a Local,
    shared: &'a Shared,
}

impl IdleWorker for FallingAsleep<'_> {
    fn sees_work(&self, alone: bool) -> bool {
        self.local.sees_work(self.shared, alone)
    }

    fn earliest_deadline(&self) -> u64 {
        self.local.earliest_deadline(self.shared)
    }

    fn sleep(&self, plan: SleepPlan) {
        let (local, parker) = (self.local, &self.local.parker);
        let watch = if plan.watch { Instant::now().checked_add(WATCH) } else { None };
        let ends = [local.timers.due(), self.shared.time_of(plan.until), watch];
        match (plan.place, ends.into_iter().flatten().min()) {
            (SleepPlace::Poll, ends) => local.sleep_in_poll(self.shared, ends),
            (SleepPlace::Parker, Some(deadline)) => drop(parker.park_deadline(deadline)),
            (SleepPlace::Parker, None) => parker.park(),
        }
    }
}

pub(super) fn from_slot(raw: NonNull<()>) -> Item {
    // SAFETY: the *next* slots hold raw runnables only.
    Item::Task(unsafe { Runnable::from_raw(raw) })
}

/// Polls a task in its context.
#[inline]
pub(crate) fn run_task(context: &Context, runnable: Runnable) {
    context.poll(runnable.metadata().id, || runnable.run());
}

/// Calls a posted closure. It is no poll: what the task before it has left of its budget is not its own.
pub(crate) fn run_job(job: Job) {
    contain_panic(|| uncharged(|| job.call()));
}

/// The life of a worker thread; what is left of it are its sleeps.
pub(crate) fn main(shared: Arc<Shared>, unstarted: UnstartedWorker) -> Option<AbandonedWheel> {
    live(shared, unstarted, Local::work)
}

/// Works, then leaves. Foreign code is contained where it is called, so a panic of the work is a defect of the runtime. With a worker less, tasks that are pinned to it would never end, nor would a
/// shutdown that waits for it: so the runtime closes, and this worker leaves as the others do.
pub(super) fn live(
    shared: Arc<Shared>,
    unstarted: UnstartedWorker,
    work: impl FnOnce(&Local, &Context),
) -> Option<AbandonedWheel> {
    let local = Box::new(Local::new(&shared, unstarted));
    let context = Context::new(shared.clone(), ThreadRole::Worker(local));
    context.enter(|| {
        let ThreadRole::Worker(local) = &context.role else { unreachable!("made above") };
        let mut has_returned = false;
        contain_panic(|| {
            work(local, &context);
            has_returned = true;
        });
        if !has_returned {
            shared.close();
        }
    });
    shutdown::leave(context)
}
