//! Connections, sessions, leases and their budget of watches.

use crate::prelude::*;
use crate::support::scrape::Scraped;

/// So many `Curator`s are in this state, and none in another.
fn all_are(scraped: &Scraped, state: &str, count: f64) {
    scraped.is(&[("connections", &[("state", state)], count), ("connections", &[], count)]);
}

#[tokio::test(start_paused = true)]
async fn each_curator_is_in_one_state() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let (link, refused, curator) =
        testbed.unconnected(testbed.builder().session_timeout(Duration::from_secs(12))).await;
    all_are(&scraped, "connecting", 1.0);
    // It is there, so that the first one is growth.
    assert_eq!(scraped.find("sessions_opened_total", &[]), Some(0.0));
    eventually("a retry", async || {
        scraped.value("retries_total", &[("operation", "connect")]) >= 1.0
    })
    .await;
    refused.heal();
    until(&curator, ConnectionState::Connected).await;
    all_are(&scraped, "connected", 1.0);
    let other = testbed.curator().await;
    all_are(&scraped, "connected", 2.0);
    scraped.is(&[("sessions_opened_total", &[], 2.0), ("sessions_lost_total", &[], 0.0)]);
    other.close().await;
    scraped.comes_to("connections", &[], 1.0).await;
    let refused = link.refuse();
    assert!(link.cut(Cut::Reset) > 0);
    until(&curator, ConnectionState::Suspended).await;
    all_are(&scraped, "suspended", 1.0);
    refused.heal();
    until(&curator, ConnectionState::Reconnected).await;
    all_are(&scraped, "connected", 1.0);
    scraped.is(&[("sessions_opened_total", &[], 2.0)]);
    testbed.kill_session(&curator).await;
    eventually("the next session", async || scraped.value("sessions_opened_total", &[]) >= 3.0)
        .await;
    scraped.is(&[("sessions_lost_total", &[], 1.0), ("sessions_opened_total", &[], 3.0)]);
    // Dropped, not closed.
    drop(curator);
    scraped.comes_to("connections", &[], 0.0).await;
    scraped.is(&[("sessions_lost_total", &[], 1.0)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_measures_its_lease_while_it_holds_and_its_watches() {
    let (scraped, testbed) = (Scraped::new(), Testbed::new().await);
    let (link, curator) = testbed.linked(testbed.short_lived_builder()).await;
    let value = |name| scraped.value(name, &[]);
    let budget = 96.0 * 1024.0;
    scraped.comes_to("watch_budget_limit_bytes", &[], budget).await;
    eventually("idle probes", async || link.replies(Operation::Sync) >= 3).await;
    scraped.is(&[("lease_left_ratio_count", &[], 0.0)]);
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    eventually("renewals", async || value("lease_left_ratio_count") >= 5.0).await;
    let (sum, count) = (value("lease_left_ratio_sum"), value("lease_left_ratio_count"));
    assert!(sum > 0.0 && sum < count, "{sum} of {count}");
    // The lock's path, and the node's after a sixth of the session timeout.
    let least = f64::from(u32::try_from(testbed.path.len() + guard.node().len()).unwrap());
    eventually("watches", async || value("watch_budget_used_bytes") >= least).await;
    assert!(value("watch_budget_used_bytes") < budget);
    guard.release().await.unwrap();
    curator.close().await;
    scraped.comes_to("watch_budget_used_bytes", &[], 0.0).await;
    scraped.is(&[("watch_budget_limit_bytes", &[], 0.0)]);
}

mod real {
    use super::*;
    use zookeeper_recipes::zookeeper_client::Client;

    /// Nothing can be acquired any more, and the caller has not closed it: that must not look as if all were well.
    #[tokio::test]
    async fn one_that_can_never_connect_again_is_counted_until_it_is_closed_or_dropped() {
        let (scraped, testbed) = (Scraped::new(), Testbed::real().await);
        for is_closed in [true, false] {
            // The `Curator` cannot open another session for it.
            let client =
                Client::connector().connect(testbed.server.connect_string()).await.unwrap();
            let curator = Curator::builder().from_client(client).unwrap();
            all_are(&scraped, "connected", 1.0);
            testbed.kill_session(&curator).await;
            until(&curator, ConnectionState::Closed).await;
            all_are(&scraped, "failed", 1.0);
            if is_closed {
                curator.close().await;
            } else {
                drop(curator);
            }
            all_are(&scraped, "failed", 0.0);
        }
        assert_eq!(scraped.find("connections", &[("state", "closed")]), None);
    }
}
