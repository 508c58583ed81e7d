//! The pages of `docs/` and the README: their snippets are compiled as documentation tests.

#[doc = include_str!("../README.md")]
struct Readme;

#[doc = include_str!("../docs/architecture.md")]
struct Architecture;

#[doc = include_str!("../docs/guarantees.md")]
struct Guarantees;

#[doc = include_str!("../docs/security.md")]
struct Security;

#[doc = include_str!("../docs/session.md")]
struct Session;

#[doc = include_str!("../docs/recipes/failures.md")]
struct Failures;

#[doc = include_str!("../docs/recipes/mutex.md")]
struct Mutex;

#[doc = include_str!("../docs/recipes/read_write_lock.md")]
struct ReadWriteLock;

#[doc = include_str!("../docs/recipes/multi_lock.md")]
struct MultiLock;

#[doc = include_str!("../docs/recipes/semaphore.md")]
struct Semaphore;

#[doc = include_str!("../docs/recipes/semaphore_mutex.md")]
struct SemaphoreMutex;

#[doc = include_str!("../docs/recipes/revocation.md")]
struct Revocation;

#[doc = include_str!("../docs/recipes/shared_count.md")]
struct SharedCount;

#[doc = include_str!("../docs/recipes/leader_latch.md")]
struct LeaderLatch;

#[doc = include_str!("../docs/recipes/leader_selector.md")]
struct LeaderSelector;

#[doc = include_str!("../docs/recipes/leader_observer.md")]
struct LeaderObserver;

#[doc = include_str!("../docs/mixed-fleets.md")]
struct MixedFleets;

#[doc = include_str!("../docs/migrating-from-curator.md")]
struct MigratingFromCurator;

#[doc = include_str!("../docs/testing-your-code.md")]
struct TestingYourCode;

#[doc = include_str!("../docs/testing.md")]
struct Testing;

#[doc = include_str!("../docs/simulation.md")]
struct Simulation;

#[cfg(feature = "metrics")]
#[doc = include_str!("../docs/observability.md")]
struct Observability;

#[doc = include_str!("../docs/scaling.md")]
struct Scaling;

#[doc = include_str!("../docs/round-trips.md")]
struct RoundTrips;
