//! A pool of connections on `tasuki`'s primitives alone: it knows neither runtime nor sockets.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tasuki::{OwnedSemaphorePermit, Semaphore};

/// Makes connections, and judges those that come back.
pub(crate) trait Manager: Send + Sync + 'static {
    type Connection: Send;
    type Error;
    fn create(&self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;
    fn is_usable(&self, connection: &Self::Connection) -> bool;
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum GetError<E> {
    /// The time was over.
    Elapsed,
    Closed,
    #[allow(dead_code, reason = "for the message of a panic")]
    Create(E),
}

/// At most so many connections, made when they are wanted.
pub(crate) struct Pool<M: Manager> {
    manager: M,
    permits: Arc<Semaphore>,
    idle: Mutex<VecDeque<M::Connection>>,
}

/// A connection, until it is dropped.
pub(crate) struct Lease<M: Manager> {
    /// There until the drop.
    connection: Option<M::Connection>,
    pool: Arc<Pool<M>>,
    /// Dropped last: a connection is idle, or has gone, before the next task may have one.
    _permit: OwnedSemaphorePermit,
}

impl<M: Manager> Pool<M> {
    pub(crate) fn new(manager: M, size: usize) -> Arc<Self> {
        Arc::new(Self { manager, permits: Arc::new(Semaphore::new(size)), idle: Mutex::default() })
    }

    fn idle_connections(&self) -> MutexGuard<'_, VecDeque<M::Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection, or a new one. The time is for the wait, in order of arrival, not for the connecting.
    pub(crate) async fn get(self: &Arc<Self>, patience: Duration) -> Result<Lease<M>, GetError<M::Error>> {
        let permit = match self.permits.clone().acquire_owned().timeout(patience).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(GetError::Closed),
            Err(_) => return Err(GetError::Elapsed),
        };
        let idle = self.idle_connections().pop_front();
        let connection = match idle {
            Some(connection) => connection,
            None => self.manager.create().await.map_err(GetError::Create)?,
        };
        Ok(Lease { connection: Some(connection), pool: self.clone(), _permit: permit })
    }

    /// No more leases; what is idle goes, and what comes back.
    pub(crate) fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle_connections());
        drop(idle);
    }

    /// How many leases could be had without waiting.
    pub(crate) fn available(&self) -> usize {
        self.permits.available_permits()
    }

    pub(crate) fn idle(&self) -> usize {
        self.idle_connections().len()
    }
}

impl<M: Manager> Drop for Lease<M> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.pool.manager.is_usable(&connection) {
            let mut idle = self.pool.idle_connections();
            // Under the lock: a close that comes later finds it here.
            if !self.pool.permits.is_closed() {
                idle.push_back(connection);
            }
        }
    }
}

impl<M: Manager> Deref for Lease<M> {
    type Target = M::Connection;

    fn deref(&self) -> &M::Connection {
        self.connection.as_ref().expect("there until the drop")
    }
}

impl<M: Manager> DerefMut for Lease<M> {
    fn deref_mut(&mut self) -> &mut M::Connection {
        self.connection.as_mut().expect("there until the drop")
    }
}
