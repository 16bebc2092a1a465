//! The locks of a random program, and everything that can be held of them.

use super::reference::{Mode, ModelLockKind, PERMITS};
use crate::rwlock::{OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard};
use crate::{
    CancellationToken, Mutex, OwnedMutexGuard, OwnedSemaphorePermit, ReentrantMutex, ReentrantMutexGuard,
    RwLock, Semaphore,
};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use std::boxed::Box;
use std::time::Duration;

/// Something that is held.
pub(super) enum AnyGuard {
    Mutex(OwnedMutexGuard<u32>),
    Read(OwnedRwLockReadGuard<u32>),
    Upgradable(OwnedRwLockUpgradableReadGuard<u32>),
    Write(OwnedRwLockWriteGuard<u32>),
    Permit(OwnedSemaphorePermit),
    Reentrant(ReentrantMutexGuard<'static, u32>),
}

impl AnyGuard {
    /// A permit has nothing to use: it stays in the name of the task that took it.
    pub(super) fn used(&mut self) {
        match self {
            Self::Mutex(guard) => **guard += 1,
            Self::Read(guard) => assert!(**guard < u32::MAX),
            Self::Upgradable(guard) => assert!(**guard < u32::MAX),
            Self::Write(guard) => **guard += 1,
            Self::Permit(permit) => assert!(permit.num_permits() > 0),
            Self::Reentrant(guard) => assert!(**guard < u32::MAX),
        }
    }

    /// A guard that holds less, and how, if there is one.
    pub(super) fn weaker(self) -> (Self, Option<Mode>) {
        match self {
            Self::Write(guard) if *guard % 2 == 0 => {
                (Self::Read(OwnedRwLockWriteGuard::downgrade(guard)), Some(Mode::Read))
            }
            Self::Write(guard) => {
                let weaker = OwnedRwLockWriteGuard::downgrade_to_upgradable(guard);
                (Self::Upgradable(weaker), Some(Mode::Upgradable))
            }
            Self::Upgradable(guard) => {
                (Self::Read(OwnedRwLockUpgradableReadGuard::downgrade(guard)), Some(Mode::Read))
            }
            other => (other, None),
        }
    }
}

/// The future of a wait; `None` if a limit ended it.
pub(super) type Acquire = Pin<Box<dyn Future<Output = Option<AnyGuard>>>>;

/// What else ends a wait.
pub(super) enum Limit {
    None,
    Token(CancellationToken),
    Time,
    /// One that is never reached.
    Never,
}

/// A future of this wait under its limit, as something held.
macro_rules! limited {
    ($limit:expr, $wait:expr, $held:ident => $guard:expr) => {
        match $limit {
            Limit::None => Box::pin(async move {
                let $held = $wait.await;
                Some($guard)
            }),
            Limit::Token(token) => Box::pin(async move {
                let $held = $wait.or_cancelled(&token).await.ok()?;
                Some($guard)
            }),
            Limit::Never => Box::pin(async move {
                let $held = $wait.timeout(Duration::MAX).await.ok()?;
                Some($guard)
            }),
            Limit::Time => Box::pin(async move {
                let $held = $wait.timeout(Duration::from_secs(3_600)).await.ok()?;
                Some($guard)
            }),
        }
    };
}

pub(super) fn upgrade(guard: OwnedRwLockUpgradableReadGuard<u32>) -> Acquire {
    Box::pin(async move { Some(AnyGuard::Write(OwnedRwLockUpgradableReadGuard::upgrade(guard).await)) })
}

pub(super) enum RealLock {
    Mutex(Arc<Mutex<u32>>),
    RwLock(Arc<RwLock<u32>>),
    Semaphore(Arc<Semaphore>),
    /// For ever: its guards borrow it.
    Reentrant(&'static ReentrantMutex<u32>),
}

impl RealLock {
    pub(super) fn new(kind: ModelLockKind) -> Self {
        match kind {
            ModelLockKind::Mutex => Self::Mutex(Arc::new(Mutex::new(0))),
            ModelLockKind::RwLock => Self::RwLock(Arc::new(RwLock::new(0))),
            ModelLockKind::Semaphore => Self::Semaphore(Arc::new(Semaphore::new(PERMITS))),
            ModelLockKind::Reentrant => Self::Reentrant(Box::leak(Box::new(ReentrantMutex::new(0)))),
        }
    }

    pub(super) fn acquire(&self, mode: Mode, limit: Limit) -> Acquire {
        match (self, mode) {
            (Self::Mutex(mutex), _) => {
                let mutex = mutex.clone();
                limited!(limit, mutex.lock_owned(), guard => AnyGuard::Mutex(guard))
            }
            (Self::RwLock(lock), Mode::Read) => {
                let lock = lock.clone();
                limited!(limit, lock.read_owned(), guard => AnyGuard::Read(guard))
            }
            (Self::RwLock(lock), Mode::Upgradable) => {
                let lock = lock.clone();
                limited!(limit, lock.upgradable_read_owned(), guard => AnyGuard::Upgradable(guard))
            }
            (Self::RwLock(lock), _) => {
                let lock = lock.clone();
                limited!(limit, lock.write_owned(), guard => AnyGuard::Write(guard))
            }
            (Self::Semaphore(semaphore), mode) => {
                let (semaphore, permits) = (semaphore.clone(), permits(mode));
                limited!(limit, semaphore.acquire_many_owned(permits), permit => AnyGuard::Permit(permit.expect("it is open")))
            }
            (Self::Reentrant(mutex), _) => {
                let mutex = *mutex;
                limited!(limit, mutex.lock(), guard => AnyGuard::Reentrant(guard.expect("it has an identity")))
            }
        }
    }

    pub(super) fn try_acquire(&self, mode: Mode) -> Option<AnyGuard> {
        match (self, mode) {
            (Self::Mutex(mutex), _) => mutex.clone().try_lock_owned().map(AnyGuard::Mutex),
            (Self::RwLock(lock), Mode::Read) => lock.clone().try_read_owned().map(AnyGuard::Read),
            (Self::RwLock(lock), Mode::Upgradable) => {
                lock.clone().try_upgradable_read_owned().map(AnyGuard::Upgradable)
            }
            (Self::RwLock(lock), _) => lock.clone().try_write_owned().map(AnyGuard::Write),
            (Self::Semaphore(semaphore), mode) => {
                semaphore.clone().try_acquire_many_owned(permits(mode)).ok().map(AnyGuard::Permit)
            }
            (Self::Reentrant(mutex), _) => {
                mutex.try_lock().expect("it has an identity").map(AnyGuard::Reentrant)
            }
        }
    }
}

fn permits(mode: Mode) -> usize {
    let Mode::Permits(permits) = mode else { panic!("{mode:?} of a semaphore") };
    permits
}
