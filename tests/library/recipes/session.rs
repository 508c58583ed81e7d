//! What a `Curator` does with its sessions, what a hold says of its session lease, and when a disconnection is a loss.

use crate::prelude::*;

/// Else the lease of the next hold has no anchor to begin with, however long the link has been in order.
#[tokio::test(start_paused = true)]
async fn tries_that_find_a_lock_busy_do_not_postpone_the_probes() {
    const T: Duration = Duration::from_secs(6);
    let arena = Arena::new().await;
    let other = arena.patient_curator().await;
    let held = arena.mutex(&other).acquire().await.unwrap();
    let (link, curator) = arena.linked(arena.builder().session_timeout(T)).await;
    let mutex = arena.mutex(&curator);
    let (began, probes) = (Instant::now(), link.requests(Operation::Sync));
    while link.requests(Operation::Sync) < probes + 3 {
        assert!(began.elapsed() < 5 * T, "fewer than 3 probes in five session timeouts");
        // With a limit, since a plain `try_acquire` lists behind a `sync`, which is a probe itself.
        assert!(matches!(mutex.acquire_timeout(T / 20).await.unwrap(), Attempt::Busy));
    }
    held.release().await.unwrap();
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retries_end_when_the_policy_is_used_up() {
    let arena = Arena::own().await;
    let builder = arena
        .builder()
        .session_timeout(Duration::from_secs(1))
        .connection_timeout(Duration::from_millis(1_500))
        .retry(RetryPolicy::n_times(2, Duration::from_millis(50)));
    let curator = arena.impatient(arena.server.connect_string(), builder).await;
    // A client that was lent once is closed in another way.
    drop(curator.client());
    arena.server.stop().await.unwrap();
    until(&curator, ConnectionState::Lost).await;
    fails(curator.session_id(), ErrorKind::Unavailable);
    // Each try waits longer for a session than a session lasts: no try counts as a success for that.
    let acquired = within("the error", arena.mutex(&curator).acquire()).await;
    let error = fails(acquired, ErrorKind::Unavailable);
    assert!(error.is_transient() && error.to_string().contains(&arena.path));
    // A close that nobody can confirm says so, and does not wait for ever.
    let closed = within("the end", curator.close()).await;
    assert_eq!(closed, Released::Pending);
}

/// Short ones, whose leases leave the client a few hundred milliseconds.
#[tokio::test(start_paused = true)]
async fn a_hold_outlives_a_cut_link_with_every_session_timeout() {
    let arena = Arena::new().await;
    for timeout in [1, 2, 3, 4, 5].map(Duration::from_secs) {
        let (link, curator) = arena.linked(arena.builder().session_timeout(timeout)).await;
        assert_eq!(curator.session_timeout().unwrap(), timeout, "the server grants it");
        let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
        assert!(link.cut(Cut::Reset) > 0);
        // By two probes after the reconnection, so that the lease has an anchor from after it.
        let answered = link.replies(Operation::Sync) + 4;
        eventually("probes", async || link.replies(Operation::Sync) >= answered).await;
        assert!(guard.is_held(), "{timeout:?}: {:?}", guard.loss());
        guard.release().await.unwrap();
        within("the end", curator.close()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_servers_answer() {
    let arena = Arena::new().await;
    let curator = arena.short_lived_curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    for _ in 0..3 {
        let renewed = guard.session_lease_renewed();
        let left = guard.session_lease_left();
        assert!(!left.is_zero() && left <= SHORT * 2 / 3, "{left:?}");
        within("a renewal", renewed).await.unwrap();
    }
    let view = guard.view();
    guard.release().await.unwrap();
    assert_eq!(
        (view.loss(), view.is_held(), view.session_lease_left()),
        (None, false, Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn it_runs_down_when_no_server_answers_and_ends_with_the_hold() {
    let (arena, link, curator) = Arena::with_link(Arena::short_lived_builder).await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let stalled = link.stall(Direction::Both);
    // What was under way may still renew it.
    let mut left = guard.session_lease_left();
    while within("a renewal, or the loss", guard.session_lease_renewed()).await.is_ok() {
        left = guard.session_lease_left();
    }
    assert!(left <= SHORT * 2 / 3, "{left:?}");
    assert_eq!(
        (guard.loss(), guard.session_lease_left()),
        (Some(Loss::LeaseEnded), Duration::ZERO)
    );
    drop(stalled);
    // The session is there again, and renews its lease; this hold stays lost.
    let other = curator.mutex(format!("{}-other", arena.path)).unwrap();
    let other = within("another lock", other.acquire()).await.unwrap();
    assert!(!other.session_lease_left().is_zero() && guard.session_lease_left().is_zero());
    assert_eq!(within("the loss", guard.session_lease_renewed()).await, Err(Loss::LeaseEnded));
    other.release().await.unwrap();
    let written = guard.fenced().create(&format!("{}-x", arena.path), b"").await;
    assert_eq!(lost_by(written), Loss::LeaseEnded);
    assert_eq!(lost_by(guard.release().await), Loss::LeaseEnded);
    arena.children_are(0).await;
}

mod real {
    use super::*;
    use zookeeper_recipes::zookeeper_client::{Client, SessionState};

    /// The client has a runtime of its own. That of the `Curator` stands still while the link goes and comes.
    #[test]
    fn a_disconnection_that_was_over_before_anybody_looked_is_one() {
        let outer = tokio::runtime::Runtime::new().unwrap();
        let inner = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (arena, proxy, client) = outer.block_on(async {
            let arena = Arena::real().await;
            let (proxy, client) = arena.linked_client().await;
            (arena, proxy, client)
        });
        let (curator, suspended, lease) = inner.block_on(async {
            let curator = Curator::builder().from_client(client.clone()).unwrap();
            let suspended = arena.mutex(&curator.with_loss_policy(LossPolicy::Suspended));
            let suspended = suspended.acquire().await.unwrap();
            let path = format!("{}-lease", arena.path);
            let lease = curator.mutex(&path).unwrap().acquire().await.unwrap();
            (curator, suspended, lease)
        });
        outer.block_on(within("the connection", async {
            let mut state = client.state_watcher();
            proxy.cut(Cut::Reset);
            while state.changed().await != SessionState::SyncConnected {}
        }));
        inner.block_on(async {
            assert_eq!(within("the loss", suspended.lost()).await, Loss::Suspended);
            assert!(lease.is_held());
            lease.release().await.unwrap();
            drop(suspended);
            within("the end", curator.close()).await;
        });
        outer.block_on(async {
            drop((proxy, client, arena));
        });
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connector_of_ones_own_is_used_in_every_session() {
        let arena = Arena::real().await;
        let connector = Client::connector().with_auth("digest", b"ours:secret");
        let builder = arena.builder().connector(connector).acls(Acls::creator_all());
        let curator = arena.connect(builder).await;
        let mutex = arena.mutex(&curator);
        drop(within("a lock", mutex.acquire()).await.unwrap());
        // Without these credentials the next session could not even list.
        arena.kill_session(&curator).await;
        let guard = within("a lock in the next session", mutex.acquire()).await.unwrap();
        assert!(arena.admin.list_children(&arena.path).await.is_err(), "others may not");
        let told = mutex.participants().await.unwrap();
        let identity = told[0].identity.as_ref().unwrap();
        assert!(identity.ends_with(&format!(":{}", std::process::id())), "host:pid: {identity}");
        guard.release().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn dropping_the_last_handle_closes() {
        let arena = Arena::real().await;
        let curator = arena.curator().await;
        let node = format!("{}-mark", arena.path);
        {
            let client = curator.client().unwrap();
            let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
            client.create(&node, &[], &options).await.unwrap();
        }
        let state = curator.watch_state();
        let clone = curator.clone();
        drop(curator);
        assert!(arena.stat(&node).await.is_some(), "a clone is left");
        drop(clone);
        eventually("the session ends", async || arena.stat(&node).await.is_none()).await;
        eventually("it says so", async || *state.borrow() == ConnectionState::Closed).await;
    }

    /// That is lent to a user who keeps it, or was the user's from the beginning.
    #[tokio::test(flavor = "multi_thread")]
    async fn close_frees_the_locks_also_when_a_user_has_the_session() {
        let arena = Arena::real().await;
        for lent in [true, false] {
            let (curator, client) = if lent {
                let curator = arena.curator().await;
                let kept = curator.client().unwrap();
                (curator, kept.clone())
            } else {
                let client = arena.client().await;
                (Curator::builder().from_client(client.clone()).unwrap(), client)
            };
            let guard = arena.mutex(&curator).acquire().await.unwrap();
            let stat = arena.stat(guard.node()).await.unwrap();
            assert_eq!(stat.ephemeral_owner, client.session_id().0);
            within("the end", curator.close()).await;
            assert_eq!(guard.loss(), Some(Loss::Closed));
            assert!(arena.stat(guard.node()).await.is_none(), "close deletes what was held");
            client.sync("/").await.expect("the session is the user's");
        }
    }

    /// The session outlives the `Curator`, and so does the duty to delete from it.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_clients_session_is_cleaned_up_also_when_close_could_not_confirm_it() {
        let arena = Arena::real_own().await;
        let client = Client::connector()
            .with_session_timeout(Duration::from_secs(60))
            .connect(arena.server.connect_string())
            .await
            .unwrap();
        let builder = Curator::builder().connection_timeout(Duration::from_secs(1));
        let curator = builder.from_client(client.clone()).unwrap();
        let mutex = curator.mutex(&arena.path).unwrap();
        let guard = mutex.acquire().await.unwrap();
        arena.server.pause().await.unwrap();
        drop(guard);
        let closed = within("the end", curator.close()).await;
        assert_eq!(closed, Released::Pending);
        drop((mutex, curator));
        // What was on its way is lost with the connection; the session is not.
        arena.server.kill().await.unwrap();
        arena.server.start_again().await.unwrap();
        arena.children_are(0).await;
        client.sync("/").await.expect("the session lives on");
    }

    /// A holder and a waiter are told that, and not that retries ended.
    #[tokio::test(flavor = "multi_thread")]
    async fn there_is_no_session_after_a_clients_own() {
        let arena = Arena::real().await;
        let _holder = arena.mutex(&arena.curator().await).acquire().await.unwrap();
        // The connection breaks before the session does.
        let retry = RetryPolicy::n_times(3, Duration::from_millis(50));
        let curator = Curator::builder().retry(retry).from_client(arena.client().await).unwrap();
        let other = curator.mutex(format!("{}-other", arena.path)).unwrap();
        let guard = other.acquire().await.unwrap();
        let waiting = arena.waits(&curator).await;
        arena.kill_session(&curator).await;
        assert_eq!(within("the loss", guard.lost()).await, Loss::SessionExpired);
        let waiter = within("the error", waiting).await.unwrap();
        for acquired in [waiter, within("the error", other.acquire()).await] {
            fails(acquired, ErrorKind::Closed);
        }
    }
}
