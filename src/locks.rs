//! Which recipes are an [`InterProcessLock`](crate::InterProcessLock), and which guards a
//! [`LockGuard`](crate::LockGuard). A multi-lock says so itself: its guard has more than one token.

use crate::guard::MutexGuard;
use crate::inter_process_lock::impl_inter_process_lock;
use crate::mutex::InterProcessMutex;
use crate::read_write_lock::{ReadGuard, ReadLock, WriteGuard, WriteLock};
use crate::semaphore::{InterProcessSemaphore, Lease};
use crate::semaphore_mutex::InterProcessSemaphoreMutex;

impl_inter_process_lock!(InterProcessMutex, MutexGuard);
impl_inter_process_lock!(InterProcessSemaphoreMutex); // the guard is the mutex's
impl_inter_process_lock!(ReadLock, ReadGuard);
impl_inter_process_lock!(WriteLock, WriteGuard);
impl_inter_process_lock!(InterProcessSemaphore, Lease);
