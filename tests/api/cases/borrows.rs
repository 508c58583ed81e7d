//! Programs that the compiler refuses for what they borrow.
#![allow(dead_code)]

use zookeeper_recipes::leader::LeaderSelector;
use zookeeper_recipes::{Error, Guard};

/// A task that waits for a loss for ever by accident.
async fn a_loss_is_not_awaited_beyond_the_guard(guard: Guard) -> Result<(), Error> {
    let lost = guard.lost();
    guard.release().await?; //~ E0505
    lost.await;
    Ok(())
}

fn a_selectors_body_owns_what_it_uses(selector: &LeaderSelector) {
    let name = String::from("node-7");
    let _run = selector.run(async |_| println!("{}", &name)); //~ E0597
}

fn main() {}
