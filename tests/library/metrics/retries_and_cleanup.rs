//! Metrics of lost answers, of repeated requests, and of nodes that are still to be removed.

use crate::prelude::*;
use crate::support::scrape::Scraped;

fn of(operation: &'static str) -> [(&'static str, &'static str); 1] {
    [("operation", operation)]
}

async fn retried(scraped: &Scraped, operation: &'static str) {
    let is_counted = async || scraped.value("retries_total", &of(operation)) >= 1.0;
    eventually(&format!("a retry of {operation}"), is_counted).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_reply_is_lost_is_an_unknown_outcome() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
    assert_eq!(scraped.find("unknown_outcomes_total", &of("create")), Some(0.0));
    let lose = |operation| link.lose(Message::reply(operation));
    let creates = lose(Operation::Create);
    let guard = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
    scraped.is(&[("holding", &[], 1.0), ("waiting", &[], 0.0)]);
    let transactions = lose(Operation::Multi);
    let (fenced, path) = (guard.fenced(), format!("{}-x", testbed.path));
    let written = within("an answer", fenced.create(&path, b"")).await;
    fails(written, ErrorKind::OutcomeUnknown);
    assert_ne!(guard.loss(), Some(Loss::NodeDeleted));
    guard.release().await.unwrap();
    let count = SharedCount::start(&curator, &format!("{path}-count"), 1).await.unwrap();
    let writes = lose(Operation::SetData);
    within("the write", count.set(2)).await.unwrap();
    scraped.is(&[("retries_total", &of("request"), 1.0)]);
    for (operation, lost) in
        [("create", creates), ("fenced_write", transactions), ("write", writes)]
    {
        assert_eq!(lost.strikes(), 1);
        scraped.is(&[("unknown_outcomes_total", &of(operation), 1.0)]);
    }
    scraped.is(&[("unknown_outcomes_total", &[], 3.0)]);
}

/// In the same session after a lost reply, and in the next one after a guard was dropped without a connection.
#[tokio::test(start_paused = true)]
async fn a_node_to_be_deleted_is_a_duty_until_it_is_deleted() {
    for in_the_next_session in [false, true] {
        let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
        let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
        let guard = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
        let refused = link.refuse();
        if in_the_next_session {
            assert!(link.cut(Cut::Reset) > 0);
            within("a refusal", refused.struck()).await;
            testbed.kill_session(&curator).await;
            drop(guard);
        } else {
            let lost = link.lose(Message::reply(Operation::Delete));
            drop(guard);
            scraped.is(&[("holding", &[], 0.0)]);
            within("the loss", lost.struck()).await;
            scraped.comes_to("unknown_outcomes_total", &of("cleanup"), 1.0).await;
        }
        scraped.comes_to("cleanup_duties", &[], 1.0).await;
        refused.heal();
        scraped.comes_to("cleanup_duties", &[], 0.0).await;
        if in_the_next_session {
            scraped.is(&[("sessions_lost_total", &[], 1.0), ("losses_total", &[], 0.0)]);
        } else {
            retried(&scraped, "cleanup").await;
        }
        testbed.children_are(0).await;
    }
}

/// A listing, a read of a followed count, a read of a waiter's watches, and the waiter's session.
#[tokio::test(start_paused = true)]
async fn what_is_lost_and_only_read_is_retried_and_no_unknown_outcome() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let (curator, (link, other)) =
        (testbed.curator().await, testbed.linked(testbed.builder()).await);
    let path = format!("{}-count", testbed.path);
    let count = SharedCount::start(&other, &path, 1).await.unwrap();
    eventually("a watch", async || link.replies(Operation::GetData) >= 2).await;
    let lost = link.lose(Message::reply(Operation::GetData));
    testbed.admin.set_data(&path, &2_i32.to_be_bytes(), None).await.unwrap();
    within("the loss", lost.struck()).await;
    eventually("it is known", async || count.value() == 2).await;
    retried(&scraped, "follow").await;
    drop(count);

    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let lost = link.lose(Message::reply(Operation::List));
    let busy = within("an answer", testbed.mutex(&other).try_acquire()).await;
    fails(busy, ErrorKind::Busy);
    assert_eq!(lost.strikes(), 1);
    retried(&scraped, "request").await;

    // The first is for the watch on the parent, which no caller waits for.
    let lost = link.lose(Message::reply(Operation::GetData).nth(2));
    let mutex = testbed.mutex(&other);
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    within("the loss", lost.struck()).await;
    retried(&scraped, "watch").await;
    scraped.is(&[("retries_total", &of("enter"), 0.0), ("waiting", &[], 1.0)]);
    testbed.children_are(2).await;
    scraped.is(&[("unknown_outcomes_total", &[], 0.0)]);
    testbed.kill_session(&other).await;
    retried(&scraped, "enter").await;
    scraped.is(&[("waiting", &[], 1.0), ("holding", &[], 1.0)]);
    guard.release().await.unwrap();
    within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    scraped.is(&[("waiting", &[], 0.0), ("unknown_outcomes_total", &of("create"), 0.0)]);
}
