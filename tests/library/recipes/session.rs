//! What a `Curator` does with its sessions, what a hold says of its session lease, and when a disconnection is a loss.

use zookeeper_recipes::simulation::{Cut, Ensemble};

use crate::prelude::*;

/// Else the lease of the next hold has no anchor to begin with, however long the link has been in order.
#[tokio::test(start_paused = true)]
async fn tries_that_find_a_lock_busy_do_not_postpone_the_probes() {
    const T: Duration = Duration::from_secs(6);
    let testbed = Testbed::new().await;
    let other = testbed.patient_curator().await;
    let held = testbed.mutex(&other).acquire().await.unwrap();
    let (link, curator) = testbed.linked(testbed.builder().session_timeout(T)).await;
    let mutex = testbed.mutex(&curator);
    let (began, probes) = (Instant::now(), link.requests(Operation::Sync));
    while link.requests(Operation::Sync) < probes + 3 {
        assert!(began.elapsed() < 5 * T, "fewer than 3 probes in five session timeouts");
        // With a limit, since a plain `try_acquire` lists behind a `sync`, which is a probe itself.
        assert!(mutex.acquire_timeout(T / 20).await.unwrap_err().is_busy());
    }
    held.release().await.unwrap();
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retries_end_when_the_policy_is_used_up() {
    let testbed = Testbed::own().await;
    let builder = testbed
        .builder()
        .session_timeout(Duration::from_secs(1))
        .connection_timeout(Duration::from_millis(1_500))
        .retry(RetryPolicy::n_times(2, Duration::from_millis(50)));
    let curator = testbed.impatient(testbed.server.connect_string(), builder).await;
    // A client that was lent once is closed in another way.
    drop(curator.client());
    testbed.server.stop().await.unwrap();
    until(&curator, ConnectionState::Lost).await;
    fails(curator.session_id(), ErrorKind::Unavailable);
    // Each try waits longer for a session than a session lasts: no try counts as a success for that.
    let acquired = within("the error", testbed.mutex(&curator).acquire()).await;
    let error = fails(acquired, ErrorKind::Unavailable);
    assert!(error.is_transient() && error.to_string().contains(&testbed.path));
    // A close that nobody can confirm says so, and does not wait for ever.
    let closed = within("the end", curator.close()).await;
    assert_eq!(closed, Released::Pending);
}

/// The node is deleted three times, and the policy allows one retry. A failure after a session timeout begins a new series.
#[tokio::test(start_paused = true)]
async fn retries_are_counted_from_the_beginning_after_a_long_wait() {
    let (testbed, holder) = Testbed::with_curator().await;
    let holder = testbed.mutex(&holder).acquire().await.unwrap();
    let once = RetryPolicy::n_times(1, Duration::from_millis(50));
    let curator = testbed.connect(testbed.short_lived_builder().retry(once)).await;
    let waiting = testbed.waits(&curator).await;
    for _ in 0..3 {
        tokio::time::sleep(SHORT * 7 / 6).await;
        let own = testbed.newcomer(&[holder.node()]).await;
        testbed.remove(&own).await;
        testbed.children_are(2).await;
    }
    holder.release().await.unwrap();
    held(waiting).await.release().await.unwrap();
}

/// Short ones, whose leases leave the client a few hundred milliseconds.
#[tokio::test(start_paused = true)]
async fn a_hold_outlives_a_cut_link_with_every_session_timeout() {
    let testbed = Testbed::new().await;
    for timeout in [1, 2, 3, 4, 5].map(Duration::from_secs) {
        let (link, curator) = testbed.linked(testbed.builder().session_timeout(timeout)).await;
        assert_eq!(curator.session_timeout().unwrap(), timeout, "the server grants it");
        let guard = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
        assert!(link.cut(Cut::Reset) > 0);
        // By two probes after the reconnection, so that the lease has an anchor from after it.
        let answered = link.replies(Operation::Sync) + 4;
        eventually("probes", async || link.replies(Operation::Sync) >= answered).await;
        assert!(guard.is_held(), "{timeout:?}: {:?}", guard.loss());
        guard.release().await.unwrap();
        within("the end", curator.close()).await;
    }
}

/// After an outage a node can be first before a lease lasts. By then it may not exist any more.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_while_its_session_is_proven_holds_nothing() {
    const T: Duration = Duration::from_secs(18);
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked_with_parent(testbed.builder().session_timeout(T)).await;
    let other = testbed.curator().await;
    let refused = cut_off(&link).await;
    // The probe of the reconnection alone is too late to renew the lease again in time.
    tokio::time::sleep(T * 2 / 3).await;
    drop(refused);
    until(&curator, ConnectionState::Reconnected).await;
    let waiting = testbed.waits(&curator).await;
    let own = testbed.newcomer(&[]).await;
    assert!(!waiting.is_finished(), "the lease does not last yet");
    testbed.remove(&own).await;
    let theirs = within("the lock", testbed.mutex(&other).acquire()).await.unwrap();
    testbed.children_are(2).await;
    assert!(!waiting.is_finished() && theirs.is_held());
    theirs.release().await.unwrap();
    held(waiting).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_servers_answer() {
    let testbed = Testbed::new().await;
    let curator = testbed.short_lived_curator().await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
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
    let (testbed, link, curator) = Testbed::with_link(Testbed::short_lived_builder).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
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
    let other = curator.mutex(format!("{}-other", testbed.path)).unwrap();
    let other = within("another lock", other.acquire()).await.unwrap();
    assert!(!other.session_lease_left().is_zero() && guard.session_lease_left().is_zero());
    assert_eq!(within("the loss", guard.session_lease_renewed()).await, Err(Loss::LeaseEnded));
    other.release().await.unwrap();
    let written = guard.fenced().create(&format!("{}-x", testbed.path), b"").await;
    assert_eq!(lost_by(written), Loss::LeaseEnded);
    assert_eq!(lost_by(guard.release().await), Loss::LeaseEnded);
    testbed.children_are(0).await;
}

/// As the guide's table of policies says.
#[tokio::test(start_paused = true)]
async fn under_the_policy_of_the_session_a_hold_overlaps_the_next_one() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::short_lived_builder).await;
    let policy = curator.with_loss_policy(LossPolicy::SessionExpired);
    let guard = testbed.mutex(&policy).acquire().await.unwrap();
    let next = testbed.waits(&testbed.curator().await).await;
    round_trip(&curator).await;
    let heard = Instant::now();
    let stalled = link.stall(Direction::Both);
    let next = held(next).await;
    let both = Instant::now();
    assert!(guard.is_held(), "{:?}", guard.loss());
    assert_eq!(within("the loss", guard.lost()).await, Loss::SessionExpired);
    let lost = heard.elapsed();
    // The last answer came a little before `heard`.
    assert!((SHORT * 27 / 20..SHORT * 8 / 5 + lateness()).contains(&lost), "{lost:?}");
    assert!(is_real() || both.elapsed() > SHORT / 4, "{:?}", both.elapsed());
    drop(stalled);
    next.release().await.unwrap();
}

mod real {
    use super::*;
    use zookeeper_recipes::zookeeper_client::{Client, SessionState};

    /// The client has a runtime of its own. That of the `Curator` stands still while the link goes and comes.
    #[test]
    fn a_disconnection_that_was_over_before_anybody_looked_is_one() {
        let outer = tokio::runtime::Runtime::new().unwrap();
        let inner = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (testbed, proxy, client) = outer.block_on(async {
            let testbed = Testbed::real().await;
            let (proxy, client) = testbed.linked_client().await;
            (testbed, proxy, client)
        });
        let (curator, suspended, lease) = inner.block_on(async {
            let curator = Curator::builder().from_client(client.clone()).unwrap();
            let suspended = testbed.mutex(&curator.with_loss_policy(LossPolicy::Suspended));
            let suspended = suspended.acquire().await.unwrap();
            let path = format!("{}-lease", testbed.path);
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
            drop((proxy, client, testbed));
        });
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connector_of_ones_own_is_used_in_every_session() {
        let testbed = Testbed::real().await;
        let connector = Client::connector().with_auth("digest", b"ours:secret");
        let builder = testbed.builder().connector(connector).acls(Acls::creator_all());
        let curator = testbed.connect(builder).await;
        let mutex = testbed.mutex(&curator);
        drop(within("a lock", mutex.acquire()).await.unwrap());
        // Without these credentials the next session could not even list.
        testbed.kill_session(&curator).await;
        let guard = within("a lock in the next session", mutex.acquire()).await.unwrap();
        assert!(testbed.admin.list_children(&testbed.path).await.is_err(), "others may not");
        let told = mutex.participants().await.unwrap();
        let identity = told[0].identity.as_ref().unwrap();
        assert!(identity.ends_with(&format!(":{}", std::process::id())), "host:pid: {identity}");
        guard.release().await.unwrap();
    }

    /// That is lent to a user who keeps it, or was the user's from the beginning.
    #[tokio::test(flavor = "multi_thread")]
    async fn close_frees_the_locks_also_when_a_user_has_the_session() {
        let testbed = Testbed::real().await;
        for lent in [true, false] {
            let (curator, client) = if lent {
                let curator = testbed.curator().await;
                let kept = curator.client().unwrap();
                (curator, kept.clone())
            } else {
                let client = testbed.client().await;
                (Curator::builder().from_client(client.clone()).unwrap(), client)
            };
            let guard = testbed.mutex(&curator).acquire().await.unwrap();
            let semaphore = curator.semaphore(format!("{}-permits", testbed.path), 1).unwrap();
            let permit = semaphore.acquire().await.unwrap();
            let node = permit.node().to_owned();
            let waiting = tokio::spawn(async move { semaphore.acquire().await });
            let leases = format!("{}-permits/leases", testbed.path);
            eventually("the waiter", async || children(&testbed.admin, &leases).await.len() == 2)
                .await;
            permit.release().await.unwrap();
            let permit = within("the permit", waiting).await.unwrap().unwrap();
            assert_eq!(permit.node(), node, "it was passed on");
            let stat = testbed.stat(guard.node()).await.unwrap();
            assert_eq!(stat.ephemeral_owner, client.session_id().0);
            within("the end", curator.close()).await;
            assert_eq!(guard.loss(), Some(Loss::Closed));
            assert!(testbed.stat(guard.node()).await.is_none(), "close deletes what was held");
            assert!(testbed.stat(&node).await.is_none(), "so does it with a permit");
            drop(permit);
            client.sync("/").await.expect("the session is the user's");
        }
    }

    /// The session outlives the `Curator`, and so does the duty to delete from it.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_clients_session_is_cleaned_up_also_when_close_could_not_confirm_it() {
        let testbed = Testbed::real_own().await;
        let client = Client::connector()
            .with_session_timeout(Duration::from_secs(60))
            .connect(testbed.server.connect_string())
            .await
            .unwrap();
        let builder = Curator::builder().connection_timeout(Duration::from_secs(1));
        let curator = builder.from_client(client.clone()).unwrap();
        let mutex = curator.mutex(&testbed.path).unwrap();
        let guard = mutex.acquire().await.unwrap();
        testbed.server.pause().await.unwrap();
        drop(guard);
        let closed = within("the end", curator.close()).await;
        assert_eq!(closed, Released::Pending);
        drop((mutex, curator));
        // What was on its way is lost with the connection; the session is not.
        testbed.server.kill().await.unwrap();
        testbed.server.start_again().await.unwrap();
        testbed.children_are(0).await;
        client.sync("/").await.expect("the session lives on");
    }

    /// A holder and a waiter are told that, and not that retries ended.
    #[tokio::test(flavor = "multi_thread")]
    async fn there_is_no_session_after_a_clients_own() {
        let testbed = Testbed::real().await;
        let _holder = testbed.mutex(&testbed.curator().await).acquire().await.unwrap();
        // The connection breaks before the session does.
        let retry = RetryPolicy::n_times(3, Duration::from_secs(10 * 60));
        let curator = Curator::builder().retry(retry).from_client(testbed.client().await).unwrap();
        let other = curator.mutex(format!("{}-other", testbed.path)).unwrap();
        let guard = other.acquire().await.unwrap();
        let waiting = testbed.waits(&curator).await;
        testbed.kill_session(&curator).await;
        assert_eq!(within("the loss", guard.lost()).await, Loss::SessionExpired);
        let waiter = within("the error", waiting).await.unwrap();
        for acquired in [waiter, within("the error", other.acquire()).await] {
            fails(acquired, ErrorKind::Closed);
        }
    }
}

/// ClickHouse Keeper answers a reconnect so. The client does not report it, but the next node shows another owner.
#[tokio::test(start_paused = true)]
async fn a_session_that_a_server_replaced_ends_with_the_next_create() {
    let ensemble = Ensemble::builder(1).replaces_sessions().start();
    let link = ensemble.link();
    let curator = Curator::connect(link.connect_string()).await.unwrap();
    let held = curator.mutex("/held").unwrap().acquire().await.unwrap();
    let first = curator.session_id().unwrap();
    assert!(link.cut(Cut::Reset) > 0);
    eventually("a connection", async || link.accepted() == 2).await;
    assert!(held.is_held(), "nothing tells the client of it");
    let other = curator.mutex("/other").unwrap();
    let next = within("a hold in the new session", other.acquire()).await.unwrap();
    assert_eq!(within("the loss", held.lost()).await, Loss::SessionExpired);
    assert_ne!(curator.session_id().unwrap(), first);
    next.release().await.unwrap();
    assert_eq!(ensemble.children("/other"), [""; 0], "the node of the replaced session is left");
}

/// The first waiter may give up at once; the second waits under the same node, with a policy of its own.
#[tokio::test(start_paused = true)]
async fn a_failure_counts_against_each_waiters_own_retry_policy() {
    for (operation, missing_path) in
        [(Operation::List, false), (Operation::GetData, false), (Operation::Create, true)]
    {
        let testbed = Testbed::new().await;
        let forever = RetryPolicy::forever(Duration::from_millis(100));
        let (link, curator) = testbed.linked(testbed.patient_builder().retry(forever)).await;
        let path = format!("{}/a/b", testbed.path);
        let stranger = testbed.patient_curator().await;
        let held = match missing_path {
            true => None,
            false => Some(stranger.mutex(&path).unwrap().acquire().await.unwrap()),
        };
        let hasty = curator.with_retry(RetryPolicy::never()).mutex(&path).unwrap();
        let patient = curator.mutex(&path).unwrap();
        let held_back = link.hold(Message::reply(operation));
        let first = tokio::spawn(async move { hasty.acquire().await });
        struck_once(&held_back).await;
        let second = tokio::spawn(async move { patient.acquire().await });
        // Until the second is queued.
        round_trip(&stranger).await;
        // The policies count from the second listing on: the first one is sent with the create.
        let listed_again = (!missing_path).then(|| link.lose(Message::reply(Operation::List)));
        let accepted = link.accepted();
        link.cut(Cut::Reset);
        eventually("the link is back", async || link.accepted() > accepted).await;
        drop(held_back);
        let error = fails(within("the hasty one", first).await.unwrap(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("allows no retry"), "{operation:?}: {error}");
        drop(listed_again);
        drop(held);
        let second = within("the patient one", second).await.unwrap();
        assert!(second.unwrap_or_else(|error| panic!("{operation:?}: {error}")).is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_health_check_sees_the_connection_and_the_lease() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.short_lived_builder()).await;
    let timeout = curator.session_timeout().unwrap();
    assert!(curator.state().is_connected());
    assert_eq!(curator.state().to_string(), "connected");
    // Also while nothing is held.
    eventually("the lease", async || curator.session_lease_left() > timeout / 2).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let left = curator.session_lease_left();
    assert!(left > Duration::ZERO && left <= timeout * 2 / 3, "{left:?}");
    let refused = cut_off(&link).await;
    until(&curator, ConnectionState::Suspended).await;
    assert!(!curator.state().is_connected());
    assert!(curator.session_lease_left() < left);
    within("the loss", guard.lost()).await;
    assert_eq!(curator.session_lease_left(), Duration::ZERO);
    drop(refused);
}

/// The pause before the next try is longer than anybody waits for a close.
#[tokio::test(start_paused = true)]
async fn a_call_that_pauses_hears_of_the_close() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    let mutex = testbed.mutex(&curator.with_retry(RetryPolicy::forever(Duration::from_secs(600))));
    mutex.acquire().await.unwrap().release().await.unwrap();
    let lost = link.lose(Message::reply(Operation::List));
    let refused = link.refuse();
    let call = tokio::spawn(async move { mutex.participants().await });
    within("the call", lost.struck()).await;
    until(&curator, ConnectionState::Suspended).await;
    let closing = tokio::spawn(async move { curator.close_timeout(Duration::from_secs(1)).await });
    let began = Instant::now();
    fails(within("the answer", call).await.unwrap(), ErrorKind::Closed);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    refused.heal();
    closing.await.unwrap();
}
