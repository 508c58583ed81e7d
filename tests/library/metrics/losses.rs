//! A lost hold is counted at that moment, once, with the cause.

use crate::prelude::*;
use crate::support::scrape::Scraped;

#[tokio::test(start_paused = true)]
async fn each_loss_is_counted_once_with_its_cause() {
    let testbed = Testbed::new().await;
    for (loss, cause) in [
        (Loss::NodeDeleted, "node_deleted"),
        (Loss::SessionExpired, "session_expired"),
        (Loss::Closed, "closed"),
        (Loss::Suspended, "suspended"),
        (Loss::LeaseEnded, "lease_ended"),
    ] {
        let (scraped, mut stalled) = (Scraped::new(), None);
        let policy =
            if loss == Loss::Suspended { LossPolicy::Suspended } else { LossPolicy::Lease };
        let (link, curator) =
            testbed.linked(testbed.short_lived_builder().loss_policy(policy)).await;
        let guard = testbed.mutex(&curator).acquire().await.unwrap();
        // Each cause is there, at zero, before the first loss.
        assert_eq!(scraped.find("losses_total", &[("cause", cause)]), Some(0.0));
        scraped.is(&[("holding", &[("recipe", "mutex")], 1.0)]);
        match loss {
            Loss::NodeDeleted => testbed.admin.delete(guard.node(), None).await.unwrap(),
            Loss::SessionExpired => testbed.kill_session(&curator).await,
            Loss::Closed => drop(curator.close().await),
            Loss::Suspended => assert!(link.cut(Cut::Reset) > 0),
            _ => stalled = Some(link.stall(Direction::ToClient)),
        }
        // Without a call of the holder.
        scraped.comes_to("losses_total", &[], 1.0).await;
        assert_eq!(within("the loss", guard.lost()).await, loss);
        let is_counted = || {
            scraped.is(&[
                ("holding", &[], 0.0),
                ("losses_total", &[("recipe", "mutex"), ("cause", cause)], 1.0),
                ("losses_total", &[], 1.0),
                ("hold_seconds_count", &[("recipe", "mutex")], 1.0),
            ]);
        };
        is_counted();
        guard.release().await.unwrap_err();
        is_counted();
        drop(stalled);
        testbed.children_are(0).await;
    }
}
