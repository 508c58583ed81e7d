//! What only a real ZooKeeper can show: bytes, several runtimes and threads, a client of the user's own, the test kit. They
//! share one server; those that stop or restart one start their own, and fail with `ZOOKEEPER_CONNECT`, which names one that
//! is not theirs.

mod bad_servers;
mod client_bugs;
mod main_returns_early;
mod own_runtime;
mod testing_your_code;
