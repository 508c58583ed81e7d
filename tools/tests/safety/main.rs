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
//! | `Lists`, `ActsOnListing`, `turn` | `Line::judge` (`contender/line.rs`): `admission::decide`, less own places that are leaving |
//! | `Watches`, `Wakes`, `Proves`, `take` | `wait` (`contender/wait.rs`): own watch first, the lease at that instant |
//! | `head`, `relist` | `contender/watches.rs`: which event admits; whoever is third or later watches two |
//! | `join`, `leave`, `last_place` | `Chain` (`contender/local.rs`): the chain of a session's places, and who is next in it |
//! | `gap`, `learn`, `arm_parent` | `contender/gap.rs`, `contender/parent.rs`: what is known of a lock path, from which listing, until when |
//! | `FindsOwnGone` | `contender/care.rs`, `Line::robbed`: holds, and who waits in the process, are looked after late |
//! | `Releases`, `GivesUp` | `Hold` (`contender/hold.rs`), `contender/place.rs`: what may be left becomes a duty |
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
//! (Not so where another task of its session has gone on in between: runs that are `late` take listings apart.)
//! Requests that are sent together are one step: what happens between the watch requests fires the first
//! of them, and what happens between the parent's watch and the listing fires the watch. A create whose
//! number is not the next one lists in the same step, since its answer may be seen late. A clean-up's barrier,
//! search and delete are one step, since nobody else deletes what it finds. A hold, and who waits in the
//! process, find out that their node is gone as late as they can. The budget of watches, the wrap of the
//! sequence numbers, permissions and the retry policy's end (a withdrawal like any other) are left out.
//!
//! **Order in a session.** A delete that was sent may take effect behind a later create of its session, as
//! one does that had to be sent again. Answers of two creates may be acted upon in either order, by two tasks.
//!
//! **Numbers.** Transactions are numbered anew in every state, in their order; a GUID that nobody knows any
//! more counts as one never drawn; a next sequence number that somebody else got counts as forgotten, as
//! long as the parent stays; clients with the same servers are interchangeable, and a client's tasks. None of
//! it is visible to the clients, which compare numbers and GUIDs, and count sequence numbers only.
#![allow(clippy::unwrap_used)] // a test fails by it

// Private in the crate, and pure: the same sources, compiled once more.
#[allow(dead_code)]
#[path = "../../../src/admission.rs"]
mod admission;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../src/contender_filter.rs"]
mod contender_filter;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../src/contender_name.rs"]
mod contender_name;

mod client;
mod faults;
mod model;
mod normal;
mod phase;
mod possible;
mod properties;
mod report;
mod rules;
mod runs;
mod saving;
mod service;
mod world;
