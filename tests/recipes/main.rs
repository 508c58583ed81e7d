//! Needs a real ZooKeeper: the testkit starts one. Tests that stop or restart their server start one of
//! their own, and fail with `ZOOKEEPER_CONNECT`, which names one that is not theirs.
#![allow(clippy::disallowed_methods)] // a test owns the tasks and threads that it starts
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent

mod bad_input;
mod bad_servers;
mod client_bugs;
mod curator_bugs;
mod fenced;
mod harness;
mod hostile;
mod loss_policy;
mod lost_messages;
mod many;
mod mixed;
mod multi_lock;
mod multi_lock_dropped;
mod multi_lock_loss;
mod mutex;
mod mutex_acls;
mod mutex_dropped;
mod mutex_loss;
mod owner;
mod read_write_down;
mod read_write_load;
mod read_write_lock;
mod read_write_loss;
mod read_write_owner;
mod semaphore;
mod semaphore_limit;
mod session;
mod shared_count;
mod shared_count_lost;
