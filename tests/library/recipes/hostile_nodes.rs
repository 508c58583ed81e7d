//! Nodes that a hostile client with write permission puts under the lock path. They change nothing for us, or as much as they
//! would for a contender of Curator's.

use crate::prelude::*;

/// Names that are no contenders, or pass for some; the server takes them all. More are in `contender_name`.
const HARMLESS: [&str; 7] = [
    "zzz",
    "_c_-lock-",
    "lock-9999999999",
    "lock-0000000000\u{202e}",
    "锁-0000000000",
    "_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-latch-",
    "\"quotes\" and 'more'",
];

const DATA: [&[u8]; 4] = [b"__REVOKE__", b"", &[0xff, 0xfe, 0, 1], b"\x1b[31m\r\n{}"];

#[tokio::test(start_paused = true)]
async fn foreign_children_of_any_name_and_data_change_nothing() {
    let testbed = Testbed::new().await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let long = format!("lock-{}", "9".repeat(100_000));
    for (number, name) in HARMLESS.into_iter().chain([&*long]).enumerate() {
        let mode = [CreateMode::Persistent, CreateMode::Ephemeral][number % 2];
        let path = format!("{}/{name}", testbed.path);
        testbed.admin.create(&path, DATA[number % 4], mode, &Acls::anyone_all()).await.unwrap();
    }
    let [curator, other] = testbed.curators().await;
    let (mutex, theirs) = (testbed.mutex(&curator), testbed.mutex(&other));
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    assert!(theirs.try_acquire().await.unwrap_err().is_busy());
    let waiting = testbed.waits(&other).await;
    let told = mutex.participants().await.unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0].node, guard.node());
    assert_eq!(guard.release().await.unwrap(), Released::Confirmed);
    let next = within("the next", waiting).await.unwrap().unwrap();
    assert_eq!(next.release().await.unwrap(), Released::Confirmed);
    assert_eq!(testbed.children().await.len(), HARMLESS.len() + 1, "and none of theirs is touched");
}

/// Who may create under the lock path may queue, also ahead of everybody: for a hold there is no defence but ACLs. Curator
/// yields to the same nodes, so to ignore them would be two holders.
#[tokio::test(start_paused = true)]
async fn a_well_formed_fake_is_a_contender_and_no_more() {
    let testbed = Testbed::new().await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let fakes = ["lock--2147483648", "not-a-guid-lock-0000000000", "lock-lock-2147483647"];
    for (name, data) in fakes.iter().zip(DATA.iter().skip(1)) {
        let path = format!("{}/{name}", testbed.path);
        testbed.node(&path, data, CreateMode::Persistent, &Acls::anyone_all()).await;
    }
    let curator = testbed.curator().await;
    let mutex = testbed.mutex(&curator);
    assert!(mutex.try_acquire().await.unwrap_err().is_busy(), "busy: a fake is ahead");
    assert!(within("busy", mutex.acquire_timeout(BUSY)).await.unwrap_err().is_busy());
    // Nothing of ours stays.
    testbed.children_are(fakes.len()).await;
    let waiting = testbed.waits(&curator).await;
    let told = mutex.participants().await.unwrap();
    assert_eq!(told.len(), fakes.len() + 1);
    // What gives it away: nobody's session owns it.
    assert_eq!((told[0].sequence, told[0].session_id), (i32::MIN.into(), None));
    assert_eq!((told[0].data(), told[1].data()), (DATA[1], DATA[2]), "as it is");
    let ours = told.iter().find(|one| one.session_id.is_some()).unwrap().node.clone();
    assert!(!waiting.is_finished());
    // Whoever can delete ends it.
    for name in &fakes[..2] {
        testbed.admin.delete(&format!("{}/{name}", testbed.path), None).await.unwrap();
    }
    let guard = within("the lock", waiting).await.unwrap().unwrap();
    assert_eq!(guard.node(), ours);
    testbed.admin.set_data(&ours, &[0xff; 1000], None).await.unwrap();
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Confirmed);
}
