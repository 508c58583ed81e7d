//! Which recipes are an [`InterProcessLock`](crate::InterProcessLock), and which guards a
//! [`LockGuard`](crate::LockGuard). A multi-lock says so itself: its guard has more than one token.

use crate::guard::MutexGuard;
use crate::inter_process_lock::impl_inter_process_lock;
use crate::mutex::InterProcessMutex;

impl_inter_process_lock!(InterProcessMutex, MutexGuard);
