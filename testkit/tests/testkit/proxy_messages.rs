//! The fault proxy before a real server: faults of one message.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Acls, CreateMode, Error, EventType};
use zookeeper_testkit::{Cut, Direction, Fault, Message, Operation};

use crate::proxy::{Link, connect_through, is_loss};
use crate::support::{LIMIT, create, eventually};

async fn strikes(fault: &Fault) {
    timeout(LIMIT, fault.struck()).await.expect("a strike");
}

fn is_lost<T: Debug>(outcome: Result<T, Error>) {
    let error = outcome.expect_err("no answer");
    assert!(is_loss(&error), "{error:?}");
}

impl Link {
    async fn create(&self, path: &str) -> Result<(), Error> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let creating = self.client.create(path, b"", &options);
        timeout(LIMIT, creating).await.expect("an end").map(drop)
    }

    /// The next create fails, and the server has the node or has it not.
    async fn create_breaks(&self, fault: Fault, is_done: bool) {
        assert_eq!(fault.strikes(), 0);
        let accepted = self.proxy.accepted();
        is_lost(self.create(&self.path).await);
        strikes(&fault).await;
        assert_eq!(self.exists(&self.path).await, is_done, "{fault:?}");
        self.is_back().await;
        if !is_done {
            self.create(&self.path).await.expect("it strikes once");
        }
        self.client.delete(&self.path, None).await.expect("it is about creates");
        assert_eq!(fault.strikes(), 1);
        assert_eq!(self.proxy.accepted(), accepted + 1);
    }
}

#[tokio::test]
async fn a_request_that_is_lost_or_half_was_not_done_and_with_its_reply_it_was() {
    let link = Link::new().await;
    for (message, is_done) in [
        (Message::request(Operation::Create), false),
        (Message::reply(Operation::Create), true),
        (Message::request(Operation::Any), false),
        (Message::reply(Operation::Any), true),
        (Message::reply(Operation::Other(1)), true),
    ] {
        link.create_breaks(link.proxy.lose(message), is_done).await;
        link.create_breaks(link.proxy.cut_within(message), is_done).await;
    }
    assert_eq!(link.proxy.requests(Operation::Create), 14);
    assert_eq!(link.proxy.replies(Operation::Create), 10);
}

#[tokio::test]
async fn a_long_message_passes_whole_or_half() {
    let link = Link::with_node().await;
    let data = vec![7; 1_000_000];
    link.client.set_data(&link.path, &data, None).await.unwrap();
    assert!(link.client.get_data(&link.path).await.unwrap().0 == data);
    let half = link.proxy.cut_within(Message::reply(Operation::GetData));
    let before = link.proxy.bytes(Direction::ToClient);
    is_lost(link.client.get_data(&link.path).await);
    strikes(&half).await;
    let forwarded = link.proxy.bytes(Direction::ToClient) - before;
    assert!((500_000..501_000).contains(&forwarded), "{forwarded}");
}

#[tokio::test]
async fn a_message_at_which_the_connection_is_cut_has_arrived() {
    let link = Link::new().await;
    for cut in [Cut::Reset, Cut::Finish] {
        let accepted = link.proxy.accepted();
        let fault = link.proxy.cut_at(Message::reply(Operation::Create), cut);
        link.create(&link.path).await.expect("the reply came");
        strikes(&fault).await;
        link.is_back().await;
        // If the session came back earlier, the server would close the old connection and drop the request unread.
        let refusal = link.proxy.refuse();
        let (_, deleted) = link.admin.check_and_watch_stat(&link.path).await.expect("a watch");
        let fault = link.proxy.cut_at(Message::request(Operation::Delete), cut);
        is_lost(link.client.delete(&link.path, None).await);
        strikes(&fault).await;
        let event = timeout(LIMIT, deleted.changed()).await.expect("the request arrived");
        assert_eq!(event.event_type, EventType::NodeDeleted, "{cut:?}");
        refusal.heal();
        link.is_back().await;
        assert_eq!(link.proxy.accepted(), accepted + 2);
    }
}

#[tokio::test]
async fn each_connection_counts_its_own_from_the_faults_installation_on() {
    let link = Link::new().await;
    let other = connect_through(&link.proxy, LIMIT).await;
    // Healed faults never strike.
    drop(link.proxy.lose(Message::request(Operation::Create)));
    link.proxy.cut_at(Message::reply(Operation::Create), Cut::Reset).heal();
    link.create(&link.path).await.unwrap();
    assert_eq!(link.proxy.accepted(), 2);
    let third = link.proxy.lose(Message::request(Operation::Create).nth(3));
    for number in 1..=2 {
        link.create(&format!("{}/{number}", link.path)).await.unwrap();
        create(&other, &format!("{}/other-{number}", link.path), CreateMode::Persistent).await;
    }
    assert_eq!(third.strikes(), 0);
    is_lost(link.create(&format!("{}/3", link.path)).await);
    strikes(&third).await;
    // It has struck.
    create(&other, &format!("{}/other-3", link.path), CreateMode::Persistent).await;
    assert_eq!(third.strikes(), 1);
    assert_eq!(link.admin.list_children(&link.path).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_held_message_holds_what_is_behind_it_in_its_direction() {
    let link = Link::with_node().await;
    let hold = link.proxy.hold(Message::reply(Operation::GetData));
    let mut reading = Box::pin(link.client.get_data(&link.path));
    let mut asking = Box::pin(link.client.check_stat(&link.path));
    tokio::select! {
        biased;
        _ = &mut reading => panic!("it is held"),
        _ = &mut asking => panic!("it is behind"),
        () = hold.struck() => {}
    }
    // The other direction goes on.
    eventually("the reply behind has come", || link.proxy.replies(Operation::Exists) == 1).await;
    timeout(Duration::from_millis(100), &mut asking).await.expect_err("it is behind");
    hold.heal();
    asking.await.unwrap();
    reading.await.unwrap();
    assert_eq!(link.proxy.accepted(), 1);

    let hold = link.proxy.hold(Message::request(Operation::SetData));
    let writing = link.client.set_data(&link.path, b"new", None);
    strikes(&hold).await;
    assert_eq!(link.admin.get_data(&link.path).await.unwrap().0, b"data");
    hold.heal();
    writing.await.unwrap();
    assert_eq!(link.admin.get_data(&link.path).await.unwrap().0, b"new");
}

#[tokio::test]
async fn pings_handshakes_events_and_goodbyes_are_messages_too() {
    let link = Link::with_node().await;
    // Short enough to ping soon, and long enough for two connections in what is left of it.
    let short = connect_through(&link.proxy, Duration::from_secs(10)).await;
    let session = short.session_id();
    let ping = link.proxy.lose(Message::reply(Operation::Ping));
    let connect = link.proxy.lose(Message::reply(Operation::Connect));
    strikes(&ping).await;
    strikes(&connect).await;
    while let Err(error) = short.check_stat("/").await {
        assert!(is_loss(&error), "{error:?}");
    }
    assert_eq!(short.session_id(), session);

    let event = link.proxy.hold(Message::reply(Operation::Event));
    let (_, _, watcher) = short.get_and_watch_data(&link.path).await.unwrap();
    link.admin.set_data(&link.path, b"new", None).await.unwrap();
    strikes(&event).await;
    assert_eq!(link.proxy.replies(Operation::Event), 1);
    event.heal();
    let event = timeout(LIMIT, watcher.changed()).await.unwrap();
    assert_eq!(event.event_type, EventType::NodeDataChanged);

    // The server learns nothing: the node stays until the session expires.
    create(&short, &format!("{}/e", link.path), CreateMode::Ephemeral).await;
    let goodbye = link.proxy.lose(Message::request(Operation::CloseSession));
    drop(short);
    strikes(&goodbye).await;
    assert!(link.exists(&format!("{}/e", link.path)).await);
}
