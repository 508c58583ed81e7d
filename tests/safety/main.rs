//! Needs nothing: a model check of entering, waiting, holding and leaving (`make model`).
//!
//! `stateright` visits every state that some clients, their servers and a few faults can get into, and
//! checks the invariants of `docs/guarantees.md` in each. What a client decides is decided by the crate's
//! own [`admission`]; the steps around it are those of `src/`, written again:
//!
//! | here | there |
//! | --- | --- |
//! | `CreateRuns`, `CreateAnswered`, `MakesParent` | `Entering::create`, `make_parents` (`contender/enter.rs`): create and list together, a GUID for each entering |
//! | `Resolves`, `ReadsOwner` | `Entering::resolve`, `find` (`session/duty.rs`): the barrier, the owner check, the same GUID again |
//! | `Lists`, `Watches`, `Wakes`, `Proves` | `wait` (`contender/wait.rs`): `admission::decide`, own watch first, an event is a hint, the lease at that instant |
//! | `Releases`, `GivesUp` | `Hold`, `remove` (`contender/hold.rs`), `Contender::once` (`contender/mod.rs`): what may be left becomes a duty |
//! | `CleansUp`, `LearnsOfExpiry`, `DeclaresItOver` | `clean_up` (`session/duty.rs`), `step` (`session/state.rs`): duties pass to the next epoch |
//! | `LeaseEnds` | `Lease`, `Term` (`session/lease.rs`) |
//!
//! **The service.** One leader orders all writes; each client talks to a server whose view is some prefix
//! of that order, at most `lag` writes behind, never going back within a session. The order of answers in
//! a session is kept. A server cut off from the leader answers reads until it is further behind than that,
//! and then breaks off its links. A container can be reaped when it is empty; made again, it counts from 0. Sessions
//! expire in one transaction with their nodes. A request cut off on its way may still take effect until
//! its client has reconnected (from then on the leader refuses it: `SessionMoved`), or, if its client gave
//! the session up, until that session expires.
//!
//! **Time** is left out but for one assumption, which `docs/guarantees.md` derives: while the lease lasts, the
//! server has not expired the session. A lease ends only while the client is stopped, disconnected or on a
//! server that is cut off from the leader; only then, and only after it, the session expires.
//!
//! **Merged steps.** A read and what the client makes of it are one step: a client that acts late on an
//! answer cannot be told from one that was answered early by a server that lags, which `lag` covers.
//! Sending the two watch requests is one step, since what happens between them fires the first watch. A
//! clean-up's barrier, search and delete are one step, since nobody else deletes what it finds. A hold sets
//! no watch of its own: it learns as late as it can. The budget of watches, the wrap of the sequence
//! numbers, permissions and the retry policy's end (a withdrawal like any other) are left out.
//!
//! **Numbers.** Transactions are numbered anew in every state, in their order; a GUID that nobody knows any
//! more counts as one never drawn; clients with the same servers are interchangeable. None of it is visible
//! to the clients, which compare numbers and GUIDs but do no sums with them.
#![allow(clippy::unwrap_used)] // a test fails by it

// Private in the crate, and pure: the same sources, compiled once more.
#[allow(dead_code)]
#[path = "../../src/admission.rs"]
mod admission;
#[allow(dead_code)]
#[path = "../../src/contender_name.rs"]
mod contender_name;

mod client;
mod model;
mod possible;
mod report;
mod runs;
mod service;
mod world;
