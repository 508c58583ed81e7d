//! Members of a group under faults, and with them the persistent node that a membership is.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::group::{GroupMember, Membership};

use crate::product::{Told, meanwhile, products};
use crate::support::fixture::FaultFixture;

async fn joined(fixture: &FaultFixture) -> Membership {
    fixture.member().join().await.unwrap()
}

/// On a path that was used before.
async fn known(fixture: &FaultFixture) -> GroupMember {
    let member = fixture.member();
    fixture.is_known().await;
    member
}

async fn told(membership: Membership, data: &'static [u8]) -> Told {
    Told::Joined(membership.joined().await.unwrap(), membership, data)
}

products! { product:
    join: async |fixture: &FaultFixture| fixture.member(), async |member| {
        told(member.join().await.unwrap(), b"first").await
    };
    join_on_a_known_path: known, async |member| {
        told(member.join().await.unwrap(), b"first").await
    };
    join_behind_another_process: async |fixture: &FaultFixture| {
        let member = known(fixture).await;
        (member, fixture.rival_joins().await)
    }, async |(member, rival)| {
        let membership = meanwhile(member.join(), async || rival.leave().await.unwrap()).await;
        told(membership.unwrap(), b"first").await
    };
    set_data: joined, async |membership| {
        membership.set_data("second").await.unwrap();
        told(membership, b"second").await
    };
    leave: joined, async |membership| {
        let node = membership.joined().await.unwrap().node().to_owned();
        match membership.leave().await {
            Err(error) if error.kind() == ErrorKind::Closed => Told::Nothing,
            left => Told::released(Some(node), left),
        }
    };
}
